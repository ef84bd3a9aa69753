"""Tests of the script that holds out text for a base model."""

import lzma

import pytest


def article(title, n_lines):
    lines = [f"= {title} =", *(f"{title} {n}" for n in range(n_lines - 1)), "= = Section = ="]
    return "".join(f"{line}\n" for line in lines)


def test_every_nth_block_is_held_out_and_articles_are_left_out(script, tmp_path):
    first = article("Seven", 7) + article("New Yorker", 300) + article("Long", 290)
    second = article("Other", 250)
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(first.encode()))
    (tmp_path / "b.txt").write_text(second)
    out = tmp_path / "out"
    options = "--out", out, "--without", "New Yorker", "--every", 2
    output = script("held_out_text.py", tmp_path / "a.txt.xz", tmp_path / "b.txt", *options)
    assert output == "3 of 6 blocks held out\n"
    kept = (article("Seven", 7) + article("Long", 290)).splitlines(keepends=True)
    other = second.splitlines(keepends=True)
    assert (out / "a.txt").read_text() == "".join(kept[:100] + kept[200:])
    assert (out / "b.txt").read_text() == "".join(other[100:200])
    assert (out / "valid.txt").read_text() == "".join(kept[100:200] + other[:100] + other[200:])


def test_texts_of_the_same_name_are_an_error(script, tmp_path):
    (tmp_path / "valid.txt").write_text("a\n")
    with pytest.raises(FileExistsError, match=r"valid\.txt"):
        script("held_out_text.py", tmp_path / "valid.txt", "--out", tmp_path / "out")
