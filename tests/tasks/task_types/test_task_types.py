"""Kinds of tasks and their heads: targets, answers, scores."""

import pytest
import torch
from small_tasks import LABELED, TAGGED, make_fitted_task, task_config

from elmo.config import TaskEncoderConfig
from elmo.errors import ConfigError, InputError
from elmo.tasks import spans
from elmo.tasks.examples import Example
from elmo.tasks.heads.label_heads import ClassificationHead, TaggingHead
from elmo.tasks.packed_batch import PackedBatch
from elmo.tasks.readers.reader_registry import read
from elmo.tasks.task_model import EncodedTexts
from elmo.tasks.task_types.task_registry import check_targets, make_task, task_for

SCHEMES = ["IOB1", "IOB2", "BIOES", "BILOU"]


def tagged(scheme):
    """Give the examples with their tags in another scheme."""
    return [Example(e.texts, tuple(spans.convert(e.target, "IOB2", scheme)), e.id) for e in TAGGED]


# ------------------------------------------------------------------------------------------ labels


def test_labels_have_probabilities(tmp_path):
    trained = make_fitted_task(tmp_path)
    answers = trained.predict(LABELED)
    assert trained.labels == ["bad", "good"]
    for answer in answers:
        assert list(answer.probabilities) == trained.labels
        assert sum(answer.probabilities.values()) == pytest.approx(1)
        assert answer.probabilities[answer.label] == max(answer.probabilities.values())


def test_a_classification_loss_is_that_of_its_answers():
    torch.manual_seed(0)
    head = ClassificationHead(dim=6, n_labels=3, dropout=0.5).eval()
    x, layout = torch.randn(2, 4, 6), PackedBatch.from_lengths([4, 2])
    answers = torch.tensor(head.predict([EncodedTexts(x, layout)]))
    loss = head.loss([EncodedTexts(x, layout)], torch.tensor([2, 0]))
    torch.testing.assert_close(loss, -answers[[0, 1], [2, 0]].log().mean())
    # What stands at padding is not read.
    x[1, 2:] = 1e6
    torch.testing.assert_close(torch.tensor(head.predict([EncodedTexts(x, layout)])), answers)


def test_a_record_of_a_label(tmp_path):
    trained = make_fitted_task(tmp_path)
    example = Example((("fine", "film"),))
    (answer,) = trained.predict([example])
    record = trained.task.to_record(example, answer)
    assert record["words"] == ["fine", "film"]
    assert record["label"] == answer.label == next(iter(record["probabilities"]))
    assert list(record["probabilities"].values()) == sorted(
        record["probabilities"].values(), reverse=True
    )


# -------------------------------------------------------------------------------------------- tags


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tags_are_learned_as_bioes_and_given_back_as_they_were(scheme):
    examples = tagged(scheme)
    kind = task_for("tagging", examples)
    assert kind.to_settings() == {"scheme": scheme}
    labels = kind.labels(examples)
    assert labels == ["B-LOC", "B-PER", "E-LOC", "E-PER", "O", "S-LOC", "S-PER"]
    numbers = {name: number for number, name in enumerate(labels)}
    targets = kind.targets(examples, numbers)
    assert targets.shape == (20, 5)
    rows = [row[: len(e.words)].tolist() for row, e in zip(targets, examples, strict=True)]
    assert [labels[n] for n in rows[1]] == ["O", "B-LOC", "E-LOC", "S-LOC"]
    assert kind.decode_predictions(rows, labels) == [example.target for example in examples]
    assert kind.scores(examples, kind.decode_predictions(rows, labels))["span_f1"] == 1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_answer_breaks_its_scheme(scheme):
    examples = tagged(scheme)
    kind = task_for("tagging", examples)
    labels = kind.labels(examples)
    head = kind.head(4, labels, TaskEncoderConfig())
    torch.manual_seed(0)
    lengths = [number % 9 + 1 for number in range(60)]
    found = head.predict(
        [EncodedTexts(100 * torch.randn(60, 9, 4), PackedBatch.from_lengths(lengths))]
    )
    assert {number for row in found for number in row} == set(range(len(labels)))
    for row, tags, n in zip(found, kind.decode_predictions(found, labels), lengths, strict=True):
        assert len(tags) == n
        assert spans.is_well_formed([labels[number] for number in row], "BIOES")
        assert spans.is_well_formed(tags, scheme)


def test_plain_tags_are_left_as_they_are():
    examples = [Example((("a", "b"),), ("DT", "NN")), Example((("c",),), ("B-X",))]
    kind = task_for("tagging", examples)
    assert (kind.metric, kind.metrics) == ("accuracy", ("accuracy",))
    labels = kind.labels(examples)
    assert labels == ["B-X", "DT", "NN"]
    assert kind.decode_predictions([[1, 2], [0]], labels) == [("DT", "NN"), ("B-X",)]
    assert kind.head(4, labels, TaskEncoderConfig()).crf.start_allowed is None
    assert "spans" not in kind.to_record(examples[0], ("DT", "NN"))


def test_outside_is_always_a_tag():
    kind = task_for("tagging", [Example((("a",),), ("B-X",))])
    assert kind.labels([Example((("a",),), ("B-X",))]) == ["O", "S-X"]


def test_a_record_of_tags_has_spans():
    kind = make_task("tagging", {"scheme": "IOB2"})
    words = ("Kim", "in", "New", "York")
    record = kind.to_record(Example((words,)), ("B-PER", "O", "B-LOC", "I-LOC"))
    assert record == {
        "words": list(words),
        "tags": ["B-PER", "O", "B-LOC", "I-LOC"],
        "spans": [
            {"text": "Kim", "label": "PER", "start": 0, "end": 1},
            {"text": "New York", "label": "LOC", "start": 2, "end": 4},
        ],
    }


def test_tags_each_by_itself():
    examples = tagged("IOB2")
    kind = task_for("tagging", examples)
    labels = kind.labels(examples)
    head = kind.head(4, labels, TaskEncoderConfig(crf=False))
    assert set(head.state_dict()) == {"out.weight", "out.bias"}
    torch.manual_seed(0)
    x, layout = torch.randn(2, 3, 4), PackedBatch.from_lengths([3, 1])
    (first, second) = head.predict([EncodedTexts(x, layout)])
    best = head.out(x).argmax(dim=2)
    assert first == best[0].tolist()
    assert second == best[1, :1].tolist()
    targets = torch.tensor([[1, 2, 3], [4, 0, 0]])
    words = head.out(x).log_softmax(dim=2).gather(2, targets.unsqueeze(2))[layout.mask]
    torch.testing.assert_close(head.loss([EncodedTexts(x, layout)], targets), -words.mean())


def test_a_tagging_loss_is_by_word():
    torch.manual_seed(0)
    head = TaggingHead(dim=6, n_tags=3, allowed=None)
    torch.nn.init.zeros_(head.out.weight)
    torch.nn.init.zeros_(head.out.bias)
    loss = head.loss(
        [EncodedTexts(torch.randn(2, 5, 6), PackedBatch.from_lengths([5, 1]))],
        torch.zeros(2, 5, dtype=torch.int64),
    )
    torch.testing.assert_close(loss, torch.tensor(3.0).log())


# ------------------------------------------------------------------------------------ what is both


@pytest.mark.parametrize(
    ("task", "examples"),
    [
        ("classification", LABELED),
        ("tagging", TAGGED),
        ("tagging", [Example((("a", "b"),), ("DT", "NN"))]),
    ],
)
def test_scores_have_the_names_they_are_said_to_have(tmp_path, task, examples):
    trained = make_fitted_task(tmp_path, examples, task=task)
    found = trained.scores(examples)
    assert tuple(found) == trained.task.metrics
    assert trained.task.metric in found
    assert all(0 <= value <= 1 for value in found.values())
    again = make_task(task, trained.task.to_settings())
    assert vars(again) == vars(trained.task)


@pytest.mark.parametrize(
    ("task", "target", "message"),
    [
        ("classification", None, "has None for its target, expected a label"),
        ("classification", ("O",), r"has \('O',\) for its target, expected a label"),
        ("tagging", "O", "'seven' has 'O' for its target, expected a tag for each word"),
    ],
)
def test_examples_of_another_kind(tmp_path, task, target, message):
    wrong = Example((("a",),), target, "seven")
    with pytest.raises(InputError, match=message):
        task_for(task, [wrong])
    with pytest.raises(InputError, match=message):
        check_targets(task, [wrong])
    examples = LABELED if task == "classification" else TAGGED
    with pytest.raises(InputError, match=message):
        make_fitted_task(tmp_path, examples, task=task).scores([wrong])


def test_an_unknown_kind():
    with pytest.raises(ConfigError, match="task is 'parsing'; expected one of classification, tag"):
        make_task("parsing", {})


# ------------------------------------------------------------------------------------ strange tags

COLUMNS = "Kim B-PER\nwent O\n\nto O\nNew {}\nYork I-LOC\n\nLee B-PER\n"


@pytest.mark.parametrize("scheme", ["auto", "IOB2"])
@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("tags.txt", COLUMNS, "line 5"),
        (
            "x.jsonl",
            '{{"text": ["New"], "label": ["{}"]}}\n{{"text": ["a"], "label": ["B-X"]}}\n',
            "line 1, at the word 'New'",
        ),
    ],
)
def test_a_strange_tag_is_told_with_its_line(tmp_path, scheme, name, text, place):
    path = tmp_path / name
    path.write_text(text.format("BLOC"))
    config = task_config(tmp_path, task="tagging", scheme=scheme)
    with pytest.raises(InputError, match=f"^{path}.*, {place}: .*'BLOC'"):
        task_for("tagging", [*TAGGED, *read(path)], config)


def test_tags_of_another_scheme_are_scored_as_they_are_meant(tmp_path):
    kind = task_for("tagging", TAGGED)
    answers = [("O",) * len(example.target) for example in TAGGED[:7]]
    answers += [example.target for example in TAGGED[7:]]
    expected = kind.scores(TAGGED, answers)
    assert 0 < expected["span_f1"] < 1
    for scheme in SCHEMES:
        assert kind.scores(tagged(scheme), answers) == expected
    path = tmp_path / "other.txt"
    path.write_text(COLUMNS.format("NNP"))
    strange = read(path)
    with pytest.raises(InputError, match=f"^{path}, line 5: The tag 'NNP'"):
        kind.scores(strange, [example.target for example in strange])


def test_a_target_of_another_kind_is_told_with_its_line(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "a b", "label": "x"}\n{"text": "a b", "label": ["x", "y"]}\n')
    with pytest.raises(InputError, match=rf"example 'a b' \({path}, line 2\) has \('x', 'y'\)"):
        check_targets("classification", read(path))
