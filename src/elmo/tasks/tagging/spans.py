"""Tag schemes: conversion between word tags and labeled spans.

There are four schemes. `X` stands for the label of a span:

IOB1    I-X for the words of a span; B-X only on the first word of a span that directly follows
        another span with the same label
IOB2    B-X on the first word of a span, I-X on the others
BIOES   B-X on the first word, I-X on inner words, E-X on the last word, S-X for a one-word span
BILOU   like BIOES, but L-X on the last word and U-X for a one-word span; each of these two schemes
        accepts the other's prefixes

Tags are parsed leniently, as by conlleval: an I- or E- tag that does not continue a span begins a
new one, and a span ends at the first tag that does not continue it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from elmo.errors import ConfigError, InputError

IOB1, IOB2, BIOES, BILOU = "IOB1", "IOB2", "BIOES", "BILOU"
# Tags without spans, such as parts of speech.
NONE = "none"
SCHEMES = (IOB1, IOB2, BIOES, BILOU)

OUTSIDE = "O"
_PREFIXES = {IOB1: "BI", IOB2: "BI", BIOES: "BIESLU", BILOU: "BILUES"}
_BILOU_TO_BIOES = {"L": "E", "U": "S"}


class Span(NamedTuple):
    """A labeled range of words; `end` is exclusive."""

    start: int
    end: int
    label: str

    def to_dict(self, words: Sequence[str]) -> dict[str, object]:
        """Return the span and its text as a JSON-serializable dictionary."""
        return {"text": " ".join(words[self.start : self.end]), **self._asdict()}


class InvalidTag(InputError):
    """A tag that does not belong to the scheme; callers use it to find the location in the file."""

    def __init__(self, tag: str, message: str) -> None:
        super().__init__(message)
        self.tag = tag


class _Tag(NamedTuple):
    """Prefix and label of a tag; BILOU prefixes are converted to BIOES."""

    prefix: str
    label: str


def detect_scheme(sentences: Sequence[Sequence[str]], default: str = IOB2) -> str:
    """Detect the tag scheme.

    Tags that violate both IOB1 and IOB2 count as the scheme with fewer violations; both are parsed
    to the same spans. If only a minority of the tags lack a span prefix, they are an error:
    otherwise, a single typo would change the interpretation of all tags.

    Returns `IOB1`, `IOB2`, `BIOES`, `BILOU`, or `none` if the tags do not encode spans; the default
    if they fit IOB1 and IOB2 equally well.
    """
    counts = Counter(tag for sentence in sentences for tag in sentence)
    plain = {tag: n for tag, n in counts.items() if _parse(tag, BIOES) is None}
    prefixed = {tag: n for tag, n in counts.items() if tag[1:2] == "-" and tag not in plain}
    if plain and sum(plain.values()) < sum(prefixed.values()):
        first, other = next(iter(plain)), next(iter(prefixed))
        raise _invalid(first, f"has no span prefix, but other tags do, such as {other!r}", NONE)
    if plain:
        return NONE
    violations = {IOB1: 0, IOB2: 0, BIOES: 0}
    ends = []
    edge = _Tag(OUTSIDE, "")
    for sentence in sentences:
        parsed = [_require(tag, BIOES) for tag in sentence]
        ends += [tag for tag, parts in zip(sentence, parsed, strict=True) if parts.prefix in "ES"]
        for scheme in violations:
            pairs = pairwise([edge, *parsed, edge])
            violations[scheme] += sum(not _may_follow(tag, after, scheme) for tag, after in pairs)
    if ends and violations[BIOES] > len(ends):
        raise _invalid(ends[0], "belongs to BIOES or BILOU, but the other tags do not", IOB2)
    if ends:
        return BIOES if any(tag[0] in "ES" for tag in ends) else BILOU
    if violations[IOB1] == violations[IOB2] and default in (IOB1, IOB2):
        return default
    return IOB1 if violations[IOB1] < violations[IOB2] else IOB2


def _invalid(tag: str, problem: str, scheme: str) -> InvalidTag:
    message = f"The tag {tag!r} {problem}. Correct it, or set --scheme, for example {scheme}."
    return InvalidTag(tag, message)


def to_scheme(sentences: Sequence[Sequence[str]], scheme: str) -> list[Sequence[str]]:
    """Convert tags to a scheme, unless they already use it, even if some are ill-formed."""
    if all(_follows_scheme(tuple(tags), scheme) for tags in sentences):
        return list(sentences)
    source = detect_scheme(sentences, default=scheme)
    if source == scheme:
        return list(sentences)
    if source == NONE:
        for sentence in sentences:
            for tag in sentence:
                _require(tag, scheme)
    return [convert(tags, source, scheme) for tags in sentences]


def to_spans(tags: Sequence[str], scheme: str) -> list[Span]:
    """Return the spans of a sentence; ill-formed sequences are parsed as by conlleval."""
    _check_scheme(scheme)
    spans: list[Span] = []
    start = 0
    previous = _Tag(OUTSIDE, "")
    for position, tag in enumerate([*tags, OUTSIDE]):
        current = _require(tag, scheme)
        is_boundary = (
            current.prefix in ("B", "S", OUTSIDE)
            or previous.prefix in ("E", "S", OUTSIDE)
            or current.label != previous.label
        )
        if is_boundary and previous.prefix != OUTSIDE:
            spans.append(Span(start, position, previous.label))
        if is_boundary:
            start = position
        previous = current
    return spans


def from_spans(spans: Iterable[Span], length: int, scheme: str) -> list[str]:
    """Convert spans, which must not overlap, to tags, one per word."""
    _check_scheme(scheme)
    tags = [OUTSIDE] * length
    previous: Span | None = None
    for span in sorted(spans):
        first_free = previous.end if previous else 0
        if not first_free <= span.start < span.end <= length:
            raise InputError(
                f"{span} is empty, overlaps {previous} or is not inside the {length} words."
                if previous
                else f"{span} is empty or not inside the {length} words."
            )
        is_adjacent = previous is not None and (previous.end, previous.label) == (
            span.start,
            span.label,
        )
        prefixes = _prefixes(span.end - span.start, scheme, is_adjacent)
        for position, prefix in enumerate(prefixes, span.start):
            tags[position] = f"{prefix}-{span.label}" if span.label else prefix
        previous = span
    return tags


def convert(tags: Sequence[str], source: str, target: str) -> list[str]:
    """Convert the tags of a sentence to another scheme; the result is always well-formed."""
    return from_spans(to_spans(tags, source), len(tags), target)


def span_labels(tags: Iterable[str]) -> set[str]:
    """Return the labels of the spans in well-formed tags of any scheme."""
    return {tag.partition("-")[2] for tag in tags if tag != OUTSIDE}


def all_tags(labels: Iterable[str], scheme: str) -> list[str]:
    """Return all tags of a scheme for the given span labels, and O, in sorted order."""
    prefixes = _PREFIXES[scheme][:4]  # without the accepted aliases
    tags = {f"{prefix}-{label}" if label else prefix for label in labels for prefix in prefixes}
    return sorted({OUTSIDE} | tags)


def allowed_transitions(scheme: str, tags: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the transitions between distinct tags that a scheme allows, as boolean masks.

    They are whether a sentence may begin with each tag, (tags,); whether each tag (row) may be
    followed by each other tag (column), (tags, tags); and whether a sentence may end with each tag,
    (tags,).
    """
    _check_scheme(scheme)
    parsed = [_require(tag, scheme) for tag in tags]
    edge = _Tag(OUTSIDE, "")
    start = torch.tensor([_may_follow(edge, tag, scheme) for tag in parsed])
    end = torch.tensor([_may_follow(tag, edge, scheme) for tag in parsed])
    follow = [[_may_follow(tag, after, scheme) for after in parsed] for tag in parsed]
    return start, torch.tensor(follow), end


def misplaced_tags(tags: Sequence[str], scheme: str) -> list[int]:
    """Return the indices of the tags that the scheme does not allow after the tag before them.

    A sentence that ends inside a span, which only BIOES and BILOU can express, is not reported.
    """
    pairs = pairwise(_require(tag, scheme) for tag in (OUTSIDE, *tags))
    return [
        index for index, (tag, after) in enumerate(pairs) if not _may_follow(tag, after, scheme)
    ]


def is_well_formed(tags: Sequence[str], scheme: str) -> bool:
    """Whether the tags of a sentence form a valid sequence in the scheme."""
    parsed = [_require(tag, scheme) for tag in (OUTSIDE, *tags, OUTSIDE)]
    return all(_may_follow(tag, after, scheme) for tag, after in pairwise(parsed))


@lru_cache(maxsize=2**17)
def _follows_scheme(tags: tuple[str, ...], scheme: str) -> bool:
    """Whether tags, which can be in any scheme, are well-formed in the given scheme.

    Cached, because the same gold tags are scored in every evaluation.
    """
    own = _PREFIXES[scheme][:4]  # without the accepted aliases
    return all(tag == OUTSIDE or tag[:1] in own for tag in tags) and is_well_formed(tags, scheme)


def _may_follow(tag: _Tag, after: _Tag, scheme: str) -> bool:
    """Whether a tag may follow another one; the start and end of a sentence count as O."""
    same = tag.prefix != OUTSIDE and tag.label == after.label
    if scheme == IOB1:
        return after.prefix != "B" or same
    if scheme == IOB2:
        return after.prefix != "I" or same
    opened, continues = tag.prefix in ("B", "I"), after.prefix in ("I", "E")
    return opened == continues and (same or not opened)


def _prefixes(length: int, scheme: str, is_adjacent: bool) -> str:
    """Return the tag prefixes of a span as a string, one character per word.

    `is_adjacent` spans directly follow another one with the same label.
    """
    if scheme in (BIOES, BILOU):
        last, single = "ES" if scheme == BIOES else "LU"
        return single if length == 1 else "B" + "I" * (length - 2) + last
    return ("I" if scheme == IOB1 and not is_adjacent else "B") + "I" * (length - 1)


def _parse(tag: str, scheme: str) -> _Tag | None:
    """Split a tag into prefix and label; return None if it is invalid in the scheme."""
    if tag == OUTSIDE:
        return _Tag(OUTSIDE, "")
    prefix, dash, label = tag.partition("-")
    if len(prefix) != 1 or prefix not in _PREFIXES[scheme] or (dash and not label):
        return None
    return _Tag(_BILOU_TO_BIOES.get(prefix, prefix), label)


def _require(tag: str, scheme: str) -> _Tag:
    """Split a tag into prefix and label; raise an error if it is invalid in the scheme."""
    parsed = _parse(tag, scheme)
    if parsed is None:
        known = ", ".join(f"{prefix}-label" for prefix in _PREFIXES[scheme])
        raise InvalidTag(tag, f"{tag!r} is not a tag of the scheme {scheme}: O, {known}.")
    return parsed


def _check_scheme(scheme: str) -> None:
    if scheme not in SCHEMES:
        raise ConfigError(
            f"Tags with the scheme {scheme!r} have no spans. Expected one of: {', '.join(SCHEMES)}."
        )
