"""CoNLL-U by hand; a probe that finds what is there, and nothing where there is nothing."""

import numpy as np
import pytest

from elmo.errors import ConfigError, FormatError
from elmo.evaluate.parts_of_speech import (
    TaggedSentence,
    TaggedText,
    read_conllu,
    tag_accuracies,
)

CONLLU = """\
# sent_id = 1
# text = Don't go.
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t3:aux\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t3:advmod\t_
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t0:root\t_
3.1\tgone\tgo\tVERB\tVBN\t_\t_\t_\t3:x\t_
4\t.\t.\tPUNCT\t.\t_\t3\tpunct\t3:punct\t_


# sent_id = 2
1\t#\t#\tSYM\tNN\t_\t0\troot\t0:root\t_
"""
WORD = "\tgo\tgo\tVERB\tVB\t_\t0\troot\t0:root\t_\n"


def test_conllu(tmp_path):
    path = tmp_path / "text.conllu"
    path.write_text(CONLLU, encoding="utf-8")
    first, second = read_conllu(path)
    assert first.words == ("Do", "n't", "go", ".")
    assert first.upos == ("AUX", "PART", "VERB", "PUNCT")
    assert first.xpos == ("VB", "RB", "VB", ".")
    assert second == TaggedSentence(("#",), ("SYM",), ("NN",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1" + WORD + "2\tgo\tgo\n", r"text.conllu, line 2 is .*CoNLL-U has 10 columns"),
        ("1\tgo\t\tVERB\tVB\t_\t0\troot\t0:root\t_\n", r"line 1 is .*none of them empty"),
        ("1" + WORD + "3" + WORD, r"line 2 begins with '3'; expected word 2 of its sentence"),
        ("1" + WORD + "1" + WORD, r"line 2 begins with '1'; expected word 2"),
        ("x" + WORD, r"line 1 begins with 'x'; expected word 1"),
        ("# a comment\n\n", r"holds no sentence"),
    ],
)
def test_broken_conllu_is_refused(tmp_path, text, message):
    (tmp_path / "text.conllu").write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=message):
        read_conllu(tmp_path / "text.conllu")


def test_text_of_a_folder(tmp_path):
    for part in ("train", "test"):
        (tmp_path / f"{part}.conllu").write_text(CONLLU, encoding="utf-8")
    text = TaggedText.read(tmp_path)
    assert (len(text.train), len(text.test)) == (2, 2)
    assert len(TaggedText.read(tmp_path, limit=1).train) == 1
    (tmp_path / "test.conllu").unlink()
    with pytest.raises(FormatError, match=r"cannot read .*test.conllu"):
        TaggedText.read(tmp_path)


# ----------------------------------------------------------------------------- the probe

N_TAGS = 4
# A word is `wNUMBER`; its tag is the remainder of the number.
NUMBERS = np.random.default_rng(0).integers(0, 10_000, size=(60, 10))


def sentence_of(numbers):
    words = tuple(f"w{number}" for number in numbers)
    return TaggedSentence(words, ("X",) * len(words), tuple(f"T{n % N_TAGS}" for n in numbers))


TEXT = TaggedText(
    [sentence_of(row) for row in NUMBERS[:40]], [sentence_of(row) for row in NUMBERS[40:]]
)


def vectors_of(sentences):
    """Layer 0 says nothing of the tag, layer 1 all of it, hidden beside a large constant."""
    found = []
    for words in sentences:
        numbers = [int(word[1:]) for word in words]
        noise = np.stack([np.random.default_rng(n).normal(size=8) for n in numbers])
        told = 0.1 * noise + 100.0
        told[np.arange(len(numbers)), [n % N_TAGS for n in numbers]] += 1.0
        found.append(np.stack([noise, told]).astype(np.float32))
    return found


def test_the_probe_finds_what_is_there():
    (found,) = tag_accuracies(vectors_of, TEXT, tags=["xpos"])
    assert found.tags == "xpos"
    assert found.layers[1] == 1.0
    assert found.layers[0] < 0.45  # one in four by chance
    assert found.mix > 0.97
    assert found.mix_shares[1] > 0.7
    assert sum(found.mix_shares) == pytest.approx(1.0)
    assert (found.n_tags, found.n_train, found.n_test) == (4, 400, 200)


def test_the_same_twice_and_both_kinds_of_tags():
    first = tag_accuracies(vectors_of, TEXT)
    assert first == tag_accuracies(vectors_of, TEXT)
    assert [found.tags for found in first] == ["xpos", "upos"]
    assert first[1].layers == (1.0, 1.0)  # one tag only


def test_most_frequent_tag_by_hand():
    def tagged(words, tags):
        return TaggedSentence(tuple(words.split()), ("X",) * len(tags), tuple(tags))

    text = TaggedText(
        # a: N twice, V once; b: V; N and V thrice each, and N comes first in the alphabet.
        [tagged("a a a", "NNV"), tagged("b b c", "VVN")],
        # Right: a/N, b/V, the new word d/N. Wrong: a/V, and Z, which nobody has seen.
        [tagged("a b d", "NVN"), tagged("a b", "VZ")],
    )
    (found,) = tag_accuracies(vectors_of_length_two, text, tags=["xpos"])
    assert found.most_frequent == pytest.approx(3 / 5)
    assert max(found.layers) <= 4 / 5  # Z is never right
    assert found.n_tags == 2


def vectors_of_length_two(sentences):
    return [np.ones((1, len(words), 2), np.float32) for words in sentences]


def test_no_sentences_are_refused():
    with pytest.raises(ConfigError, match="needs sentences to train on"):
        tag_accuracies(vectors_of, TaggedText([], TEXT.test))
