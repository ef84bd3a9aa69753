"""Reading and decoding of text files, whole or as lines."""

import codecs
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from elmo.corpus.compressed_files import READ_ERRORS, decompressed
from elmo.errors import FormatError
from elmo.text.input_lines import remedy_if_not_utf8, unknown_encoding

_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

# Number of lines by which the format of a file is guessed.
SAMPLE_LINES = 1000
# Line between the documents of a CoNLL file.
DOCUMENT = "-DOCSTART-"

# Line number in the file, counted from 1, and the line.
NumberedLine = tuple[int, str]


def read_text(path: Path, encoding: str | None = None) -> str:
    """Read a text file, which can be compressed (.gz, .bz2, .xz or .zst).

    The default encoding is UTF-8, or UTF-16 if the file begins with its byte order mark. Zero
    bytes, and carriage returns as the only line endings, are errors.
    """
    try:
        with path.open("rb") as raw, decompressed(path.name, raw) as file:
            data = file.read()
    except READ_ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        raise FormatError(f"Cannot read {path}: {reason}.") from None
    marked = next(
        (name for mark, name in _BYTE_ORDER_MARKS.items() if data.startswith(mark)), "utf-8"
    )
    name = encoding or marked
    try:
        text = data.decode(name)
    except LookupError:
        raise unknown_encoding(name) from None
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        number = data[:start].decode(name, errors="ignore").count("\n") + 1
        raise FormatError(
            f"{path}, line {number}: not valid {name}. {_encoding_remedy(data, start, encoding)}"
        ) from None
    if encoding is None and "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise FormatError(
            f"{path}, line {line}: contains a zero byte. The file is not text, or it is UTF-16 "
            "without a byte order mark; in that case specify the encoding with --encoding."
        )
    if "\r" in text and "\n" not in text:
        raise FormatError(
            f"{path}, line 1: the lines end with carriage returns only. Convert the file "
            "(tr '\\r' '\\n')."
        )
    return text.removeprefix("\ufeff")


def _encoding_remedy(data: bytes, start: int, encoding: str | None) -> str:
    """Return a sentence on how to read a file whose first invalid byte is at `start`."""
    if encoding is None:
        line = data[data.rfind(b"\n", 0, start) + 1 :].partition(b"\n")[0]
        return remedy_if_not_utf8(line, data[:16], has_option=True)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "Set another --encoding."
    return "The file is UTF-8: omit --encoding."


def split_lines(text: str) -> list[str]:
    """Split a text at newlines only, because words can contain other line separators."""
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]


def read_lines(path: Path, encoding: str | None = None) -> list[str]:
    """Read the lines of a file, without line endings."""
    return split_lines(read_text(path, encoding))


def first_lines(name: str, encoding: str | None = None) -> list[str]:
    """Return up to `SAMPLE_LINES` lines of a file, to guess its format; [] if it is not text."""
    path = Path(name)
    try:
        with path.open("rb") as raw, decompressed(path.name, raw) as file:
            lines = [line.rstrip(b"\r\n") for line in islice(file, SAMPLE_LINES)]
        return [line.decode(encoding or "utf-8-sig") for line in lines]
    except (*READ_ERRORS, LookupError, UnicodeError):
        return []


def is_blank(line: str) -> bool:
    """Whether a line consists only of spaces and tabs."""
    return not line.strip(" \t")


def split_sentence_lines(lines: list[str]) -> Iterator[list[NumberedLine]]:
    """Yield the lines of each sentence; sentences end at blank lines and document markers."""
    sentence: list[NumberedLine] = []
    for number, line in enumerate(lines, start=1):
        if not is_blank(line) and not line.startswith(DOCUMENT):
            sentence.append((number, line))
        elif sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a UTF-8 file without line endings, numbered from 1."""
    try:
        with path.open("rb") as lines:
            # Decode each line separately, so that an error can name the line.
            for number, line in enumerate(lines, start=1):
                data = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                yield number, _decode(path, number, data.rstrip(b"\r\n"))
    except OSError as error:
        raise FormatError(f"Cannot read {path}: {error.strerror}.") from None


def _decode(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError(
            f"{path}, line {number} is not valid UTF-8. Convert the file (iconv -f ENCODING -t "
            "UTF-8), or download it again if it is damaged."
        ) from None
