"""Reference Parquet writer based on Arrow, for comparison with `ParquetWriter`."""

import numpy as np
import pyarrow
import pyarrow.parquet


class ArrowWriter:
    """Writes one row per sentence, with the same interface as `ParquetWriter`."""

    def __init__(self, path, *, all_layers, storage="float32", first_sentence=0, group_words=2**13):
        self.value_type = {"float16": pyarrow.float16(), "float32": pyarrow.float32()}[storage]
        vectors = pyarrow.list_(pyarrow.list_(self.value_type))
        self.schema = pyarrow.schema(
            [
                ("sentence", pyarrow.int64()),
                ("words", pyarrow.list_(pyarrow.string())),
                ("vectors", pyarrow.list_(vectors) if all_layers else vectors),
            ]
        )
        options = {"use_dictionary": False, "write_statistics": ["sentence"]}
        self.file = pyarrow.parquet.ParquetWriter(path, self.schema, **options)
        self.group_words = group_words
        self.count = first_sentence
        self.rows = []

    def write(self, line, words, vectors):
        self.rows.append((words, vectors))
        if sum(len(words) + 1 for words, _ in self.rows) >= self.group_words:
            self.flush()

    def flush(self):
        if self.rows:
            words, vectors = zip(*self.rows, strict=True)
            numbers = range(self.count, self.count + len(words))
            columns = [
                pyarrow.array(numbers, pyarrow.int64()),
                pyarrow.array(words, pyarrow.list_(pyarrow.string())),
                self.nested(vectors),
            ]
            self.file.write_table(pyarrow.Table.from_arrays(columns, schema=self.schema))
            self.count += len(words)
            self.rows = []

    def nested(self, arrays):
        flat = np.concatenate([array.reshape(-1) for array in arrays])
        column = pyarrow.array(flat, self.value_type)
        for axis in reversed(range(arrays[0].ndim)):
            sizes = [
                np.full(np.prod(array.shape[:axis], dtype=int), array.shape[axis])
                for array in arrays
            ]
            offsets = np.cumsum(np.concatenate([[0], *sizes]))
            column = pyarrow.ListArray.from_arrays(pyarrow.array(offsets, pyarrow.int32()), column)
        return column

    def close(self):
        self.flush()
        self.file.close()
