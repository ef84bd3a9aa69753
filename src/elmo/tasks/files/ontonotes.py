"""Parser for CoNLL-2012 files: documents with predicate frames and coreference in columns.

The columns are document, part, word number, word, part of speech, parse bit, lemma, frameset, word
sense, speaker, named entity, one argument column per predicate in the sentence, and coreference.
Columns are separated by spaces, or by tabs in LitBank, which fills the middle columns with
placeholders and can leave the last column empty.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from elmo.errors import FormatError
from elmo.tasks.files.part_paths import split_part
from elmo.tasks.files.text_lines import is_blank, read_lines

WORD, NUMBER, LEMMA, SPEAKER, FRAMES = 3, 2, 6, 9, 11
# Values of a column without content.
EMPTY_VALUES = ("-", "_", "")
# Range of the files of a directory, sorted by name, in each part; 80, 10 and 10 percent as in
# LitBank.
PART_RANGES = {"train": (0.0, 0.8), "dev": (0.8, 0.9), "test": (0.9, 1.0)}
_BEGIN = re.compile(r"#begin document \(?(.*?)\)?(?:; part (\d{1,9}))?\s*")
_END = "#end document"


@dataclass(frozen=True)
class Row:
    """The columns for one word, and its line number in the file, counted from 1."""

    line: int
    columns: list[str]

    @property
    def word(self) -> str:
        """The word."""
        return self.columns[WORD]


@dataclass
class Document:
    """Sentences of a document or a part of it, and the line of its `#begin document`."""

    name: str
    line: int
    sentences: list[list[Row]] = field(default_factory=list)


def document_files(path: Path) -> list[Path]:
    """Return the document files for a path: a file, or a directory with `*conll` files.

    If there are `*gold_conll` files, only these are returned, because OntoNotes also contains
    automatically annotated `*auto_conll` files. `DIRECTORY/train`, `DIRECTORY/dev` and
    `DIRECTORY/test` select the first 80, the next 10 and the last 10 percent of the files, sorted
    by name.
    """
    folder, part = split_part(path)
    if not folder.is_dir():
        # A single file has no parts, so the path is used as given.
        return [path]
    files = sorted((file for file in folder.rglob("*conll") if file.is_file()), key=str)
    files = [file for file in files if file.name.endswith("gold_conll")] or files
    if part is not None:
        first, last = (round(share * len(files)) for share in PART_RANGES[part])
        files = files[first:last]
    if not files:
        raise FormatError(f"{path}: contains no files whose names end in conll.")
    return files


def read_documents(path: Path, encoding: str | None = None) -> Iterator[Document]:
    """Yield the documents in a file, delimited by `#begin document` and `#end document`."""
    document: Document | None = None
    sentence: list[Row] = []
    n_documents = 0
    for number, line in enumerate(read_lines(path, encoding), start=1):
        location = f"{path}, line {number}"
        if line.startswith("#begin document"):
            if document is not None:
                raise FormatError(f"{location}: #begin document inside {document.name!r}.")
            document = Document(_name(location, line), number)
        elif line.startswith(_END) or is_blank(line):
            if sentence and document is not None:
                document.sentences.append(sentence)
                sentence = []
            if line.startswith(_END):
                if document is None:
                    raise FormatError(
                        f"{location}: #end document without a preceding #begin document."
                    )
                if not document.sentences:
                    raise FormatError(f"{path}, line {document.line}: the document has no words.")
                n_documents += 1
                yield document
                document = None
        elif document is None:
            raise FormatError(
                f"{location}: the line is not inside a document; expected #begin document: {line!r}"
            )
        else:
            sentence.append(_row(location, number, line, sentence))
    if document is not None:
        raise FormatError(
            f"{path}, line {document.line}: the document is not closed by #end document."
        )
    if not n_documents:
        raise FormatError(f"{path}: contains no documents; expected #begin document.")


def _name(location: str, line: str) -> str:
    match = _BEGIN.fullmatch(line)
    if match is None or not match[1]:
        raise FormatError(f"{location}: the document has no name: {line!r}")
    return f"{match[1]}; part {int(match[2] or 0)}"


def _row(location: str, number: int, line: str, previous: list[Row]) -> Row:
    columns = line.split("\t") if "\t" in line else line.split()
    if len(columns) <= FRAMES:
        raise FormatError(
            f"{location}: the line has {len(columns)} columns; CoNLL-2012 has at least "
            f"{FRAMES + 1}: {line!r}"
        )
    if previous and len(previous[0].columns) != len(columns):
        raise FormatError(
            f"{location}: the line has {len(columns)} columns, but the previous words of the "
            f"sentence have {len(previous[0].columns)}: {line!r}"
        )
    if not columns[WORD].strip():
        raise FormatError(f"{location}: the word is empty: {line!r}")
    if columns[NUMBER] != str(len(previous)):
        raise FormatError(
            f"{location}: unexpected word number {columns[NUMBER]!r}. Expected {len(previous)}, or "
            "a blank line before a new sentence."
        )
    return Row(number, columns)
