"""Test of a character language model that keeps white space, from text to vectors."""

import dataclasses
import math

import numpy as np
import pytest

from elmo import ELMo
from elmo.config import CorpusConfig, EvaluateConfig, PrepareConfig, PretrainConfig, ReadingConfig
from elmo.config.serialization import load_config, presets
from elmo.corpus.prepare_corpus import prepare
from elmo.evaluate.evaluate_model import evaluate
from elmo.formats.load import read
from elmo.train.pretrain_model import pretrain

LINES = [f"a  cat\tsat {'on ' * (number % 3)}mats ." for number in range(60)]


def test_character_model_that_keeps_white_space_is_trained_and_reloaded(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(LINES) + "\n")
    reading = ReadingConfig("characters-and-spaces")
    corpus = CorpusConfig(reading, held_out=0.2)
    prepared = prepare(PrepareConfig((str(text),), str(tmp_path / "corpus"), corpus=corpus))
    n_held_out = len("\n".join(LINES[48:])) + 1
    assert prepared.n_characters["valid"] == n_held_out

    values = {"data": [str(tmp_path / "corpus")], "out": str(tmp_path / "run"), "max_steps": 2}
    best = pretrain(load_config(PretrainConfig, "tiny", values, presets())).best
    assert best.n_characters == best.n_predictions == n_held_out
    assert best.values()["bits_per_character"] == pytest.approx(math.log2(best.mean))
    model = read(str(tmp_path / "run" / "model"))
    assert {" ", "\t", "a"} <= set(model.vocabulary.words)
    assert model.training["heldout_characters"] == str(n_held_out)

    elmo = ELMo.from_pretrained(str(tmp_path / "run" / "model"))
    elmo.save_pretrained(str(tmp_path / "again"))
    again = ELMo.from_pretrained(str(tmp_path / "again"))
    assert [token.text for token in again.tokenize(" a b")] == [" ", "a", " ", "b"]
    np.testing.assert_array_equal(again.encode(" a b"), elmo.encode([[" ", "a", " ", "b"]])[0])

    held_out = tmp_path / "valid.txt"
    held_out.write_text("\n".join(LINES[48:]))
    config = EvaluateConfig((str(held_out),), str(tmp_path / "again"), device="cpu")
    metrics = evaluate(config).perplexity
    assert metrics.n_unknown == 0
    assert metrics.values() == pytest.approx(best.values(), rel=1e-4)
    options = dataclasses.replace(config, text=(str(tmp_path / "corpus"),), split="valid")
    assert evaluate(options).perplexity.values() == pytest.approx(metrics.values(), rel=1e-4)
