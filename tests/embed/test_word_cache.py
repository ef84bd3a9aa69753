"""Vectors of words that are kept between calls."""

import threading

import numpy as np
import pytest
import torch
from conftest import random_model

from elmo import WordCache
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError

SENTENCES = [["the", "cat", "sat"], ["the", "dog"], [], ["cat", "sat", "the"]]


@pytest.fixture
def model():
    return ELMo(random_model(scale=1.0))


def same(found, expected):
    for ours, true in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, true, rtol=0, atol=1e-6)


def test_the_same_vectors_and_each_word_once(model):
    cache, expected = WordCache(), model.encode(SENTENCES)
    same(model.encode(SENTENCES, cache=cache), expected)
    assert (cache.n_computed, cache.n_found, len(cache)) == (4, 0, 4)
    same(model.encode(SENTENCES, cache=cache), expected)
    assert (cache.n_computed, cache.n_found) == (4, 4)
    same([model.encode("the bird", cache=cache)], [model.encode("the bird")])
    assert cache.n_computed == 5


def test_empty_sentences(model):
    assert model.encode([[], []], cache=WordCache())[0].shape == (0, model.config.dim)
    with pytest.raises(ConfigError, match="cache is True; expected a WordCache"):
        model.encode(SENTENCES, cache=True)


def test_it_is_bounded(model):
    cache = WordCache(max_words=3)
    for sentence in (["a", "b", "c"], ["a", "d"], ["b"], ["a", "b", "d"]):
        same(model.encode([sentence], cache=cache), model.encode([sentence]))
        assert len(cache) <= 3
    # b had made room for d, then c for b.
    assert cache.n_computed == 5
    many = [[f"word{number}" for number in range(9)] + ["a"]]
    same(model.encode(many, cache=cache), model.encode(many))
    assert len(cache) == 3
    # Of more than there is room for the first ones are kept.
    before = cache.n_computed
    same(model.encode(many, cache=cache), model.encode(many))
    assert cache.n_computed == before + 7


def test_it_grows_beyond_its_first_room(model):
    cache = WordCache()
    words = [[f"w{number}" for number in range(1500)]]
    expected = model.encode(words)
    same(model.encode(words, cache=cache), expected)
    same(model.encode(words, cache=cache), expected)
    assert cache.n_computed == 1500


def test_another_arithmetic_and_changed_weights_are_new(model):
    cache = WordCache()
    model.encode(SENTENCES, cache=cache)
    model.encode(SENTENCES, cache=cache, precision="float64")
    assert cache.n_computed == 8
    with torch.no_grad():
        model.network.bilm.encoder.projection.weight.mul_(2)
    same(model.encode(SENTENCES, cache=cache), model.encode(SENTENCES))


@pytest.mark.parametrize("precision", [None, "float64", "float16", "bfloat16"])
def test_remembered_words_in_each_arithmetic(model, precision):
    expected = model.encode(SENTENCES, precision=precision)
    run = model.encoding_run(precision=precision)
    run.remember_words()
    for _ in range(2):
        for ours, true in zip(run.encode(SENTENCES), expected, strict=True):
            np.testing.assert_allclose(ours, true, rtol=0, atol=1e-2)
    assert run.cache.n_computed == 4


def test_another_model_is_refused(model):
    cache = WordCache()
    model.encode(SENTENCES, cache=cache)
    other = ELMo(random_model(seed=1))
    with pytest.raises(ConfigError, match="belongs to another model"):
        other.encode(SENTENCES, cache=cache)


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "many"])
def test_sizes_that_are_none(size):
    with pytest.raises(ConfigError, match="whole number"):
        WordCache(max_words=size)


def test_threads_share_it(model):
    cache = WordCache(max_words=50)
    texts = [[[f"w{(number * step) % 61}" for number in range(30)]] for step in range(1, 9)]
    expected = [model.encode(text) for text in texts]
    errors = []

    def work(text, true):
        try:
            for _ in range(5):
                same(model.encode(text, cache=cache), true)
        except Exception as error:
            errors.append(error)

    threads = [
        threading.Thread(target=work, args=pair) for pair in zip(texts, expected, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_a_carried_state(model):
    cache = WordCache()
    expected = model.encode(SENTENCES, state="carry", batch_size=2)
    same(model.encode(SENTENCES, state="carry", batch_size=2, cache=cache), expected)


def test_a_model_made_for_inference():
    with torch.inference_mode():
        model = ELMo(random_model(scale=1.0))
    same(model.encode(SENTENCES, cache=WordCache()), model.encode(SENTENCES))
