"""Tags of single words and the spans they stand for.

Four schemes, with `X` the label of a span:

IOB1    I-X inside; B-X only where a span follows another one of the same label at once
IOB2    B-X on the first word of a span, I-X on the others
BIOES   B-X first, I-X between, E-X last, S-X alone
BILOU   the same with L-X last and U-X alone; either of the two is read where the other is meant

Tags are read as leniently as conlleval reads them: an I- or E- which continues nothing begins a
span, and a span ends where a tag does not continue it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from elmo.errors import ConfigError, InputError

IOB1, IOB2, BIOES, BILOU = "IOB1", "IOB2", "BIOES", "BILOU"
# Tags that stand for themselves, such as parts of speech.
NONE = "none"
SCHEMES = (IOB1, IOB2, BIOES, BILOU)

OUTSIDE = "O"
_PREFIXES = {IOB1: "BI", IOB2: "BI", BIOES: "BIESLU", BILOU: "BILUES"}
_OTHER_NAMES = {"BIO": IOB2, "IOBES": BIOES, "BIOLU": BILOU}
_SAME = {"L": "E", "U": "S"}


class Span(NamedTuple):
    """Words of one label: those from `start` up to, not including, `end`."""

    start: int
    end: int
    label: str

    def to_dict(self, words: Sequence[str]) -> dict[str, Any]:
        """Give it as plain data, with its text.

        Args:
            words: of the sentence.
        """
        return {"text": " ".join(words[self.start : self.end]), **self._asdict()}


class InvalidTag(InputError):
    """A tag that does not belong where it stands."""

    def __init__(self, tag: str, message: str) -> None:
        """Keep which one, for who knows where it stands."""
        super().__init__(message)
        self.tag = tag


class _Tag(NamedTuple):
    """A tag taken apart; BILOU's letters are already those of BIOES."""

    prefix: str
    label: str


def scheme_named(name: str) -> str:
    """Give the scheme a name means, in capitals or not, other names of it included."""
    if name.lower() == NONE:
        return NONE
    scheme = _OTHER_NAMES.get(name.upper(), name.upper())
    if scheme not in SCHEMES:
        raise ConfigError(f"there is no tag scheme {name!r}; expected {', '.join(SCHEMES)}")
    return scheme


def detect_scheme(sentences: Sequence[Sequence[str]], usual: str = IOB2) -> str:
    """Find out the scheme of tags.

    A file which breaks the rules of IOB1 and of IOB2 is taken for the one it breaks less often:
    reading it gives the same spans. Tags of no span are refused where they are fewer than those of
    spans, lest a slip decides what all the others mean.

    Args:
        sentences: tags of each sentence.
        usual: what is meant where they are as much IOB1 as IOB2.

    Returns:
        `IOB1`, `IOB2`, `BIOES`, `BILOU`, or `none` where the tags mark no spans.
    """
    counts = Counter(tag for sentence in sentences for tag in sentence)
    odd = {tag: n for tag, n in counts.items() if _parts(tag, BIOES) is None}
    marked = {tag: n for tag, n in counts.items() if tag[1:2] == "-" and tag not in odd}
    if odd and sum(odd.values()) < sum(marked.values()):
        first, other = next(iter(odd)), next(iter(marked))
        raise _stranger(first, f"no tag of spans, where others are, such as {other!r}", NONE)
    if odd:
        return NONE
    broken = {IOB1: 0, IOB2: 0, BIOES: 0}
    ends = []
    edge = _Tag(OUTSIDE, "")
    for sentence in sentences:
        parts = [_require(tag, BIOES) for tag in sentence]
        ends += [tag for tag, part in zip(sentence, parts, strict=True) if part.prefix in "ES"]
        for scheme in broken:
            pairs = pairwise([edge, *parts, edge])
            broken[scheme] += sum(not _may_follow(tag, after, scheme) for tag, after in pairs)
    if ends and broken[BIOES] > len(ends):
        raise _stranger(ends[0], "of BIOES or BILOU, and the others are not", IOB2)
    if ends:
        return BIOES if any(tag[0] in "ES" for tag in ends) else BILOU
    if broken[IOB1] == broken[IOB2] and usual in (IOB1, IOB2):
        return usual
    return IOB1 if broken[IOB1] < broken[IOB2] else IOB2


def _stranger(tag: str, what: str, scheme: str) -> InvalidTag:
    message = f"the tag {tag!r} is {what}: mend it, or name the scheme, such as {scheme}"
    return InvalidTag(tag, message)


def to_scheme(sentences: Sequence[Sequence[str]], scheme: str) -> list[Sequence[str]]:
    """Give the tags of sentences in a scheme: as they are, well-formed or not, if it is theirs."""
    if all(_follows_scheme(tuple(tags), scheme) for tags in sentences):
        return list(sentences)
    source = detect_scheme(sentences, usual=scheme)
    if source == scheme:
        return list(sentences)
    if source == NONE:
        for sentence in sentences:
            for tag in sentence:
                _require(tag, scheme)
    return [convert(tags, source, scheme) for tags in sentences]


def to_spans(tags: Sequence[str], scheme: str) -> list[Span]:
    """Read the spans of a sentence.

    Args:
        tags: one for each word; an ill-formed sequence is read as conlleval reads it.
        scheme: of the tags.
    """
    scheme = _of_spans(scheme)
    spans: list[Span] = []
    start = 0
    before = _Tag(OUTSIDE, "")
    for place, tag in enumerate([*tags, OUTSIDE]):
        parts = _require(tag, scheme)
        cut = (
            parts.prefix in ("B", "S", OUTSIDE)
            or before.prefix in ("E", "S", OUTSIDE)
            or parts.label != before.label
        )
        if cut and before.prefix != OUTSIDE:
            spans.append(Span(start, place, before.label))
        if cut:
            start = place
        before = parts
    return spans


def from_spans(spans: Iterable[Span], length: int, scheme: str) -> list[str]:
    """Write spans as tags.

    Args:
        spans: in any order, none overlapping another.
        length: words of the sentence.
        scheme: of the tags.
    """
    scheme = _of_spans(scheme)
    tags = [OUTSIDE] * length
    before: Span | None = None
    for span in sorted(spans):
        first_free = before.end if before else 0
        if not first_free <= span.start < span.end <= length:
            raise InputError(
                f"{span} is empty, overlaps {before} or is not inside the {length} words"
                if before
                else f"{span} is empty or not inside the {length} words"
            )
        touches = before is not None and (before.end, before.label) == (span.start, span.label)
        prefixes = _written(span.end - span.start, scheme, touches)
        for place, prefix in enumerate(prefixes, span.start):
            tags[place] = f"{prefix}-{span.label}" if span.label else prefix
        before = span
    return tags


def convert(tags: Sequence[str], source: str, target: str) -> list[str]:
    """Rewrite the tags of a sentence in another scheme; what is ill-formed becomes well-formed."""
    return from_spans(to_spans(tags, source), len(tags), target)


def allowed_transitions(scheme: str, tags: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
    """Tell which sequences of tags a scheme allows, for decoding.

    Args:
        scheme: of the tags; `none` allows everything.
        tags: the distinct ones, in the order of their numbers.

    Returns:
        Whether a sentence may begin with a tag, (tags,); whether a tag (row) may be followed by
        another (column), (tags, tags); whether a sentence may end with a tag, (tags,).
    """
    scheme = scheme_named(scheme)
    if scheme == NONE:
        n = len(tags)
        everything = torch.ones(n, dtype=torch.bool)
        return everything, torch.ones(n, n, dtype=torch.bool), everything.clone()
    parts = [_require(tag, scheme) for tag in tags]
    edge = _Tag(OUTSIDE, "")
    start = torch.tensor([_may_follow(edge, tag, scheme) for tag in parts])
    end = torch.tensor([_may_follow(tag, edge, scheme) for tag in parts])
    follow = [[_may_follow(tag, after, scheme) for after in parts] for tag in parts]
    return start, torch.tensor(follow), end


def is_well_formed(tags: Sequence[str], scheme: str) -> bool:
    """Tell whether the tags of a sentence are well-formed."""
    scheme = scheme_named(scheme)
    if scheme == NONE:
        return True
    parts = [_require(tag, scheme) for tag in (OUTSIDE, *tags, OUTSIDE)]
    return all(_may_follow(tag, after, scheme) for tag, after in pairwise(parts))


@lru_cache(maxsize=2**17)
def _follows_scheme(tags: tuple[str, ...], scheme: str) -> bool:
    """Tell it of tags that may be another scheme's; once, as the same are scored at each turn."""
    own = _PREFIXES[scheme][:4]  # without those that are read where the others are meant
    return all(tag == OUTSIDE or tag[:1] in own for tag in tags) and is_well_formed(tags, scheme)


def _may_follow(tag: _Tag, after: _Tag, scheme: str) -> bool:
    """Tell whether a well-formed sentence may hold two tags side by side.

    The edges of a sentence are as words outside of any span.
    """
    same = tag.prefix != OUTSIDE and tag.label == after.label
    if scheme == IOB1:
        return after.prefix != "B" or same
    if scheme == IOB2:
        return after.prefix != "I" or same
    opened, continues = tag.prefix in ("B", "I"), after.prefix in ("I", "E")
    return opened == continues and (same or not opened)


def _written(length: int, scheme: str, touches: bool) -> str:
    """Give the prefixes of a span.

    Args:
        length: its words.
        scheme: of the tags.
        touches: whether it follows another of its label at once.
    """
    if scheme in (BIOES, BILOU):
        last, alone = "ES" if scheme == BIOES else "LU"
        return alone if length == 1 else "B" + "I" * (length - 2) + last
    return ("I" if scheme == IOB1 and not touches else "B") + "I" * (length - 1)


def _parts(tag: str, scheme: str) -> _Tag | None:
    """Take a tag apart; None where the scheme has no such tag."""
    if tag == OUTSIDE:
        return _Tag(OUTSIDE, "")
    prefix, dash, label = tag.partition("-")
    if len(prefix) != 1 or prefix not in _PREFIXES[scheme] or (dash and not label):
        return None
    return _Tag(_SAME.get(prefix, prefix), label)


def _require(tag: str, scheme: str) -> _Tag:
    parts = _parts(tag, scheme)
    if parts is None:
        known = ", ".join(f"{prefix}-label" for prefix in _PREFIXES[scheme])
        raise InvalidTag(tag, f"{tag!r} is no tag of the scheme {scheme}, which has O, {known}")
    return parts


def _of_spans(name: str) -> str:
    scheme = scheme_named(name)
    if scheme == NONE:
        raise ConfigError(f"tags of no scheme have no spans; expected {', '.join(SCHEMES)}")
    return scheme
