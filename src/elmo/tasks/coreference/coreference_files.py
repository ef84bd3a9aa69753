"""Reader for coreference annotations in CoNLL-2012 columns, including LitBank.

An example is a document with its sentences and clusters. A mention is a word range (start, end) in
the whole document and does not cross sentence boundaries. Mentions and clusters are sorted by
position.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from elmo.errors import FormatError
from elmo.tasks.core.example import Example, IndexRange
from elmo.tasks.files.ontonotes import (
    EMPTY_VALUES,
    SPEAKER,
    Document,
    Row,
    document_files,
    read_documents,
)

_BRACKET = re.compile(r"(\()?([0-9]+)(\))?")

Cluster = tuple[IndexRange, ...]


def read_coreference(
    path: Path, *, encoding: str | None = None
) -> list[Example[tuple[Cluster, ...]]]:
    """Read documents and their clusters from a file or a directory (`document_files`)."""
    examples: list[Example[tuple[Cluster, ...]]] = []
    for file in document_files(path):
        for document in read_documents(file, encoding):
            texts = tuple(tuple(row.word for row in rows) for rows in document.sentences)
            speakers = tuple(_speaker(rows[0].columns[SPEAKER]) for rows in document.sentences)
            examples.append(Example(texts, _clusters(file, document), document.name, speakers))
    return examples


def _speaker(value: str) -> str:
    return "" if value in EMPTY_VALUES else value


def _clusters(path: Path, document: Document) -> tuple[Cluster, ...]:
    """Return the clusters of a document, sorted by position."""
    clusters: dict[str, set[IndexRange]] = defaultdict(set)
    first = 0
    for rows in document.sentences:
        for name, (start, end) in _mentions(path, rows):
            clusters[name].add((first + start, first + end))
        first += len(rows)
    merged = _merge_overlapping(clusters.values())
    return tuple(sorted(tuple(sorted(mentions)) for mentions in merged))


def _mentions(path: Path, rows: Sequence[Row]) -> Iterator[tuple[str, IndexRange]]:
    """Yield the cluster name and the word range of each mention in a sentence.

    `(3` opens a mention of cluster 3, and `3)` closes the most recently opened one.
    """
    open_mentions: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        cell = row.columns[-1].strip()
        for bracket in () if cell in EMPTY_VALUES else cell.split("|"):
            match = _BRACKET.fullmatch(bracket)
            if match is None or not (match[1] or match[3]):
                raise FormatError(
                    f"{path}, line {row.line}: invalid coreference column {cell!r}. Expected "
                    "values such as (3 and 3)."
                )
            name = match[2]
            if match[1]:
                open_mentions[name].append(number)
            if match[3]:
                if not open_mentions[name]:
                    raise FormatError(
                        f"{path}, line {row.line}: a mention of cluster {name} is closed but "
                        "was never opened."
                    )
                yield name, (open_mentions[name].pop(), number + 1)
    for name, starts in open_mentions.items():
        if starts:
            raise FormatError(
                f"{path}, line {rows[starts[0]].line}: a mention of cluster {name} is not closed "
                "in its sentence."
            )


def _merge_overlapping(clusters: Iterable[set[IndexRange]]) -> list[set[IndexRange]]:
    """Merge clusters that share a mention; CoNLL-2012 contains a few of these."""
    merged: list[set[IndexRange]] = []
    for cluster in clusters:
        disjoint = [other for other in merged if not other & cluster]
        merged = [*disjoint, cluster.union(*(other for other in merged if other & cluster))]
    return merged
