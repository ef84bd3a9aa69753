"""Tests of sentence pair classification: the head and complete models."""

import json

import numpy as np
import pytest
import torch
from small_tasks import (
    OPTIONS,
    PAIRS,
    fabric,
    make_fitted_task,
    watch_nothing,
    with_padding,
    write_elmo,
)
from torch.nn import functional
from typer.testing import CliRunner

from elmo import cli
from elmo.config import TaskEncoderConfig
from elmo.errors import ConfigError, InputError
from elmo.tasks import Classifier, SentencePairClassifier
from elmo.tasks.core.example import Example
from elmo.tasks.core.packed_batch import PackedBatch
from elmo.tasks.core.task_model import EncodedTexts
from elmo.tasks.registry.task_classes import task_for
from elmo.tasks.sentence_pairs.sentence_pair_head import SentencePairHead, attend
from elmo.tasks.training.task_trainable import TaskTrainingJob

TEXTS = [tuple(" ".join(text) for text in example.texts) for example in PAIRS]
LABELS = [example.target for example in PAIRS]


@pytest.mark.parametrize("hidden", [5, 0])
def test_sentence_pair_head_ignores_padding(hidden):
    torch.manual_seed(0)
    head = SentencePairHead(dim=6, n_labels=3, config=TaskEncoderConfig(hidden=hidden)).eval()
    first, second = torch.randn(2, 4, 6), torch.randn(2, 3, 6)
    unpadded = [
        EncodedTexts(x, PackedBatch.from_lengths([x.shape[1]] * len(x))) for x in (first, second)
    ]
    probabilities = torch.tensor(head.predict(unpadded))
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(2))
    padded = [
        EncodedTexts(functional.pad(x, (0, 0, 0, 3), value=50.0), with_padding(layout, 3))
        for x, layout, _ in unpadded
    ]
    torch.testing.assert_close(torch.tensor(head.predict(padded)), probabilities)
    loss = head.loss(unpadded, torch.tensor([2, 0]))
    torch.testing.assert_close(loss, -probabilities[[0, 1], [2, 0]].log().mean())


def test_attention_is_weighted_by_similarity_and_ignores_padding():
    other = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]])
    similarity = torch.tensor([[[100.0, 0.0, 500.0], [0.0, 0.0, 0.0]]])
    attended = attend(similarity, other, torch.tensor([[True, True, False]]))
    torch.testing.assert_close(attended, torch.tensor([[[1.0, 0.0], [0.5, 0.5]]]))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_elmo(tmp_path_factory.mktemp("elmo"))


@pytest.mark.parametrize("settings", [{}, {"placement": "both"}])
def test_sentence_pair_model_overfits_training_pairs(tmp_path, model, settings):
    if settings:
        settings = {**settings, "model": model}
    fitted = make_fitted_task(tmp_path, PAIRS, PAIRS, task="sentence_pairs", **settings)
    trainable = TaskTrainingJob(fitted, PAIRS, PAIRS).make_trainable(fabric())
    for number, batch in zip(range(50), trainable.batches(0), strict=False):
        trainable.step(batch, number)
    assert trainable.evaluation(trainable.measure(50, watch_nothing)).scores == {
        "accuracy": 1.0,
        "macro_f1": 1.0,
    }


def test_sentence_pair_fine_tuning_updates_elmo(tmp_path, model):
    fitted = make_fitted_task(
        tmp_path, PAIRS, task="sentence_pairs", model=model, use="tuned", placement="output"
    )
    trainable = TaskTrainingJob(fitted, PAIRS, ()).make_trainable(fabric())
    before = [value.clone() for value in trainable.model.features.network.bilm.parameters()]
    trainable.step(next(trainable.batches(0)), 0)
    after = trainable.model.features.network.bilm.parameters()
    assert not any(torch.equal(*pair) for pair in zip(before, after, strict=True))


def test_elmo_layers_of_both_texts_are_cached(tmp_path, model):
    fitted = make_fitted_task(tmp_path, PAIRS, task="sentence_pairs", model=model)
    texts = {text for example in PAIRS for text in example.texts}
    assert len(fitted.built.indexer.layers(list(texts))) == len(texts)


def test_sentence_pair_classifier_fits_saves_and_loads(tmp_path):
    settings = {**OPTIONS, "epochs": 13, "evaluate_every": 52}
    model = SentencePairClassifier(**settings).fit(TEXTS, LABELS, dev=(TEXTS, LABELS))
    assert model.labels == ["other", "same"]
    assert model.predict(TEXTS).tolist() == LABELS
    assert model.predict([(first.split(), second) for first, second in TEXTS]).tolist() == LABELS
    model.save(tmp_path / "model")
    loaded = SentencePairClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(TEXTS), model.predict_proba(TEXTS))
    with pytest.raises(
        ConfigError, match="contains a model for sentence_pairs, not for classification"
    ):
        Classifier.load(tmp_path / "model")
    for text, message in (
        (("a", "b", "c"), r"Item 0 has 3 texts \(expected 2\)"),
        (("a", " "), "Text 0 has no words"),
    ):
        with pytest.raises(InputError, match=message):
            model.predict([text])


def test_task_for_rejects_wrong_number_of_texts():
    with pytest.raises(InputError, match=r"sentence_pairs: the example 'a' has 1 texts \(expected"):
        task_for("sentence_pairs", [Example((("a",),), "x")])
    with pytest.raises(InputError, match=r"classification: the example 'a' has 2 texts \(expected"):
        task_for("classification", [Example((("a",), ("b",)), "x")])


def test_fit_evaluate_and_predict_commands_support_sentence_pairs(tmp_path):
    def elmo(*arguments, stdin=None):
        return CliRunner().invoke(cli.application(), ["task", *map(str, arguments)], input=stdin)

    rows = ["\t".join((label, *texts)) for texts, label in zip(TEXTS, LABELS, strict=True)]
    file = tmp_path / "pairs.tsv"
    file.write_text("\n".join(["label\tsentence1\tsentence2", *rows, "-\ta\tb"]) + "\n")
    flags = ["--model", "none", "--hidden", "4", "--max-steps", "2", "--accelerator", "cpu"]
    run = elmo("fit", "sick", "--train", file, "--dev", file, "--out", tmp_path / "run", *flags)
    assert run.exit_code == 0, run.stderr
    assert json.loads(elmo("evaluate", tmp_path / "run", file, "--json").stdout)["examples"] == 20
    result = elmo("predict", tmp_path / "run", "-", stdin="a fine film\tfine Play\n")
    record = json.loads(result.stdout)
    assert record["texts"] == [["a", "fine", "film"], ["fine", "Play"]]
    assert record["label"] == next(iter(record["probabilities"]))
    assert set(record["probabilities"]) == {"same", "other"}
    result = elmo("predict", tmp_path / "run", "-", stdin="a\tb\nonly one\n")
    assert "line 2 has 1 texts separated by tabs (expected 2)" in result.stderr
    result = elmo("predict", tmp_path / "run", "-", stdin="a\t \n\n")
    records = [json.loads(line) for line in result.stdout.splitlines()]
    assert [record["texts"] for record in records] == [[["a"], []], [[], []]]
    assert [record["label"] for record in records] == [None, None]
