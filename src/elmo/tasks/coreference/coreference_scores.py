"""Coreference scores: MUC, B³, CEAFe and their mean F1, as defined by CoNLL-2012.

MUC (Vilain et al., 1995) counts links, B³ (Bagga and Baldwin, 1998) counts mentions, and CEAFe
(Luo, 2005) compares clusters after aligning gold and predicted clusters one to one. Counts are
summed over all documents before precision and recall are computed. Mentions that occur only in the
gold data lower recall, mentions that occur only in the predictions lower precision. All scores are
fractions between 0 and 1; a score with a denominator of 0 is 0.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from elmo.errors import InputError
from elmo.tasks.core.label_scores import check_lengths
from elmo.tasks.coreference.assignment import best_pairs

# The mentions of one entity.
Cluster = Collection[Hashable]


@dataclass(frozen=True)
class MetricScore:
    """Precision, recall and F1 of one metric."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class ClusterScores:
    """Coreference scores over a set of documents.

    MUC is based on links, B³ on mentions and CEAFe on optimally aligned clusters; their mean F1 is
    known as the CoNLL score. `mentions` is the score of mention detection, regardless of clusters.
    """

    muc: MetricScore
    b3: MetricScore
    ceafe: MetricScore
    mean_f1: float
    mentions: MetricScore
    n: int


@dataclass
class _ScoreSums:
    """Sums over documents: recall is recalled / gold, precision is precise / predicted."""

    recalled: float = 0.0
    gold: float = 0.0
    precise: float = 0.0
    predicted: float = 0.0

    def score(self) -> MetricScore:
        """Return precision, recall and F1."""
        recall = self.recalled / self.gold if self.gold else 0.0
        precision = self.precise / self.predicted if self.predicted else 0.0
        total = recall + precision
        return MetricScore(precision, recall, 2 * recall * precision / total if total else 0.0)


def cluster_scores(
    gold: Sequence[Sequence[Cluster]], predicted: Sequence[Sequence[Cluster]]
) -> ClusterScores:
    """Score the predicted clusters of documents against the gold clusters, with singletons.

    Raises `InputError` if the number of documents differs or a mention is in two clusters.
    """
    check_lengths("documents", len(gold), len(predicted))
    muc, b3, ceafe, mentions = _ScoreSums(), _ScoreSums(), _ScoreSums(), _ScoreSums()
    for gold_clusters, predicted_clusters in zip(gold, predicted, strict=True):
        in_gold = _cluster_indices(gold_clusters)
        in_predicted = _cluster_indices(predicted_clusters)
        # Number of shared mentions of each pair of gold and predicted clusters.
        shared = Counter(
            (cluster, in_predicted[mention])
            for mention, cluster in in_gold.items()
            if mention in in_predicted
        )
        sizes = Counter(in_gold.values()), Counter(in_predicted.values())
        _add_links(muc, shared, *sizes)
        _add_mentions(b3, shared, *sizes)
        _add_clusters(ceafe, shared, *sizes)
        mentions.recalled += shared.total()
        mentions.precise += shared.total()
        mentions.gold += len(in_gold)
        mentions.predicted += len(in_predicted)
    scores = muc.score(), b3.score(), ceafe.score()
    mean_f1 = sum(score.f1 for score in scores) / len(scores)
    return ClusterScores(*scores, mean_f1, mentions.score(), len(gold))


def _cluster_indices(clusters: Sequence[Cluster]) -> dict[Hashable, int]:
    """Return the cluster index of each mention."""
    indices: dict[Hashable, int] = {}
    for number, cluster in enumerate(clusters):
        for mention in set(cluster):
            if mention in indices:
                raise InputError(f"The mention {mention} is in two clusters.")
            indices[mention] = number
    return indices


# Number of shared mentions by (gold cluster, predicted cluster).
SharedCounts = Counter[tuple[int, int]]
# Number of mentions by cluster.
ClusterSizes = Counter[int]


def _add_links(
    sums: _ScoreSums, shared: SharedCounts, gold: ClusterSizes, predicted: ClusterSizes
) -> None:
    """Add the MUC counts: the links in each cluster, and how many of them the other side also has.

    A cluster of n mentions has n - 1 links. If the other side (gold or predicted) splits it into k
    parts, k - 1 links are lost. A mention that the other side lacks counts as a separate part.
    """
    # For a cluster of n mentions, of which the other side has m in k clusters, there are k + n - m
    # parts, so m - k links are kept. Summed over all clusters, this is the same for both sides.
    kept = shared.total() - len(shared)
    sums.recalled += kept
    sums.precise += kept
    sums.gold += gold.total() - len(gold)
    sums.predicted += predicted.total() - len(predicted)


def _add_mentions(
    sums: _ScoreSums, shared: SharedCounts, gold: ClusterSizes, predicted: ClusterSizes
) -> None:
    """Add the B³ counts: for each mention, the overlap of its gold and predicted clusters."""
    sums.gold += gold.total()
    sums.predicted += predicted.total()
    for (gold_cluster, predicted_cluster), n in shared.items():
        sums.recalled += n * n / gold[gold_cluster]
        sums.precise += n * n / predicted[predicted_cluster]


def _add_clusters(
    sums: _ScoreSums, shared: SharedCounts, gold: ClusterSizes, predicted: ClusterSizes
) -> None:
    """Add the CEAFe counts: similarity 2 |A ∩ B| / (|A| + |B|), summed over the best alignment."""
    similarity = np.zeros((len(gold), len(predicted)))
    rows, columns = (
        {cluster: position for position, cluster in enumerate(side)} for side in (gold, predicted)
    )
    for (gold_cluster, predicted_cluster), n in shared.items():
        value = 2 * n / (gold[gold_cluster] + predicted[predicted_cluster])
        similarity[rows[gold_cluster], columns[predicted_cluster]] = value
    best = float(sum(similarity[pair] for pair in best_pairs(similarity)))
    sums.recalled += best
    sums.precise += best
    sums.gold += len(gold)
    sums.predicted += len(predicted)
