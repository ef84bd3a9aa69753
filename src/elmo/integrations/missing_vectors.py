"""A column of rows without text, for Arrow tables."""

import pyarrow as pa


class MissingVectors(list[None]):
    """A list of None that Arrow stores with the type of vectors.

    `datasets.map` takes the type of a column from its first batch, and could not write the vectors
    of later batches to a column of the type null.
    """

    def __init__(self, n_rows: int, n_axes: int) -> None:
        """Contain a number of rows, for arrays with a number of axes."""
        super().__init__([None] * n_rows)
        self._n_axes = n_axes

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:
        """Return the rows as an Arrow array; part of Arrow's protocol for conversions."""
        vectors = pa.float32()
        for _ in range(self._n_axes):
            vectors = pa.list_(vectors)
        return pa.array([None] * len(self), type or vectors)
