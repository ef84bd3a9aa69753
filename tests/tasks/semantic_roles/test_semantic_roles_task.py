"""Tests of semantic role labeling: splitting examples, merging frames, complete models."""

import json
from dataclasses import replace

import pytest
import torch
from small_tasks import OPTIONS, fabric, make_fitted_task, watch_nothing, write_elmo
from typer.testing import CliRunner

from elmo import cli
from elmo.config import TaskELMoConfig, TaskEncoderConfig
from elmo.errors import InputError
from elmo.tasks import SemanticRoleLabeler
from elmo.tasks.core.encoder import TaskEncoder
from elmo.tasks.core.example import Example
from elmo.tasks.core.packed_batch import PackedBatch
from elmo.tasks.registry.task_classes import make_task, task_for
from elmo.tasks.semantic_roles.frame import Frame
from elmo.tasks.semantic_roles.semantic_roles_task import PredictedFrames, SemanticRoles
from elmo.tasks.training.task_trainable import TaskTrainingJob

PEOPLE = ("Kim", "Lee", "Ann", "Bo")


def sentence(text, *frames):
    target = tuple(Frame(number, tuple(tags.split())) for number, tags in frames)
    predicates = tuple(frame.predicate for frame in target)
    return Example((tuple(text.split()),), target, extra=predicates)


# The arguments depend on the marked predicate; some sentences have no predicate.
SENTENCES = [
    example
    for n, name in enumerate(PEOPLE)
    for example in (
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


# ------------------------------------------------------------------------------------------- task


def test_split_example_returns_one_part_for_predicates_and_one_per_frame():
    task = task_for("semantic_roles", SENTENCES)
    parts = task.split_example(SENTENCES[0])
    assert [(part.extra, task.gold_tags(part)) for part in parts] == [
        (None, ("O", "B-V", "O", "B-V", "O")),
        (1, ("B-A0", "B-V", "B-A1", "I-A1", "I-A1")),
        (3, ("O", "O", "B-A0", "B-V", "B-LOC")),
    ]
    (group,) = task.text_groups(parts)
    assert group.texts == [SENTENCES[0].words] * 3
    assert group.indicators == [[2] * 5, [0, 1, 0, 0, 0], [0, 0, 0, 1, 0]]
    # Targets are not used for prediction.
    without_target = task.split_example(replace(SENTENCES[0], target=None))
    assert [part.extra for part in without_target] == [None, 1, 3]
    (part,) = task.split_example(Example((("run",),)))
    assert part.extra is part.target is None


def test_split_example_accepts_two_frames_with_the_same_predicate():
    tags = ("B-V", "B-A0")
    example = Example((("a", "b"),), (Frame(0, tags), Frame(0, tags)), extra=(0, 0))
    task = task_for("semantic_roles", [example])
    assert task.gold_tags(task.split_example(example)[0]) == ("B-V", "O")


def test_gold_frames_survive_splitting_and_get_perfect_scores():
    task = task_for("semantic_roles", SENTENCES)
    labels = task.labels(SENTENCES)
    assert labels == ["B-A0", "B-A1", "B-LOC", "B-V", "I-A0", "I-A1", "I-LOC", "I-V", "O"]
    label_ids = {name: index for index, name in enumerate(labels)}
    predictions = []
    for example in SENTENCES:
        parts = task.split_example(example)
        outputs = task.targets(parts, label_ids).tolist()
        assert task.follow_up_examples(example, outputs, labels) == []
        predictions.append(task.answer(example, parts, outputs, labels))
    assert [each.frames for each in predictions] == [example.target for example in SENTENCES]
    assert [each.predicates for each in predictions] == [example.extra for example in SENTENCES]
    assert set(task.scores(SENTENCES, predictions).values()) == {1.0}


def test_predicates_and_arguments_have_separate_scores():
    task = make_task("semantic_roles", {"scheme": "IOB2"})
    example = sentence("Kim saw Lee", (1, "B-A0 B-V B-A1"))
    prediction = PredictedFrames((1, 2), (Frame(1, ("B-A0", "B-V", "O")),))
    assert task.scores([example], [prediction]) == {
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
def test_merged_frame_tags_the_predicate_with_v(tags, expected):
    task = make_task("semantic_roles", {"scheme": "IOB2"})
    example = Example((("a", "b", "c"),), extra=(1,))
    parts = task.split_example(example)
    labels = ["O", *dict.fromkeys(tag for tag in tags.split() if tag != "O")]
    outputs = [[0, 0, 0], [labels.index(tag) for tag in tags.split()]]
    prediction = task.answer(example, parts, outputs, labels)
    assert prediction == PredictedFrames((), (Frame(1, tuple(expected.split())),))


def test_task_for_detects_tag_scheme_and_rejects_tags_without_spans():
    example = sentence("Kim saw Lee", (1, "S-A0 S-V S-A1"))
    task = task_for("semantic_roles", [example])
    assert task.to_settings() == {"scheme": "BIOES"}
    assert task.labels([example]) == ["B-A0", "B-A1", "B-V", "I-A0", "I-A1", "I-V", "O"]
    assert task.gold_tags(task.split_example(example)[0]) == ("O", "S-V", "O")
    with pytest.raises(InputError, match=r"do not follow a span tag scheme. Expected tags"):
        task_for("semantic_roles", [sentence("Kim saw", (1, "A0 V"))])


@pytest.mark.parametrize(
    ("target", "extra"),
    [
        (None, None),
        (("B-V",), (0,)),
        ((Frame(1, ("B-V",)),), (1,)),
        ((Frame(0, ("B-V", "O")),), (0,)),
        ((Frame(0, ("B-V",)),), None),
    ],
)
def test_task_for_rejects_example_without_valid_frames(target, extra):
    with pytest.raises(
        InputError, match=r"has the target .*; expected frames, each with the word index"
    ):
        task_for("semantic_roles", [Example((("a",),), target, extra=extra)])


# ------------------------------------------------------------------------------------------ models


def test_highway_encoder_ignores_padding_and_copies_input_if_gates_are_closed():
    torch.manual_seed(0)
    config = TaskEncoderConfig(hidden=4, depth=3, highway=True, input_dropout=0.0, dropout=0.0)
    encoder = TaskEncoder(config=config, elmo=TaskELMoConfig(model=None), input_dim=5)
    assert (encoder.lstm.num_layers, len(encoder.upper), encoder.dim) == (1, 2, 8)
    layout = PackedBatch.from_lengths([4, 2])
    x = torch.randn(2, 4, 5) * layout.mask.unsqueeze(2)
    both = encoder(x, layout, None)
    torch.testing.assert_close(
        both[1, :2], encoder(x[1:, :2], PackedBatch.from_lengths([2]), None)[0]
    )
    assert not both[1, 2:].any()
    # With closed gates, the upper layers pass their input through.
    for layer in encoder.upper:
        torch.nn.init.constant_(layer.gate.bias, -1e9)
    config = replace(config, depth=1)
    shallow = TaskEncoder(config=config, elmo=TaskELMoConfig(model=None), input_dim=5)
    shallow.lstm.load_state_dict(encoder.lstm.state_dict())
    torch.testing.assert_close(encoder(x, layout, None), shallow(x, layout, None))


@pytest.mark.parametrize("settings", [{}, {"placement": "both"}])
def test_semantic_role_model_overfits_training_frames(tmp_path, settings):
    if settings:
        settings = {**settings, "model": write_elmo(tmp_path / "elmo")}
    fitted = make_fitted_task(
        tmp_path,
        SENTENCES,
        SENTENCES,
        task="semantic_roles",
        hidden=16,
        depth=2,
        highway=True,
        **settings,
    )
    trainable = TaskTrainingJob(fitted, SENTENCES, SENTENCES).make_trainable(fabric())
    for number, batch in zip(range(50), trainable.batches(0), strict=False):
        trainable.step(batch, number)
    evaluation = trainable.evaluation(trainable.measure(50, watch_nothing))
    assert evaluation.metric == "span_f1"
    assert set(evaluation.scores.values()) == {1.0}
    # Without given predicates, the model predicts them first.
    without_predicates = [replace(example, target=None, extra=None) for example in SENTENCES]
    predictions = fitted.predict(without_predicates)
    assert [each.frames for each in predictions] == [example.target for example in SENTENCES]


def test_semantic_role_labeler_fits_saves_and_loads(tmp_path):
    settings = {**OPTIONS, "hidden": 16, "epochs": 10, "evaluate_every": 50}
    model = SemanticRoleLabeler(**settings).fit(TEXTS, FRAMES, dev=(TEXTS, FRAMES))
    assert model.score(TEXTS, FRAMES) > 0.9
    first, second = model.predict([TEXTS[0].split(), "oh Kim"])
    assert first == list(SENTENCES[0].target)
    assert second == []
    model.save(tmp_path / "model")
    assert SemanticRoleLabeler.load(tmp_path / "model").predict(TEXTS) == model.predict(TEXTS)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (3, "Text 0: the frames must be pairs"),
        ([3], r"Text 0: the frames must be pairs .*\(got \[3\]\)"),
        ([(0, ["B-V"])], "'0' has the target .*; expected frames"),
    ],
)
def test_semantic_role_labeler_rejects_invalid_frames(target, message):
    with pytest.raises(InputError, match=message):
        SemanticRoleLabeler(**OPTIONS).fit(["a b"], [target])


def test_fit_evaluate_and_predict_commands_support_semantic_roles(tmp_path):
    def elmo(*arguments, stdin=None):
        return CliRunner().invoke(cli.application(), ["task", *map(str, arguments)], input=stdin)

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
    scores = json.loads(elmo("evaluate", tmp_path / "run", file, "--json").stdout)
    assert scores["examples"] == len(SENTENCES)
    assert {"span_f1", "predicate_f1"} < set(scores)
    result = elmo("predict", tmp_path / "run", "-", "-", "--to", "conll", stdin="Kim ran\n")
    assert "is a model for semantic_roles. CoNLL output is only supported" in result.stderr
    result = elmo("predict", tmp_path / "run", "-", stdin="Kim saw Bo run there\n")
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


def test_labels_contain_arguments_longer_than_those_of_the_examples():
    example = Example((("Kim", "left"),), (Frame(1, ("B-ARG0", "B-V")),), extra=(1,))
    assert SemanticRoles().labels([example]) == ["B-ARG0", "B-V", "I-ARG0", "I-V", "O"]
