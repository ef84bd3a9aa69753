"""Tests of word scores, substitutes and similarity."""

import math

import numpy as np
import pytest
import torch
from conftest import TINY, random_model

from elmo.config import ModelConfig
from elmo.embed.embedder import ELMo
from elmo.errors import ConfigError
from elmo.inference.word_cache import WordCache
from elmo.lab.units.elmo_traces import ElmoUnits
from elmo.model.losses import log_expected_count
from elmo.semantics.substitutes import SubstituteQuery, find_substitutes
from elmo.semantics.word_scorer import WordScorer
from elmo.semantics.word_similarity import cosines_to_word, sentence_cosines
from elmo.text.vocabulary import Vocabulary

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "on", "mat", "dog", "."]
SENTENCES = [["the", "cat", "sat"], ["the", "zebra", "sat", "on", "the", "mat", "."], ["dog"]]


def model(cutoffs=(), **extra):
    config = ModelConfig(
        TINY.text, TINY.encoder, TINY.lstm, n_softmax_words=len(WORDS), softmax_cutoffs=cutoffs
    )
    return random_model(config, scale=1.5, vocabulary=Vocabulary(WORDS), **extra)


@pytest.fixture
def pretrained():
    return model()


@pytest.fixture
def scorer(pretrained):
    return WordScorer(ELMo(pretrained))


def test_forward_scores_match_surprisal_of_explorer(scorer, pretrained):
    lines = "\n".join(" ".join(words) for words in SENTENCES)
    units = ElmoUnits.load(pretrained, "cpu")
    bits = units.traces(lines, kinds=["hidden"], max_positions=100, n_guesses=1).surprisal
    scores = scorer.score(SENTENCES)
    nats = np.concatenate([[*item.forward, item.end] for item in scores])
    np.testing.assert_allclose(-nats / math.log(2), bits, rtol=1e-5)


def test_scores_do_not_depend_on_other_sentences_or_cache(scorer, pretrained):
    together = scorer.score(SENTENCES)
    cached = WordScorer(ELMo(pretrained), cache=WordCache())
    for words, expected in zip(SENTENCES, together, strict=True):
        (alone,) = cached.score([words])
        for name in ("forward", "backward", "end", "begin"):
            np.testing.assert_allclose(
                getattr(alone, name), getattr(expected, name), rtol=1e-5, atol=1e-6
            )


def test_backward_scores_read_the_words_after(scorer):
    first, second = scorer.score([["the", "cat", "sat"], ["dog", "cat", "sat"]])
    np.testing.assert_allclose(first.backward[1:], second.backward[1:], rtol=1e-5)
    assert abs(first.forward[1] - second.forward[1]) > 1e-3


def test_unknown_words_are_marked(scorer):
    assert scorer.score(SENTENCES)[1].is_known.tolist() == [True, False] + 5 * [True]


def test_empty_sentence_has_scores_of_its_boundaries_only(scorer):
    (scores,) = scorer.score([[]])
    assert scores.forward.shape == scores.backward.shape == (0,)
    assert scores.end < 0 and scores.begin < 0  # noqa: PT018
    assert scorer.score([]) == []


@pytest.mark.parametrize("cutoffs", [(), (4,)])
def test_probabilities_at_position_combine_both_directions(cutoffs):
    scorer = WordScorer(ELMo(model(cutoffs)))
    known = [word for word in WORDS if not word.startswith("<")]
    variants = [["the", word, "sat"] for word in known]
    frequency = log_expected_count(torch.arange(3, len(WORDS)), len(WORDS), 1)
    both = [item.forward[1] + item.backward[1] for item in scorer.score(variants)]
    expected = (torch.tensor(both) - frequency).softmax(0)
    (row,) = scorer.at_positions([["the", "cat", "sat"]], [[1]])
    np.testing.assert_allclose(row.exp()[3:], expected, rtol=1e-4)
    assert row[:3].exp().sum() == 0


def test_substitutes_are_sorted_without_the_word_itself(scorer):
    queries = [
        SubstituteQuery(SENTENCES[0], [0, 2], 3),
        SubstituteQuery(SENTENCES[2], [], 3),
        SubstituteQuery(SENTENCES[1], [1], 100),
    ]
    of_first, of_second, of_third = find_substitutes(scorer, queries)
    assert [len(item) for item in of_first] == [3, 3]
    assert of_second == []
    for position, found in zip([0, 2], of_first, strict=True):
        values = [item.probability for item in found]
        assert values == sorted(values, reverse=True)
        assert SENTENCES[0][position] not in {item.word for item in found}
    # "zebra" is not in the softmax, so all its words are candidates, without special tokens.
    assert {item.word for item in of_third[0]} == set(WORDS[3:])


def test_model_without_softmax_is_rejected(tiny):
    with pytest.raises(ConfigError, match="has no softmax"):
        WordScorer(tiny)


def test_softmax_shares_the_weights_of_the_model(pretrained):
    elmo = ELMo(pretrained)
    softmax = elmo.softmax()
    torch.testing.assert_close(softmax.weight, pretrained.weights["softmax.weight"])
    assert elmo.softmax().weight.data_ptr() == softmax.weight.data_ptr()
    assert not any("softmax" in name for name in elmo.state_dict())
    inside = ELMo(pretrained, include_softmax=True)
    assert inside.softmax() is inside.network.softmax


def test_cosines_compare_words_and_sentences():
    a = np.array([[1.0, 0.0], [0.0, 2.0]], dtype=np.float32)
    b = np.array([[3.0, 3.0]], dtype=np.float32)
    first, second = cosines_to_word([a, b], 0, 1)
    np.testing.assert_allclose(first, [0.0, 1.0])
    np.testing.assert_allclose(second, [0.5**0.5], rtol=1e-6)
    np.testing.assert_allclose(list(sentence_cosines(a)), np.eye(2))
