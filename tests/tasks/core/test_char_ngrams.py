"""Tests of bags of character n-grams and the n-gram classifier."""

import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_tasks import LABELED, make_fitted_task, task_config, write_jsonl

from elmo.errors import ConfigError
from elmo.tasks.classification.classification_head import ClassificationHead
from elmo.tasks.core.char_ngrams import LENGTH, NgramBags, NgramClassifier
from elmo.tasks.core.loaded_elmo import load_elmo
from elmo.tasks.core.packed_batch import PackedBatch
from elmo.tasks.core.task_model import EncodedTexts
from elmo.tasks.fitted.load_fitted import load_fitted_task
from elmo.tasks.training.fit import fit_once

N_BUCKETS = 2**18
WORD = st.text("ab나라𝔸 ", min_size=1, max_size=5)
TEXTS = st.lists(st.lists(WORD, max_size=4).map(tuple), min_size=1, max_size=5)


def list_ngrams(text, max_ngram):
    """Return all character n-grams of a text, computed with a simple loop."""
    joined = f" {' '.join(text)} "
    return [
        joined[start : start + n]
        for n in range(1, max_ngram + 1)
        for start in range(len(joined) - n + 1)
    ]


def weights_of(bags):
    """Return the n-gram weights of each text by hash bucket."""
    ends = [*bags.starts[1:].tolist(), len(bags.rows)]
    return [
        dict(zip(bags.rows[a:b].tolist(), bags.weights[a:b].tolist(), strict=True))
        for a, b in zip(bags.starts.tolist(), ends, strict=True)
    ]


@given(TEXTS, st.integers(1, 4))
def test_ngram_bags_match_a_simple_count(texts, max_ngram):
    bags = NgramBags.from_texts(texts, max_ngram, N_BUCKETS)
    assert bags.rows.min() >= 0
    assert bags.rows.max() < N_BUCKETS
    for text, weights in zip(texts, weights_of(bags), strict=True):
        counts = Counter(list_ngrams(text, max_ngram))
        # Hash collisions are rare with few n-grams; texts with a collision cannot be compared.
        if len(weights) == len(counts):
            expected = torch.tensor([1 + math.log(n) for n in counts.values()])
            expected *= LENGTH / expected.norm()
            assert sorted(weights.values()) == pytest.approx(sorted(expected.tolist()))
        else:
            assert len(weights) == len(counts) - 1


def test_ngram_has_same_bucket_in_all_texts():
    first, second = weights_of(
        NgramBags.from_texts([("x", "abc"), ("abc", "y", "z")], 3, N_BUCKETS)
    )
    ngrams = [set(list_ngrams(text, 3)) for text in (("x", "abc"), ("abc", "y", "z"))]
    assert len(first.keys() & second.keys()) == len(ngrams[0] & ngrams[1])
    assert len(first.keys() | second.keys()) == len(ngrams[0] | ngrams[1])


@given(TEXTS)
def test_ngram_bag_does_not_depend_on_other_texts(texts):
    together = weights_of(NgramBags.from_texts(texts, 3, N_BUCKETS))
    assert together == [weights_of(NgramBags.from_texts([text], 3, N_BUCKETS))[0] for text in texts]


def test_ngram_bag_has_fixed_norm_for_repeated_ngrams():
    bags = NgramBags.from_texts([("a",), ("a", "long", "text"), ("ha" * 500,), ()], 3, N_BUCKETS)
    vectors = torch.zeros(4, N_BUCKETS)
    for vector, weights in zip(vectors, weights_of(bags), strict=True):
        for bucket, weight in weights.items():
            vector[bucket] += weight
    torch.testing.assert_close(vectors.norm(dim=1), torch.full((4,), LENGTH))


def test_head_adds_ngram_loss_and_averages_log_probabilities():
    torch.manual_seed(0)
    head = ClassificationHead(dim=6, n_labels=3, dropout=0.0, ngram_buckets=50)
    torch.nn.init.normal_(head.vote.table)
    alone = ClassificationHead(dim=6, n_labels=3, dropout=0.0)
    alone.load_state_dict(head.state_dict(), strict=False)
    classifier = NgramClassifier(3, 50)
    classifier.load_state_dict(head.vote.state_dict())
    bags = NgramBags.from_texts([("a", "b"), ("c",)], 3, 50)
    x, targets = torch.randn(2, 2, 6), torch.tensor([2, 0])
    texts = EncodedTexts(x, PackedBatch.from_lengths([2, 1]), bags)
    loss = head.loss([texts], targets)
    alone_loss = alone.loss([EncodedTexts(x, texts.layout)], targets)
    ngram_loss = torch.nn.functional.cross_entropy(classifier(bags), targets)
    torch.testing.assert_close(loss, alone_loss + ngram_loss)
    loss.backward()
    alone_loss.backward()
    ngram_loss.backward()
    torch.testing.assert_close(head.out.weight.grad, alone.out.weight.grad)
    torch.testing.assert_close(head.vote.table.grad, classifier.table.grad)
    both = [torch.tensor(alone.predict([texts])), classifier(bags).softmax(dim=1)]
    mean = torch.stack(both).log().mean(dim=0).exp()
    expected = mean / mean.sum(dim=1, keepdim=True)
    torch.testing.assert_close(torch.tensor(head.predict([texts])), expected)


def test_ngram_classifier_is_trained_and_saved_and_does_not_depend_on_batch(tmp_path):
    write_jsonl(tmp_path / "train.jsonl", LABELED)
    train = str(tmp_path / "train.jsonl")
    settings = {"max_steps": 3, "char_ngrams": 3, "ngram_buckets": 70}
    config = task_config(tmp_path / "run", train=train, **settings)
    fitted = fit_once(config, load_elmo(config.elmo))
    table = fitted.built.model.head.vote.table
    assert table.shape == (70, 2)
    assert table.abs().max() > 0
    loaded = load_fitted_task(tmp_path / "run" / "model")
    assert torch.equal(loaded.built.model.head.vote.table, table)
    predictions = loaded.predict(LABELED)
    for example, prediction in zip(LABELED, predictions, strict=True):
        (alone,) = loaded.predict([example])
        assert alone.probabilities == pytest.approx(prediction.probabilities, abs=1e-6)


def test_model_without_ngrams_has_no_ngram_classifier(tmp_path):
    assert make_fitted_task(tmp_path).built.model.head.vote is None


@pytest.mark.parametrize("char_ngrams", [-1, 9])
def test_config_rejects_invalid_ngram_length(tmp_path, char_ngrams):
    with pytest.raises(ConfigError, match="char_ngrams must be from 0 to 8"):
        task_config(tmp_path, char_ngrams=char_ngrams)


@pytest.mark.parametrize("n_buckets", [0, 2**24 + 1])
def test_config_rejects_invalid_number_of_ngram_buckets(tmp_path, n_buckets):
    with pytest.raises(ConfigError, match="ngram_buckets must be from 1 to 16,777,216"):
        task_config(tmp_path, ngram_buckets=n_buckets)


def test_config_rejects_ngrams_unless_task_is_classification(tmp_path):
    with pytest.raises(ConfigError, match="unknown option char_ngrams"):
        task_config(tmp_path, task="tagging", char_ngrams=3)
