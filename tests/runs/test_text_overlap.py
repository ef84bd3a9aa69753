"""Tests of the script that counts test texts in a training text."""

import json
import lzma

import pytest

TEXT = "Der Fluss tritt über die Ufer, und\ndie Bank am Fluss steht unter Wasser.\n"


def counts(script, tmp_path, rows, window, *options):
    test = tmp_path / "test.tsv"
    lines = ["id\tdocument\tlabel", *(f"{n}\t{row}\t{n % 2}" for n, row in enumerate(rows))]
    test.write_text("\n".join(lines) + "\n", encoding="utf-8")
    training = tmp_path / "text.txt.xz"
    training.write_bytes(lzma.compress(("Etwas anderes.\n" * 5 + TEXT).encode()))
    settings = "--window", window, "--test", f"nsmc={test}"
    output = script("text_overlap.py", training, *settings, *options)
    return json.loads(output)


def test_text_overlap_counts_whole_and_partly_found_texts(script, tmp_path):
    rows = [
        "der fluss TRITT ueber",  # another spelling: only its beginning occurs
        "über die Ufer und die",  # across a line break
        "unter W",  # too short
        "Ein ganz anderer Satz.",
        "Am Fluss steht unter!",
        "am Fluss steht unter",  # the same without punctuation
    ]
    result = counts(script, tmp_path, rows, 10)
    assert result == {"test": "nsmc test.tsv", "texts": 5, "compared": 4, "found": 3, "whole": 2}


def test_text_overlap_finds_texts_of_exactly_one_window(script, tmp_path):
    assert counts(script, tmp_path, ["und die Bank"], 10)["whole"] == 1
    assert counts(script, tmp_path, ["und die Bänk"], 10)["found"] == 0


def test_text_overlap_writes_the_other_lines(script, tmp_path):
    out = tmp_path / "out"
    counts(script, tmp_path, ["die Bank am Fluss"], 10, "--out", out)
    written = (out / "text.txt").read_text(encoding="utf-8")
    assert written == "Etwas anderes.\n" * 5 + TEXT.splitlines(keepends=True)[0]


def test_text_overlap_reads_files_with_a_named_reader(script, tmp_path):
    columns = "ID Text Pronoun Pronoun-offset A A-offset A-coref B B-offset B-coref URL".split()
    row = "1", "Ann met Eve. Her left.", "Her", "13", "Ann", "0", "TRUE", "Eve", "8", "FALSE", "x"
    test, text = tmp_path / "gap.tsv", tmp_path / "text.txt"
    test.write_text("\t".join(columns) + "\n" + "\t".join(row) + "\n")
    text.write_text("Then Ann met Eve. Her left hand was cold.\n")
    options = "--test", f"litbank:gap={test}", "--window", "10"
    result = json.loads(script("text_overlap.py", text, *options))
    assert result.pop("test") == "litbank:gap gap.tsv"
    assert result == {"texts": 1, "compared": 1, "found": 1, "whole": 1}


def test_text_overlap_compares_lines_of_a_plain_text(script, tmp_path):
    test, text = tmp_path / "test.txt", tmp_path / "text.txt"
    test.write_text("A river bank , under water .\nAnother line .\nA river bank , under water .\n")
    text.write_text("It is a river bank under water.\n")
    result = json.loads(script("text_overlap.py", text, "--test-lines", test, "--window", "10"))
    assert result == {
        "test": f"{tmp_path.name}/test.txt",
        "texts": 2,
        "compared": 2,
        "found": 1,
        "whole": 1,
    }


def test_text_overlap_requires_a_test_set(script, tmp_path, capsysbinary):
    with pytest.raises(SystemExit):
        script("text_overlap.py", tmp_path / "text.txt")
    assert b"pass --test or --test-lines" in capsysbinary.readouterr().err


def test_text_overlap_leaves_out_all_lines_with_a_part_of_a_window(script, tmp_path):
    test, text, out = tmp_path / "test.txt", tmp_path / "text.txt", tmp_path / "out"
    test.write_text("a river bank under water\n")
    found = ["It is a river\n", "\n", "bank under water.\n", "A river\u2028bank under it\n"]
    other = ["river\n", "bank\u2028above water\r\n", "no final line break"]
    text.write_bytes("".join([other[0], *found, *other[1:]]).encode())
    script("text_overlap.py", text, "--test-lines", test, "--window", "14", "--out", out)
    assert (out / "text.txt").read_bytes().decode() == "".join(other)


def test_text_overlap_rejects_texts_of_the_same_name(script, tmp_path, capsysbinary):
    texts = tmp_path / "text.txt", tmp_path / "text.txt.xz"
    options = "--test-lines", tmp_path / "test.txt", "--out", tmp_path / "out"
    with pytest.raises(SystemExit):
        script("text_overlap.py", *texts, *options)
    assert b"several texts would be written to text.txt" in capsysbinary.readouterr().err
    assert not (tmp_path / "out").exists()
