"""Documents and the clusters of their mentions: CoNLL-2012 columns, and LitBank's.

An example is a document: its sentences, and its clusters. A mention is (first word, word after its
last), counted over the whole document; mentions and clusters are in the order of the text. Each
stands in one sentence.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from elmo.errors import FormatError
from elmo.tasks.examples import Example, IndexRange
from elmo.tasks.readers.ontonotes import (
    NOTHING,
    SPEAKER,
    Document,
    Row,
    document_files,
    read_documents,
)

_PIECE = re.compile(r"(\()?([0-9]+)(\))?")

Cluster = tuple[IndexRange, ...]


def read_coreference(path: Path, *, encoding: str | None = None) -> list[Example]:
    """Read documents and their clusters.

    Args:
        path: a file, or a folder as `document_files` takes it.
        encoding: of the files; UTF-8, or UTF-16 with its mark, where None.
    """
    examples: list[Example] = []
    for file in document_files(path):
        for document in read_documents(file, encoding):
            texts = tuple(tuple(row.word for row in rows) for rows in document.sentences)
            speakers = tuple(_said(rows[0].columns[SPEAKER]) for rows in document.sentences)
            examples.append(Example(texts, _clusters(file, document), document.name, speakers))
    return examples


def _said(speaker: str) -> str:
    return "" if speaker in NOTHING else speaker


def _clusters(path: Path, document: Document) -> tuple[Cluster, ...]:
    """Give the clusters of a document, in the order of the text."""
    found: dict[str, set[IndexRange]] = defaultdict(set)
    first = 0
    for rows in document.sentences:
        for name, (start, end) in _mentions(path, rows):
            found[name].add((first + start, first + end))
        first += len(rows)
    return tuple(sorted(tuple(sorted(mentions)) for mentions in _joined(found.values())))


def _mentions(path: Path, rows: Sequence[Row]) -> Iterator[tuple[str, IndexRange]]:
    """Read the brackets of a sentence: `(3` opens a mention of cluster 3, `3)` closes the last."""
    opened: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        cell = row.columns[-1].strip()
        for piece in () if cell in NOTHING else cell.split("|"):
            match = _PIECE.fullmatch(piece)
            if match is None or not (match[1] or match[3]):
                raise FormatError(
                    f"{path}, line {row.line} has {cell!r} for coreference; expected such as (3, 3)"
                )
            name = match[2]
            if match[1]:
                opened[name].append(number)
            if match[3]:
                if not opened[name]:
                    raise FormatError(
                        f"{path}, line {row.line} closes a mention of {name} that was not opened"
                    )
                yield name, (opened[name].pop(), number + 1)
    for name, left in opened.items():
        if left:
            raise FormatError(
                f"{path}, line {rows[left[0]].line} opens a mention of {name} with no end in its "
                "sentence"
            )


def _joined(clusters: Iterable[set[IndexRange]]) -> list[set[IndexRange]]:
    """Make one cluster of those that share a mention: CoNLL-2012 has a few such."""
    found: list[set[IndexRange]] = []
    for cluster in clusters:
        apart = [other for other in found if not other & cluster]
        found = [*apart, cluster.union(*(other for other in found if other & cluster))]
    return found
