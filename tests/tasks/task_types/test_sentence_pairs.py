"""Pairs of texts: their head, and models for them."""

import json

import numpy as np
import pytest
import torch
from small_tasks import OPTIONS, PAIRS, fabric, make_fitted_task, with_padding, write_elmo
from torch.nn import functional
from typer.testing import CliRunner

from elmo import cli
from elmo.config import TaskEncoderConfig
from elmo.errors import ConfigError, InputError
from elmo.tasks import Classifier, SentencePairClassifier
from elmo.tasks.examples import Example
from elmo.tasks.heads.sentence_pair_head import SentencePairHead, attended
from elmo.tasks.packed_batch import PackedBatch
from elmo.tasks.task_model import EncodedTexts
from elmo.tasks.task_trainable import TaskTrainingJob
from elmo.tasks.task_types.task_registry import task_for
from elmo.train import loop

TEXTS = [tuple(" ".join(text) for text in example.texts) for example in PAIRS]
LABELS = [example.target for example in PAIRS]


@pytest.fixture(autouse=True)
def no_picture(monkeypatch):
    monkeypatch.setattr(loop, "draw_curves", lambda folder: None)


@pytest.mark.parametrize("hidden", [5, 0])
def test_padding_is_not_read(hidden):
    torch.manual_seed(0)
    head = SentencePairHead(dim=6, n_labels=3, config=TaskEncoderConfig(hidden=hidden)).eval()
    first, second = torch.randn(2, 4, 6), torch.randn(2, 3, 6)
    whole = [
        EncodedTexts(x, PackedBatch.from_lengths([x.shape[1]] * len(x))) for x in (first, second)
    ]
    answers = torch.tensor(head.predict(whole))
    torch.testing.assert_close(answers.sum(dim=1), torch.ones(2))
    more = [
        EncodedTexts(functional.pad(x, (0, 0, 0, 3), value=50.0), with_padding(layout, 3))
        for x, layout, _ in whole
    ]
    torch.testing.assert_close(torch.tensor(head.predict(more)), answers)
    loss = head.loss(whole, torch.tensor([2, 0]))
    torch.testing.assert_close(loss, -answers[[0, 1], [2, 0]].log().mean())


def test_what_is_attended():
    """Words that are alike count most, padding nothing."""
    other = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]])
    likeness = torch.tensor([[[100.0, 0.0, 500.0], [0.0, 0.0, 0.0]]])
    found = attended(likeness, other, torch.tensor([[True, True, False]]))
    torch.testing.assert_close(found, torch.tensor([[[1.0, 0.0], [0.5, 0.5]]]))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_elmo(tmp_path_factory.mktemp("elmo"))


@pytest.mark.parametrize("settings", [{}, {"placement": "both"}])
def test_pairs_are_learned_by_heart(tmp_path, model, settings):
    if settings:
        settings = {**settings, "model": model}
    trained = make_fitted_task(tmp_path, PAIRS, PAIRS, task="sentence_pairs", **settings)
    work = TaskTrainingJob(trained, PAIRS, PAIRS).make_trainable(fabric())
    for number, batch in zip(range(50), work.batches(0), strict=False):
        work.step(batch, number)
    assert work.evaluation(work.measure(50, iter)).scores == {"accuracy": 1.0, "macro_f1": 1.0}


def test_a_tuned_elmo_learns_from_both_texts(tmp_path, model):
    trained = make_fitted_task(
        tmp_path, PAIRS, task="sentence_pairs", model=model, use="tuned", placement="output"
    )
    work = TaskTrainingJob(trained, PAIRS, ()).make_trainable(fabric())
    before = [value.clone() for value in work.model.features.network.bilm.parameters()]
    work.step(next(work.batches(0)), 0)
    after = work.model.features.network.bilm.parameters()
    assert not any(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_both_texts_have_layers_on_the_disk(tmp_path, model):
    trained = make_fitted_task(tmp_path, PAIRS, task="sentence_pairs", model=model)
    texts = {text for example in PAIRS for text in example.texts}
    assert len(trained.built.indexer.layers(list(texts))) == len(texts)


def test_a_pair_classifier(tmp_path):
    settings = {**OPTIONS, "epochs": 13, "evaluate_every": 52}
    model = SentencePairClassifier(**settings).fit(TEXTS, LABELS, dev=(TEXTS, LABELS))
    assert model.labels == ["other", "same"]
    assert model.predict(TEXTS).tolist() == LABELS
    assert model.predict([(one.split(), other) for one, other in TEXTS]).tolist() == LABELS
    model.save(tmp_path / "model")
    again = SentencePairClassifier.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(TEXTS), model.predict_proba(TEXTS))
    with pytest.raises(ConfigError, match="holds a model for sentence_pairs, not classification"):
        Classifier.load(tmp_path / "model")
    for wrong, message in (
        (("a", "b", "c"), "text 0 is 3 texts, expected 2"),
        (("a", " "), "text 0 has no word"),
    ):
        with pytest.raises(InputError, match=message):
            model.predict([wrong])


def test_examples_with_one_text():
    with pytest.raises(InputError, match="pairs: the example 'a' has 1 texts, expected 2"):
        task_for("sentence_pairs", [Example((("a",),), "x")])
    with pytest.raises(InputError, match="classification: the example 'a' has 2 texts, expected 1"):
        task_for("classification", [Example((("a",), ("b",)), "x")])


def test_fit_evaluate_and_predict_as_typed(tmp_path):
    def elmo(*words, given=None):
        return CliRunner().invoke(cli.application(), ["task", *map(str, words)], input=given)

    rows = ["\t".join((label, *texts)) for texts, label in zip(TEXTS, LABELS, strict=True)]
    file = tmp_path / "pairs.tsv"
    file.write_text("\n".join(["label\tsentence1\tsentence2", *rows, "-\ta\tb"]) + "\n")
    flags = ["--model", "none", "--hidden", "4", "--max-steps", "2", "--accelerator", "cpu"]
    run = elmo("fit", "sick", "--train", file, "--dev", file, "--out", tmp_path / "run", *flags)
    assert run.exit_code == 0, run.stderr
    assert (
        json.loads(elmo("evaluate", tmp_path / "run", file, "--as-json").stdout)["examples"] == 20
    )
    result = elmo("predict", tmp_path / "run", "-", given="a fine film\tfine Play\n")
    record = json.loads(result.stdout)
    assert record["texts"] == [["a", "fine", "film"], ["fine", "Play"]]
    assert record["label"] == next(iter(record["probabilities"]))
    assert set(record["probabilities"]) == {"same", "other"}
    result = elmo("predict", tmp_path / "run", "-", given="a\tb\nonly one\n")
    assert "line 2 holds 1 texts with tabs between them, expected 2" in result.stderr
    result = elmo("predict", tmp_path / "run", "-", given="a\t \n")
    assert "line 1 holds a text without a word: remove it" in result.stderr
