"""Tests for reading files as blocks of complete lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.corpus import line_blocks


@given(
    text=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"))).map(
        "\n".join
    ),
    size=st.integers(1, 30),
    n_start=st.integers(0, 10),
)
def test_whole_lines_blocks_add_up_to_the_file(tmp_path_factory, text, size, n_start):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_bytes(text.encode())
    with path.open("rb") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_blocks, "BLOCK_BYTES", size)
        start = file.read(n_start)
        parts = list(line_blocks.whole_lines(file, "text", start))
    assert b"".join(parts).decode() == text
    assert all(part.endswith(b"\n") for part in parts[:-1])


def test_line_blocks_stops_after_binary_prefix(tmp_path, monkeypatch):
    monkeypatch.setattr(line_blocks, "MAX_LINE_BYTES", 100)
    path = tmp_path / "file"
    path.write_bytes(b"MAGIC" + b"x" * 1000)
    assert [block.data for block in line_blocks.line_blocks(str(path), b"MAGIC")] == [b"MAGIC"]
    path.write_bytes(b"MAGI\nc")
    assert [block.data for block in line_blocks.line_blocks(str(path), b"MAGIC")] == [b"MAGI\nc"]
