"""Tests for MUC, B³ and CEAFe against worked examples and their definitions."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.errors import InputError
from elmo.tasks.coreference.coreference_scores import MetricScore, cluster_scores

# Gold clusters of the first examples of the official scorer: one, two and three mentions.
KEY = ["A", "BC", "DEF"]


def check(predicted, expected):
    """Check the (recall, precision) of MUC, B³ and CEAFe."""
    scores = cluster_scores([KEY], [predicted])
    metrics = scores.muc, scores.b3, scores.ceafe
    for metric, (recall, precision) in zip(metrics, expected, strict=True):
        assert (metric.recall, metric.precision) == pytest.approx((recall, precision))
        total = recall + precision
        assert metric.f1 == pytest.approx(2 * recall * precision / total if total else 0)
    assert scores.mean_f1 == pytest.approx(sum(metric.f1 for metric in metrics) / 3)


def test_perfect_clusters_score_one():
    """A singleton has no links, but counts for B³ and CEAFe."""
    check(["DEF", "A", "CB"], [(1, 1)] * 3)
    assert cluster_scores([KEY], [KEY]).mentions == MetricScore(1, 1, 1)


def test_missing_mentions_and_clusters_lower_recall():
    """MUC: EF is 1 of 3 links. B³: (1 + 2/3 + 2/3) / 6. CEAFe: 1 + 2·2/5, over 3 and 2."""
    check(["A", "EF"], [(1 / 3, 1), (7 / 18, 1), (1.8 / 3, 1.8 / 2)])


def test_spurious_mentions_and_clusters_lower_precision():
    """x and y are added to correct clusters, and z is a separate cluster.

    MUC: 3 of 5 links. B³: (1 + 2·2/3 + 3·3/4) / 9. CEAFe: 1 + 4/5 + 6/7, over 3 and 4.
    """
    similarity = 1 + 4 / 5 + 6 / 7
    precision = (4 + 7 / 12) / 9
    check(["A", "BCx", "DEFy", "z"], [(1, 3 / 5), (1, precision), (similarity / 3, similarity / 4)])


def test_missing_and_spurious_mentions_lower_recall_and_precision():
    """MUC: BC is 1 of 3 links. B³: (3 + 1/3) / 6, (1 + 4/3 + 1/2) / 7. CEAFe: 1 + .8 + .4."""
    b3 = ((3 + 1 / 3) / 6, (1 + 4 / 3 + 1 / 2) / 7)
    check(["A", "BCx", "Dy", "z"], [(1 / 3, 1 / 3), b3, (2.2 / 3, 2.2 / 4)])


def test_more_spurious_mentions_lower_precision_further():
    """MUC: BC is 1 of 3 and of 4 links. B³: (1 + 2·2/4 + 1/2) / 8. CEAFe: 1 + 2/3 + .4."""
    similarity = 1 + 2 / 3 + 0.4
    b3 = ((3 + 1 / 3) / 6, 2.5 / 8)
    check(["A", "BCxw", "Dy", "z"], [(1 / 3, 1 / 4), b3, (similarity / 3, similarity / 4)])


def test_split_clusters_lower_recall():
    """MUC: 1 of 3 links. B³: (1 + 2·1/2 + 1/3 + 2·2/3) / 6. CEAFe: 1 + 2/3 + 4/5."""
    similarity = 1 + 2 / 3 + 4 / 5
    recall = (1 + 1 + 1 / 3 + 4 / 3) / 6
    check(["A", "B", "C", "D", "EF"], [(1 / 3, 1), (recall, 1), (similarity / 3, similarity / 5)])


def test_merging_all_clusters_lowers_precision():
    """MUC: 3 of 5 links. B³: (1 + 2·2 + 3·3) / 6 / 6. CEAFe: 6/9, for DEF, the best match."""
    check(["ABCDEF"], [(1, 3 / 5), (1, 14 / 36), (2 / 3 / 3, 2 / 3)])


def test_wrong_or_missing_clusters_score_zero():
    check(["xy"], [(0, 0)] * 3)
    check([], [(0, 0)] * 3)
    assert cluster_scores([[]], [[]]).mean_f1 == 0


def test_muc_matches_published_example():
    """In Vilain et al. (1995), gold ABCD and predicted AB, CD have recall 2/3."""
    scores = cluster_scores([["ABCD"]], [["AB", "CD"]])
    assert (scores.muc.recall, scores.muc.precision) == pytest.approx((2 / 3, 1))


def test_b3_matches_published_example():
    """Two ways to merge the gold clusters 12345, 67 and 89ABC, which MUC scores equally."""
    key = ["12345", "67", "89ABC"]
    for predicted, precision in ((["12345", "6789ABC"], 16 / 21), (["1234589ABC", "67"], 7 / 12)):
        scores = cluster_scores([key], [predicted])
        assert (scores.muc.recall, scores.muc.precision) == pytest.approx((1, 9 / 10))
        assert (scores.b3.recall, scores.b3.precision) == pytest.approx((1, precision))


def test_cluster_scores_sum_counts_over_documents():
    """MUC finds 1 of 1 link in the first document and 0 of 3 in the second."""
    scores = cluster_scores([["AB"], ["ABCD"]], [["AB"], []])
    assert scores.muc.recall == 1 / 4
    assert scores.b3.recall == 2 / 6
    assert scores.ceafe.recall == 1 / 2
    assert scores.n == 2
    # Equal mentions in different documents are different mentions.
    assert cluster_scores([["AB"], ["CD"]], [["CD"], ["AB"]]).b3.f1 == 0


def test_cluster_scores_rejects_invalid_input():
    with pytest.raises(
        InputError, match="number of documents differs: 1 in the gold data, 0 in the predictions"
    ):
        cluster_scores([KEY], [])
    with pytest.raises(InputError, match="The mention B is in two clusters"):
        cluster_scores([KEY], [["AB", "BC"]])


# -------------------------------------------------------------------------- against definitions


@st.composite
def clusterings(draw):
    """Return clusters that contain some of eight mentions."""
    owners = draw(st.lists(st.integers(0, 4), min_size=8, max_size=8))
    clusters = [{n for n, owner in enumerate(owners) if owner == name} for name in range(1, 5)]
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
    def similarity(first, second):
        return 2 * len(first & second) / (len(first) + len(second))

    short, long = sorted((key, response), key=len)
    best = max(
        sum(similarity(*pair) for pair in zip(short, order, strict=False))
        for order in permutations(long, len(short))
    )
    return best / len(key) if key else 0


@settings(max_examples=200)
@given(clusterings(), clusterings())
def test_cluster_scores_match_metric_definitions(key, response):
    scores = cluster_scores([key], [response])
    for metric, recall in (
        (scores.muc, muc_recall),
        (scores.b3, b3_recall),
        (scores.ceafe, ceafe_recall),
    ):
        assert metric.recall == pytest.approx(recall(key, response))
        assert metric.precision == pytest.approx(recall(response, key))
    # Swapping gold and predictions swaps recall and precision.
    swapped = cluster_scores([response], [key])
    assert swapped.mean_f1 == pytest.approx(scores.mean_f1)
    assert (swapped.b3.recall, swapped.ceafe.recall) == pytest.approx(
        (scores.b3.precision, scores.ceafe.precision)
    )
    assert cluster_scores([key], [key]).b3.f1 == bool(key)
