"""Tests of the part-of-speech probe."""

import numpy as np
import pytest
from pos_probe import (
    TaggedSentence,
    TaggedText,
    read_tags,
    tag_accuracies,
)

from elmo.errors import ConfigError, FormatError

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


def test_read_tags_returns_words_and_both_tags(tmp_path):
    path = tmp_path / "text.conllu"
    path.write_text(CONLLU, encoding="utf-8")
    first, second = read_tags(path)
    assert first.words == ("Do", "n't", "go", ".")
    assert first.upos == ("AUX", "PART", "VERB", "PUNCT")
    assert first.xpos == ("VB", "RB", "VB", ".")
    assert second == TaggedSentence(("#",), ("SYM",), ("NN",))


def test_tagged_text_reads_train_and_test_files(tmp_path):
    for name in ("train", "test"):
        (tmp_path / f"{name}.conllu").write_text(CONLLU, encoding="utf-8")
    text = TaggedText.read(tmp_path)
    assert (len(text.train), len(text.test)) == (2, 2)
    assert len(TaggedText.read(tmp_path, limit=1).train) == 1
    (tmp_path / "test.conllu").unlink()
    with pytest.raises(FormatError, match=r"Cannot read .*test.conllu"):
        TaggedText.read(tmp_path)


# ----------------------------------------------------------------------------- the probe

N_TAGS = 4
# A word is `wNUMBER`; its tag is NUMBER modulo N_TAGS.
NUMBERS = np.random.default_rng(0).integers(0, 10_000, size=(60, 10))


def sentence_of(numbers):
    words = tuple(f"w{number}" for number in numbers)
    return TaggedSentence(words, ("X",) * len(words), tuple(f"T{n % N_TAGS}" for n in numbers))


TEXT = TaggedText(
    [sentence_of(row) for row in NUMBERS[:40]], [sentence_of(row) for row in NUMBERS[40:]]
)


def encode(sentences):
    """Return vectors with noise in layer 0, and the tag plus noise and an offset in layer 1."""
    arrays = []
    for words in sentences:
        numbers = [int(word[1:]) for word in words]
        noise = np.stack([np.random.default_rng(n).normal(size=8) for n in numbers])
        informative = 0.1 * noise + 100.0
        informative[np.arange(len(numbers)), [n % N_TAGS for n in numbers]] += 1.0
        arrays.append(np.stack([noise, informative]).astype(np.float32))
    return arrays


def test_probe_is_accurate_only_on_the_informative_layer():
    (result,) = tag_accuracies(encode, TEXT, tags=["xpos"])
    assert result.tags == "xpos"
    assert result.layers[1] == 1.0
    assert result.layers[0] < 0.45  # 0.25 for random guesses
    assert result.mix > 0.97
    assert result.mix_shares[1] > 0.7
    assert sum(result.mix_shares) == pytest.approx(1.0)
    assert (result.n_tags, result.n_train, result.n_test) == (4, 400, 200)


def test_tag_accuracies_are_deterministic_for_both_tag_sets():
    results = tag_accuracies(encode, TEXT)
    assert results == tag_accuracies(encode, TEXT)
    assert [result.tags for result in results] == ["xpos", "upos"]
    assert results[1].layers == (1.0, 1.0)  # only one tag


def test_most_frequent_tag_accuracy_equals_hand_computed_value():
    def tagged(words, tags):
        return TaggedSentence(tuple(words.split()), ("X",) * len(tags), tuple(tags))

    text = TaggedText(
        # a is N twice and V once, b is V. N and V occur three times each; N is first in the
        # alphabet.
        [tagged("a a a", "NNV"), tagged("b b c", "VVN")],
        # Correct: a/N, b/V and the new word d/N. Wrong: a/V and the unknown tag Z.
        [tagged("a b d", "NVN"), tagged("a b", "VZ")],
    )
    (result,) = tag_accuracies(encode_as_ones, text, tags=["xpos"])
    assert result.most_frequent == pytest.approx(3 / 5)
    assert max(result.layers) <= 4 / 5  # Z is never predicted
    assert result.n_tags == 2


def encode_as_ones(sentences):
    return [np.ones((1, len(words), 2), np.float32) for words in sentences]


def test_tag_accuracies_rejects_empty_training_set():
    with pytest.raises(ConfigError, match="needs at least one training sentence"):
        tag_accuracies(encode, TaggedText([], TEXT.test))
