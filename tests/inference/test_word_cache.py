"""Tests of `WordCache`, which caches context-independent word vectors between calls."""

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


def assert_close(actual, expected):
    for ours, true in zip(actual, expected, strict=True):
        np.testing.assert_allclose(ours, true, rtol=0, atol=1e-6)


def test_word_cache_computes_each_word_once_without_changing_vectors(model):
    cache, expected = WordCache(), model.encode(SENTENCES)
    assert_close(model.encode(SENTENCES, cache=cache), expected)
    assert (cache.n_computed, cache.n_found, len(cache)) == (4, 0, 4)
    assert_close(model.encode(SENTENCES, cache=cache), expected)
    assert (cache.n_computed, cache.n_found) == (4, 4)
    assert_close([model.encode("the bird", cache=cache)], [model.encode("the bird")])
    assert cache.n_computed == 5


def test_encode_accepts_empty_sentences_with_word_cache_and_rejects_other_caches(model):
    assert model.encode([[], []], cache=WordCache())[0].shape == (0, model.config.dim)
    with pytest.raises(ConfigError, match=r"cache must be a WordCache \(got True\)"):
        model.encode(SENTENCES, cache=True)


def test_word_cache_evicts_the_least_recently_used_word(model):
    cache = WordCache(max_words=3)
    for sentence in (["a", "b", "c"], ["a", "d"], ["b"], ["a", "b", "d"]):
        assert_close(model.encode([sentence], cache=cache), model.encode([sentence]))
        assert len(cache) <= 3
    # b was evicted for d, and then c for b.
    assert cache.n_computed == 5
    many = [[f"word{number}" for number in range(9)] + ["a"]]
    assert_close(model.encode(many, cache=cache), model.encode(many))
    assert len(cache) == 3
    # If a call has more words than slots, the first words are kept.
    before = cache.n_computed
    assert_close(model.encode(many, cache=cache), model.encode(many))
    assert cache.n_computed == before + 7


def test_word_cache_grows_beyond_its_initial_size(model):
    cache = WordCache()
    words = [[f"w{number}" for number in range(1500)]]
    expected = model.encode(words)
    assert_close(model.encode(words, cache=cache), expected)
    assert_close(model.encode(words, cache=cache), expected)
    assert cache.n_computed == 1500


def test_word_cache_is_cleared_when_precision_or_weights_change(model):
    cache = WordCache()
    model.encode(SENTENCES, cache=cache)
    model.encode(SENTENCES, cache=cache, precision="float64")
    assert cache.n_computed == 8
    with torch.no_grad():
        model.network.bilm.encoder.projection.weight.mul_(2)
    assert_close(model.encode(SENTENCES, cache=cache), model.encode(SENTENCES))


@pytest.mark.parametrize("precision", [None, "float64", "float16", "bfloat16"])
def test_enable_word_cache_works_in_each_precision(model, precision):
    expected = model.encode(SENTENCES, precision=precision)
    run = model.encoding_run(precision=precision)
    run.enable_word_cache()
    for _ in range(2):
        for ours, true in zip(run.encode(SENTENCES), expected, strict=True):
            np.testing.assert_allclose(ours, true, rtol=0, atol=1e-2)
    assert run.cache.n_computed == 4


def test_word_cache_rejects_a_different_model(model):
    cache = WordCache()
    model.encode(SENTENCES, cache=cache)
    other = ELMo(random_model(seed=1))
    with pytest.raises(ConfigError, match="belongs to another model"):
        other.encode(SENTENCES, cache=cache)


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "many"])
def test_word_cache_rejects_invalid_sizes(size):
    with pytest.raises(ConfigError, match="must be an integer of at least 1"):
        WordCache(max_words=size)


def test_word_cache_can_be_shared_between_threads(model):
    cache = WordCache(max_words=50)
    texts = [[[f"w{(number * step) % 61}" for number in range(30)]] for step in range(1, 9)]
    expected = [model.encode(text) for text in texts]
    errors = []

    def work(text, true):
        try:
            for _ in range(5):
                assert_close(model.encode(text, cache=cache), true)
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


def test_word_cache_works_with_a_carried_state(model):
    cache = WordCache()
    expected = model.encode(SENTENCES, state="carry", batch_size=2)
    assert_close(model.encode(SENTENCES, state="carry", batch_size=2, cache=cache), expected)


def test_word_cache_works_with_a_model_created_in_inference_mode():
    with torch.inference_mode():
        model = ELMo(random_model(scale=1.0))
    assert_close(model.encode(SENTENCES, cache=WordCache()), model.encode(SENTENCES))
