"""Reader for the Stanford Sentiment Treebank: one tree per line, such as `(3 (2 It) (4 's))`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import FormatError
from elmo.tasks.core.example import Example
from elmo.tasks.files.text_lines import is_blank, read_lines

FIVE_LABELS = {
    "0": "very negative",
    "1": "negative",
    "2": "neutral",
    "3": "positive",
    "4": "very positive",
}
# Neutral phrases are skipped.
TWO_LABELS = {"0": "negative", "1": "negative", "3": "positive", "4": "positive"}
# Escapes of the Penn Treebank format for characters with a special meaning.
ESCAPES = {"-LRB-": "(", "-RRB-": ")", "\\/": "/", "\\*": "*"}

# Only spaces and tabs separate tokens; a word can contain other white space, such as a no-break
# space.
_TOKEN = re.compile(r"[()]|[^() \t]+")
_ESCAPED = re.compile("|".join(map(re.escape, ESCAPES)))


@dataclass(frozen=True)
class Phrase:
    """A node of a tree: its label and its words, from `start` up to but not including `end`."""

    label: str
    start: int
    end: int


@dataclass
class _OpenNode:
    """A node whose closing bracket has not been read yet."""

    start: int
    label: str | None = None
    has_word: bool = False
    has_children: bool = False


def read_sst5(
    path: Path, *, phrases: bool = False, encoding: str | None = None
) -> list[Example[str]]:
    """Read sentences or, as is usual for training, all phrases with five labels."""
    return _read(path, FIVE_LABELS, phrases, encoding)


def read_sst2(
    path: Path, *, phrases: bool = False, encoding: str | None = None
) -> list[Example[str]]:
    """Read sentences or all phrases with two labels; neutral ones are skipped."""
    return _read(path, TWO_LABELS, phrases, encoding)


def _read(
    path: Path, labels: Mapping[str, str], phrases: bool, encoding: str | None
) -> list[Example[str]]:
    examples: list[Example[str]] = []
    for number, line in enumerate(read_lines(path, encoding), start=1):
        if is_blank(line):
            continue
        try:
            words, nodes = parse(line)
        except ValueError as error:
            raise FormatError(f"{path}, line {number}: not a valid SST tree: {error}.") from None
        examples += [
            Example((words[node.start : node.end],), labels[node.label], id=str(number))
            for node in (nodes if phrases else nodes[:1])
            if node.label in labels
        ]
    if not examples:
        raise FormatError(
            f"{path}: contains no labeled trees. Expected lines such as (3 (2 It) (4 's))."
        )
    return examples


def parse(line: str) -> tuple[tuple[str, ...], list[Phrase]]:
    """Return words and nodes of a tree, the root first; raise `ValueError` with the reason."""
    words: list[str] = []
    nodes: list[Phrase | None] = []
    # An explicit stack, because a broken file could exceed the recursion limit.
    stack: list[tuple[int, _OpenNode]] = []
    for match in _TOKEN.finditer(line):
        token, position = match[0], f"at character {match.start() + 1}"
        if not stack and (nodes or token != "("):
            raise ValueError(f"{token!r} {position} is outside the tree")
        if token == "(":
            if stack:
                _add_child(stack[-1][1], position)
            stack.append((len(nodes), _OpenNode(len(words))))
            nodes.append(None)
        elif token == ")":
            number, node = stack.pop()
            if node.label is None or not (node.has_word or node.has_children):
                raise ValueError(f"the bracket closed {position} contains no word")
            nodes[number] = Phrase(node.label, node.start, len(words))
        else:
            _add_token(stack[-1][1], token, position, words)
    if stack:
        raise ValueError(f"{len(stack)} brackets are not closed")
    return tuple(words), [node for node in nodes if node is not None]


def _add_child(node: _OpenNode, position: str) -> None:
    if node.label is None:
        raise ValueError(f"the bracket {position} is not preceded by a label")
    if node.has_word:
        raise ValueError(f"the bracket {position} follows a word")
    node.has_children = True


def _add_token(node: _OpenNode, token: str, position: str, words: list[str]) -> None:
    """Add a label or a word to a node."""
    if node.label is None:
        if token not in FIVE_LABELS:
            raise ValueError(
                f"the label {token!r} {position} is not one of {', '.join(FIVE_LABELS)}"
            )
        node.label = token
        return
    if node.has_word or node.has_children:
        raise ValueError(
            f"the word {token!r} {position} follows another word or bracket in its node"
        )
    node.has_word = True
    words.append(_ESCAPED.sub(lambda match: ESCAPES[match[0]], token))
