"""AUC, correlation and mutual information of many units with a property.

All scores are computed from matrices of units, (positions, units), for all units at once.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Values = NDArray[np.float32]

N_BINS = 16


def centered_ranks(values: Values) -> Values:
    """Return the ranks of the values of each unit, scaled to -0.5 ... 0.5; ties share their mean.

    With centered ranks, sums over 10^6 positions are exact enough in float32.
    """
    n = len(values)
    ranks = np.empty(values.shape, dtype=np.float32)
    for unit, column in enumerate(values.T):
        order = np.argsort(column, kind="stable")
        in_order = column[order]
        is_new = np.concatenate([[True], in_order[1:] != in_order[:-1]])
        groups = np.cumsum(is_new) - 1
        begins = np.append(np.flatnonzero(is_new), n)
        means = (begins[:-1] + begins[1:] - 1) / 2
        ranks[order, unit] = (means[groups] + 0.5) / n - 0.5
    return ranks


def auc(ranks: Values, labels: NDArray[np.bool_]) -> Floats:
    """Return the area under the ROC curve of each unit.

    It is the probability that the value of the unit is larger at a position with the property than
    at one without. Ties count one half.

    Args:
        ranks: `centered_ranks` of the units, (positions, units).
        labels: Whether each position has the property, (positions,) or (sets of labels, positions).

    Returns:
        (units,) or (sets of labels, units); NaN if all labels are the same.
    """
    n = labels.shape[-1]
    n_true = labels.sum(axis=-1, dtype=np.float64)[..., None]
    sums = (labels.astype(np.float32) @ ranks).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        # The mean centered rank of the positions with the property, without those of each other.
        return np.asarray(0.5 + n * sums / (n_true * (n - n_true)), dtype=np.float64)


def correlation(values: Values, labels: NDArray[np.generic]) -> Floats:
    """Return the Pearson correlation of each unit with a property; 0 for constant units.

    Args:
        values: Values of the units, (positions, units).
        labels: Values of the property, (positions,) or (sets of labels, positions).
    """
    centered = values - values.mean(axis=0, dtype=np.float64).astype(np.float32)
    deviations = np.sqrt(np.square(centered).sum(axis=0, dtype=np.float64))
    y = labels.astype(np.float64)
    y = y - y.mean(axis=-1, keepdims=True)
    scale = np.sqrt(np.square(y).sum(axis=-1, keepdims=True))
    products = (y.astype(np.float32) @ centered).astype(np.float64)
    norms = scale * deviations
    return np.asarray(np.divide(products, norms, out=np.zeros_like(products), where=norms > 1e-9))


def mutual_information(ranks: Values, labels: NDArray[np.generic]) -> Floats:
    """Return the mutual information of each unit with a property, in bits.

    The values of a unit are divided into 16 bins of equal size; so are numbers with more than 16
    different values.

    Args:
        ranks: `centered_ranks` of the units, (positions, units).
        labels: Values of the property, (positions,).
    """
    bins = np.clip(((ranks + 0.5) * N_BINS).astype(np.int64), 0, N_BINS - 1)
    classes = label_bins(labels)
    n, n_classes = len(labels), int(classes.max()) + 1
    result = np.empty(ranks.shape[1])
    for unit, column in enumerate(bins.T):
        counts = np.bincount(column * n_classes + classes, minlength=N_BINS * n_classes)
        joint = counts.reshape(N_BINS, n_classes) / n
        expected = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
        is_used = joint > 0
        result[unit] = (joint[is_used] * np.log2(joint[is_used] / expected[is_used])).sum()
    return np.maximum(result, 0.0)


def label_bins(labels: NDArray[np.generic]) -> NDArray[np.int64]:
    """Return the class of each label: the value itself, or its bin if there are many values."""
    values, classes = np.unique(labels, return_inverse=True)
    if len(values) <= N_BINS:
        return np.asarray(classes, dtype=np.int64)
    ranks = centered_ranks(labels.astype(np.float32)[:, None])[:, 0]
    bins = np.clip(((ranks + 0.5) * N_BINS).astype(np.int64), 0, N_BINS - 1)
    _, classes = np.unique(bins, return_inverse=True)
    return np.asarray(classes, dtype=np.int64)
