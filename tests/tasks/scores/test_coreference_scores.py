"""MUC, B³ and CEAFe against hand-worked examples and their definitions."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.errors import InputError
from elmo.tasks.scores.coreference_scores import Fit, cluster_scores

# The key of the first examples of the official scorer: one thing named once, one twice, one thrice.
KEY = ["A", "BC", "DEF"]


def check(found, expected):
    """Compare (recall, precision) of MUC, B³ and CEAFe."""
    scores = cluster_scores([KEY], [found])
    fits = scores.muc, scores.b3, scores.ceafe
    for fit, (recall, precision) in zip(fits, expected, strict=True):
        assert (fit.recall, fit.precision) == pytest.approx((recall, precision))
        total = recall + precision
        assert fit.f1 == pytest.approx(2 * recall * precision / total if total else 0)
    assert scores.mean_f1 == pytest.approx(sum(fit.f1 for fit in fits) / 3)


def test_all_is_right():
    """A single mention of a thing has no link, and counts for B³ and CEAFe."""
    check(["DEF", "A", "CB"], [(1, 1)] * 3)
    assert cluster_scores([KEY], [KEY]).mentions == Fit(1, 1, 1)


def test_missing_mentions_and_clusters():
    """MUC: EF is 1 of 3 links. B³: (1 + 2/3 + 2/3) / 6. CEAFe: 1 + 2·2/5, of 3 and of 2."""
    check(["A", "EF"], [(1 / 3, 1), (7 / 18, 1), (1.8 / 3, 1.8 / 2)])


def test_spurious_mentions_and_clusters():
    """x and y join what is right, z stands alone.

    MUC: 3 of 2 + 3 links. B³: (1 + 2·2/3 + 3·3/4) / 9. CEAFe: 1 + 4/5 + 6/7, of 3 and of 4.
    """
    likeness = 1 + 4 / 5 + 6 / 7
    precision = (4 + 7 / 12) / 9
    check(["A", "BCx", "DEFy", "z"], [(1, 3 / 5), (1, precision), (likeness / 3, likeness / 4)])


def test_missing_and_spurious():
    """MUC: BC of 3 links and of 3. B³: (3 + 1/3) / 6, (1 + 4/3 + 1/2) / 7. CEAFe: 1 + .8 + .4."""
    b3 = ((3 + 1 / 3) / 6, (1 + 4 / 3 + 1 / 2) / 7)
    check(["A", "BCx", "Dy", "z"], [(1 / 3, 1 / 3), b3, (2.2 / 3, 2.2 / 4)])


def test_more_spurious_mentions():
    """MUC: BC of 3 links and of 4. B³: 1 + 2·2/4 + 1/2 of 8. CEAFe: 1 + 2/3 + .4."""
    likeness = 1 + 2 / 3 + 0.4
    b3 = ((3 + 1 / 3) / 6, 2.5 / 8)
    check(["A", "BCxw", "Dy", "z"], [(1 / 3, 1 / 4), b3, (likeness / 3, likeness / 4)])


def test_split_clusters():
    """MUC: 1 of 3 links. B³: 1 + 2·1/2 + 1/3 + 2·2/3, all of it precise. CEAFe: 1 + 2/3 + 4/5."""
    likeness = 1 + 2 / 3 + 4 / 5
    recall = (1 + 1 + 1 / 3 + 4 / 3) / 6
    check(["A", "B", "C", "D", "EF"], [(1 / 3, 1), (recall, 1), (likeness / 3, likeness / 5)])


def test_all_in_one_cluster():
    """MUC: 3 links of 5. B³: (1 + 2·2 + 3·3) / 6 of 6. CEAFe: the largest, 6/9."""
    check(["ABCDEF"], [(1, 3 / 5), (1, 14 / 36), (2 / 3 / 3, 2 / 3)])


def test_nothing_is_right():
    check(["xy"], [(0, 0)] * 3)
    check([], [(0, 0)] * 3)
    assert cluster_scores([[]], [[]]).mean_f1 == 0


def test_vilain():
    """The example of Vilain et al. (1995): key ABCD, answered AB and CD: recall 2/3."""
    scores = cluster_scores([["ABCD"]], [["AB", "CD"]])
    assert (scores.muc.recall, scores.muc.precision) == pytest.approx((2 / 3, 1))


def test_bagga_and_baldwin():
    """Their example: 12345, 67, 89ABC; two ways to join, which MUC does not tell apart."""
    key = ["12345", "67", "89ABC"]
    for found, precision in ((["12345", "6789ABC"], 16 / 21), (["1234589ABC", "67"], 7 / 12)):
        scores = cluster_scores([key], [found])
        assert (scores.muc.recall, scores.muc.precision) == pytest.approx((1, 9 / 10))
        assert (scores.b3.recall, scores.b3.precision) == pytest.approx((1, precision))


def test_documents_are_summed_before_they_are_divided():
    """MUC: 1 of 1 link and 0 of 3."""
    scores = cluster_scores([["AB"], ["ABCD"]], [["AB"], []])
    assert scores.muc.recall == 1 / 4
    assert scores.b3.recall == 2 / 6
    assert scores.ceafe.recall == 1 / 2
    assert scores.n == 2
    # The same mention in another document is another one.
    assert cluster_scores([["AB"], ["CD"]], [["CD"], ["AB"]]).b3.f1 == 0


def test_what_does_not_fit():
    with pytest.raises(InputError, match="documents: 1 in gold, 0 in the answers"):
        cluster_scores([KEY], [])
    with pytest.raises(InputError, match="the mention B is in two clusters"):
        cluster_scores([KEY], [["AB", "BC"]])


# -------------------------------------------------------------------------- against definitions


@st.composite
def clusterings(draw):
    """Some of eight mentions, in clusters."""
    owners = draw(st.lists(st.integers(0, 4), min_size=8, max_size=8))
    clusters = [{n for n, owner in enumerate(owners) if owner == one} for one in range(1, 5)]
    return [cluster for cluster in clusters if cluster]


def muc_recall(key, response):
    kept = links = 0
    for cluster in key:
        parts = {
            next((n for n, other in enumerate(response) if mention in other), ("alone", mention))
            for mention in cluster
        }
        kept += len(cluster) - len(parts)
        links += len(cluster) - 1
    return kept / links if links else 0


def b3_recall(key, response):
    shares = [
        len(cluster & next((other for other in response if mention in other), set())) / len(cluster)
        for cluster in key
        for mention in cluster
    ]
    return sum(shares) / len(shares) if shares else 0


def ceafe_recall(key, response):
    def likeness(one, other):
        return 2 * len(one & other) / (len(one) + len(other))

    short, long = sorted((key, response), key=len)
    best = max(
        sum(likeness(one, other) for one, other in zip(short, order, strict=False))
        for order in permutations(long, len(short))
    )
    return best / len(key) if key else 0


@settings(max_examples=200, deadline=None)
@given(clusterings(), clusterings())
def test_by_their_definitions(key, response):
    scores = cluster_scores([key], [response])
    for fit, recall in (
        (scores.muc, muc_recall),
        (scores.b3, b3_recall),
        (scores.ceafe, ceafe_recall),
    ):
        assert fit.recall == pytest.approx(recall(key, response))
        assert fit.precision == pytest.approx(recall(response, key))
    # Sides changed, recall and precision are.
    turned = cluster_scores([response], [key])
    assert turned.mean_f1 == pytest.approx(scores.mean_f1)
    assert (turned.b3.recall, turned.ceafe.recall) == pytest.approx(
        (scores.b3.precision, scores.ceafe.precision)
    )
    assert cluster_scores([key], [key]).b3.f1 == bool(key)
