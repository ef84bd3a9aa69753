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
from elmo.tasks.readers.part_paths import part_of
from elmo.tasks.readers.text_lines import is_blank, read_lines

WORD, NUMBER, LEMMA, SPEAKER, FRAMES = 3, 2, 6, 9, 11
# What stands where there is nothing to say.
NOTHING = ("-", "_", "")
# A folder's files, sorted by name, are cut into parts at these shares (LitBank's are 80, 10, 10).
CUTS = {"train": (0.0, 0.8), "dev": (0.8, 0.9), "test": (0.9, 1.0)}
_BEGIN = re.compile(r"#begin document \(?(.*?)\)?(?:; part (\d{1,9}))?\s*")
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


def document_files(path: Path) -> list[Path]:
    """Give the files of documents that a path means.

    Args:
        path: a file, or a folder with `*conll` files in it or in folders below; where some are
            `*gold_conll`, those alone, as OntoNotes has `*auto_conll` beside them. `FOLDER/train`,
            `FOLDER/dev` and `FOLDER/test` are four fifths, a tenth and a tenth of the files, sorted
            by name.
    """
    folder, part = part_of(path)
    if not folder.is_dir():
        # Of a single file there are no parts: the name is then as it was given.
        return [path]
    files = sorted((file for file in folder.rglob("*conll") if file.is_file()), key=str)
    files = [file for file in files if file.name.endswith("gold_conll")] or files
    if part is not None:
        first, last = (round(share * len(files)) for share in CUTS[part])
        files = files[first:last]
    if not files:
        raise FormatError(f"{path} holds no file whose name ends in conll")
    return files


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
            document = Document(_name(where, line), number)
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


def _name(where: str, line: str) -> str:
    match = _BEGIN.fullmatch(line)
    if match is None or not match[1]:
        raise FormatError(f"{where} begins a document without a name: {line!r}")
    return f"{match[1]}; part {int(match[2] or 0)}"


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
