"""Tests that Arrow can read the written Parquet files, for arbitrary shapes and strings."""

import itertools

import numpy as np
import pytest

from elmo.errors import OutputError
from elmo.formats import parquet as parquet_module
from elmo.formats.parquet import (
    FLOAT16,
    FLOAT32,
    INT64,
    STRING,
    Cells,
    Column,
    ParquetFile,
    plain_numbers,
    plain_strings,
)

# For each depth: lists that are empty at any level, and longer lists.
SHAPES = {
    depth: [*itertools.product([0, 1, 3], repeat=depth), (2, 300, 1)[:depth]] for depth in range(4)
}


def write(path, columns, *groups):
    file = ParquetFile(path, columns, "tests version 1")
    try:
        for cells in groups:
            file.write(cells)
    finally:
        file.close()
    return path


def numbers(shapes, storage="float32", seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(storage) for shape in shapes]


def cells(arrays, storage="float32"):
    return Cells([array.shape for array in arrays], [plain_numbers(a, storage) for a in arrays])


@pytest.mark.parametrize("storage", ["float16", "float32"])
@pytest.mark.parametrize("depth", SHAPES)
def test_nested_lists_of_any_shape_are_read_by_arrow(tmp_path, depth, storage):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    value_type = {"float16": FLOAT16, "float32": FLOAT32}[storage]
    shapes = SHAPES[depth] * 3
    np.random.default_rng(depth).shuffle(shapes)
    groups = [numbers(map(tuple, part), storage) for part in (shapes[:5], shapes[5:]) if part]
    path = tmp_path / "x.parquet"
    write(path, [Column("x", value_type, depth)], *([cells(group, storage)] for group in groups))
    table = parquet.read_table(path)
    table.validate(full=True)
    expected = getattr(arrow, storage)()
    for _ in range(depth):
        expected = arrow.list_(expected)
    assert table.schema.equals(arrow.schema([("x", expected)]))
    assert table["x"].to_pylist() == [array.tolist() for group in groups for array in group]


def test_integers_strings_and_statistics_are_read_by_arrow(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    texts = ["", "a", "나는", "\0", "\U0001f600" * 100]
    values = np.array([-(2**63), -1, 0, 1, 2**63 - 1])
    bounds = (values[:1].tobytes(), values[-1:].tobytes())
    rows = [()] * 5
    data = [
        Cells(rows, [plain_numbers(values, "int64")], bounds),
        Cells(rows, [plain_strings(texts)]),
    ]
    path = write(tmp_path / "x.parquet", [Column("n", INT64), Column("t", STRING)], data)
    assert parquet.read_table(path).to_pydict() == {"n": values.tolist(), "t": texts}
    metadata = parquet.ParquetFile(path).metadata
    assert metadata.created_by == "tests version 1"
    n, t = (metadata.row_group(0).column(position) for position in (0, 1))
    assert (n.statistics.min, n.statistics.max) == (-(2**63), 2**63 - 1)
    assert n.statistics.null_count == 0
    assert t.statistics is None


def test_table_without_rows_has_complete_schema(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(write(tmp_path / "x.parquet", [Column("x", FLOAT16, 2)]))
    assert len(table) == 0
    assert str(table.schema.field("x").type) == "list<element: list<element: halffloat>>"


def test_array_values_are_written_without_conversion(tmp_path):
    arrays = numbers([(3, 4), (0, 4), (2, 4)])
    path = write(tmp_path / "x.parquet", [Column("x", FLOAT32, 2)], [cells(arrays)])
    data = path.read_bytes()
    assert data[:4] == data[-4:] == b"PAR1"
    assert b"".join(array.tobytes() for array in arrays) in data
    assert plain_numbers(arrays[0], "float32").obj.base is arrays[0]


def test_write_rejects_page_above_size_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_module, "MAX_PAGE_BYTES", 100)
    columns = [Column("x", FLOAT32, 1)]
    with pytest.raises(OutputError, match=r"Column x has 4,0\d\d bytes .* Split long lines"):
        write(tmp_path / "x.parquet", columns, [cells(numbers([(3,), (1000,)]))])
