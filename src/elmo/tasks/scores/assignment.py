"""The best way to pair rows with columns, by shortest augmenting paths (Kuhn, Munkres)."""

import numpy as np
from numpy.typing import NDArray


def best_pairs(values: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Pair rows with columns, each at most once, so that the sum of their values is largest.

    Takes time by the square of the shorter side times the longer one.

    Args:
        values: (rows, columns).

    Returns:
        As many pairs as the shorter side has, in the order of its rows or columns.
    """
    n_rows, n_columns = values.shape
    if n_rows > n_columns:
        return [(row, column) for column, row in best_pairs(values.T)]
    if not n_rows:
        return []
    # Column 0 is no column: the row that is looked for a place for stands in it.
    cost = np.pad(-values, ((1, 0), (1, 0)))
    of_row, of_column = np.zeros(n_rows + 1), np.zeros(n_columns + 1)
    taken_by = np.zeros(n_columns + 1, dtype=np.int64)
    for row in range(1, n_rows + 1):
        taken_by[0] = row
        column = 0
        slack = np.full(n_columns + 1, np.inf)
        came_from = np.zeros(n_columns + 1, dtype=np.int64)
        seen = np.zeros(n_columns + 1, dtype=bool)
        while taken_by[column]:
            seen[column] = True
            here = taken_by[column]
            reduced = cost[here] - of_row[here] - of_column
            better = ~seen & (reduced < slack)
            better[0] = False
            slack[better], came_from[better] = reduced[better], column
            open_slack = np.where(seen, np.inf, slack)
            open_slack[0] = np.inf
            nearest = int(open_slack.argmin())
            step = open_slack[nearest]
            of_row[taken_by[seen]] += step
            of_column[seen] -= step
            slack[~seen] -= step
            column = nearest
        while column:
            before = came_from[column]
            taken_by[column] = taken_by[before]
            column = before
    pairs = {int(row) - 1: column - 1 for column, row in enumerate(taken_by) if column and row}
    return sorted(pairs.items())
