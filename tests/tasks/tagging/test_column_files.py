"""Tests for the readers of CoNLL columns, KLP-2016 and CoNLL-U."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import ConfigError, FormatError
from elmo.tasks.tagging.column_files import read_conll, read_conllu, read_klp

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


def words_and_tags(examples):
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
                    "# comment",
                    "2\tm\t_\tX\t" + "\t".join("_" * 6),
                )
            ),
            [[3, 5]],
        ),
    ],
)
def test_readers_record_line_number_of_each_word(write, reader, text, lines):
    path = write(text)
    examples = reader(path)
    locations = [[each.word_location(n) for n in range(len(each.words))] for each in examples]
    assert locations == [[f"{path}, line {line}" for line in numbers] for numbers in lines]
    first = 1 if reader is not read_conll else 3
    assert str(examples[0].location) == f"{path}, line {first}"


# ------------------------------------------------------------------------------------ columns


def test_read_conll_returns_words_and_tags(write):
    examples = read_conll(write(NER))
    assert words_and_tags(examples) == [("EU rejects #", "B-ORG O O"), ("Peter $", "B-PER O")]
    assert all(len(example.texts) == 1 for example in examples)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("separator", [" ", "\t", "  "])
def test_read_conll_accepts_all_line_endings_and_separators(write, end, separator):
    rows = [
        separator.join(["EU", "NNP", "B"]),
        separator.join(["x", "NN", "O"]),
        "  ",
        "",
        "y z w".replace(" ", separator),
    ]
    assert words_and_tags(read_conll(write(end.join(rows)))) == [("EU x", "B O"), ("y", "w")]


def test_read_conll_does_not_split_words_at_other_white_space(write):
    assert read_conll(write("1\xa0000 O\n"))[0].words == ("1\xa0000",)
    assert read_conll(write("1 000\tO\n"))[0].words == ("1 000",)


def test_read_conll_reads_selected_columns(write):
    examples = read_conll(write(NER), words=1, tags=2)
    assert words_and_tags(examples)[0] == ("NNP VBZ NN", "B-NP B-VP I-NP")
    assert read_conll(write(NER), tags=None)[0].target is None
    assert read_conll(write("a\nb\n\nc\n"), tags=None)[1].words == ("c",)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "a O\nb\n",
            {},
            r"file.txt, line 2: the line has 1 column, but the previous lines have 2: 'b'",
        ),
        ("a O\n\nb X O\n", {}, r"line 3: the line has 3 columns, but the previous lines have 2"),
        ("a\tO\nb\t\n", {}, r"line 2: a column is empty"),
        (
            "\nab\n",
            {},
            r"line 2: words and tags cannot both be in column 0 \(the line has 1 column\)",
        ),
        ("a O\n", {"words": 1}, r"cannot both be in column 1"),
        (
            "a O\n",
            {"tags": 2},
            r"line 1: the tags should be in column 2, .* but the line has 2 columns",
        ),
        ("a O\n", {"words": -3}, r"the words should be in column -3"),
        ("", {}, r"file.txt: contains no sentences. Expected one word per line in columns"),
        ("-DOCSTART- O\n\n", {}, r"contains no sentences"),
    ],
)
def test_read_conll_rejects_invalid_file(write, text, options, message):
    with pytest.raises(FormatError, match=message):
        read_conll(write(text), **options)


WORD = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters=" "), min_size=1
).filter(lambda word: word != "-DOCSTART-")


@given(st.lists(st.lists(st.tuples(WORD, WORD), min_size=1), min_size=1), st.sampled_from(" \t"))
def test_read_conll_round_trips_arbitrary_sentences(tmp_path_factory, sentences, separator):
    path = tmp_path_factory.mktemp("columns") / "file"
    blocks = ["\n".join(map(separator.join, sentence)) for sentence in sentences]
    path.write_text("\ufeff" + "\n\n".join(blocks), encoding="utf-8", newline="\n")
    examples = read_conll(path)
    assert [list(zip(*(each.words, each.target), strict=True)) for each in examples] == sentences


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


def test_read_klp_converts_tags_to_iob2(write):
    expected = [("홍길동 이 서울 대학 에 ;", "B-PS O B-OG I-OG O O"), ("끝", "B-DT")]
    assert words_and_tags(read_klp(write(KLP.replace("\n", "\r\n")))) == expected


def test_read_klp_accepts_files_without_word_numbers(write):
    text = ";\tSP\tO\n$\tSW\tB_PS\nb\tNNG\tI-PS\n"
    assert words_and_tags(read_klp(write(text))) == [("; $ b", "O B-PS I-PS")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("; a\n$a\n1\ta\tNN\tOaa\n", "line 3: unknown tag 'Oaa'. Expected O, B_label or I"),
        ("; a\n$a\n1\ta\tNN\tI\n", "line 3: the tag I does not follow B_label or I"),
        ("; a\n$a\n\n", "line 1: the sentence has no words"),
        ("a\tNN\tO\nb\tNN\tB\tOG\n", "line 2: the line has 4 columns; expected 3"),
        ("a\tO\n", "line 1: the words should be in column -3, .* but the line has 2 columns"),
        ("", "contains no sentences. Expected the format of KLP-2016"),
    ],
)
def test_read_klp_rejects_invalid_file(write, text, message):
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


def test_read_conllu_returns_words_tags_and_ids(write):
    examples = read_conllu(write(UD))
    assert words_and_tags(examples) == [("do n't #", "AUX PART SYM"), ("1 000", "NUM")]
    assert [example.id for example in examples] == ["w-1", ""]
    assert examples[1].words == ("1 000",)
    assert words_and_tags(read_conllu(write(UD), tags="xpos"))[0][1] == "VBP RB NN"
    assert words_and_tags(read_conllu(write(UD), tags="lemma"))[0][1] == "do not #"
    assert read_conllu(write(UD), tags=None)[0].target is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            line("1", "a")[:-3] + "\n",
            "line 1: the line has 9 columns; CoNLL-U has 10 non-empty columns",
        ),
        (
            "# x\n" + line("1", "", "a"),
            "line 2: the line has 10 columns; CoNLL-U has 10 non-empty columns",
        ),
        (line("1", "a") + line("3", "b"), "line 2: unexpected word number '3'. Expected 2"),
        (line("1", "a") + line("1", "b"), "line 2: unexpected word number '1'. Expected 2"),
        ("# only\n\n", "contains no sentences. Expected CoNLL-U"),
        (line("1", "a"), r"the column upos is empty \('_' for every word\)"),
    ],
)
def test_read_conllu_rejects_invalid_file(write, text, message):
    with pytest.raises(FormatError, match=message):
        read_conllu(write(text))


def test_read_conllu_rejects_unknown_column_name(write):
    with pytest.raises(ConfigError, match=r"no column 'pos'. Expected one of: id, form"):
        read_conllu(write(UD), tags="pos")
