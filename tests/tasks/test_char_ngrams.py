"""Character n-grams of texts, and their vote."""

import dataclasses
import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_tasks import LABELED, make_fitted_task, task_config, write_jsonl

from elmo.errors import ConfigError
from elmo.tasks.char_ngrams import LENGTH, NgramBags, NgramClassifier
from elmo.tasks.fit import fit_once
from elmo.tasks.fitted_task import load_fitted_task
from elmo.tasks.heads.label_heads import ClassificationHead
from elmo.tasks.packed_batch import PackedBatch
from elmo.tasks.task_model import EncodedTexts

N_ROWS = 2**18
WORD = st.text("ab나라𝔸 ", min_size=1, max_size=5)
TEXTS = st.lists(st.lists(WORD, max_size=4).map(tuple), min_size=1, max_size=5)


def slowly(text, longest):
    spelled = f" {' '.join(text)} "
    return [
        spelled[at : at + n] for n in range(1, longest + 1) for at in range(len(spelled) - n + 1)
    ]


def weights_of(bags):
    """Give the weights of each text by their rows."""
    ends = [*bags.starts[1:].tolist(), len(bags.rows)]
    return [
        dict(zip(bags.rows[a:b].tolist(), bags.weights[a:b].tolist(), strict=True))
        for a, b in zip(bags.starts.tolist(), ends, strict=True)
    ]


@given(TEXTS, st.integers(1, 4))
def test_bags_are_those_of_a_slow_count(texts, longest):
    bags = NgramBags.from_texts(texts, longest, N_ROWS)
    assert bags.rows.min() >= 0
    assert bags.rows.max() < N_ROWS
    for text, found in zip(texts, weights_of(bags), strict=True):
        times = Counter(slowly(text, longest))
        # Few n-grams hardly ever share a row; where two do, there is nothing to compare.
        if len(found) == len(times):
            expected = torch.tensor([1 + math.log(n) for n in times.values()])
            expected *= LENGTH / expected.norm()
            assert sorted(found.values()) == pytest.approx(sorted(expected.tolist()))
        else:
            assert len(found) == len(times) - 1


def test_an_n_gram_has_one_row_wherever_it_stands():
    first, second = weights_of(NgramBags.from_texts([("x", "abc"), ("abc", "y", "z")], 3, N_ROWS))
    known = {gram for text in (("x", "abc"), ("abc", "y", "z")) for gram in slowly(text, 3)}
    both = set(slowly(("x", "abc"), 3)) & set(slowly(("abc", "y", "z"), 3))
    assert len(first.keys() & second.keys()) == len(both)
    assert len(first.keys() | second.keys()) == len(known)


@given(TEXTS)
def test_a_bag_does_not_depend_on_the_texts_beside_it(texts):
    together = weights_of(NgramBags.from_texts(texts, 3, N_ROWS))
    assert together == [weights_of(NgramBags.from_texts([text], 3, N_ROWS))[0] for text in texts]


def test_a_bag_has_a_fixed_length_whatever_comes_again():
    bags = NgramBags.from_texts([("a",), ("a", "long", "text"), ("ha" * 500,), ()], 3, N_ROWS)
    vectors = torch.zeros(4, N_ROWS)
    for vector, rows in zip(vectors, weights_of(bags), strict=True):
        for row, weight in rows.items():
            vector[row] += weight
    torch.testing.assert_close(vectors.norm(dim=1), torch.full((4,), LENGTH))


def test_both_learn_by_themselves_and_answer_together():
    torch.manual_seed(0)
    head = ClassificationHead(dim=6, n_labels=3, dropout=0.0, ngram_buckets=50)
    torch.nn.init.normal_(head.vote.table)
    alone = ClassificationHead(dim=6, n_labels=3, dropout=0.0)
    alone.load_state_dict(head.state_dict(), strict=False)
    vote = NgramClassifier(3, 50)
    vote.load_state_dict(head.vote.state_dict())
    bags = NgramBags.from_texts([("a", "b"), ("c",)], 3, 50)
    x, targets = torch.randn(2, 2, 6), torch.tensor([2, 0])
    texts = EncodedTexts(x, PackedBatch.from_lengths([2, 1]), bags)
    loss = head.loss([texts], targets)
    one = alone.loss([EncodedTexts(x, texts.layout)], targets)
    other = torch.nn.functional.cross_entropy(vote(bags), targets)
    torch.testing.assert_close(loss, one + other)
    loss.backward()
    one.backward()
    other.backward()
    torch.testing.assert_close(head.out.weight.grad, alone.out.weight.grad)
    torch.testing.assert_close(head.vote.table.grad, vote.table.grad)
    both = [torch.tensor(alone.predict([texts])), vote(bags).softmax(dim=1)]
    mean = torch.stack(both).log().mean(dim=0).exp()
    expected = mean / mean.sum(dim=1, keepdim=True)
    torch.testing.assert_close(torch.tensor(head.predict([texts])), expected)


def test_a_vote_is_learned_kept_and_the_same_in_any_company(tmp_path):
    write_jsonl(tmp_path / "train.jsonl", LABELED)
    config = task_config(tmp_path / "run", train=str(tmp_path / "train.jsonl"), max_steps=3)
    config = dataclasses.replace(
        config, body=dataclasses.replace(config.encoder, char_ngrams=3, ngram_buckets=70)
    )
    trained = fit_once(config)
    table = trained.built.model.head.vote.table
    assert table.shape == (70, 2)
    assert table.abs().max() > 0
    again = load_fitted_task(tmp_path / "run" / "model")
    assert torch.equal(again.built.model.head.vote.table, table)
    together = again.predict(LABELED)
    for example, answer in zip(LABELED, together, strict=True):
        (alone,) = again.predict([example])
        assert alone.probabilities == pytest.approx(answer.probabilities, abs=1e-6)


def test_without_n_grams_there_is_no_vote(tmp_path):
    assert make_fitted_task(tmp_path).built.model.head.vote is None


@pytest.mark.parametrize("char_ngrams", [-1, 9])
def test_n_grams_that_cannot_be(tmp_path, char_ngrams):
    with pytest.raises(
        ConfigError, match=f"char_ngrams is {char_ngrams}; 0 to 8 characters are meant"
    ):
        task_config(tmp_path, char_ngrams=char_ngrams)


@pytest.mark.parametrize("rows", [0, 2**24 + 1])
def test_tables_that_cannot_be(tmp_path, rows):
    with pytest.raises(
        ConfigError, match=f"ngram_buckets is {rows}; 1 to 16,777,216 rows are meant"
    ):
        task_config(tmp_path, ngram_buckets=rows)


def test_only_labels_are_voted_for(tmp_path):
    with pytest.raises(ConfigError, match="char_ngrams is 3, but in tagging no n-grams vote"):
        task_config(tmp_path, task="tagging", char_ngrams=3)
