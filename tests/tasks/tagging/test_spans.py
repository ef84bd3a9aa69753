"""Tests of tag schemes: conversion to spans, lenient parsing, allowed transitions."""

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.errors import ConfigError, InputError
from elmo.tasks.tagging.spans import (
    BILOU,
    BIOES,
    IOB1,
    IOB2,
    NONE,
    SCHEMES,
    Span,
    all_tags,
    allowed_transitions,
    convert,
    detect_scheme,
    from_spans,
    is_well_formed,
    span_labels,
    to_scheme,
    to_spans,
)

PREFIXES = {IOB1: "BI", IOB2: "BI", BIOES: "BIES", BILOU: "BILU"}


def tags_of(scheme, labels=("X", "Y")):
    return ["O", *(f"{prefix}-{label}" for prefix in PREFIXES[scheme] for label in labels)]


@st.composite
def sentences(draw):
    """Generate non-overlapping spans and the length of their sentence."""
    length = draw(st.integers(0, 12))
    cuts = sorted(draw(st.sets(st.integers(0, length))))
    spans = [
        Span(start, end, draw(st.sampled_from(["X", "Y", "ARGM-LOC", ""])))
        for start, end in pairwise(cuts)
        if draw(st.booleans())
    ]
    return spans, length


# ------------------------------------------------------------------------------------ schemes

EXAMPLES = [
    # spans, number of words, tags in IOB1, IOB2 and BIOES
    ([], 2, "O O", "O O", "O O"),
    ([(0, 1, "X")], 1, "I-X", "B-X", "S-X"),
    ([(0, 2, "X")], 3, "I-X I-X O", "B-X I-X O", "B-X E-X O"),
    ([(1, 4, "X")], 4, "O I-X I-X I-X", "O B-X I-X I-X", "O B-X I-X E-X"),
    ([(0, 1, "X"), (1, 2, "X")], 2, "I-X B-X", "B-X B-X", "S-X S-X"),
    ([(0, 1, "X"), (1, 3, "X")], 3, "I-X B-X I-X", "B-X B-X I-X", "S-X B-X E-X"),
    ([(0, 1, "X"), (1, 2, "Y")], 2, "I-X I-Y", "B-X B-Y", "S-X S-Y"),
    ([(0, 2, "A-B"), (3, 4, "A-B")], 4, "I-A-B I-A-B O I-A-B", "B-A-B I-A-B O B-A-B", None),
    ([(0, 2, "")], 3, "I I O", "B I O", "B E O"),
]


@pytest.mark.parametrize(("spans", "length", "iob1", "iob2", "bioes"), EXAMPLES)
def test_spans_are_converted_to_tags_and_back(spans, length, iob1, iob2, bioes):
    spans = [Span(*span) for span in spans]
    bilou = None if bioes is None else bioes.replace("E", "L").replace("S", "U")
    for scheme, text in zip(SCHEMES, (iob1, iob2, bioes, bilou), strict=True):
        if text is not None:
            assert from_spans(spans, length, scheme) == text.split()
            assert to_spans(text.split(), scheme) == spans


@given(sentences(), st.sampled_from(SCHEMES), st.sampled_from(SCHEMES))
def test_conversion_to_another_scheme_and_back_preserves_tags(sentence, source, target):
    spans, length = sentence
    tags = from_spans(spans, length, source)
    assert len(tags) == length
    assert to_spans(tags, source) == spans
    assert is_well_formed(tags, source)
    converted = convert(tags, source, target)
    assert is_well_formed(converted, target)
    assert to_spans(converted, target) == spans
    assert convert(converted, target, source) == tags


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        # An I- tag that does not continue a span begins a new one.
        ("I-X I-X", [(0, 2, "X")]),
        ("O I-X O", [(1, 2, "X")]),
        ("B-X I-Y I-Y", [(0, 1, "X"), (1, 3, "Y")]),
        ("I-X I-Y I-X", [(0, 1, "X"), (1, 2, "Y"), (2, 3, "X")]),
        ("I-X B-X I-X", [(0, 1, "X"), (1, 3, "X")]),
    ],
)
def test_ill_formed_iob_tags_are_parsed_leniently(tags, spans):
    for scheme in (IOB1, IOB2):
        assert to_spans(tags.split(), scheme) == [Span(*span) for span in spans]


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("I-X E-X", [(0, 2, "X")]),
        ("E-X E-X", [(0, 1, "X"), (1, 2, "X")]),
        ("B-X O", [(0, 1, "X")]),
        ("B-X I-X", [(0, 2, "X")]),
        ("B-X S-X", [(0, 1, "X"), (1, 2, "X")]),
        ("B-X E-Y", [(0, 1, "X"), (1, 2, "Y")]),
        ("S-X I-X E-X", [(0, 1, "X"), (1, 3, "X")]),
        ("E-X I-X", [(0, 1, "X"), (1, 2, "X")]),
    ],
)
def test_ill_formed_bioes_tags_are_parsed_leniently(tags, spans):
    assert to_spans(tags.split(), BIOES) == [Span(*span) for span in spans]


def test_bilou_and_bioes_accept_the_prefixes_of_each_other():
    tags = "U-X B-X I-X L-X O B-Y L-Y".split()
    assert to_spans(tags, BILOU) == [Span(0, 1, "X"), Span(1, 4, "X"), Span(5, 7, "Y")]
    assert convert(tags, BIOES, BIOES) == "S-X B-X I-X E-X O B-Y E-Y".split()
    assert convert("S-X B-Y E-Y".split(), BILOU, BILOU) == "U-X B-Y L-Y".split()
    start, follow, end = allowed_transitions("BILOU", ["O", "B-X", "I-X", "L-X", "U-X"])
    bioes = allowed_transitions(BIOES, tags_of(BIOES, "X"))
    for mask, bioes_mask in zip((start, follow, end), bioes, strict=True):
        assert torch.equal(mask, bioes_mask)


@pytest.fixture(scope="module")
def get_entities():
    return pytest.importorskip("seqeval.metrics.sequence_labeling").get_entities


@settings(max_examples=300)
@given(st.data(), st.sampled_from([IOB2, BIOES]))
def test_spans_match_seqeval(get_entities, data, scheme):
    tags = data.draw(st.lists(st.sampled_from(tags_of(scheme)), max_size=12))
    expected = [Span(start, end + 1, label) for label, start, end in get_entities(tags)]
    assert to_spans(tags, scheme) == expected


def test_scheme_without_spans_is_rejected():
    with pytest.raises(
        ConfigError, match=r"the scheme 'IOB3' have no spans\. Expected one of: IOB1, IOB2, BIOES"
    ):
        to_spans(["O"], "IOB3")
    with pytest.raises(ConfigError, match="the scheme 'none' have no spans"):
        to_spans(["NN"], NONE)


@pytest.mark.parametrize("tag", ["NN", "", "X-Y", "BB-X", "E-X", "o", "-X"])
def test_to_spans_rejects_invalid_tag(tag):
    with pytest.raises(InputError, match="is not a tag of the scheme IOB2"):
        to_spans(["O", tag], IOB2)


@pytest.mark.parametrize(
    "spans",
    [
        [(0, 0, "X")],
        [(2, 1, "X")],
        [(-1, 1, "X")],
        [(2, 4, "X")],
        [(0, 2, "X"), (1, 3, "X")],
        [(0, 2, "X"), (0, 2, "X")],
    ],
)
def test_from_spans_rejects_invalid_spans(spans):
    with pytest.raises(InputError, match="Span"):
        from_spans([Span(*span) for span in spans], 3, IOB2)


# ------------------------------------------------------------------------------------ detecting


@pytest.mark.parametrize(
    ("tags", "scheme"),
    [
        (["I-X I-X O", "O I-Y B-Y"], IOB1),
        (["I-X O"], IOB1),
        (["B-X I-X O", "B-Y"], IOB2),
        (["B-X O"], IOB2),
        (["O O"], IOB2),
        ([], IOB2),
        # A single mistake does not change the scheme.
        (["B-X I-X", "B-X O B-Y", "O I-X"], IOB2),
        (["I-X I-X", "I-X O I-Y", "O B-X"], IOB1),
        (["B-X O", "S-X"], BIOES),
        (["B-X I-X L-X O U-X"], BILOU),
        (["U-X", "S-X"], BIOES),
        (["B I O"], IOB2),
        (["NN DT O"], NONE),
        (["B-X", "-LRB-"], NONE),
        (["NN DT NN", "B-X"], NONE),
    ],
)
def test_detect_scheme_finds_scheme_of_tags(tags, scheme):
    assert detect_scheme([line.split() for line in tags]) == scheme


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        (["B-X I-X O", "B-Y X"], "tag 'X' has no span prefix, but other tags do, such as 'B-X'"),
        # Occurrences are counted, not distinct tags.
        (["B-X O"] * 3 + ["X O"], "tag 'X' has no span prefix, but other tags do, such as 'B-X'"),
        (["B-X I-X"] * 2 + ["X b-X"], "tag 'X' has no span prefix"),
        (["B-X I-X", "B- O"], "tag 'B-' has no span prefix"),
        (
            ["B-X O B-Y O", "B-X S-Y", "B-Y O"],
            "tag 'S-Y' belongs to BIOES or BILOU, but the other tags",
        ),
    ],
)
def test_detect_scheme_rejects_rare_invalid_tags(tags, message):
    with pytest.raises(InputError, match=f"{message}.*Correct it, or set --scheme"):
        detect_scheme([line.split() for line in tags])


def test_to_scheme_converts_tags_in_another_scheme():
    single, double = ["S-X", "O"], ["B-X", "E-X"]
    assert to_scheme([single, double], IOB2) == [["B-X", "O"], ["B-X", "I-X"]]
    assert to_scheme([["B-X", "L-X"], ["U-X"]], BIOES) == [["B-X", "E-X"], ["S-X"]]
    # IOB1 and IOB2 have the same prefixes: the spans determine the scheme.
    assert to_scheme([["I-X", "O"], ["O", "I-X", "B-X"]], IOB2) == [
        ["B-X", "O"],
        ["O", "B-X", "B-X"],
    ]
    # Tags with a single mistake are unchanged.
    mistake = [["B-X", "O"], ["B-X", "I-Y"], ["O", "B-X"]]
    assert to_scheme(mistake, IOB2) == mistake
    assert to_scheme([["B-X", "O", "I-X"]], IOB1) == [["B-X", "O", "I-X"]]
    with pytest.raises(InputError, match="'NN' is not a tag of the scheme IOB2"):
        to_scheme([["NN"]], IOB2)


@given(st.lists(sentences(), max_size=5), st.sampled_from(SCHEMES))
def test_detected_scheme_gives_the_same_spans_as_the_original_scheme(parts, scheme):
    tags = [from_spans(spans, length, scheme) for spans, length in parts]
    detected = detect_scheme(tags)
    assert [to_spans(line, detected) for line in tags] == [spans for spans, _ in parts]


# ------------------------------------------------------------------------- allowed transitions


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_tag_sequence_is_allowed_exactly_if_it_is_well_formed(scheme, length):
    """A sequence is well-formed if converting it to spans and back does not change it."""
    tags = tags_of(scheme)
    start, follow, end = allowed_transitions(scheme, tags)
    assert (start.dtype, follow.shape, end.shape) == (torch.bool, (len(tags),) * 2, (len(tags),))
    for numbers in product(range(len(tags)), repeat=length):
        sentence = [tags[number] for number in numbers]
        is_allowed = start[numbers[0]] and end[numbers[-1]]
        is_allowed = is_allowed and all(follow[pair] for pair in pairwise(numbers))
        well_formed = from_spans(to_spans(sentence, scheme), length, scheme) == sentence
        assert bool(is_allowed) == well_formed
        assert is_well_formed(sentence, scheme) == well_formed


def test_all_tags_contains_every_tag_of_the_scheme_for_each_label():
    assert span_labels(["O", "B-PER", "E-PER", "S-N-1", "B"]) == {"PER", "N-1", ""}
    assert all_tags({"PER"}, BIOES) == ["B-PER", "E-PER", "I-PER", "O", "S-PER"]
    assert all_tags({"", "A"}, IOB2) == ["B", "B-A", "I", "I-A", "O"]
    assert all_tags((), BIOES) == ["O"]
