"""Tests for the readers of coreference documents and GAP."""

import pytest
from conll2012_text import document, rows

from elmo.errors import FormatError
from elmo.tasks.coreference.coreference_files import read_coreference
from elmo.tasks.coreference.gap import COLUMNS, PronounCandidates, read_gap
from elmo.tasks.semantic_roles.predicate_frames import read_conll2012
from elmo.text.tokenizer import EnglishTokenizer


@pytest.fixture
def write(tmp_path):
    def write(text, name="file"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_read_coreference_returns_nested_mentions_with_document_offsets(write):
    first = rows("the man ate it".split(), ["(3|(3", "3)", "3)", "(7)"])
    second = rows("He left".split(), ["(3)", "-"])
    (example,) = read_coreference(write(document(first, second)))
    assert example.texts == (("the", "man", "ate", "it"), ("He", "left"))
    assert example.target == (((0, 2), (0, 3), (4, 5)), ((3, 4),))
    assert example.id == "bc/x; part 0"
    assert example.extra == ("Kim", "Kim")


def test_read_coreference_merges_clusters_that_share_a_mention(write):
    cells = ["(1)", "(2)", "(1)|(3)", "(2)|(3)", "(4)"]
    (example,) = read_coreference(write(document(rows("a b c d e".split(), cells))))
    assert example.target == (((0, 1), (1, 2), (2, 3), (3, 4)), ((4, 5),))


def test_read_coreference_accepts_tabs_and_empty_cells(write):
    """LitBank has an empty cell for a word without a mention."""
    lines = [
        f"x\t0\t{n}\tw{n}" + "\t_" * 8 + f"\t{cell}" for n, cell in enumerate(["(0", "", "0)"])
    ]
    text = "#begin document (x); part 0\n" + "\n".join(lines) + "\n\n#end document\n"
    (example,) = read_coreference(write(text))
    assert example.texts == (("w0", "w1", "w2"),)
    assert example.target == (((0, 3),),)
    assert example.extra == ("",)


def test_read_coreference_reads_several_documents_from_one_file(write):
    text = document(rows(["a"], ["-"])) + document(rows(["b"], ["(1)"]), name="(bc/x); part 001")
    examples = read_coreference(write(text))
    assert [(example.id, example.target) for example in examples] == [
        ("bc/x; part 0", ()),
        ("bc/x; part 1", (((0, 1),),)),
    ]


def test_read_coreference_splits_directory_into_train_dev_and_test(tmp_path, write):
    for number in range(10):
        write(document(rows(["a"], ["-"]), name=f"(d{number})"), f"{number}.conll")
    write("nothing", "readme.txt")
    names = [example.id[:2] for example in read_coreference(tmp_path)]
    assert names == [f"d{number}" for number in range(10)]
    for part, expected in (("train", names[:8]), ("dev", names[8:9]), ("test", names[9:])):
        assert [example.id[:2] for example in read_coreference(tmp_path / part)] == expected


def test_readers_read_only_gold_files_in_nested_directories(tmp_path, write):
    """OntoNotes contains automatic annotations (`auto_conll`) next to gold annotations."""
    for name in ("b/00/b.v4_gold_conll", "a/01/a.v4_gold_conll", "a/01/a.v4_auto_conll"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(document(rows(["go"], ["(V*)"], ["-"]), name=f"({name})"), name)
    expected = ["a/01/a.v4_gold_conll; part 0", "b/00/b.v4_gold_conll; part 0"]
    assert [example.id for example in read_coreference(tmp_path)] == expected
    assert [example.id for example in read_conll2012(tmp_path)] == [f"{e}, 0" for e in expected]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["3)", "-"], "line 2: a mention of cluster 3 is closed but was never opened"),
        (["-", "(3"], "line 3: a mention of cluster 3 is not closed in its sentence"),
        (
            ["(a)", "-"],
            r"line 2: invalid coreference column '\(a\)'. Expected values such as \(3 and 3\)",
        ),
        (["(3.5", "3.5)"], r"line 2: invalid coreference column '\(3.5'"),
        (["-", "(-1)"], r"line 3: invalid coreference column '\(-1\)'"),
        (["3", "-"], r"line 2: invalid coreference column '3'. Expected values such as \(3"),
        (["(3|", "3)"], r"line 2: invalid coreference column '\(3\|'"),
    ],
)
def test_read_coreference_rejects_invalid_brackets(write, cells, message):
    with pytest.raises(FormatError, match=message):
        read_coreference(write(document(rows(["a", "b"], cells))))


def test_read_coreference_rejects_mention_across_sentences(write):
    text = document(rows(["a", "b"], ["-", "(3"]), rows(["c"], ["3)"]))
    with pytest.raises(
        FormatError, match="line 3: a mention of cluster 3 is not closed in its sent"
    ):
        read_coreference(write(text))


def test_read_coreference_rejects_directory_without_documents(tmp_path):
    with pytest.raises(FormatError, match="contains no files whose names end in conll"):
        read_coreference(tmp_path)
    with pytest.raises(FormatError, match="Cannot read"):
        read_coreference(tmp_path / "none")


# --------------------------------------------------------------------------------------------- GAP

TEXT = "Ann met Bea. She left."
ROW = ["d-1", TEXT, "She", "13", "Ann", "0", "TRUE", "Bea", "8", "FALSE", "http://x"]


def table(*table_rows):
    return "\n".join("\t".join(row) for row in (COLUMNS, *table_rows)) + "\n"


def changed(**cells):
    return [
        cells.get(name.replace("-", "_"), cell) for name, cell in zip(COLUMNS, ROW, strict=True)
    ]


def test_read_gap_returns_sentences_and_candidates(write):
    (example,) = read_gap(write(table(ROW)), split=EnglishTokenizer().words)
    assert example.texts == (("Ann", "met", "Bea", "."), ("She", "left", "."))
    assert example.target == (True, False)
    assert example.extra == PronounCandidates((4, 5), (0, 1), (2, 3), "feminine")
    assert example.id == "d-1"


def test_read_gap_skips_blank_lines(write):
    examples = read_gap(write(table(ROW, [], ROW) + "\n\r\n"), split=EnglishTokenizer().words)
    assert [example.id for example in examples] == ["d-1", "d-1"]
    path = write(table(ROW, [], ROW[:-1]))
    with pytest.raises(FormatError, match=r"line 4: expected 11 columns \(got 10\)"):
        read_gap(path, split=EnglishTokenizer().words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\n", "line 1: not the header of a GAP file. Expected the columns ID, Text"),
        ("", "line 1: not the header"),
        (table(), "contains no rows below the header"),
        (table([], []), "contains no rows below the header"),
        (table(ROW, ROW[:-1]), r"line 3: expected 11 columns \(got 10\)"),
        (table(changed(A_offset="1")), "line 2: the text does not contain 'Ann' at character 1"),
        (table(changed(B_offset="x")), "does not contain 'Bea' at character x"),
        (table(changed(B_offset="8" * 5000)), "line 2: .* 'Bea' at character 8{20}.$"),
        (table(changed(B_coref="maybe")), r"line 2: B-coref must be TRUE or FALSE \(got 'maybe'\)"),
        (table(changed(Pronoun="left", Pronoun_offset="17")), "unknown pronoun 'left'. Expected"),
    ],
)
def test_read_gap_rejects_invalid_file(write, text, message):
    with pytest.raises(FormatError, match=message):
        read_gap(write(text))
