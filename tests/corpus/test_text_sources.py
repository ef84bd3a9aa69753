"""Files, globs and standard input to blocks: every format, every kind of damage."""

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
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.corpus import text_sources
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


def lines(*names, field="text"):
    return [line for block in read_blocks(names, field) for line in block.lines()]


def refused(call, *words, kind=InputError):
    with pytest.raises(kind) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


# -------------------------------------------------------------------------------- compression


@pytest.mark.parametrize("suffix", COMPRESS)
class TestCompression:
    def test_read(self, tmp_path, suffix):
        path = tmp_path / f"text.txt{suffix.upper()}"
        path.write_bytes(COMPRESS[suffix](TEXT.encode()))
        assert lines(str(path)) == TEXT.split("\n")

    def test_files_end_to_end(self, tmp_path, suffix):
        path = tmp_path / f"text{suffix}"
        path.write_bytes(COMPRESS[suffix](b"a\nb") + COMPRESS[suffix](b"c\nd\n"))
        assert lines(str(path)) == ["a", "bc", "d"]

    def test_small_blocks(self, tmp_path, suffix, monkeypatch):
        monkeypatch.setattr(text_sources, "BLOCK_BYTES", 10)
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

    def test_an_empty_file(self, tmp_path, suffix):
        path = tmp_path / f"text{suffix}"
        path.write_bytes(COMPRESS[suffix](b""))
        assert lines(str(path)) == []

    def test_a_file_cut_short(self, tmp_path, suffix):
        path = tmp_path / f"text.txt{suffix}"
        data = COMPRESS[suffix](os.urandom(5000).hex().encode())
        path.write_bytes(data[: len(data) // 2])
        if suffix:
            refused(lambda: lines(str(path)), f"cannot read {path}", "end")
        else:
            assert len(lines(str(path))) == 1

    def test_a_file_of_another_kind(self, tmp_path, suffix):
        path = tmp_path / f"text.txt{suffix}"
        path.write_bytes(b"plain text, not compressed\n")
        if suffix:
            refused(lambda: lines(str(path)), f"cannot read {path}")

    def test_json_lines(self, tmp_path, suffix):
        path = tmp_path / f"text.jsonl{suffix}"
        path.write_bytes(COMPRESS[suffix](b'{"text": "a b"}\n{"text": "c"}\n'))
        assert lines(str(path)) == ["a b", "c"]


def test_zst_needs_its_package(tmp_path, monkeypatch):
    path = tmp_path / "text.zst"
    path.write_bytes(zstandard.compress(b"a"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    refused(lambda: lines(str(path)), f"reading {path}", "elmo-torch[train]", kind=MissingExtra)


def test_zst_with_a_wide_window_and_an_empty_frame(tmp_path):
    path = tmp_path / "text.zst"
    wide = zstandard.ZstdCompressionParameters.from_level(3, window_log=28)
    packed = zstandard.ZstdCompressor(compression_params=wide).compress(b"wide\n" * 100_000)
    path.write_bytes(zstandard.compress(b"") + packed)
    assert lines(str(path)) == ["wide"] * 100_000


# ---------------------------------------------------------------------------------- plain text


@settings(deadline=None)
@given(
    text=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"))).map(
        "\n".join
    ),
    size=st.integers(1, 30),
)
def test_blocks_put_together_are_the_text(tmp_path_factory, text, size):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_bytes(text.encode())
    blocks = text_sources.whole_lines
    with path.open("rb") as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_sources, "BLOCK_BYTES", size)
        parts = list(blocks(file, "text"))
    assert b"".join(parts).decode() == text
    assert all(part.endswith(b"\n") for part in parts[:-1])


def test_odd_bytes_are_harmless(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\x00c\x0bd\r\ne\xe2\x80\xa8f\n")
    # Lines end at newlines alone; the carriage return is white space to every tokeniser.
    assert lines(str(path)) == ["a\r", "b\x00c\x0bd\r", "e\u2028f"]


def test_the_mark_at_the_beginning_is_not_text_in_any_file(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbfx\n")
    assert lines(*resolve([f"{tmp_path}/*.txt"])) == ["x", "x"]


@pytest.mark.parametrize("block_bytes", [8, 2**22])
def test_not_utf8(tmp_path, monkeypatch, block_bytes):
    monkeypatch.setattr(text_sources, "BLOCK_BYTES", block_bytes)
    path = tmp_path / "latin.txt"
    path.write_bytes(b"one\ntwo\nthree\nna\xefve\n")
    refused(lambda: lines(str(path)), f"{path} is not UTF-8 in line 4", "iconv")


def test_a_line_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(text_sources, "BLOCK_BYTES", 2**10)
    monkeypatch.setattr(text_sources, "MAX_LINE_BYTES", 2**20)
    path = tmp_path / "text"
    path.write_bytes(b"short\n" + b"x" * (2**20 + 2**11))
    refused(lambda: lines(str(path)), f"{path} has a line of more than 1 MB", "fold")
    path.write_bytes(b"x" * 2**19 + b"\n" + b"y" * 2**19)
    assert list(map(len, lines(str(path)))) == [2**19, 2**19]


# ------------------------------------------------------------------------------------ records


@pytest.mark.parametrize("name", ["text.jsonl", "text.json", "text.ndjson"])
def test_records(tmp_path, name):
    path = tmp_path / name
    records = [{"id": 1, "body": "a\nb\n"}, {"body": ""}, {"body": None}, {"body": "c\ud800 é"}]
    path.write_text("\n\n".join(map(json.dumps, records)), encoding="utf-8")
    # Half of a surrogate pair can be spelled in JSON but in no UTF-8 file.
    assert lines(str(path), field="body") == ["a", "b", "c? é"]


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ("{'text': 1}", ["line 2 is no JSON record"]),
        ("[" * 100_000, ["line 2 is no JSON record"]),
        ('{"body": "x", "id": 1}', ["line 2 has no field 'text'", "body, id", "--text-field"]),
        ("{}", ["line 2 has no field 'text', found nothing"]),
        ('["text"]', ["line 2 has no field 'text', found list"]),
        ('{"text": ["x"]}', ["line 2", "text is list", "a string"]),
    ],
)
def test_records_that_are_none(tmp_path, second, words):
    path = tmp_path / "text.jsonl"
    path.write_text('{"text": "a"}\n' + second, encoding="utf-8")
    refused(lambda: lines(str(path)), str(path), *words)


def parquet(path, columns, **options):
    pyarrow.parquet.write_table(pyarrow.table(columns), path, **options)
    return str(path)


@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.large_string()])
def test_parquet(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(text_sources, "BLOCK_BYTES", 3000)
    texts = [f"row {number}\nsecond line é" for number in range(1000)] + [None, "", "last\n"]
    column = pyarrow.array(texts, kind)
    name = parquet(tmp_path / "t.parquet", {"id": range(1003), "body": column}, row_group_size=300)
    expected = [line for text in texts[:1000] for line in text.split("\n")] + ["last"]
    assert lines(name, field="body") == expected
    blocks = list(read_blocks([name], "body"))
    assert max(len(block.data) for block in blocks) < 4000
    assert sum(block.n_read for block in blocks) == pytest.approx(os.path.getsize(name), abs=50)


def test_parquet_with_a_dictionary(tmp_path):
    column = pyarrow.array(["a", "b", "a"]).dictionary_encode()
    assert lines(parquet(tmp_path / "t.parquet", {"text": column})) == ["a", "b", "a"]


def test_parquet_that_cannot_be_read(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1 not really")
    refused(lambda: lines(str(path)), f"cannot read {path}")
    parquet(path, {"body": ["a"], "n": [1]})
    refused(lambda: lines(str(path)), f"{path} has no column 'text', found body, n")
    refused(lambda: lines(str(path), field="n"), "column n holds int64, expected strings")
    parquet(path, {"text": ["x" * 100]})
    monkeypatch.setattr(text_sources, "MAX_LINE_BYTES", 50)
    refused(lambda: lines(str(path)), f"{path} has a line of more than")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused(lambda: lines(str(path)), "elmo-torch[parquet]", kind=MissingExtra)


# -------------------------------------------------------------------------------------- names


def test_names_and_globs(tmp_path):
    for name in ("b.txt", "a.txt", "c.md", "odd[1].txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "d.txt").write_text("d")
    found = resolve([f"{tmp_path}/c.md", f"{tmp_path}/*.txt", "-", f"{tmp_path}/odd[1].txt"])
    names = ["c.md", "a.txt", "b.txt", "odd[1].txt", "-", "odd[1].txt"]
    assert found == [name if name == "-" else f"{tmp_path}/{name}" for name in names]
    assert len(resolve([f"{tmp_path}/**/*.txt"])) == 4
    refused(lambda: resolve([f"{tmp_path}/*.nothing"]), f"no file matches {tmp_path}/*.nothing")
    refused(lambda: resolve([f"{tmp_path}/s*b"]), "no file matches")
    refused(lambda: resolve([str(tmp_path)]), f"{tmp_path} is a folder", "*.txt")
    refused(lambda: resolve([f"{tmp_path}/missing"]), "cannot read", "no such file")
    refused(lambda: resolve(["-", "-"]), "named twice")


def test_total_bytes(tmp_path):
    (tmp_path / "a").write_text("12345")
    os.mkfifo(tmp_path / "pipe")
    assert total_bytes([f"{tmp_path}/a"] * 2) == 10
    assert total_bytes([f"{tmp_path}/a", "-"]) is None
    assert total_bytes([f"{tmp_path}/pipe"]) is None


def test_a_file_that_may_not_be_read(tmp_path):
    refused(lambda: lines(str(tmp_path)), f"cannot read {tmp_path}", "Is a directory")


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a\nb")))
    assert lines("-") == ["a", "b"]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\xff")))
    refused(lambda: lines("-"), "standard input is not UTF-8 in line 1")
    monkeypatch.setattr(sys, "stdin", None)
    refused(lambda: lines("-"), "standard input: it is closed")


def test_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(b"a\nb\n"))
    writer.start()
    assert lines(f"{tmp_path}/pipe") == ["a", "b"]
    writer.join()


def test_a_block_without_lines():
    assert Block("x", 1, b"\n").lines() == [""]
    assert Block("x", 1, b"\n", "text").lines() == []
