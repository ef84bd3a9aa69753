"""The text of a file, decoded, and its lines."""

import codecs
from pathlib import Path

from elmo.corpus.compressed_files import READ_ERRORS, decompressed
from elmo.errors import ConfigError, FormatError

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def read_text(path: Path, encoding: str | None = None) -> str:
    """Read a file, also one packed as .gz .bz2 .xz .zst.

    Args:
        path: the file.
        encoding: of the text; where None, UTF-16 where the file begins with its mark, else UTF-8.
    """
    try:
        with path.open("rb") as raw, decompressed(path.name, raw) as file:
            data = file.read()
    except READ_ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        raise FormatError(f"cannot read {path}: {reason}") from None
    marked = next((name for mark, name in _MARKS.items() if data.startswith(mark)), "utf-8")
    name = encoding or marked
    try:
        text = data.decode(name)
    except LookupError:
        raise ConfigError(f"there is no encoding {name!r}; try utf-8, cp949, latin-1") from None
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        line = data[:start].decode(name, errors="ignore").count("\n") + 1
        raise FormatError(
            f"{path}, line {line} is not {name}: name its --encoding, or convert it "
            "(iconv -t UTF-8)"
        ) from None
    if encoding is None and "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise FormatError(
            f"{path}, line {line} holds a zero byte: it is no text, or in UTF-16 without the mark "
            "at its beginning; name its --encoding"
        )
    if "\r" in text and "\n" not in text:
        raise FormatError(
            f"{path}, line 1 has carriage returns and no line ends: convert it (tr '\\r' '\\n')"
        )
    return text.removeprefix("\ufeff")


def lines_of(text: str) -> list[str]:
    """Cut a text at newlines alone; other separators of lines may stand inside a word."""
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in lines]


def read_lines(path: Path, encoding: str | None = None) -> list[str]:
    """Read the lines of a file, without their ends."""
    return lines_of(read_text(path, encoding))


def is_blank(line: str) -> bool:
    """Tell whether a line holds nothing but spaces and tabs."""
    return not line.strip(" \t")
