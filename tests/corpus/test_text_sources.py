"""Tests for reading files, globs and standard input as blocks, including damaged files."""

import bz2
import gzip
import io
import json
import lzma
import os
import sys
import threading
from types import SimpleNamespace

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from elmo.corpus import line_blocks
from elmo.corpus.text_sources import Block, read_blocks, resolve, total_bytes
from elmo.errors import InputError, MissingExtra

TEXT = "first line\nsecond\n\nnaïve 日本語 😀\nno end"
COMPRESS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}


def lines(*names, field="text", input_format=None):
    return [line for block in read_blocks(names, field, input_format) for line in block.lines()]


def assert_error(call, *words, error_type=InputError):
    with pytest.raises(error_type) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


# -------------------------------------------------------------------------------- compression


@pytest.mark.parametrize("suffix", COMPRESS)
class TestCompression:
    def test_compressed_file_is_read_as_lines(self, tmp_path, suffix):
        path = tmp_path / f"text.txt{suffix.upper()}"
        path.write_bytes(COMPRESS[suffix](TEXT.encode()))
        assert lines(str(path)) == TEXT.split("\n")

    def test_concatenated_compressed_files_are_read_as_one(self, tmp_path, suffix):
        path = tmp_path / f"text{suffix}"
        path.write_bytes(COMPRESS[suffix](b"a\nb") + COMPRESS[suffix](b"c\nd\n"))
        assert lines(str(path)) == ["a", "bc", "d"]

    def test_blocks_of_compressed_file_end_at_line_ends(self, tmp_path, suffix, monkeypatch):
        monkeypatch.setattr(line_blocks, "BLOCK_BYTES", 10)
        path = tmp_path / f"text{suffix}"
        path.write_bytes(COMPRESS[suffix](TEXT.encode()))
        blocks = list(read_blocks([str(path)], "text"))
        assert len(blocks) > 2
        assert all(block.data.endswith(b"\n") for block in blocks[:-1])
        assert "\n".join(line for block in blocks for line in block.lines()) == TEXT
        assert [block.first_line for block in blocks] == [
            1 + TEXT.encode()[: TEXT.encode().index(block.data)].count(b"\n") for block in blocks
        ]
        assert sum(block.n_read for block in blocks) == path.stat().st_size

    def test_empty_compressed_file_has_no_lines(self, tmp_path, suffix):
        path = tmp_path / f"text{suffix}"
        path.write_bytes(COMPRESS[suffix](b""))
        assert lines(str(path)) == []

    def test_truncated_compressed_file_raises_error(self, tmp_path, suffix):
        path = tmp_path / f"text.txt{suffix}"
        data = COMPRESS[suffix](os.urandom(5000).hex().encode())
        path.write_bytes(data[: len(data) // 2])
        if suffix:
            assert_error(lambda: lines(str(path)), f"Cannot read {path}", "end")
        else:
            assert len(lines(str(path))) == 1

    def test_uncompressed_file_with_compression_extension_raises_error(self, tmp_path, suffix):
        path = tmp_path / f"text.txt{suffix}"
        path.write_bytes(b"plain text, not compressed\n")
        if suffix:
            assert_error(lambda: lines(str(path)), f"Cannot read {path}")

    def test_compressed_json_lines_are_read(self, tmp_path, suffix):
        path = tmp_path / f"text.jsonl{suffix}"
        path.write_bytes(COMPRESS[suffix](b'{"text": "a b"}\n{"text": "c"}\n'))
        assert lines(str(path)) == ["a b", "c"]


def test_reading_zst_without_zstandard_names_the_missing_extra(tmp_path, monkeypatch):
    path = tmp_path / "text.zst"
    path.write_bytes(zstandard.compress(b"a"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert_error(lambda: lines(str(path)), f"reading {path}", "[train]", error_type=MissingExtra)


def test_zst_files_with_wide_windows_and_empty_frames_are_read(tmp_path):
    path = tmp_path / "text.zst"
    wide = zstandard.ZstdCompressionParameters.from_level(3, window_log=28)
    packed = zstandard.ZstdCompressor(compression_params=wide).compress(b"wide\n" * 100_000)
    path.write_bytes(zstandard.compress(b"") + packed)
    assert lines(str(path)) == ["wide"] * 100_000


# ---------------------------------------------------------------------------------- plain text


def test_text_is_split_into_lines_at_newlines_only(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\x00c\x0bd\r\ne\xe2\x80\xa8f\n")
    # Tokenizers treat the carriage return as white space.
    assert lines(str(path)) == ["a\r", "b\x00c\x0bd\r", "e\u2028f"]


def test_byte_order_mark_is_removed_from_every_file(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbfx\n")
    assert lines(*resolve([f"{tmp_path}/*.txt"])) == ["x", "x"]


@pytest.mark.parametrize("block_bytes", [8, 2**22])
def test_error_for_text_that_is_not_utf8_names_the_line(tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", block_bytes)
    path = tmp_path / "latin.txt"
    path.write_bytes(b"one\ntwo\nthree\nna\xefve\n")
    assert_error(lambda: lines(str(path)), f"{path} is not UTF-8 in line 4", "iconv")


def test_overlong_line_raises_error(tmp_path, monkeypatch):
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", 2**10)
    monkeypatch.setattr(line_blocks, "MAX_LINE_BYTES", 2**20)
    path = tmp_path / "text"
    path.write_bytes(b"short\n" + b"x" * (2**20 + 2**11))
    assert_error(lambda: lines(str(path)), f"{path} has a line of more than 1 MB", "fold")
    path.write_bytes(b"x" * 2**19 + b"\n" + b"y" * 2**19)
    assert list(map(len, lines(str(path)))) == [2**19, 2**19]


# ------------------------------------------------------------------------------------ records


@pytest.mark.parametrize("name", ["text.jsonl", "text.json", "text.ndjson"])
def test_json_records_yield_lines_of_text_column(tmp_path, name):
    path = tmp_path / name
    records = [{"id": 1, "body": "a\nb\n"}, {"body": ""}, {"body": None}, {"body": "c\ud800 é"}]
    path.write_text("\n\n".join(map(json.dumps, records)), encoding="utf-8")
    # JSON escapes can encode lone surrogates, which UTF-8 cannot represent.
    assert lines(str(path), field="body") == ["a", "b", "c? é"]


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ("{'text': 1}", ["line 2 is not a JSON record"]),
        ("[" * 100_000, ["line 2 is not a JSON record"]),
        ('{"body": "x", "id": 1}', ["line 2 has no field 'text'", "body, id", "--text-column"]),
        ("[\n{}]", ["line 2 is not a JSON record", "several lines", "jq -c"]),
        (json.dumps({str(n): 0 for n in range(20)}), ["10, 11 and 8 more"]),
        ("{}", ["line 2 has no field 'text' (found: none)"]),
        ('["text"]', ["line 2 is not a JSON record", "got list", "jq -c '.[]'"]),
        ('{"text": ["x"]}', ["line 2: the value of 'text' must be a string (got list)"]),
    ],
)
def test_invalid_json_records_raise_error(tmp_path, second, words):
    path = tmp_path / "text.jsonl"
    path.write_text('{"text": "a"}\n' + second, encoding="utf-8")
    assert_error(lambda: lines(str(path)), str(path), *words)


def test_json_lines_are_read_whatever_the_file_name(tmp_path, caplog):
    (tmp_path / "a.txt").write_text('{"body": "a b"}\n{"body": "c\\nd"}\n')
    assert lines(f"{tmp_path}/a.txt", field="body") == ["a b", "c", "d"]
    assert not caplog.records
    assert_error(lambda: lines(f"{tmp_path}/a.txt"), "no field 'text'", "--input-format text")
    assert lines(f"{tmp_path}/a.txt", input_format="text")[0] == '{"body": "a b"}'


def test_text_column_without_effect_is_reported_once(tmp_path, caplog):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("{ e }\n")
    names = [f"{tmp_path}/a.txt", f"{tmp_path}/b.txt"]
    assert lines(*names) == ["{ e }"] * 2
    assert not caplog.records
    assert lines(*names, field="body") == ["{ e }"] * 2
    (message,) = caplog.messages
    assert message.startswith(", ".join(names))
    assert "plain text, so --text-column body has no effect" in message
    caplog.clear()
    (tmp_path / "c").write_text('{"body": "x"}\n')
    assert lines(*names, f"{tmp_path}/c", field="body") == ["{ e }", "{ e }", "x"]
    assert not caplog.records


def test_plain_text_that_looks_like_a_table_is_reported_once(tmp_path, caplog):
    paths = [tmp_path / f"ticks.csv.{day}" for day in (17, 18)]
    for path in paths:
        path.write_text("id,text\n1,A bank\n")
    names = [str(path) for path in paths]
    assert lines(*names) == ["id,text", "1,A bank"] * 2
    (message,) = caplog.messages
    assert "ticks.csv.17 is read as plain text, but looks like a table" in message
    assert "--input-format csv" in message
    caplog.clear()
    assert lines(*names, input_format="text") == ["id,text", "1,A bank"] * 2
    assert lines(*names, input_format="csv") == ["A bank"] * 2
    assert not caplog.messages


@pytest.mark.parametrize("block_bytes", [4, 2**22])
def test_texts_of_csv_and_tsv_are_read_as_lines(tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", block_bytes)
    (tmp_path / "a.csv").write_text('id,body\n1,"a, b\nc"\n2,\n3,d\n')
    (tmp_path / "a.tsv").write_text('id\tbody\n1\t"e\n')
    blocks = list(read_blocks([f"{tmp_path}/a.csv", f"{tmp_path}/a.tsv"], "body"))
    assert [line for block in blocks for line in block.lines()] == ["a, b", "c", "d", '"e']
    assert_error(lambda: lines(f"{tmp_path}/a.csv"), "no column 'text' (found: id, body)")


def write_parquet(path, columns, **options):
    pyarrow.parquet.write_table(pyarrow.table(columns), path, **options)
    return str(path)


@pytest.mark.parametrize("column_type", [pyarrow.string(), pyarrow.large_string()])
def test_parquet_file_yields_lines_of_text_column(tmp_path, monkeypatch, column_type):
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", 3000)
    texts = [f"row {number}\nsecond line é" for number in range(1000)] + [None, "", "last\n"]
    column = pyarrow.array(texts, column_type)
    name = write_parquet(
        tmp_path / "t.parquet", {"id": range(1003), "body": column}, row_group_size=300
    )
    expected = [line for text in texts[:1000] for line in text.split("\n")] + ["last"]
    assert lines(name, field="body") == expected
    blocks = list(read_blocks([name], "body"))
    assert max(len(block.data) for block in blocks) < 4000
    assert sum(block.n_read for block in blocks) == pytest.approx(os.path.getsize(name), abs=50)


def test_dictionary_encoded_parquet_columns_are_read(tmp_path):
    column = pyarrow.array(["a", "b", "a"]).dictionary_encode()
    assert lines(write_parquet(tmp_path / "t.parquet", {"text": column})) == ["a", "b", "a"]


def test_invalid_parquet_files_raise_error(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1 not really")
    assert_error(lambda: lines(str(path)), f"Cannot read {path}")
    write_parquet(path, {"body": ["a"], "n": [1]})
    assert_error(lambda: lines(str(path)), f"{path} has no column 'text' (found: body, n)")
    assert_error(
        lambda: lines(str(path), field="n"), "row 1: the value of 'n' must be a string (got int)"
    )
    write_parquet(path, {"text": ["x" * 100]})
    monkeypatch.setattr(line_blocks, "MAX_LINE_BYTES", 50)
    assert_error(lambda: lines(str(path)), f"{path} has a line of more than")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert_error(lambda: lines(str(path)), "[parquet]", error_type=MissingExtra)


# -------------------------------------------------------------------------------------- names


def test_resolve_expands_globs_and_rejects_missing_files_and_folders(tmp_path):
    for name in ("b.txt", "a.txt", "c.md", "odd[1].txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "d.txt").write_text("d")
    files = resolve([f"{tmp_path}/c.md", f"{tmp_path}/*.txt", "-", f"{tmp_path}/odd[1].txt"])
    names = ["c.md", "a.txt", "b.txt", "odd[1].txt", "-", "odd[1].txt"]
    assert files == [name if name == "-" else f"{tmp_path}/{name}" for name in names]
    assert len(resolve([f"{tmp_path}/**/*.txt"])) == 4
    assert_error(
        lambda: resolve([f"{tmp_path}/*.nothing"]), f"No file matches {tmp_path}/*.nothing"
    )
    assert_error(lambda: resolve([f"{tmp_path}/s*b"]), "No file matches")
    assert_error(lambda: resolve([str(tmp_path)]), f"{tmp_path} is a folder", "*.txt")
    assert_error(lambda: resolve([f"{tmp_path}/missing"]), "Cannot read", "no such file")
    assert_error(lambda: resolve(["-", "-"]), "specified twice")


def test_total_bytes_is_none_unless_all_files_are_regular(tmp_path):
    (tmp_path / "a").write_text("12345")
    os.mkfifo(tmp_path / "pipe")
    assert total_bytes([f"{tmp_path}/a"] * 2) == 10
    assert total_bytes([f"{tmp_path}/a", "-"]) is None
    assert total_bytes([f"{tmp_path}/pipe"]) is None


def test_reading_a_folder_raises_error(tmp_path):
    assert_error(lambda: lines(str(tmp_path)), f"Cannot read {tmp_path}", "Is a directory")


def test_read_blocks_reads_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a\nb")))
    assert lines("-") == ["a", "b"]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\xff")))
    assert_error(lambda: lines("-"), "standard input is not UTF-8 in line 1")
    monkeypatch.setattr(sys, "stdin", None)
    assert_error(lambda: lines("-"), "standard input: it is closed.")


def test_read_blocks_reads_named_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(b"a\nb\n"))
    writer.start()
    assert lines(f"{tmp_path}/pipe") == ["a", "b"]
    writer.join()


def test_block_returns_empty_text_line_but_skips_empty_json_line():
    assert Block("x", 1, b"\n").lines() == [""]
    assert Block("x", 1, b"\n", "text").lines() == []
