"""Tests of properties of words from CoNLL-U files."""

import pytest

from elmo.errors import ConfigError, FormatError, InputError
from elmo.lab.units.word_properties import in_negation, read_annotated_words, word_property

SENTENCES = """\
# text = I did n't see the red cars, but she saw
1\tI\tI\tPRON\tPRP\tNumber=Sing|Person=1\t4\tnsubj\t_\t_
2-3\tdidn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdid\tdo\tAUX\tVBD\tTense=Past\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\tPolarity=Neg\t4\tadvmod\t_\t_
4\tsee\tsee\tVERB\tVB\tVerbForm=Inf\t0\troot\t_\t_
5\tthe\tthe\tDET\tDT\t_\t7\tdet\t_\t_
6\tred\tred\tADJ\tJJ\t_\t7\tamod\t_\t_
7\tcars\tcar\tNOUN\tNNS\tNumber=Plur\t4\tobj\t_\t_
8\t,\t,\tPUNCT\t,\t_\t11\tpunct\t_\t_
9\tbut\tbut\tCCONJ\tCC\t_\t11\tcc\t_\t_
10\tshe\tshe\tPRON\tPRP\tNumber=Sing\t11\tnsubj:xsubj\t_\t_
11\tsaw\tsee\tVERB\tVBD\tTense=Past\t4\tconj\t_\t_

1\tNo\tno\tDET\tDT\t_\t2\tdet\t_\t_
2\tcats\tcat\tNOUN\tNNS\tNumber=Plur\t0\troot\t_\t_
"""


@pytest.fixture
def sentences(tmp_path):
    path = tmp_path / "words.conllu"
    path.write_text(SENTENCES, encoding="utf-8")
    return read_annotated_words(path)


def words_with(name, sentences):
    words = [word.form for sentence in sentences for word in sentence]
    values = word_property(name, sentences).tolist()
    return [word for word, value in zip(words, values, strict=True) if value]


def test_ranges_and_comments_are_not_words(sentences):
    assert [len(sentence) for sentence in sentences] == [11, 2]
    assert sentences[0][2].form == "n't"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("upos=VERB", ["see", "saw"]),
        ("xpos=VBD", ["did", "saw"]),
        ("Number=Plur", ["cars", "cats"]),
        ("Tense=Past", ["did", "saw"]),
        ("deprel=nsubj", ["I", "she"]),
        ("negation", ["see", "the", "red", "cars", "cats"]),
    ],
)
def test_property_has_words(name, expected, sentences):
    assert words_with(name, sentences) == expected


def test_negation_ends_at_coordinated_clause(sentences):
    assert in_negation(sentences[0])[8:] == [False, False, False]


def test_damaged_tree_does_not_hang(tmp_path):
    path = tmp_path / "loop.conllu"
    path.write_text(
        "1\tnot\t_\tX\t_\t_\t3\tx\t_\t_\n2\ta\t_\tX\t_\t_\t2\tx\t_\t_\n"
        "3\tb\t_\tX\t_\t_\t9\tx\t_\t_\n",
        encoding="utf-8",
    )
    assert in_negation(read_annotated_words(path)[0]) == [False, False, True]


@pytest.mark.parametrize("name", ["noun", "Case=Nom", "upos"])
def test_unknown_property_is_rejected(name, sentences):
    with pytest.raises(ConfigError, match="Unknown property of words"):
        word_property(name, sentences)


def test_unknown_value_is_rejected_with_known_ones(sentences):
    with pytest.raises(ConfigError, match="The file has Number=Plur, Sing"):
        word_property("Number=Dual", sentences)


def test_invalid_files_are_rejected(tmp_path):
    path = tmp_path / "x.conllu"
    path.write_text("1\ta\n", encoding="utf-8")
    with pytest.raises(FormatError, match="line 1: expected 10 columns"):
        read_annotated_words(path)
    path.write_text("# nothing\n", encoding="utf-8")
    with pytest.raises(FormatError, match="no sentences"):
        read_annotated_words(path)
    with pytest.raises(InputError, match="Cannot read"):
        read_annotated_words(tmp_path / "missing.conllu")
