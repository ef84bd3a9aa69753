"""Documents and their clusters, and GAP's pronouns."""

import pytest
from test_predicate_frames import document, rows

from elmo.errors import FormatError
from elmo.tasks.examples import PronounCandidates
from elmo.tasks.readers.coreference_files import read_coreference
from elmo.tasks.readers.gap import COLUMNS, read_gap
from elmo.tasks.readers.predicate_frames import read_conll2012
from elmo.text.tokenizer import EnglishTokenizer


@pytest.fixture
def write(tmp_path):
    def write(text, name="file"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_clusters(write):
    """Mentions are counted over the document, and may stand in each other, also of one cluster."""
    first = rows("the man ate it".split(), ["(3|(3", "3)", "3)", "(7)"])
    second = rows("He left".split(), ["(3)", "-"])
    (example,) = read_coreference(write(document(first, second)))
    assert example.texts == (("the", "man", "ate", "it"), ("He", "left"))
    assert example.target == (((0, 2), (0, 3), (4, 5)), ((3, 4),))
    assert example.id == "bc/x; part 0"
    assert example.extra == ("Kim", "Kim")


def test_clusters_that_share_a_mention_are_one(write):
    cells = ["(1)", "(2)", "(1)|(3)", "(2)|(3)", "(4)"]
    (example,) = read_coreference(write(document(rows("a b c d e".split(), cells))))
    assert example.target == (((0, 1), (1, 2), (2, 3), (3, 4)), ((4, 5),))


def test_columns_between_tabs(write):
    """LitBank's: nothing said is an empty cell, and words are as they are."""
    lines = [
        f"x\t0\t{n}\tw{n}" + "\t_" * 8 + f"\t{cell}" for n, cell in enumerate(["(0", "", "0)"])
    ]
    text = "#begin document (x); part 0\n" + "\n".join(lines) + "\n\n#end document\n"
    (example,) = read_coreference(write(text))
    assert example.texts == (("w0", "w1", "w2"),)
    assert example.target == (((0, 3),),)
    assert example.extra == ("",)


def test_several_parts(write):
    text = document(rows(["a"], ["-"])) + document(rows(["b"], ["(1)"]), name="(bc/x); part 001")
    found = read_coreference(write(text))
    assert [(example.id, example.target) for example in found] == [
        ("bc/x; part 0", ()),
        ("bc/x; part 1", (((0, 1),),)),
    ]


def test_parts_of_a_folder(tmp_path, write):
    for number in range(10):
        write(document(rows(["a"], ["-"]), name=f"(d{number})"), f"{number}.conll")
    write("nothing", "readme.txt")
    names = [example.id[:2] for example in read_coreference(tmp_path)]
    assert names == [f"d{number}" for number in range(10)]
    for part, expected in (("train", names[:8]), ("dev", names[8:9]), ("test", names[9:])):
        assert [example.id[:2] for example in read_coreference(tmp_path / part)] == expected


def test_trees_of_folders(tmp_path, write):
    """As OntoNotes has them: what was found by programs lies beside what people say."""
    for name in ("b/00/b.v4_gold_conll", "a/01/a.v4_gold_conll", "a/01/a.v4_auto_conll"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(document(rows(["go"], ["(V*)"], ["-"]), name=f"({name})"), name)
    expected = ["a/01/a.v4_gold_conll; part 0", "b/00/b.v4_gold_conll; part 0"]
    assert [example.id for example in read_coreference(tmp_path)] == expected
    assert [example.id for example in read_conll2012(tmp_path)] == [f"{e}, 0" for e in expected]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["3)", "-"], "line 2 closes a mention of 3 that was not opened"),
        (["-", "(3"], "line 3 opens a mention of 3 with no end in its sentence"),
        (["(a)", "-"], r"line 2 has '\(a\)' for coreference; expected such as \(3, 3\)"),
        (["(3.5", "3.5)"], r"line 2 has '\(3.5' for coreference"),
        (["-", "(-1)"], r"line 3 has '\(-1\)' for coreference"),
        (["3", "-"], r"line 2 has '3' for coreference; expected such as \(3"),
        (["(3|", "3)"], r"line 2 has '\(3\|' for coreference"),
    ],
)
def test_broken(write, cells, message):
    with pytest.raises(FormatError, match=message):
        read_coreference(write(document(rows(["a", "b"], cells))))


def test_a_mention_over_two_sentences(write):
    text = document(rows(["a", "b"], ["-", "(3"]), rows(["c"], ["3)"]))
    with pytest.raises(FormatError, match="line 3 opens a mention of 3 with no end in its sent"):
        read_coreference(write(text))


def test_folders_without_documents(tmp_path):
    with pytest.raises(FormatError, match="holds no file whose name ends in conll"):
        read_coreference(tmp_path)
    with pytest.raises(FormatError, match="cannot read"):
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


def test_gap(write):
    (example,) = read_gap(write(table(ROW)), split=EnglishTokenizer().words)
    assert example.texts == (("Ann", "met", "Bea", "."), ("She", "left", "."))
    assert example.target == (True, False)
    assert example.extra == PronounCandidates((4, 5), (0, 1), (2, 3), "feminine")
    assert example.id == "d-1"


def test_blank_lines_of_gap(write):
    found = read_gap(write(table(ROW, [], ROW) + "\n\r\n"), split=EnglishTokenizer().words)
    assert [example.id for example in found] == ["d-1", "d-1"]
    path = write(table(ROW, [], ROW[:-1]))
    with pytest.raises(FormatError, match="line 4 has 10 columns, expected 11"):
        read_gap(path, split=EnglishTokenizer().words)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\n", "line 1 is no header of GAP: expected ID, Text"),
        ("", "line 1 is no header"),
        (table(), "holds no row below its header"),
        (table([], []), "holds no row below its header"),
        (table(ROW, ROW[:-1]), "line 3 has 10 columns, expected 11"),
        (table(changed(A_offset="1")), "line 2: its text does not hold 'Ann' at character 1"),
        (table(changed(B_offset="x")), "does not hold 'Bea' at character x"),
        (table(changed(B_offset="8" * 5000)), "line 2: .* 'Bea' at character 8{20}$"),
        (table(changed(B_coref="maybe")), "line 2 has 'maybe' for B-coref; expected TRUE or FALSE"),
        (table(changed(Pronoun="left", Pronoun_offset="17")), "has the pronoun 'left'; expected"),
    ],
)
def test_broken_gap(write, text, message):
    with pytest.raises(FormatError, match=message):
        read_gap(write(text))
