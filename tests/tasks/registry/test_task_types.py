"""Tests of classification and tagging: heads, targets, predictions and scores."""

import pytest
import torch
from small_tasks import LABELED, TAGGED, make_fitted_task

from elmo.config import TaskEncoderConfig
from elmo.errors import ConfigError, InputError
from elmo.tasks.classification.classification_head import ClassificationHead
from elmo.tasks.core.example import Example
from elmo.tasks.core.packed_batch import PackedBatch
from elmo.tasks.core.task_model import EncodedTexts
from elmo.tasks.reading.readers import read
from elmo.tasks.registry.task_classes import check_targets, make_task, task_for
from elmo.tasks.tagging import spans
from elmo.tasks.tagging.tagging_heads import TaggingHead
from elmo.tasks.tagging.tagging_options import TaggingOptions

SCHEMES = ["IOB1", "IOB2", "BIOES", "BILOU"]


def tagged(scheme):
    """Return the tagging examples with their tags converted to another scheme."""
    return [Example(e.texts, tuple(spans.convert(e.target, "IOB2", scheme)), e.id) for e in TAGGED]


# ------------------------------------------------------------------------------------------ labels


def test_classification_predicts_label_and_all_label_probabilities(tmp_path):
    fitted = make_fitted_task(tmp_path)
    predictions = fitted.predict(LABELED)
    assert fitted.labels == ["bad", "good"]
    for prediction in predictions:
        probabilities = prediction.probabilities
        assert list(probabilities) == fitted.labels
        assert sum(probabilities.values()) == pytest.approx(1)
        assert probabilities[prediction.label] == max(probabilities.values())


def test_classification_head_loss_matches_probabilities_and_ignores_padding():
    torch.manual_seed(0)
    head = ClassificationHead(dim=6, n_labels=3, dropout=0.5).eval()
    x, layout = torch.randn(2, 4, 6), PackedBatch.from_lengths([4, 2])
    probabilities = torch.tensor(head.predict([EncodedTexts(x, layout)]))
    loss = head.loss([EncodedTexts(x, layout)], torch.tensor([2, 0]))
    torch.testing.assert_close(loss, -probabilities[[0, 1], [2, 0]].log().mean())
    x[1, 2:] = 1e6
    torch.testing.assert_close(torch.tensor(head.predict([EncodedTexts(x, layout)])), probabilities)


def test_classification_record_lists_probabilities_in_descending_order(tmp_path):
    fitted = make_fitted_task(tmp_path)
    example = Example((("fine", "film"),))
    (prediction,) = fitted.predict([example])
    record = fitted.task.to_record(example, prediction)
    assert record["words"] == ["fine", "film"]
    assert record["label"] == prediction.label == next(iter(record["probabilities"]))
    assert list(record["probabilities"].values()) == sorted(
        record["probabilities"].values(), reverse=True
    )


# -------------------------------------------------------------------------------------------- tags


@pytest.mark.parametrize("scheme", SCHEMES)
def test_tagging_converts_tags_to_bioes_and_back(scheme):
    examples = tagged(scheme)
    task = task_for("tagging", examples)
    assert task.to_settings() == {"scheme": scheme}
    labels = task.labels(examples)
    # All tags of each type, also I-LOC and I-PER, which do not occur.
    of_types = [f"{prefix}-{name}" for prefix in "BEIS" for name in ("LOC", "PER")]
    assert labels == sorted(["O", *of_types])
    label_ids = {name: index for index, name in enumerate(labels)}
    targets = task.targets(examples, label_ids)
    assert targets.shape == (20, 5)
    rows = [row[: len(e.words)].tolist() for row, e in zip(targets, examples, strict=True)]
    assert [labels[n] for n in rows[1]] == ["O", "B-LOC", "E-LOC", "S-LOC"]
    answers = [
        task.answer(example, [example], [row], labels)
        for example, row in zip(examples, rows, strict=True)
    ]
    assert answers == [example.target for example in examples]
    assert task.scores(examples, answers)["span_f1"] == 1


@pytest.mark.parametrize("scheme", SCHEMES)
def test_predicted_tag_sequences_are_well_formed(scheme):
    examples = tagged(scheme)
    task = task_for("tagging", examples)
    labels = task.labels(examples)
    head = task.head(4, labels, TaskEncoderConfig(), TaggingOptions())
    torch.manual_seed(0)
    lengths = [number % 9 + 1 for number in range(60)]
    outputs = head.predict(
        [EncodedTexts(100 * torch.randn(60, 9, 4), PackedBatch.from_lengths(lengths))]
    )
    assert {number for row in outputs for number in row} == set(range(len(labels)))
    decoded = [task.predicted_tags(row, labels) for row in outputs]
    for row, tags, n in zip(outputs, decoded, lengths, strict=True):
        assert len(tags) == n
        assert spans.is_well_formed([labels[number] for number in row], "BIOES")
        assert spans.is_well_formed(tags, scheme)


def test_tags_without_a_span_scheme_are_not_converted():
    examples = [Example((("a", "b"),), ("DT", "NN")), Example((("c",),), ("B-X",))]
    task = task_for("tagging", examples)
    assert (task.metric, task.metrics) == ("accuracy", ("accuracy",))
    labels = task.labels(examples)
    assert labels == ["B-X", "DT", "NN"]
    assert [task.predicted_tags(row, labels) for row in ([1, 2], [0])] == [("DT", "NN"), ("B-X",)]
    assert task.head(4, labels, TaskEncoderConfig(), TaggingOptions()).crf.start_allowed is None
    assert "spans" not in task.to_record(examples[0], ("DT", "NN"))


def test_tagging_labels_always_include_the_outside_tag():
    task = task_for("tagging", [Example((("a",),), ("B-X",))])
    assert task.labels([Example((("a",),), ("B-X",))]) == ["B-X", "E-X", "I-X", "O", "S-X"]


def test_tagging_record_contains_spans():
    task = make_task("tagging", {"scheme": "IOB2"})
    words = ("Kim", "in", "New", "York")
    record = task.to_record(Example((words,)), ("B-PER", "O", "B-LOC", "I-LOC"))
    assert record == {
        "words": list(words),
        "tags": ["B-PER", "O", "B-LOC", "I-LOC"],
        "spans": [
            {"text": "Kim", "label": "PER", "start": 0, "end": 1},
            {"text": "New York", "label": "LOC", "start": 2, "end": 4},
        ],
    }


def test_softmax_tagging_head_predicts_tags_independently():
    examples = tagged("IOB2")
    task = task_for("tagging", examples)
    labels = task.labels(examples)
    head = task.head(4, labels, TaskEncoderConfig(), TaggingOptions(crf=False))
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


def test_tagging_head_loss_is_mean_over_words():
    torch.manual_seed(0)
    head = TaggingHead(dim=6, n_tags=3, allowed=None)
    torch.nn.init.zeros_(head.out.weight)
    torch.nn.init.zeros_(head.out.bias)
    loss = head.loss(
        [EncodedTexts(torch.randn(2, 5, 6), PackedBatch.from_lengths([5, 1]))],
        torch.zeros(2, 5, dtype=torch.int64),
    )
    torch.testing.assert_close(loss, torch.tensor(3.0).log())


# ------------------------------------------------------------------------------------ both tasks


@pytest.mark.parametrize(
    ("task", "examples"),
    [
        ("classification", LABELED),
        ("tagging", TAGGED),
        ("tagging", [Example((("a", "b"),), ("DT", "NN"))]),
    ],
)
def test_scores_match_metrics_and_task_is_restored_from_settings(tmp_path, task, examples):
    fitted = make_fitted_task(tmp_path, examples, task=task)
    scores = fitted.scores(examples)
    assert tuple(scores) == fitted.task.metrics
    assert fitted.task.metric in scores
    assert all(0 <= value <= 1 for value in scores.values())
    restored = make_task(task, fitted.task.to_settings())
    assert vars(restored) == vars(fitted.task)


@pytest.mark.parametrize(
    ("task", "target", "message"),
    [
        ("classification", None, "has the target None; expected a label"),
        ("classification", ("O",), r"has the target \('O',\); expected a label"),
        ("tagging", "O", "'seven' has the target 'O'; expected one tag per word"),
    ],
)
def test_task_rejects_examples_of_another_task(tmp_path, task, target, message):
    invalid = Example((("a",),), target, "seven")
    with pytest.raises(InputError, match=message):
        task_for(task, [invalid])
    with pytest.raises(InputError, match=message):
        check_targets(task, [invalid])
    examples = LABELED if task == "classification" else TAGGED
    with pytest.raises(InputError, match=message):
        make_fitted_task(tmp_path, examples, task=task).scores([invalid])


def test_make_task_rejects_unknown_task():
    with pytest.raises(
        ConfigError, match=r"Unknown task 'parsing'. Expected one of: classification, tag"
    ):
        make_task("parsing", {})


# ------------------------------------------------------------------------------------ invalid tags

COLUMNS = "Kim B-PER\nwent O\n\nto O\nNew {}\nYork I-LOC\n\nLee B-PER\n"


@pytest.mark.parametrize("scheme", ["auto", "IOB2"])
@pytest.mark.parametrize(
    ("name", "text", "location"),
    [
        ("tags.txt", COLUMNS, "line 5"),
        (
            "x.jsonl",
            '{{"text": ["New"], "label": ["{}"]}}\n{{"text": ["a"], "label": ["B-X"]}}\n',
            "line 1, at the word 'New'",
        ),
    ],
)
def test_task_for_reports_location_of_invalid_tag(tmp_path, scheme, name, text, location):
    path = tmp_path / name
    path.write_text(text.format("BLOC"))
    with pytest.raises(InputError, match=f"^{path}.*, {location}: .*'BLOC'"):
        task_for("tagging", [*TAGGED, *read(path)], TaggingOptions(scheme))


def test_tagging_scores_accept_gold_tags_in_another_scheme(tmp_path):
    task = task_for("tagging", TAGGED)
    predictions = [("O",) * len(example.target) for example in TAGGED[:7]]
    predictions += [example.target for example in TAGGED[7:]]
    expected = task.scores(TAGGED, predictions)
    assert 0 < expected["span_f1"] < 1
    for scheme in SCHEMES:
        assert task.scores(tagged(scheme), predictions) == expected
    path = tmp_path / "other.txt"
    path.write_text(COLUMNS.format("NNP"))
    invalid = read(path)
    with pytest.raises(InputError, match=f"^{path}, line 5: The tag 'NNP'"):
        task.scores(invalid, [example.target for example in invalid])


def test_check_targets_reports_location_of_invalid_target(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "a b", "label": "x"}\n{"text": "a b", "label": ["x", "y"]}\n')
    with pytest.raises(
        InputError, match=rf"example 'a b' \({path}, line 2\) has the target \('x', 'y'\)"
    ):
        check_targets("classification", read(path))
