"""How well clusters of mentions fit: MUC, B³, CEAFe and the mean of their F1, as CoNLL-2012 does.

MUC (Vilain et al., 1995) counts links, B³ (Bagga and Baldwin, 1998) mentions, CEAFe (Luo, 2005)
clusters, each paired with at most one other. Counts are summed over all documents before they are
divided. A mention that one side alone has counts against the other. All figures are of 1; what
would be divided by nothing is 0.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from elmo.errors import InputError
from elmo.tasks.scores.assignment import best_pairs

# The mentions of one thing.
Cluster = Collection[Hashable]


@dataclass(frozen=True)
class Fit:
    """Precision, recall and F1 of one metric."""

    precision: float
    recall: float
    f1: float


@dataclass(frozen=True)
class ClusterScores:
    """Of clusters.

    Attributes:
        muc: by links.
        b3: by mentions.
        ceafe: by clusters.
        mean_f1: mean of their F1, CoNLL's figure.
        mentions: how well mentions are found, whatever their clusters.
        n: documents.
    """

    muc: Fit
    b3: Fit
    ceafe: Fit
    mean_f1: float
    mentions: Fit
    n: int


@dataclass
class _ScoreSums:
    """What a metric has counted: of how much, on both sides."""

    recalled: float = 0.0
    gold: float = 0.0
    precise: float = 0.0
    found: float = 0.0

    def fit(self) -> Fit:
        recall = self.recalled / self.gold if self.gold else 0.0
        precision = self.precise / self.found if self.found else 0.0
        total = recall + precision
        return Fit(precision, recall, 2 * recall * precision / total if total else 0.0)


def cluster_scores(
    gold: Sequence[Sequence[Cluster]], found: Sequence[Sequence[Cluster]]
) -> ClusterScores:
    """Score the clusters of documents.

    Args:
        gold: the right clusters of each document; those of a single mention count too.
        found: answered clusters, in the same order.
    """
    if len(gold) != len(found):
        raise InputError(
            f"documents: {len(gold)} in gold, {len(found)} in the answers; expected as many"
        )
    muc, b3, ceafe, mentions = _ScoreSums(), _ScoreSums(), _ScoreSums(), _ScoreSums()
    for right, answered in zip(gold, found, strict=True):
        in_gold, in_found = _owners(right), _owners(answered)
        # How many mentions a right and an answered cluster share, by their numbers.
        shared = Counter(
            (cluster, in_found[mention])
            for mention, cluster in in_gold.items()
            if mention in in_found
        )
        sizes = Counter(in_gold.values()), Counter(in_found.values())
        _add_links(muc, shared, *sizes)
        _add_mentions(b3, shared, *sizes)
        _add_clusters(ceafe, shared, *sizes)
        mentions.recalled += shared.total()
        mentions.precise += shared.total()
        mentions.gold += len(in_gold)
        mentions.found += len(in_found)
    fits = muc.fit(), b3.fit(), ceafe.fit()
    mean_f1 = sum(fit.f1 for fit in fits) / len(fits)
    return ClusterScores(*fits, mean_f1, mentions.fit(), len(gold))


def _owners(clusters: Sequence[Cluster]) -> dict[Hashable, int]:
    """Give the number of the cluster of each mention."""
    owners: dict[Hashable, int] = {}
    for number, cluster in enumerate(clusters):
        for mention in set(cluster):
            if mention in owners:
                raise InputError(f"the mention {mention} is in two clusters")
            owners[mention] = number
    return owners


Shared = Counter[tuple[int, int]]
Sizes = Counter[int]


def _add_links(sums: _ScoreSums, shared: Shared, gold: Sizes, found: Sizes) -> None:
    """Count the links of each cluster, and those that the other side does not cut.

    A cluster of n mentions is held together by n - 1 links; each further part that the other side
    cuts it into takes one away. A mention that the other side does not have is a part of its own.
    """
    # Of n mentions, m of which the other side has in k clusters, k + n - m parts and so m - k links
    # are left. Summed over all clusters that is the same from both sides.
    left = shared.total() - len(shared)
    sums.recalled += left
    sums.precise += left
    sums.gold += gold.total() - len(gold)
    sums.found += found.total() - len(found)


def _add_mentions(sums: _ScoreSums, shared: Shared, gold: Sizes, found: Sizes) -> None:
    """Count for each mention how much of its cluster stands in its cluster on the other side."""
    sums.gold += gold.total()
    sums.found += found.total()
    for (right, answered), n in shared.items():
        sums.recalled += n * n / gold[right]
        sums.precise += n * n / found[answered]


def _add_clusters(sums: _ScoreSums, shared: Shared, gold: Sizes, found: Sizes) -> None:
    """Count the likeness of clusters in the best pairing: 2 |A ∩ B| / (|A| + |B|)."""
    likeness = np.zeros((len(gold), len(found)))
    rows, columns = (
        {cluster: place for place, cluster in enumerate(side)} for side in (gold, found)
    )
    for (right, answered), n in shared.items():
        value = 2 * n / (gold[right] + found[answered])
        likeness[rows[right], columns[answered]] = value
    best = float(sum(likeness[pair] for pair in best_pairs(likeness)))
    sums.recalled += best
    sums.precise += best
    sums.gold += len(gold)
    sums.found += len(found)
