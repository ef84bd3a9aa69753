"""Predicates and arguments: CoNLL-2005, CoNLL-2012, PropBank in JSON lines."""

import json

import pytest

from elmo.errors import FormatError
from elmo.tasks.examples import Example, Frame
from elmo.tasks.readers.predicate_frames import read_conll2005, read_conll2012, read_propbank


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "file"
        path.write_text(text, encoding="utf-8")
        return path

    return write


# Words, parts of speech, predicates, and an argument column for each of the two.
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


def test_conll2005(write):
    assert read_conll2005(write(CONLL2005)) == SENTENCES


def test_the_first_sentence_may_have_no_predicate(write):
    sentences = CONLL2005.split("\n\n")
    found = read_conll2005(write("\n\n".join([sentences[1], sentences[0], sentences[2]])))
    assert [one.target for one in found] == [SENTENCES[n].target for n in (1, 0, 2)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("He - (A0*)\ngo go\n", "line 2 has 2 columns, the words before it in its sentence have 3"),
        ("He PRP (A0*)\ngo VB (V*)\n", "line 1 begins a sentence without a column of predicates"),
        ("a -\n\ngo go (V*) *\n", "line 3 begins a sentence with 1 predicates in column 1 and 2"),
        ("a -\n\nb go (V*\n", "line 3 ends its sentence inside V"),
        ("a -\n\nb go (V*)\nc - *)\n", "line 4 ends an argument that was not begun"),
        ("a -\n\nb go (V*\nc - (A*)\n", "line 4 begins A inside V"),
        ("a -\n\nb go (A(V*))\n", "line 3 begins V inside A"),
        ("b go (A(V*))\n", "line 1 begins V inside A"),
        ("a -\n\nb - (A*)\nc go (V*)\nd go *\n\n", "line 3 begins a sentence with 2 predicates"),
        ("a -\n\nb - (V*)\nc go *\n", "line 4 has word 1 of .* tagged 'O'; expected V"),
        ("a -\n\nb - (A*)\nc go (C-V*)\n", "line 4 has word 1 of .* tagged 'B-C-V'; expected V"),
        ("a -\n\nb go V\n", r"line 3 has 'V' for an argument; expected \(label\*\)"),
        ("a go (V*)\n\nb\nc\n", "line 3 has 1 columns; predicates are in column 1, counted from 0"),
        ("a -\n\n", "holds no predicate"),
        ("", "holds no predicate"),
    ],
)
def test_broken_conll2005(write, text, message):
    with pytest.raises(FormatError, match=message):
        read_conll2005(write(text))


def rows(words, *columns):
    """Give lines of CoNLL-2012: what stands between the words and the last columns says nothing."""
    lines = []
    for number, word in enumerate(words):
        own = " ".join(column[number] for column in columns)
        lines.append(f"bc/x 0 {number} {word} NN * - - - Kim * {own}")
    return "\n".join(lines) + "\n\n"


def document(*sentences, name="(bc/x); part 000"):
    return f"#begin document {name}\n{''.join(sentences)}#end document\n"


def test_a_part_of_many_digits(write):
    (example,) = read_conll2012(
        write(document(rows(["go"], ["(V*)"], ["-"]), name="x; part " + "1" * 5000))
    )
    assert example.id.startswith("x; part 111")


def test_conll2012(write):
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
        # The predicate keeps its word, the argument around it what is before it, or else after it.
        ("(ARG2(V*) *)", "B-V B-ARG2"),
        ("(ARG2* (V*) *) (ARG1*)", "B-ARG2 B-V O B-ARG1"),
        ("(ARG2* * (V*))", "B-ARG2 I-ARG2 B-V"),
        ("(ARG2(V*))", "B-V"),
        ("(ARG2(V* *) * *)", "B-V I-V B-ARG2 I-ARG2"),
        ("(ARG1(ARG2* (V*)) *)", "B-ARG1 B-V O"),
        # Of arguments the outermost.
        ("(V*) (ARG1(R-ARG2*) *)", "B-V B-ARG1 I-ARG1"),
        ("(V*) (ARG1(R-ARG2*))", "B-V B-ARG1"),
        ("(V*) (ARG1* (ARG2* *))", "B-V B-ARG1 I-ARG1 I-ARG1"),
        ("(V*) (A0* (A1*) (A2(A3*)) *) (A4*)", "B-V B-A0 I-A0 I-A0 I-A0 B-A4"),
        ("(ARG2* (ARG1*) (V*) (ARG3*) *)", "B-ARG2 I-ARG2 B-V O O"),
        ("(V* (ARG1*) *)", "B-V I-V I-V"),
    ],
)
def test_arguments_inside_each_other(write, cells, tags):
    column = cells.split()
    words = [f"w{number}" for number in range(len(column))]
    (example,) = read_conll2012(write(document(rows(words, column, ["-"] * len(column)))))
    expected = tuple(tags.split())
    assert example.target == (Frame(expected.index("B-V"), expected),)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("(A(V*) *", "line 3 ends its sentence inside A$"),
        ("(A(V*)) *)", "line 3 ends an argument that was not begun"),
        ("(V*)) *", "line 2 ends an argument that was not begun"),
        ("(V*) (A*(B*)", r"line 3 has '\(A\*\(B\*\)' for an argument"),
        ("(V*) * (V*)", "line 4 begins a second V in column 11; expected one for a predicate"),
        ("(V*) (A(V*))", "line 3 begins a second V"),
        ("(V(V*))", "line 2 begins a second V"),
    ],
)
def test_brackets_that_do_not_fit(write, cells, message):
    column = cells.split()
    text = document(rows(["w"] * len(column), column, ["-"] * len(column)))
    with pytest.raises(FormatError, match=message):
        read_conll2012(write(text))


def test_a_second_part_of_a_predicate(write):
    column = ["(V*)", "(A1*)", "(C-V*)"]
    (example,) = read_conll2012(write(document(rows("put it on".split(), column, ["-"] * 3))))
    assert example.target == (Frame(0, ("B-V", "B-A1", "B-C-V")),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (rows(["a"], ["-"]), "line 1 stands in no document; expected #begin document"),
        ("#begin document (x)\n", "line 1 begins a document that does not end"),
        ("#begin document (x)\n#end document\n", "line 1 begins a document of no words"),
        ("#begin document\n", "line 1 begins a document without a name: '#begin document'"),
        ("#begin document ()\n", "line 1 begins a document without a name"),
        ("#end document\n", "line 1 ends a document that was not begun"),
        ("#begin document (x)\n#begin document (y)\n", "line 2 begins a document inside 'x; part"),
        ("", "holds no document"),
        (document("bc 0 0 word\n"), "line 2 has 4 columns; CoNLL-2012 has 12 or more"),
        (document(rows(["a"], ["-"])[:-1] + rows(["b"], ["*"], ["-"])), "line 3 has 13 columns"),
        (document(rows(["a"], ["-"])[:-1] + rows(["b"], ["-"])), "line 3 has the number '0'; exp"),
        (document(rows(["a", "b"], ["(A*)", "*"], ["-", "-"])), "line 2 .* arguments of no predi"),
        (document(rows(["a", "b"], ["(V*", "*"], ["-", "-"])), "line 3 ends its sentence inside V"),
        (document(rows(["a"], ["-"])), "holds no predicate"),
    ],
)
def test_broken_conll2012(write, text, message):
    with pytest.raises(FormatError, match=message):
        read_conll2012(write(text))


def test_a_verb_in_two_parts(write):
    """The second part may be the one that is named."""
    tags = ["B-V", "B-A1", "B-C-V"]
    path = write(json.dumps({"words": ["put", "it", "on"], "frames": [{"pred": 2, "tags": tags}]}))
    assert read_propbank(path)[0].target == (Frame(2, tuple(tags)),)


RECORD = {
    "words": ["He", "left", "it"],
    "frames": [{"pred": 1, "lemma": "leave", "tags": ["B-ARG0", "B-V", "B-ARG1"]}],
}


def test_propbank(write):
    lines = [RECORD, {"words": ["Fine"], "frames": []}]
    path = write("".join(json.dumps(line) + "\n" for line in lines))
    frames = (Frame(1, ("B-ARG0", "B-V", "B-ARG1")),)
    assert read_propbank(path) == [
        Example((("He", "left", "it"),), frames, "1", (1,)),
        Example((("Fine",),), (), "2", ()),
    ]


def framed(*frames):
    """Give a record whose frames have their predicate at its first word."""
    tags = [frame.split() for frame in frames]
    words = [f"w{number}" for number in range(len(tags[0]))]
    return {"words": words, "frames": [{"pred": 0, "tags": one} for one in tags]}


def test_propbank_in_other_schemes(write):
    for tags in ("B-V E-V B-A I-A E-A S-A", "B-V L-V B-A I-A L-A U-A"):
        (example,) = read_propbank(write(json.dumps(framed(tags))))
        assert example.target == (Frame(0, tuple(tags.split())),)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"frames": []}, "line 1 has no list of words or tags in 'words'"),
        ({"words": []}, "line 1 has no words, or no list of frames"),
        ({"words": ["a"]}, "line 1 has no words, or no list of frames"),
        ({"words": ["a", ""], "frames": []}, "no list of words or tags in 'words'"),
        ({"words": ["a"], "frames": [3]}, "a frame that is no record"),
        ({"words": ["a"], "frames": [{"pred": 0}]}, "no list of words or tags in 'tags'"),
        ({"words": ["a"], "frames": [{"pred": 1, "tags": ["O"]}]}, "pred 1 and 1 tags for 1 words"),
        ({"words": ["a"], "frames": [{"pred": 0, "tags": ["O"] * 2}]}, "pred 0 and 2 tags for 1 "),
        ({"words": ["a"], "frames": [{"pred": 0, "tags": ["X"]}]}, "line 1 has the tag 'X'; expec"),
        *(
            (
                {"words": ["a", "b"], "frames": [{"pred": 0, "tags": ["B-V", tag]}]},
                f"tag '{tag}'; ex",
            )
            for tag in ("B-", "I-", "B")
        ),
        (
            {"words": ["a"], "frames": [{"pred": 0, "tags": ["B-A"]}]},
            "line 1 has word 0 .* 'B-A'; ex",
        ),
        (
            {"words": ["a", "b"], "frames": [{"pred": True, "tags": ["O", "B-V"]}]},
            "pred True and 2 tags for 2 words",
        ),
        ({"words": ["a"], "frames": []}, "holds no predicate"),
        *(
            ({"words": ["a", word], "frames": []}, "line 1 has .* for a word, which is white space")
            for word in (" ", "\t", "\u3000")
        ),
        (framed("I-A B-V"), "line 1 has the tag 'I-A' for word 0 .* after 'O'; expected B-A where"),
        (framed("B-V I-A"), "the tag 'I-A' for word 1 of its sentence, from 0, after 'B-V'; expec"),
        (framed("B-V O I-V"), "the tag 'I-V' for word 2 .* after 'O'; expected B-V where"),
        (framed("B-V S-A I-A"), "the tag 'I-A' for word 2 .* after 'S-A'"),
        (framed("B-V O E-A"), "the tag 'E-A' for word 2 .* after 'O'"),
        (framed("B-V O B-V"), "line 1 has a frame with pred 0 and a second V; expected one"),
        (framed("B-V B-V"), "pred 0 and a second V"),
        (framed("S-V S-V"), "pred 0 and a second V"),
        (framed("B-V O", "B-V B-A"), "line 1 has two frames with pred 0; expected one for a word"),
    ],
)
def test_broken_propbank(write, record, message):
    with pytest.raises(FormatError, match=message):
        read_propbank(write(json.dumps(record)))
