"""Tests for the Stanford Sentiment Treebank reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import FormatError
from elmo.tasks.classification.sentiment_trees import Phrase, parse, read_sst2, read_sst5

TREES = """(3 (2 It) (4 (3 's) (2 good)))
(2 so)

(0 (1 (2 not) (2 (2 -LRB-) (2 2\\/3)))  (2 a\xa0b\\*))
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "trees.txt"
    path.write_text(TREES, encoding="utf-8")
    return path


def texts_and_labels(examples):
    return [(" ".join(example.words), example.target) for example in examples]


def test_read_sst5_returns_sentences_with_five_labels(path):
    assert texts_and_labels(read_sst5(path)) == [
        ("It 's good", "positive"),
        ("so", "neutral"),
        ("not ( 2/3 a\xa0b*", "very negative"),
    ]


def test_read_sst2_returns_sentences_with_two_labels(path):
    assert texts_and_labels(read_sst2(path)) == [
        ("It 's good", "positive"),
        ("not ( 2/3 a\xa0b*", "negative"),
    ]


def test_sst_readers_return_all_phrases_on_request(path):
    assert texts_and_labels(read_sst5(path, phrases=True))[:5] == [
        ("It 's good", "positive"),
        ("It", "neutral"),
        ("'s good", "very positive"),
        ("'s", "positive"),
        ("good", "neutral"),
    ]
    assert len(read_sst5(path, phrases=True)) == 5 + 1 + 6 + 1
    assert texts_and_labels(read_sst2(path, phrases=True)) == [
        ("It 's good", "positive"),
        ("'s good", "positive"),
        ("'s", "positive"),
        ("not ( 2/3 a\xa0b*", "negative"),
        ("not ( 2/3", "negative"),
    ]


def to_brackets(tree):
    label, children = tree
    content = children if isinstance(children, str) else " ".join(map(to_brackets, children))
    return f"({label} {content})"


def leaves(tree):
    return (
        [tree[1]]
        if isinstance(tree[1], str)
        else [leaf for each in tree[1] for leaf in leaves(each)]
    )


LABELS = st.sampled_from("01234")
TREE = st.recursive(
    st.tuples(LABELS, st.text("abé.\xa0", min_size=1)),
    lambda tree: st.tuples(LABELS, st.lists(tree, min_size=1, max_size=3)),
)


@given(TREE)
def test_parse_round_trips_arbitrary_trees(tree):
    words, nodes = parse(to_brackets(tree))
    assert list(words) == leaves(tree)
    assert nodes[0] == Phrase(tree[0], 0, len(words))
    assert all(0 <= node.start < node.end <= len(words) for node in nodes)
    assert len(nodes) == to_brackets(tree).count("(")


def test_parse_accepts_deeply_nested_tree():
    words, nodes = parse("(2 " * 5000 + "deep" + ")" * 5000)
    assert (words, len(nodes)) == (("deep",), 5000)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("(3 (2 It) (4 's)", "1 brackets are not closed"),
        ("(3 (2 It", "2 brackets are not closed"),
        ("(3 (2 It)) )", r"'\)' at character 12 is outside the tree"),
        ("(3 It) (2 a)", r"'\(' at character 8 is outside"),
        ("It", "'It' at character 1 is outside"),
        ("(5 It)", "the label '5' at character 2 is not one of 0, 1, 2, 3, 4"),
        ("(It)", "the label 'It'"),
        ("(3)", "closed at character 3 contains no word"),
        ("()", "contains no word"),
        ("((2 It))", "the bracket at character 2 is not preceded by a label"),
        ("(3 It 's)", 'the word "\'s" at character 7 follows another word'),
        ("(3 (2 It) 's)", "the word .* at character 11 follows another"),
        ("(3 It (2 a))", "the bracket at character 7 follows a word"),
    ],
)
def test_read_sst5_rejects_invalid_tree(tmp_path, line, message):
    path = tmp_path / "trees.txt"
    path.write_text(f"(2 a)\n{line}\n", encoding="utf-8")
    with pytest.raises(FormatError, match=f"trees.txt, line 2: not a valid SST tree: .*{message}"):
        read_sst5(path)


def test_sst_readers_reject_file_without_labeled_trees(tmp_path):
    path = tmp_path / "trees.txt"
    path.write_text("\n")
    with pytest.raises(FormatError, match="contains no labeled trees"):
        read_sst5(path)
    path.write_text("(2 neutral)\n")
    with pytest.raises(FormatError, match="contains no labeled trees"):
        read_sst2(path)
