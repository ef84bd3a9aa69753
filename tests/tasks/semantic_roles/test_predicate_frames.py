"""Tests for the predicate frame readers: CoNLL-2005, CoNLL-2012, and PropBank in JSON lines."""

import json

import pytest
from conll2012_text import document, rows

from elmo.errors import FormatError
from elmo.tasks.core.example import Example
from elmo.tasks.semantic_roles.frame import Frame
from elmo.tasks.semantic_roles.predicate_frames import read_conll2005, read_conll2012, read_propbank


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "file"
        path.write_text(text, encoding="utf-8")
        return path

    return write


# Words, parts of speech, predicates, and one column of arguments for each of the two predicates.
CONLL2005 = """\
He      PRP  -     (A0*)  (A0*)
wants   VBZ  want  (V*)   *
to      TO   -     (A1*   *
go      VB   go    *      (V*)
there   RB   -     *)     (AM-LOC*)

Fine    UH   -

Go      VB   go    (V*
on      RP   -     *)
"""
HE = ("He", "wants", "to", "go", "there")
SENTENCES = [
    Example(
        (HE,),
        (
            Frame(1, ("B-A0", "B-V", "B-A1", "I-A1", "I-A1")),
            Frame(3, ("B-A0", "O", "O", "B-V", "B-AM-LOC")),
        ),
        "1",
        (1, 3),
    ),
    Example((("Fine",),), (), "7", ()),
    Example((("Go", "on"),), (Frame(0, ("B-V", "I-V")),), "9", (0,)),
]


def test_read_conll2005_returns_frames(write):
    assert read_conll2005(write(CONLL2005)) == SENTENCES


def test_read_conll2005_accepts_first_sentence_without_predicate(write):
    sentences = CONLL2005.split("\n\n")
    examples = read_conll2005(write("\n\n".join([sentences[1], sentences[0], sentences[2]])))
    assert [example.target for example in examples] == [SENTENCES[n].target for n in (1, 0, 2)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("He - (A0*)\ngo go\n", "line 2: the line has 2 columns, but the previous words"),
        ("He PRP (A0*)\ngo VB (V*)\n", "line 1: cannot find the predicate column"),
        ("a -\n\ngo go (V*) *\n", "line 3: the sentence has 1 predicates in column 1, but 2"),
        ("a -\n\nb go (V*\n", "line 3: the sentence ends inside V"),
        ("a -\n\nb go (V*)\nc - *)\n", "line 4: an argument ends but was never opened"),
        ("a -\n\nb go (V*\nc - (A*)\n", "line 4: A begins inside V"),
        ("a -\n\nb go (A(V*))\n", "line 3: V begins inside A"),
        ("b go (A(V*))\n", "line 1: V begins inside A"),
        ("a -\n\nb - (A*)\nc go (V*)\nd go *\n\n", "line 3: the sentence has 2 predicates"),
        ("a -\n\nb - (V*)\nc go *\n", "line 4: word 1 .* tagged 'O'. Expected V"),
        ("a -\n\nb - (A*)\nc go (C-V*)\n", "line 4: word 1 .* tagged 'B-C-V'. Expected V"),
        (
            "a -\n\nb go V\n",
            r"line 3: invalid argument column 'V'. Expected values such as \(label\*\)",
        ),
        ("a go (V*)\n\nb\nc\n", "line 3: the line has 1 columns, .* in column 1, counted from 0"),
        ("a -\n\n", "contains no predicates"),
        ("", "contains no predicates"),
    ],
)
def test_read_conll2005_rejects_invalid_file(write, text, message):
    with pytest.raises(FormatError, match=message):
        read_conll2005(write(text))


def test_read_conll2012_accepts_part_number_with_many_digits(write):
    (example,) = read_conll2012(
        write(document(rows(["go"], ["(V*)"], ["-"]), name="x; part " + "1" * 5000))
    )
    assert example.id.startswith("x; part 111")


def test_read_conll2012_returns_frames(write):
    two = rows(
        ["He", "did", "go"], ["(A*)", "(V*)", "*"], ["(A0*)", "*", "(V*)"], ["(3)", "-", "-"]
    )
    none = rows(["Fine"], ["-"])
    words = ("He", "did", "go")
    frames = (Frame(1, ("B-A", "B-V", "O")), Frame(2, ("B-A0", "O", "B-V")))
    assert read_conll2012(write(document(two, none))) == [
        Example((words,), frames, "bc/x; part 0, 0", (1, 2)),
        Example((("Fine",),), (), "bc/x; part 0, 1", ()),
    ]


@pytest.mark.parametrize(
    ("cells", "tags"),
    [
        # The predicate keeps its words; an argument around it keeps those before, or else after it.
        ("(ARG2(V*) *)", "B-V B-ARG2"),
        ("(ARG2* (V*) *) (ARG1*)", "B-ARG2 B-V O B-ARG1"),
        ("(ARG2* * (V*))", "B-ARG2 I-ARG2 B-V"),
        ("(ARG2(V*))", "B-V"),
        ("(ARG2(V* *) * *)", "B-V I-V B-ARG2 I-ARG2"),
        ("(ARG1(ARG2* (V*)) *)", "B-ARG1 B-V O"),
        # Of nested arguments, the outermost is kept.
        ("(V*) (ARG1(R-ARG2*) *)", "B-V B-ARG1 I-ARG1"),
        ("(V*) (ARG1(R-ARG2*))", "B-V B-ARG1"),
        ("(V*) (ARG1* (ARG2* *))", "B-V B-ARG1 I-ARG1 I-ARG1"),
        ("(V*) (A0* (A1*) (A2(A3*)) *) (A4*)", "B-V B-A0 I-A0 I-A0 I-A0 B-A4"),
        ("(ARG2* (ARG1*) (V*) (ARG3*) *)", "B-ARG2 I-ARG2 B-V O O"),
        ("(V* (ARG1*) *)", "B-V I-V I-V"),
    ],
)
def test_read_conll2012_resolves_nested_arguments(write, cells, tags):
    column = cells.split()
    words = [f"w{number}" for number in range(len(column))]
    (example,) = read_conll2012(write(document(rows(words, column, ["-"] * len(column)))))
    expected = tuple(tags.split())
    assert example.target == (Frame(expected.index("B-V"), expected),)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("(A(V*) *", "line 3: the sentence ends inside A.$"),
        ("(A(V*)) *)", "line 3: an argument ends but was never opened"),
        ("(V*)) *", "line 2: an argument ends but was never opened"),
        ("(V*) (A*(B*)", r"line 3: invalid argument column '\(A\*\(B\*\)'"),
        ("(V*) * (V*)", "line 4: column 11 has a second V. Expected one V per predicate"),
        ("(V*) (A(V*))", "line 3: column 11 has a second V"),
        ("(V(V*))", "line 2: column 11 has a second V"),
    ],
)
def test_read_conll2012_rejects_invalid_brackets(write, cells, message):
    column = cells.split()
    text = document(rows(["w"] * len(column), column, ["-"] * len(column)))
    with pytest.raises(FormatError, match=message):
        read_conll2012(write(text))


def test_read_conll2012_tags_second_part_of_predicate_as_c_v(write):
    column = ["(V*)", "(A1*)", "(C-V*)"]
    (example,) = read_conll2012(write(document(rows("put it on".split(), column, ["-"] * 3))))
    assert example.target == (Frame(0, ("B-V", "B-A1", "B-C-V")),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (rows(["a"], ["-"]), "line 1: the line is not inside a document; expected #begin"),
        ("#begin document (x)\n", "line 1: the document is not closed by #end document"),
        ("#begin document (x)\n#end document\n", "line 1: the document has no words"),
        ("#begin document\n", "line 1: the document has no name: '#begin document'"),
        ("#begin document ()\n", "line 1: the document has no name"),
        ("#end document\n", "line 1: #end document without a preceding"),
        ("#begin document (x)\n#begin document (y)\n", "line 2: #begin document inside 'x; part"),
        ("", "contains no documents"),
        (document("bc 0 0 word\n"), "line 2: the line has 4 columns; CoNLL-2012 has at least 12"),
        (document(rows(["a"], ["-"])[:-1] + rows(["b"], ["*"], ["-"])), "line 3: .* 13 columns"),
        (
            document(rows(["a"], ["-"])[:-1] + rows(["b"], ["-"])),
            "line 3: unexpected word number '0'",
        ),
        (
            document(rows(["a", "b"], ["(A*)", "*"], ["-", "-"])),
            "line 2: column 11 .* has no predicate",
        ),
        (
            document(rows(["a", "b"], ["(V*", "*"], ["-", "-"])),
            "line 3: the sentence ends inside V",
        ),
        (document(rows(["a"], ["-"])), "contains no predicates"),
    ],
)
def test_read_conll2012_rejects_invalid_file(write, text, message):
    with pytest.raises(FormatError, match=message):
        read_conll2012(write(text))


def test_read_propbank_accepts_second_part_of_verb_as_predicate(write):
    tags = ["B-V", "B-A1", "B-C-V"]
    path = write(json.dumps({"words": ["put", "it", "on"], "frames": [{"pred": 2, "tags": tags}]}))
    assert read_propbank(path)[0].target == (Frame(2, tuple(tags)),)


RECORD = {
    "words": ["He", "left", "it"],
    "frames": [{"pred": 1, "lemma": "leave", "tags": ["B-ARG0", "B-V", "B-ARG1"]}],
}


def test_read_propbank_returns_frames(write):
    lines = [RECORD, {"words": ["Fine"], "frames": []}]
    path = write("".join(json.dumps(line) + "\n" for line in lines))
    frames = (Frame(1, ("B-ARG0", "B-V", "B-ARG1")),)
    assert read_propbank(path) == [
        Example((("He", "left", "it"),), frames, "1", (1,)),
        Example((("Fine",),), (), "2", ()),
    ]


def make_record(*frames):
    """Return a record whose frames all have the first word as predicate, one frame per tag list."""
    tag_lists = [frame.split() for frame in frames]
    words = [f"w{number}" for number in range(len(tag_lists[0]))]
    return {"words": words, "frames": [{"pred": 0, "tags": tags} for tags in tag_lists]}


def test_read_propbank_accepts_tags_in_other_schemes(write):
    for tags in ("B-V E-V B-A I-A E-A S-A", "B-V L-V B-A I-A L-A U-A"):
        (example,) = read_propbank(write(json.dumps(make_record(tags))))
        assert example.target == (Frame(0, tuple(tags.split())),)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"frames": []}, "line 1: 'words' must be a list of non-empty strings"),
        ({"words": []}, "line 1: the words or the list of frames are missing"),
        ({"words": ["a"]}, "line 1: the words or the list of frames are missing"),
        ({"words": ["a", ""], "frames": []}, "'words' must be a list of non-empty strings"),
        ({"words": ["a"], "frames": [3]}, "a frame is not a JSON object"),
        ({"words": ["a"], "frames": [{"pred": 0}]}, "'tags' must be a list of non-empty strings"),
        ({"words": ["a"], "frames": [{"pred": 1, "tags": ["O"]}]}, "pred 1 and 1 tags, .* 1 words"),
        ({"words": ["a"], "frames": [{"pred": 0, "tags": ["O"] * 2}]}, "pred 0 and 2 tags, .* 1 "),
        (
            {"words": ["a"], "frames": [{"pred": 0, "tags": ["X"]}]},
            "line 1: invalid tag 'X'. Expec",
        ),
        *(
            (
                {"words": ["a", "b"], "frames": [{"pred": 0, "tags": ["B-V", tag]}]},
                f"invalid tag '{tag}'. Ex",
            )
            for tag in ("B-", "I-", "B")
        ),
        (
            {"words": ["a"], "frames": [{"pred": 0, "tags": ["B-A"]}]},
            "line 1: word 0 .* 'B-A'. Ex",
        ),
        (
            {"words": ["a", "b"], "frames": [{"pred": True, "tags": ["O", "B-V"]}]},
            "pred True and 2 tags, .* 2 words",
        ),
        ({"words": ["a"], "frames": []}, "contains no predicates"),
        *(
            ({"words": ["a", word], "frames": []}, "line 1: the word .* is only white space")
            for word in (" ", "\t", "\u3000")
        ),
        (make_record("I-A B-V"), "line 1: the tag 'I-A' of word 0 .* follows 'O'. Expected B-A"),
        (make_record("B-V I-A"), r"the tag 'I-A' of word 1 \(counted from 0\) follows 'B-V'"),
        (make_record("B-V O I-V"), "the tag 'I-V' of word 2 .* follows 'O'. Expected B-V"),
        (make_record("B-V S-A I-A"), "the tag 'I-A' of word 2 .* follows 'S-A'"),
        (make_record("B-V O E-A"), "the tag 'E-A' of word 2 .* follows 'O'"),
        (make_record("B-V O B-V"), "line 1: the frame with pred 0 has a second V. Expected one"),
        (make_record("B-V B-V"), "pred 0 has a second V"),
        (make_record("S-V S-V"), "pred 0 has a second V"),
        (make_record("B-V O", "B-V B-A"), "line 1: two frames have pred 0. Expected one frame"),
    ],
)
def test_read_propbank_rejects_invalid_record(write, record, message):
    with pytest.raises(FormatError, match=message):
        read_propbank(write(json.dumps(record)))
