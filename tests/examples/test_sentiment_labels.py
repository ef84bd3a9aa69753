"""Tests of `docs/sentiment_labels.py`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "docs"))
from sentiment_labels import write_sentences_and_labels


def test_last_words_have_the_label_of_their_sentence(tmp_path):
    trees = tmp_path / "trees.txt"
    trees.write_text("(4 (2 very) (3 good))\n(2 (2 a) (2 film))\n(0 (1 (1 so) (1 bad)) (2 .))\n")
    write_sentences_and_labels(trees, tmp_path / "sentences.txt", tmp_path / "labels.txt")
    sentences = (tmp_path / "sentences.txt").read_text().splitlines()
    labels = (tmp_path / "labels.txt").read_text().splitlines()
    assert sorted(zip(sentences, labels, strict=True)) == [
        ("so bad .", "- - 0"),
        ("very good", "- 1"),
    ]
