"""The Stanford Sentiment Treebank: `(3 (2 It) (4 's))`, a tree a line, a label at each node."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import FormatError
from elmo.tasks.examples import Example
from elmo.tasks.readers.text_lines import is_blank, read_lines

FIVE = {
    "0": "very negative",
    "1": "negative",
    "2": "neutral",
    "3": "positive",
    "4": "very positive",
}
# What is neutral is left out.
TWO = {"0": "negative", "1": "negative", "3": "positive", "4": "positive"}
# How the Penn Treebank's way of writing spells what would be taken for its own marks.
SPELLED = {"-LRB-": "(", "-RRB-": ")", "\\/": "/", "\\*": "*"}

# Other white space than this may stand inside a word, as in one with a no-break space.
_TOKEN = re.compile(r"[()]|[^() \t]+")
_ESCAPED = re.compile("|".join(map(re.escape, SPELLED)))


@dataclass(frozen=True)
class Phrase:
    """A node: its label and the words from `start` up to `end`."""

    label: str
    start: int
    end: int


@dataclass
class _Open:
    """A node whose bracket is not closed yet."""

    start: int
    label: str | None = None
    has_word: bool = False
    has_children: bool = False


def read_sst5(path: Path, *, phrases: bool = False, encoding: str | None = None) -> list[Example]:
    """Read trees with five labels, from very negative to very positive.

    Args:
        path: the file.
        phrases: whether each phrase is an example, as usual in training; sentences alone where not.
        encoding: of the file; UTF-8, or UTF-16 with its mark, where None.
    """
    return _read(path, FIVE, phrases, encoding)


def read_sst2(path: Path, *, phrases: bool = False, encoding: str | None = None) -> list[Example]:
    """Read trees with two labels, negative and positive; what is neutral is left out.

    Args:
        path: the file.
        phrases: whether each phrase is an example, as usual in training; sentences alone where not.
        encoding: of the file; UTF-8, or UTF-16 with its mark, where None.
    """
    return _read(path, TWO, phrases, encoding)


def _read(
    path: Path, labels: Mapping[str, str], phrases: bool, encoding: str | None
) -> list[Example]:
    examples: list[Example] = []
    for number, line in enumerate(read_lines(path, encoding), start=1):
        if is_blank(line):
            continue
        try:
            words, nodes = parse(line)
        except ValueError as error:
            raise FormatError(f"{path}, line {number} is no tree of SST: {error}") from None
        examples += [
            Example((words[node.start : node.end],), labels[node.label], id=str(number))
            for node in (nodes if phrases else nodes[:1])
            if node.label in labels
        ]
    if not examples:
        raise FormatError(
            f"{path} holds no labelled tree; expected lines such as (3 (2 It) (4 's))"
        )
    return examples


def parse(line: str) -> tuple[tuple[str, ...], list[Phrase]]:
    """Give the words of a tree, and its nodes, the whole sentence first.

    Args:
        line: the tree.

    Raises:
        ValueError: it is none; the message tells why.
    """
    words: list[str] = []
    nodes: list[Phrase | None] = []
    # By hand and not by recursion, which a broken file could drive too deep.
    stack: list[tuple[int, _Open]] = []
    for match in _TOKEN.finditer(line):
        token, place = match[0], f"at character {match.start() + 1}"
        if not stack and (nodes or token != "("):
            raise ValueError(f"{token!r} {place} is outside of the tree")
        if token == "(":
            if stack:
                _add_child(stack[-1][1], place)
            stack.append((len(nodes), _Open(len(words))))
            nodes.append(None)
        elif token == ")":
            number, node = stack.pop()
            if node.label is None or not (node.has_word or node.has_children):
                raise ValueError(f"the bracket closed {place} holds no word")
            nodes[number] = Phrase(node.label, node.start, len(words))
        else:
            _add_token(stack[-1][1], token, place, words)
    if stack:
        raise ValueError(f"{len(stack)} of its brackets are not closed")
    return tuple(words), [node for node in nodes if node is not None]


def _add_child(node: _Open, place: str) -> None:
    if node.label is None:
        raise ValueError(f"there is no label before the bracket {place}")
    if node.has_word:
        raise ValueError(f"the bracket {place} follows a word")
    node.has_children = True


def _add_token(node: _Open, token: str, place: str, words: list[str]) -> None:
    """Take a label or a word."""
    if node.label is None:
        if token not in FIVE:
            raise ValueError(f"the label {token!r} {place} is not one of {', '.join(FIVE)}")
        node.label = token
        return
    if node.has_word or node.has_children:
        raise ValueError(f"the word {token!r} {place} stands beside another word or bracket")
    node.has_word = True
    words.append(_ESCAPED.sub(lambda match: SPELLED[match[0]], token))
