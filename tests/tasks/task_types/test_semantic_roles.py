"""Semantic roles: two questions to one model, and frames out of their answers."""

import json
from dataclasses import replace

import pytest
import torch
from small_tasks import OPTIONS, fabric, make_fitted_task, write_elmo
from typer.testing import CliRunner

from elmo import cli
from elmo.config import TaskELMoConfig, TaskEncoderConfig
from elmo.errors import InputError
from elmo.tasks import SemanticRoleLabeler
from elmo.tasks.encoder import TaskEncoder
from elmo.tasks.examples import Example, Frame
from elmo.tasks.packed_batch import PackedBatch
from elmo.tasks.task_trainable import TaskTrainingJob
from elmo.tasks.task_types.semantic_roles import PredictedFrames
from elmo.tasks.task_types.task_registry import make_task, task_for
from elmo.train import loop

PEOPLE = ("Kim", "Lee", "Ann", "Bo")


def sentence(text, *frames):
    found = tuple(Frame(number, tuple(tags.split())) for number, tags in frames)
    return Example((tuple(text.split()),), found, extra=tuple(frame.predicate for frame in found))


# Who does what hangs on the predicate that is asked for; some sentences have none.
SENTENCES = [
    one
    for n, name in enumerate(PEOPLE)
    for one in (
        sentence(
            f"{name} saw {PEOPLE[n - 1]} run there",
            (1, "B-A0 B-V B-A1 I-A1 I-A1"),
            (3, "O O B-A0 B-V B-LOC"),
        ),
        sentence(f"run to {name}", (0, "B-V B-LOC I-LOC")),
        sentence(f"oh {name}"),
    )
]
TEXTS = [" ".join(example.words) for example in SENTENCES]
FRAMES = [[(frame.predicate, list(frame.tags)) for frame in e.target] for e in SENTENCES]


@pytest.fixture(autouse=True)
def no_picture(monkeypatch):
    monkeypatch.setattr(loop, "draw_curves", lambda folder: None)


# ------------------------------------------------------------------------------------------- kind


def test_a_sentence_is_asked_for_predicates_and_for_each_frame():
    kind = task_for("semantic_roles", SENTENCES)
    pieces = kind.split_example(SENTENCES[0])
    assert [(piece.extra, piece.target) for piece in pieces] == [
        (None, ("O", "B-V", "O", "B-V", "O")),
        (1, ("B-A0", "B-V", "B-A1", "I-A1", "I-A1")),
        (3, ("O", "O", "B-A0", "B-V", "B-LOC")),
    ]
    (group,) = kind.text_groups(pieces)
    assert group.texts == [SENTENCES[0].words] * 3
    assert group.indicators == [[2] * 5, [0, 1, 0, 0, 0], [0, 0, 0, 1, 0]]
    # What is right is not looked at.
    blind = kind.split_example(replace(SENTENCES[0], target=None))
    assert [piece.extra for piece in blind] == [None, 1, 3]
    (asked,) = kind.split_example(Example((("run",),)))
    assert asked.extra is asked.target is None


def test_one_word_may_be_two_predicates():
    tags = ("B-V", "B-A0")
    example = Example((("a", "b"),), (Frame(0, tags), Frame(0, tags)), extra=(0, 0))
    assert task_for("semantic_roles", [example]).split_example(example)[0].target == ("B-V", "O")


def test_gold_in_gold_out():
    kind = task_for("semantic_roles", SENTENCES)
    labels = kind.labels(SENTENCES)
    assert labels == ["B-A0", "B-A1", "B-LOC", "B-V", "I-A1", "I-LOC", "O"]
    numbers = {name: number for number, name in enumerate(labels)}
    answers = []
    for example in SENTENCES:
        pieces = kind.split_example(example)
        found = kind.decode_predictions(kind.targets(pieces, numbers).tolist(), labels)
        assert kind.follow_up_examples(example, found) == ()
        answers.append(kind.merge_predictions(example, pieces, found))
    assert [answer.frames for answer in answers] == [example.target for example in SENTENCES]
    assert [answer.predicates for answer in answers] == [example.extra for example in SENTENCES]
    assert set(kind.scores(SENTENCES, answers).values()) == {1.0}


def test_predicates_do_not_count_as_arguments():
    kind = make_task("semantic_roles", {"scheme": "IOB2"})
    example = sentence("Kim saw Lee", (1, "B-A0 B-V B-A1"))
    answer = PredictedFrames((1, 2), (Frame(1, ("B-A0", "B-V", "O")),))
    assert kind.scores([example], [answer]) == {
        "span_precision": 1.0,
        "span_recall": 0.5,
        "span_f1": pytest.approx(2 / 3),
        "predicate_f1": pytest.approx(2 / 3),
    }


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-A0 B-V B-A1", "B-A0 B-V B-A1"),
        ("B-V I-V B-A1", "B-V I-V B-A1"),
        ("B-V B-C-V O", "B-V B-C-V O"),
        ("B-A0 B-A1 I-A1", "B-A0 B-V O"),
        ("B-A0 O B-V", "B-A0 B-V O"),
    ],
)
def test_the_predicate_is_no_argument(tags, expected):
    kind = make_task("semantic_roles", {"scheme": "IOB2"})
    asked = Example((("a", "b", "c"),), extra=(1,))
    pieces = kind.split_example(asked)
    answer = kind.merge_predictions(asked, pieces, [("O", "O", "O"), tuple(tags.split())])
    assert answer == PredictedFrames((), (Frame(1, tuple(expected.split())),))


def test_other_schemes():
    example = sentence("Kim saw Lee", (1, "S-A0 S-V S-A1"))
    kind = task_for("semantic_roles", [example])
    assert kind.to_settings() == {"scheme": "BIOES"}
    assert kind.labels([example]) == ["B-A0", "B-A1", "B-V", "O"]
    assert kind.split_example(example)[0].target == ("O", "S-V", "O")
    with pytest.raises(InputError, match="of no scheme; expected such as B-ARG0"):
        task_for("semantic_roles", [sentence("Kim saw", (1, "A0 V"))])


@pytest.mark.parametrize(
    ("target", "given"),
    [
        (None, None),
        (("B-V",), (0,)),
        ((Frame(1, ("B-V",)),), (1,)),
        ((Frame(0, ("B-V", "O")),), (0,)),
        ((Frame(0, ("B-V",)),), None),
    ],
)
def test_examples_without_frames(target, given):
    with pytest.raises(InputError, match="for its target, expected frames, each a predicate"):
        task_for("semantic_roles", [Example((("a",),), target, extra=given)])


# ------------------------------------------------------------------------------------------ models


def test_deep_layers_with_highways():
    torch.manual_seed(0)
    config = TaskEncoderConfig(hidden=4, depth=3, highway=True, input_dropout=0.0, dropout=0.0)
    body = TaskEncoder(config=config, elmo=TaskELMoConfig(model=None), input_dim=5)
    assert (body.lstm.num_layers, len(body.upper), body.dim) == (1, 2, 8)
    layout = PackedBatch.from_lengths([4, 2])
    x = torch.randn(2, 4, 5) * layout.mask.unsqueeze(2)
    both = body(x, layout, None)
    torch.testing.assert_close(both[1, :2], body(x[1:, :2], PackedBatch.from_lengths([2]), None)[0])
    assert not both[1, 2:].any()
    # Where gates are shut, what came in passes by.
    for layer in body.upper:
        torch.nn.init.constant_(layer.gate.bias, -1e9)
    config = replace(config, depth=1)
    shallow = TaskEncoder(config=config, elmo=TaskELMoConfig(model=None), input_dim=5)
    shallow.lstm.load_state_dict(body.lstm.state_dict())
    torch.testing.assert_close(body(x, layout, None), shallow(x, layout, None))


@pytest.mark.parametrize("settings", [{}, {"placement": "both"}])
def test_frames_are_learned_by_heart(tmp_path, settings):
    if settings:
        settings = {**settings, "model": write_elmo(tmp_path / "elmo")}
    trained = make_fitted_task(
        tmp_path,
        SENTENCES,
        SENTENCES,
        task="semantic_roles",
        hidden=16,
        depth=2,
        highway=True,
        **settings,
    )
    work = TaskTrainingJob(trained, SENTENCES, SENTENCES).make_trainable(fabric())
    for number, batch in zip(range(50), work.batches(0), strict=False):
        work.step(batch, number)
    found = work.evaluation(work.measure(50, iter))
    assert found.metric == "span_f1"
    assert set(found.scores.values()) == {1.0}
    # Asked without predicates, it finds them first.
    blind = [replace(example, target=None, extra=None) for example in SENTENCES]
    assert [answer.frames for answer in trained.predict(blind)] == [e.target for e in SENTENCES]


def test_a_role_labeller(tmp_path):
    settings = {**OPTIONS, "hidden": 16, "epochs": 10, "evaluate_every": 50}
    model = SemanticRoleLabeler(**settings).fit(TEXTS, FRAMES, dev=(TEXTS, FRAMES))
    assert model.score(TEXTS, FRAMES) > 0.9
    found = model.predict([TEXTS[0].split(), "oh Kim"])
    assert found[0] == list(SENTENCES[0].target)
    assert found[1] == []
    model.save(tmp_path / "model")
    assert SemanticRoleLabeler.load(tmp_path / "model").predict(TEXTS) == model.predict(TEXTS)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (3, "text 0 has 3 for its frames; expected pairs"),
        ([3], r"text 0 has \[3\] for its frames"),
        ([(0, ["B-V"])], "'0' has .* for its target, expected frames"),
    ],
)
def test_frames_that_do_not_fit(target, message):
    with pytest.raises(InputError, match=message):
        SemanticRoleLabeler(**OPTIONS).fit(["a b"], [target])


def test_fit_evaluate_and_predict_as_typed(tmp_path):
    def elmo(*words, given=None):
        return CliRunner().invoke(cli.application(), ["task", *map(str, words)], input=given)

    records = [
        {"words": e.words, "frames": [{"pred": f.predicate, "tags": f.tags} for f in e.target]}
        for e in SENTENCES
    ]
    file = tmp_path / "frames.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    flags = ["--model", "none", "--hidden", "16", "--depth", "1", "--epochs", "10"]
    flags += ["--learning-rate", "0.02", "--warmup-steps", "0", "--dropout", "0", "--input-dropout"]
    flags += ["0", "--batch-size", "5", "--evaluate-every", "50", "--accelerator", "cpu"]
    files = ["--train", file, "--dev", file]
    run = elmo("fit", "propbank-ewt", *files, "--out", tmp_path / "run", *flags)
    assert run.exit_code == 0, run.stderr
    shown = json.loads(elmo("evaluate", tmp_path / "run", file, "--as-json").stdout)
    assert shown["examples"] == len(SENTENCES)
    assert {"span_f1", "predicate_f1"} < set(shown)
    result = elmo("predict", tmp_path / "run", "-", "-", "--to", "conll", given="Kim ran\n")
    assert "is a model for semantic_roles, and columns are a tag for each word" in result.stderr
    result = elmo("predict", tmp_path / "run", "-", "--raw", given="Kim saw Bo run there\n")
    assert json.loads(result.stdout) == {
        "words": ["Kim", "saw", "Bo", "run", "there"],
        "frames": [
            {
                "predicate": "saw",
                "place": 1,
                "arguments": [
                    {"text": "Kim", "label": "A0", "start": 0, "end": 1},
                    {"text": "Bo run there", "label": "A1", "start": 2, "end": 5},
                ],
            },
            {
                "predicate": "run",
                "place": 3,
                "arguments": [
                    {"text": "Bo", "label": "A0", "start": 2, "end": 3},
                    {"text": "there", "label": "LOC", "start": 4, "end": 5},
                ],
            },
        ],
    }
