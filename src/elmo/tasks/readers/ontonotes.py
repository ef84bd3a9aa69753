"""Columns of CoNLL-2012: documents of sentences of words, with frames and coreference.

Columns are document, part, number of the word, word, part of speech, piece of the tree, lemma,
sense of the frame, sense of the word, speaker, name, a column for each predicate of the sentence,
and coreference. They stand between spaces, or between tabs as in LitBank, where the last may be
empty and those in the middle say nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elmo.errors import FormatError
from elmo.tasks.readers.lines import is_blank, read_lines

WORD, NUMBER, LEMMA, SPEAKER, FRAMES = 3, 2, 6, 9, 11
# What stands where there is nothing to say.
NOTHING = ("-", "_", "")
_BEGIN = re.compile(r"#begin document \(?(.*?)\)?(?:; part (\d+))?\s*")
_END = "#end document"


@dataclass(frozen=True)
class Row:
    """A word's columns and its line in the file, from 1."""

    line: int
    columns: list[str]

    @property
    def word(self) -> str:
        """The word itself."""
        return self.columns[WORD]


@dataclass
class Document:
    """The sentences of a document, or of a part of one.

    Attributes:
        name: of the document and its part.
        line: of the file that begins it.
        sentences: rows of each.
    """

    name: str
    line: int
    sentences: list[list[Row]] = field(default_factory=list)


def read_documents(path: Path, encoding: str | None = None) -> Iterator[Document]:
    """Read the documents of a file, each between `#begin document` and `#end document`."""
    document: Document | None = None
    sentence: list[Row] = []
    n_documents = 0
    for number, line in enumerate(read_lines(path, encoding), start=1):
        where = f"{path}, line {number}"
        if line.startswith("#begin document"):
            if document is not None:
                raise FormatError(f"{where} begins a document inside {document.name!r}")
            match = _BEGIN.fullmatch(line)
            assert match is not None
            document = Document(f"{match[1]}; part {int(match[2] or 0)}", number)
        elif line.startswith(_END) or is_blank(line):
            if sentence and document is not None:
                document.sentences.append(sentence)
                sentence = []
            if line.startswith(_END):
                if document is None:
                    raise FormatError(f"{where} ends a document that was not begun")
                if not document.sentences:
                    raise FormatError(f"{path}, line {document.line} begins a document of no words")
                n_documents += 1
                yield document
                document = None
        elif document is None:
            raise FormatError(f"{where} stands in no document; expected #begin document: {line!r}")
        else:
            sentence.append(_row(where, number, line, sentence))
    if document is not None:
        raise FormatError(f"{path}, line {document.line} begins a document that does not end")
    if not n_documents:
        raise FormatError(f"{path} holds no document; expected #begin document")


def _row(where: str, number: int, line: str, before: list[Row]) -> Row:
    columns = line.split("\t") if "\t" in line else line.split()
    if len(columns) <= FRAMES:
        raise FormatError(
            f"{where} has {len(columns)} columns; CoNLL-2012 has {FRAMES + 1} or more: {line!r}"
        )
    if before and len(before[0].columns) != len(columns):
        raise FormatError(
            f"{where} has {len(columns)} columns, the words before it in its sentence have "
            f"{len(before[0].columns)}: {line!r}"
        )
    if not columns[WORD].strip():
        raise FormatError(f"{where} has no word: {line!r}")
    if columns[NUMBER] != str(len(before)):
        raise FormatError(
            f"{where} has the number {columns[NUMBER]!r}; expected word {len(before)} of its "
            "sentence, or a blank line before a new one"
        )
    return Row(number, columns)
