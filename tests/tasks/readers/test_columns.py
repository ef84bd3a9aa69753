"""CoNLL columns, KLP-2016 and CoNLL-U."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import ConfigError, FormatError
from elmo.tasks.readers.columns import read_conll, read_conllu, read_klp

NER = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
# NN I-NP O

-DOCSTART- -X- O O
Peter NNP B-NP B-PER
$ $ I-NP O
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="file.txt"):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write


def pairs(examples):
    return [(" ".join(example.words), " ".join(example.target)) for example in examples]


@pytest.mark.parametrize(
    ("reader", "text", "lines"),
    [
        (read_conll, NER, [[3, 4, 5], [8, 9]]),
        (read_klp, "; a b\n$a b\n1\ta\tN\tO\n2\tb\tN\tO\n", [[3, 4]]),
        (
            read_conllu,
            "".join(
                f"{row}\n"
                for row in (
                    "# sent_id = 1",
                    "1-2\tam\t" + "\t".join("_" * 8),
                    "1\ta\t_\tX\t" + "\t".join("_" * 6),
                    "# no word",
                    "2\tm\t_\tX\t" + "\t".join("_" * 6),
                )
            ),
            [[3, 5]],
        ),
    ],
)
def test_each_word_knows_its_line(write, reader, text, lines):
    path = write(text)
    examples = reader(path)
    found = [[one.word_location(n) for n in range(len(one.words))] for one in examples]
    assert found == [[f"{path}, line {line}" for line in some] for some in lines]
    first = 1 if reader is not read_conll else 3
    assert str(examples[0].location) == f"{path}, line {first}"


# ------------------------------------------------------------------------------------ columns


def test_conll(write):
    examples = read_conll(write(NER))
    assert pairs(examples) == [("EU rejects #", "B-ORG O O"), ("Peter $", "B-PER O")]
    assert all(len(example.texts) == 1 for example in examples)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("gap", [" ", "\t", "  "])
def test_separators(write, end, gap):
    rows = [
        gap.join(["EU", "NNP", "B"]),
        gap.join(["x", "NN", "O"]),
        "  ",
        "",
        "y z w".replace(" ", gap),
    ]
    assert pairs(read_conll(write(end.join(rows)))) == [("EU x", "B O"), ("y", "w")]


def test_words_may_hold_other_white_space(write):
    assert read_conll(write("1\xa0000 O\n"))[0].words == ("1\xa0000",)
    assert read_conll(write("1 000\tO\n"))[0].words == ("1 000",)


def test_other_columns(write):
    examples = read_conll(write(NER), words=1, tags=2)
    assert pairs(examples)[0] == ("NNP VBZ NN", "B-NP B-VP I-NP")
    assert read_conll(write(NER), tags=None)[0].target is None
    assert read_conll(write("a\nb\n\nc\n"), tags=None)[1].words == ("c",)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a O\nb\n", {}, r"file.txt, line 2 has 1 column, the lines before have 2: 'b'"),
        ("a O\n\nb X O\n", {}, r"line 3 has 3 columns, the lines before have 2"),
        ("a\tO\nb\t\n", {}, r"line 2 has an empty column"),
        ("\nab\n", {}, r"line 2 has 1 column: words and tags cannot both be in column 0"),
        ("a O\n", {"words": 1}, r"cannot both be in column 1"),
        ("a O\n", {"tags": 2}, r"line 1 has 2 columns; the tags were said to be in column 2"),
        ("a O\n", {"words": -3}, r"the words were said to be in column -3"),
        ("", {}, r"file.txt holds no sentence; expected columns"),
        ("-DOCSTART- O\n\n", {}, r"holds no sentence"),
    ],
)
def test_broken_columns(write, text, options, message):
    with pytest.raises(FormatError, match=message):
        read_conll(write(text), **options)


WORD = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=" "), min_size=1)


@given(st.lists(st.lists(st.tuples(WORD, WORD), min_size=1), min_size=1), st.sampled_from(" \t"))
def test_whatever_is_written_is_read(tmp_path_factory, sentences, gap):
    path = tmp_path_factory.mktemp("columns") / "file"
    blocks = ["\n".join(map(gap.join, sentence)) for sentence in sentences]
    path.write_text("\ufeff" + "\n\n".join(blocks), encoding="utf-8", newline="\n")
    found = [list(zip(*(each.words, each.target), strict=True)) for each in read_conll(path)]
    assert found == sentences


# ------------------------------------------------------------------------------------ KLP


KLP = """; 홍길동이 서울 대학에 ; 왔다.
$<홍길동:PS>이 <서울 대학:OG>에 ; 왔다.
1	홍길동	NNP	B_PS
1	이	JKS	O
2	서울	NNP	B_OG
3	대학	NNG	I
3	에	JKB	O
4	;	SP	O

; 끝
$끝
1	끝	NNG	B-DT
"""


def test_klp(write):
    expected = [("홍길동 이 서울 대학 에 ;", "B-PS O B-OG I-OG O O"), ("끝", "B-DT")]
    assert pairs(read_klp(write(KLP.replace("\n", "\r\n")))) == expected


def test_klp_without_numbers(write):
    text = ";\tSP\tO\n$\tSW\tB_PS\nb\tNNG\tI-PS\n"
    assert pairs(read_klp(write(text))) == [("; $ b", "O B-PS I-PS")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("; a\n$a\n1\ta\tNN\tOaa\n", "line 3 has the tag 'Oaa'; expected O, B_label or I"),
        ("; a\n$a\n1\ta\tNN\tI\n", "line 3 has the tag I after no B_label"),
        ("; a\n$a\n\n", "line 1 heads a sentence without words"),
        ("a\tNN\tO\nb\tNN\tB\tOG\n", "line 2 has 4 columns, expected 3"),
        ("a\tO\n", "line 1 has 2 columns; the words were said to be in column -3"),
        ("", "holds no sentence; expected KLP-2016"),
    ],
)
def test_broken_klp(write, text, message):
    with pytest.raises(FormatError, match=message):
        read_klp(write(text))


# ------------------------------------------------------------------------------------ CoNLL-U


def line(*columns):
    return "\t".join((*columns, *"_" * (10 - len(columns)))) + "\n"


UD = (
    "# newdoc\n# sent_id = w-1 \n# text = don't #\n"
    + line("1-2", "don't")
    + line("1", "do", "do", "AUX", "VBP")
    + line("2", "n't", "not", "PART", "RB")
    + line("2.1", "go", "go", "VERB", "VB")
    + line("3", "#", "#", "SYM", "NN")
    + "\n\n"
    + line("1", "1 000", "_", "NUM", "CD")
    + "# last\n"
)


def test_conllu(write):
    examples = read_conllu(write(UD))
    assert pairs(examples) == [("do n't #", "AUX PART SYM"), ("1 000", "NUM")]
    assert [example.id for example in examples] == ["w-1", ""]
    assert examples[1].words == ("1 000",)
    assert pairs(read_conllu(write(UD), tags="xpos"))[0][1] == "VBP RB NN"
    assert pairs(read_conllu(write(UD), tags="lemma"))[0][1] == "do not #"
    assert read_conllu(write(UD), tags=None)[0].target is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (line("1", "a")[:-3] + "\n", "line 1 has 9 columns; CoNLL-U has 10"),
        (
            "# x\n" + line("1", "", "a"),
            "line 2 has 10 columns; CoNLL-U has 10 .* none of them empty",
        ),
        (line("1", "a") + line("3", "b"), "line 2 begins with '3'; expected word 2"),
        (line("1", "a") + line("1", "b"), "line 2 begins with '1'; expected word 2"),
        ("# only\n\n", "holds no sentence; expected CoNLL-U"),
        (line("1", "a"), "has no upos: each word has '_' there"),
    ],
)
def test_broken_conllu(write, text, message):
    with pytest.raises(FormatError, match=message):
        read_conllu(write(text))


def test_no_such_column(write):
    with pytest.raises(ConfigError, match="no column 'pos'; it has id, form"):
        read_conllu(write(UD), tags="pos")
