"""Tests of fine-tuning models with an existing, extended or new softmax."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from conftest import TINY, random_model
from train_text import write_text

from elmo.config import (
    CorpusConfig,
    EncoderConfig,
    EvaluateConfig,
    FinetuneConfig,
    PrepareConfig,
    ReadingConfig,
    TextConfig,
)
from elmo.config.serialization import load_config
from elmo.corpus.prepare_corpus import prepare
from elmo.corpus.shards import Corpus, WholeText
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError, FormatError
from elmo.evaluate.evaluate_model import evaluate
from elmo.formats import model_folder
from elmo.formats.load import read, read_accumulators
from elmo.text.vocabulary import Vocabulary
from elmo.train import finetune_model
from elmo.train.finetune_model import DEFAULT_OPTIMIZER, finetune, finetune_job
from elmo.train.report import read_log
from elmo.train.run_folder import recorded_config

KNOWN = ["<S>", "</S>", "<UNK>", "anna", "sees", "cats", "."]


def config_of(model, data, out, **flags):
    values = {"batch_size": 4, "unroll": 5, "log_every": 1, "warmup_steps": 2, "max_steps": 30}
    values |= {"learning_rate": 0.01, "evaluate_every": 10, **flags}
    values |= {"model": str(model), "data": [str(data)], "out": str(out)}
    return load_config(FinetuneConfig, None, values)


@pytest.fixture
def with_softmax(tmp_path):
    """Return the path of a model with a softmax over a few words."""
    config = dataclasses.replace(TINY, n_softmax_words=len(KNOWN))
    model_folder.write(
        random_model(config, scale=1.0, vocabulary=Vocabulary(KNOWN)), tmp_path / "with_softmax"
    )
    return tmp_path / "with_softmax"


@pytest.fixture
def without_softmax(tmp_path):
    """Return the path of a model without a softmax, like the published files."""
    model_folder.write(random_model(scale=1.0), tmp_path / "without_softmax")
    return tmp_path / "without_softmax"


def test_finetune_improves_perplexity_and_reports_it_before_and_after(
    with_softmax, corpus, tmp_path, caplog
):
    result = finetune(config_of(with_softmax, corpus, tmp_path / "tuned"))
    assert result.best.mean < 0.9 * result.before.mean
    assert "before" in str(result)
    assert "after" in str(result)
    assert "fewer than 10 million" in caplog.text
    assert ELMo.from_pretrained(tmp_path / "tuned").encode("anna sees cats").shape == (3, 16)
    first, *_, last = [e for e in read_log(tmp_path / "tuned") if e["kind"] == "evaluation"]
    assert first["step"] == 0
    assert first["mean"] == pytest.approx(result.before.mean)
    assert last["mean"] < first["mean"]


def test_finetune_uses_the_state_reset_fraction_saved_in_the_model(with_softmax, corpus, tmp_path):
    """The evaluations before and after fine-tuning use the same fraction."""

    def adapted_config(folder, **flags):
        text = Corpus.open(corpus)
        return finetune_job(config_of(folder, corpus, "", **flags), read(folder), text).config

    assert adapted_config(with_softmax).stream.reset == 0
    first = finetune(config_of(with_softmax, corpus, tmp_path / "first", reset=1.0, max_steps=3))
    tuned = tmp_path / "first" / "model"
    assert adapted_config(tuned).stream.reset == 1
    assert adapted_config(tuned, reset=0.25).stream.reset == 0.25
    assert adapted_config("small-en").stream.reset == adapted_config("small-ko").stream.reset == 1
    second = finetune(config_of(tuned, corpus, tmp_path / "second", max_steps=3))
    assert second.before.mean == pytest.approx(first.best.mean)
    text = read(tuned).training["text"]
    assert read(tuned).training["base_model"] == "with_softmax"
    record = read(tmp_path / "second").training
    assert (record["base_model"], record["base_text"]) == ("first", text)
    assert record["heldout_perplexity"]


def test_finetune_rejects_a_model_whose_state_reset_fraction_is_not_a_number(with_softmax, corpus):
    model = dataclasses.replace(read(with_softmax), training={"reset_share": "half"})
    with pytest.raises(FormatError, match="reset_share in the training record is 'half'"):
        finetune_job(config_of(with_softmax, corpus, ""), model, Corpus.open(corpus))


def test_record_of_a_fine_tuned_model_has_the_name_and_not_the_path_of_the_base(
    with_softmax, corpus, monkeypatch
):
    monkeypatch.chdir(with_softmax)
    for name, expected in [(".", "with_softmax"), ("small-en", "small-en")]:
        job = finetune_job(config_of(name, corpus, ""), read(name), Corpus.open(corpus))
        assert job.model.training["base_model"] == expected
        # Scores of the base model do not hold for the fine-tuned model.
        assert "heldout_perplexity" not in job.model.training


def test_fine_tuned_model_keeps_license_and_origin_of_its_base(corpus):
    job = finetune_job(config_of("small-en", corpus, ""), read("small-en"), Corpus.open(corpus))
    assert job.model.attribution["license"] == "cc-by-sa-3.0"
    assert job.model.attribution["derived_from"] == "small-en"


def test_new_words_are_added_and_share_one_row(with_softmax, corpus, tmp_path):
    old, text = read(with_softmax), Corpus.open(corpus)
    job = finetune_job(config_of(with_softmax, corpus, tmp_path / "out"), old, text)
    words = job.model.vocabulary.words
    assert list(words[: len(KNOWN)]) == KNOWN
    assert set(words) > {"bert", "trees", "and"}
    assert len(set(words)) == len(words)
    weight, bias = (job.model.weights[f"softmax.{name}"] for name in ("weight", "bias"))
    known = [number for number in range(len(KNOWN)) if number != 2]
    assert torch.equal(weight[known], old.weights["softmax.weight"][known])
    assert torch.equal(bias[known], old.weights["softmax.bias"][known])
    assert torch.equal(weight[len(KNOWN) :], weight[2].expand(len(words) - len(KNOWN), -1))
    counts = torch.from_numpy(text.vocabulary_counts(job.model.vocabulary)).double() + 0.5
    shares = (bias.double() - counts.log())[[2, *range(len(KNOWN), len(words))]]
    assert shares.max() - shares.min() < 1e-4
    unchanged = finetune_job(
        config_of(with_softmax, corpus, tmp_path / "out", new_words=0), old, text
    )
    assert list(unchanged.model.vocabulary.words) == KNOWN
    assert torch.equal(unchanged.model.weights["softmax.bias"], old.weights["softmax.bias"])


def test_new_words_are_likely_even_if_the_model_never_saw_unknown_words(
    with_softmax, corpus, tmp_path
):
    """A model without unknown words in its text makes <UNK> almost impossible."""
    model = read(with_softmax)
    model.weights["softmax.bias"][2] = -30.0
    model_folder.write(model, tmp_path / "never")
    result = finetune(config_of(tmp_path / "never", corpus, tmp_path / "tuned", max_steps=1))
    n_words = len(read(tmp_path / "tuned").vocabulary)
    assert result.before.mean < 2 * n_words


def test_only_the_new_softmax_is_trained_in_the_first_steps(without_softmax, corpus, tmp_path):
    config = config_of(without_softmax, corpus, tmp_path / "tuned", softmax_steps=12)
    result = finetune(config)
    assert result.best.mean < result.before.mean < 16
    events = [e["step"] for e in read_log(tmp_path / "tuned") if e["kind"] == "evaluation"]
    assert 12 in events
    softmax_only = finetune(
        config_of(without_softmax, corpus, tmp_path / "only", softmax_steps=12, max_steps=12)
    )
    assert softmax_only.step == 12
    old, new = read(without_softmax).weights, read(tmp_path / "only").weights
    assert all(torch.equal(new[name], value) for name, value in old.items())
    assert evaluate(EvaluateConfig((str(tmp_path / "text.txt"),), str(tmp_path / "only")))


def test_model_without_softmax_can_be_evaluated_after_finetuning(without_softmax, corpus, tmp_path):
    text = (str(tmp_path / "valid.txt"),)
    with pytest.raises(ConfigError, match="finetune"):
        evaluate(EvaluateConfig(text, str(without_softmax)))
    finetune(config_of(without_softmax, corpus, tmp_path / "tuned"))
    assert evaluate(EvaluateConfig(text, str(tmp_path / "tuned"))).perplexity.mean < 30


def test_finetune_uses_the_tokenizer_saved_in_the_model(tmp_path):
    model = random_model(scale=1.0).with_tokenizer("english")
    model_folder.write(model, tmp_path / "model")
    text = write_text(tmp_path / "text.txt")
    text.write_text(text.read_text().replace(" .", "."), encoding="utf-8")
    finetune(config_of(tmp_path / "model", text, tmp_path / "tuned", max_steps=3))
    words = Corpus.open(tmp_path / "tuned" / "corpus").vocabulary.ids
    assert "." in words
    assert "cats" in words
    assert read(tmp_path / "tuned").config.text.tokenizer == "english"


def prepared_with(tmp_path, reading):
    """Prepare a corpus and return its path."""
    text = write_text(tmp_path / "text.txt")
    options = CorpusConfig(reading, workers=1)
    prepare(PrepareConfig((str(text),), str(tmp_path / "corpus"), corpus=options))
    return tmp_path / "corpus"


def test_finetune_rejects_text_that_is_split_with_another_tokenizer(tmp_path, monkeypatch, caplog):
    model_folder.write(random_model(scale=1.0).with_tokenizer("english"), tmp_path / "model")
    corpus = prepared_with(tmp_path, ReadingConfig("whitespace"))
    config = config_of(tmp_path / "model", corpus, tmp_path / "tuned", max_steps=1)
    message = "tokenizer whitespace, but the model was trained on words of the tokenizer english"
    with pytest.raises(ConfigError, match=rf"{message}. Prepare .* with --tokenizer english; add"):
        finetune(config)
    text = config_of(
        tmp_path / "model", tmp_path / "text.txt", tmp_path / "tuned", tokenizer="whitespace"
    )
    with pytest.raises(ConfigError, match=rf"{message}. Omit --tokenizer; add --pretokenized"):
        finetune(text)
    assert not (tmp_path / "tuned").exists()
    # Runs of earlier versions, which only printed a warning, are resumed.
    with monkeypatch.context() as patch:
        patch.setattr(finetune_model, "_check_tokenizer", lambda *_: None)
        finetune(config)
    assert message not in caplog.text
    finetune(config)
    assert message in caplog.text


def test_finetune_accepts_tokenized_text_that_names_the_tokenizer_of_the_model(tmp_path):
    model_folder.write(random_model(scale=1.0).with_tokenizer("english"), tmp_path / "model")
    corpus = prepared_with(tmp_path, ReadingConfig("english", pretokenized=True))
    assert finetune(config_of(tmp_path / "model", corpus, tmp_path / "tuned", max_steps=1)).step


def test_finetuned_model_without_tokenizer_records_that_of_the_corpus(without_softmax, tmp_path):
    assert read(without_softmax).config.text.tokenizer is None
    for name, expected in (("english", "english"), (None, "whitespace")):
        folder = tmp_path / str(name)
        folder.mkdir()
        corpus = Corpus.open(prepared_with(folder, ReadingConfig(name)))
        job = finetune_job(config_of(without_softmax, "", ""), read(without_softmax), corpus)
        assert job.model.config.text.tokenizer == expected


def test_finetune_rejects_a_model_with_softmax_but_no_vocabulary(tmp_path, corpus):
    config = dataclasses.replace(TINY, n_softmax_words=4)
    model_folder.write(random_model(config), tmp_path / "model")
    with pytest.raises(ConfigError, match="--old-vocab"):
        finetune(config_of(tmp_path / "model", corpus, tmp_path / "tuned"))


def test_finetune_uses_softmax_and_accumulators_of_a_bilm_tf_checkpoint(
    golden_path, tmp_path, caplog
):
    """New words start with the initial value of the Adagrad accumulator."""
    folder = golden_path("generated/bilm-tf")
    golden = np.load(folder / "checkpoint_all_variables.npz")
    accumulators = read_accumulators(folder / "checkpoint")
    assert np.array_equal(accumulators["softmax.weight"], golden["lm/softmax/W/Adagrad"])
    text = golden_path("bilm-tf/train/data.txt")
    extra = tmp_path / "text.txt"
    extra.write_text(text.read_text(encoding="utf-8") + "\nbrand-new words brand-new words\n" * 2)
    prepare(PrepareConfig((str(extra),), str(tmp_path / "corpus"), (str(text),)))
    config = config_of(
        folder / "checkpoint",
        tmp_path / "corpus",
        tmp_path / "tuned",
        old_vocab=str(golden_path("bilm-tf/train/vocab.txt")),
        batch_size=2,
    )
    config = dataclasses.replace(config, optimizer=DEFAULT_OPTIMIZER)
    job = finetune_job(
        config, read(config.model, vocab=config.old_vocab), Corpus.open(tmp_path / "corpus")
    )
    assert job.config.optimizer.optimizer == "adagrad"
    assert job.accumulators["softmax.weight"].shape == job.model.weights["softmax.weight"].shape
    assert (job.accumulators["softmax.weight"][32:] == 1).all()
    result = finetune(config)
    assert result.best.mean < result.before.mean < 25
    assert "Adagrad accumulators" in caplog.text


@pytest.mark.parametrize("name", ["allennlp/elmo", "generated/elmoformanylangs/tiny.model"])
def test_finetune_accepts_models_in_published_formats(golden_path, tmp_path, corpus, name):
    config = config_of(golden_path(name), corpus, tmp_path / "tuned", max_steps=6, softmax_steps=3)
    result = finetune(config)
    assert result.step == 6
    loaded = ELMo.from_pretrained(tmp_path / "tuned")
    assert np.isfinite(loaded.encode("anna sees cats")).all()


def test_resumed_finetuning_still_reports_the_first_evaluation(with_softmax, corpus, tmp_path):
    whole = finetune(config_of(with_softmax, corpus, tmp_path / "whole", max_steps=20))
    finetune(config_of(with_softmax, corpus, tmp_path / "parts", max_steps=10))
    lines = (tmp_path / "parts" / "log.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["step"] == 0
    parts = finetune(config_of(with_softmax, corpus, tmp_path / "parts", max_steps=20))
    assert parts.before == whole.before


def test_default_warmup_is_at_most_a_tenth_of_the_run(without_softmax, corpus):
    text = Corpus.open(corpus)

    def warmup(text=text, **flags):
        config = config_of(without_softmax, corpus, "", **flags)
        return finetune_job(config, read(without_softmax), text).config.optimizer.warmup_steps

    assert warmup(epochs=1e6, warmup_steps=None, max_steps=24) == 2
    assert warmup(epochs=1e6, warmup_steps=None, max_steps=20_000) == 100
    assert warmup(epochs=1e6, warmup_steps=50, max_steps=24) == 50
    # A dry run reads only a sample of the text.
    sample = dataclasses.replace(text, whole_text=WholeText(scale=2.0, n_vocabulary=20))
    lengths = [warmup(t, epochs=5, warmup_steps=None, max_steps=None) for t in (text, sample)]
    assert 0 < lengths[0] < 50
    assert lengths[1] == pytest.approx(2 * lengths[0], abs=1)


@pytest.mark.parametrize("recorded", [2, 100])
def test_resumed_run_keeps_its_warmup(with_softmax, corpus, tmp_path, recorded):
    """Earlier versions recorded 100, whatever the length of the run."""
    out = tmp_path / "tuned"
    finetune(config_of(with_softmax, corpus, out, warmup_steps=recorded, max_steps=5))
    again = config_of(with_softmax, corpus, out, warmup_steps=None, max_steps=25)
    finetune(again)
    assert recorded_config(out, FinetuneConfig).optimizer.warmup_steps == recorded
    rates = [event["learning_rate"] for event in read_log(out) if event["kind"] == "step"]
    assert max(rates) == pytest.approx(0.01 * 25 / 100 if recorded == 100 else 0.01)


def test_optimizer_options_override_those_of_a_bilm_tf_checkpoint(
    golden_path, tmp_path, corpus, caplog
):
    model = golden_path("generated/bilm-tf/checkpoint")
    vocab = golden_path("bilm-tf/train/vocab.txt")
    pretrained = read(model, vocab=vocab)
    text = Corpus.open(corpus)
    adagrad = config_of(model, corpus, tmp_path / "out", optimizer="adagrad", learning_rate=0.01)
    job = finetune_job(adagrad, pretrained, text)
    assert job.config.optimizer == adagrad.optimizer
    assert job.accumulators is not None
    adamw = config_of(model, corpus, tmp_path / "out", optimizer="adamw", learning_rate=0.02)
    job = finetune_job(adamw, pretrained, text)
    assert job.config.optimizer.learning_rate == 0.02
    assert job.accumulators is None
    assert "not used" in caplog.text


@pytest.mark.parametrize("tied", [True, False])
def test_new_words_are_added_to_the_input_embeddings(tmp_path, corpus, tied, caplog):
    encoder = EncoderConfig(n_characters=0, n_words=len(KNOWN) + 1, word_dim=8, project=False)
    config = dataclasses.replace(
        TINY,
        text=TextConfig(characters="none"),
        encoder=encoder,
        n_softmax_words=len(KNOWN),
    )
    vocabulary = Vocabulary(KNOWN)
    model = random_model(config, scale=1.0, vocabulary=vocabulary, words=vocabulary.ids)
    weights = {**model.weights}
    weights["softmax.weight"] = weights["bilm.encoder.words.weight"][1:].clone()
    model_folder.write(dataclasses.replace(model, weights=weights), tmp_path / "words")
    result = finetune(config_of(tmp_path / "words", corpus, tmp_path / "tuned", tied=tied))
    assert result.best.mean < result.before.mean
    tuned = read(tmp_path / "tuned")
    assert tuned.config.encoder.n_words == tuned.config.n_softmax_words + 1
    assert set(tuned.words) == set(tuned.vocabulary.words) > {"bert"}
    same = torch.equal(
        tuned.weights["softmax.weight"], tuned.weights["bilm.encoder.words.weight"][1:]
    )
    assert same == tied
    assert ("Without --tied" in caplog.text) != tied


def test_finetune_rejects_adaptive_softmax_for_a_model_with_full_softmax(
    with_softmax, corpus, tmp_path
):
    with pytest.raises(ConfigError, match="full softmax"):
        finetune(config_of(with_softmax, corpus, tmp_path / "tuned", softmax="adaptive"))
