"""Maximum-weight assignment of rows to columns by shortest augmenting paths (Kuhn, Munkres)."""

import numpy as np
from numpy.typing import NDArray


def best_pairs(values: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Match rows to columns one to one so that the sum of their values is maximal.

    Returns min(rows, columns) pairs (row, column), sorted by row, or by column if there are fewer
    columns than rows. The running time is O(min(rows, columns)² · max(rows, columns)).
    """
    n_rows, n_columns = values.shape
    if n_rows > n_columns:
        return [(row, column) for column, row in best_pairs(values.T)]
    if not n_rows:
        return []
    # Column 0 is a dummy that holds the row currently being assigned.
    cost = np.pad(-values, ((1, 0), (1, 0)))
    row_potential, column_potential = np.zeros(n_rows + 1), np.zeros(n_columns + 1)
    row_of_column = np.zeros(n_columns + 1, dtype=np.int64)
    for row in range(1, n_rows + 1):
        row_of_column[0] = row
        column = 0
        slack = np.full(n_columns + 1, np.inf)
        previous_column = np.zeros(n_columns + 1, dtype=np.int64)
        visited = np.zeros(n_columns + 1, dtype=bool)
        while row_of_column[column]:
            visited[column] = True
            current_row = row_of_column[column]
            reduced = cost[current_row] - row_potential[current_row] - column_potential
            better = ~visited & (reduced < slack)
            better[0] = False
            slack[better], previous_column[better] = reduced[better], column
            unvisited_slack = np.where(visited, np.inf, slack)
            unvisited_slack[0] = np.inf
            nearest = int(unvisited_slack.argmin())
            step = unvisited_slack[nearest]
            row_potential[row_of_column[visited]] += step
            column_potential[visited] -= step
            slack[~visited] -= step
            column = nearest
        while column:
            previous = previous_column[column]
            row_of_column[column] = row_of_column[previous]
            column = previous
    pairs = {int(row) - 1: column - 1 for column, row in enumerate(row_of_column) if column and row}
    return sorted(pairs.items())
