"""Tests for training spaCy components on ELMo vectors."""

from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from spacy.cli.init_config import fill_config
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab
from thinc.api import Adam

from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError
from elmo.integrations import shared_elmo
from elmo.integrations.spacy_tok2vec import elmo_tok2vec

# The tag of "bank" depends on the word before it.
SENTENCES = [
    (f"{who} {verb} the bank".split(), ["PRON", tag, "DET", f"{tag}-NOUN"])
    for who in ("he", "she", "it", "who", "they")
    for verb, tag in (("sees", "V"), ("near", "P"), ("robs", "V"), ("by", "P"))
]
# The config of the docs, for few steps.
PAGE = (Path(__file__).parents[2] / "docs" / "spacy.md").read_text(encoding="utf-8")
CONFIG = PAGE.split("```ini\n")[1].split("```")[0]
FEW_STEPS = {
    "training.max_steps": 60,
    "training.eval_frequency": 30,
    "training.optimizer.learn_rate": 0.02,
}


@pytest.fixture
def docs():
    vocab = spacy.blank("en").vocab
    return [Doc(vocab, words=words, tags=tags) for words, tags in SENTENCES]


@pytest.mark.parametrize("trainable", [False, True])
def test_spacy_train_learns_a_tagger(docs, tiny_folder, tmp_path, trainable, capsys):
    model, width = (str(tiny_folder), 16) if trainable else ("small-en", 512)
    DocBin(docs=docs).to_disk(tmp_path / "train.spacy")
    (tmp_path / "base.cfg").write_text(CONFIG, encoding="utf-8")
    fill_config(tmp_path / "config.cfg", tmp_path / "base.cfg")
    overrides = {
        **FEW_STEPS,
        "paths.train": str(tmp_path / "train.spacy"),
        "paths.dev": str(tmp_path / "train.spacy"),
        "components.tok2vec.model.model": model,
        "components.tagger.model.tok2vec.width": width,
        "components.tok2vec.model.trainable": trainable,
    }
    train(tmp_path / "config.cfg", tmp_path / "out", overrides=overrides)
    assert "LOSS TAGGER" in capsys.readouterr().out
    nlp = spacy.load(tmp_path / "out" / "model-best")
    for words, tags in SENTENCES:
        doc = nlp(Doc(nlp.vocab, words=words))
        assert [token.tag_ for token in doc] == tags
    frozen = ELMo.from_pretrained(model).encode([SENTENCES[0][0]])[0]
    difference = abs(nlp(docs[0].copy()).tensor - frozen).max()
    weights = (tmp_path / "out" / "model-best" / "tok2vec" / "model").stat().st_size
    if trainable:
        assert difference > 0.01
        assert weights > 10_000
    else:
        assert difference < 1e-6
        assert weights < 1_000


@pytest.mark.parametrize("trainable", [False, True])
def test_vectors_of_all_tokens_equal_those_of_encode(tiny_folder, trainable):
    nlp = spacy.blank("en")
    docs = [nlp(text) for text in ("", "a  b c", "  ", "d")]
    layer = elmo_tok2vec(str(tiny_folder), trainable=trainable)
    vectors = layer.predict(docs)
    assert [rows.shape for rows in vectors] == [(len(doc), 16) for doc in docs]
    words = [token.i for token in docs[1] if not token.is_space]
    expected = ELMo.from_pretrained(tiny_folder).encode([["a", "b", "c"]])[0]
    np.testing.assert_allclose(vectors[1][words], expected, atol=1e-6)
    assert not vectors[2].any()
    assert [rows.shape for rows in layer.predict(docs[:1])] == [(0, 16)]


def test_prediction_uses_the_weights_of_the_last_update(tiny_folder):
    nlp = spacy.blank("en")
    docs = [nlp("a b c"), nlp("d")]
    layer = elmo_tok2vec(str(tiny_folder), trainable=True)
    optimizer = Adam(0.1)
    before = layer.predict(docs)
    vectors, backprop = layer.begin_update(docs)
    backprop([np.ones_like(rows) for rows in vectors])
    layer.finish_update(optimizer)
    after = layer.predict(docs)
    assert abs(after[0] - before[0]).max() > 0.01
    copy = elmo_tok2vec(str(tiny_folder), trainable=True).from_bytes(layer.to_bytes())
    np.testing.assert_allclose(copy.predict(docs)[0], after[0], atol=1e-6)


def test_invalid_layers_are_rejected(tiny_folder):
    with pytest.raises(ConfigError, match="Choose one layer"):
        elmo_tok2vec(str(tiny_folder), layers="all")
    with pytest.raises(ConfigError, match=r"layers is 'top', .*trainable"):
        elmo_tok2vec(str(tiny_folder), layers="top", trainable=True)


def test_trainable_model_uses_one_thread_in_a_forked_process(tiny_folder, monkeypatch):
    """OpenMP hangs in forked processes, such as those of `nlp.pipe(..., n_process=2)`."""
    layer = elmo_tok2vec(str(tiny_folder), trainable=True)
    n_threads = torch.get_num_threads()
    monkeypatch.setattr(shared_elmo._Process, "is_new_fork", True)
    try:
        torch.set_num_threads(2)
        layer.predict([Doc(Vocab(), words=["the", "cat"])])
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(n_threads)
