"""Recognition of a text by its size and checksum, independent of file names."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from elmo.config.language_models import Unit
from elmo.lab.text_bytes import utf8_bytes


@dataclass(frozen=True)
class TextFingerprint:
    """Size and checksum of a text.

    Attributes:
        n_symbols: Number of characters or bytes; or of words and lines, because the end of a line
            is a symbol of its own.
        crc: CRC-32 of the text as UTF-8. For words the sum of the CRC-32 of all lines modulo 2^32,
            which depends neither on the spaces between words nor on the order of the documents.
    """

    n_symbols: int
    crc: int


def text_fingerprint(parts: Iterable[str], unit: Unit) -> TextFingerprint:
    """Return the fingerprint of a text.

    Args:
        parts: Parts of the text in their order. Bytes that are not UTF-8 are surrogate escapes.
        unit: "characters", "bytes" or "words".
    """
    n_symbols = crc = 0
    for part in filter(None, parts):
        if unit == "words":
            lines = [" ".join(line.split()) for line in part.removesuffix("\n").split("\n")]
            n_symbols += sum(line.count(" ") + 1 + bool(line) for line in lines)
            crc += sum(zlib.crc32(utf8_bytes(line)) for line in lines)
            crc %= 2**32
        else:
            data = utf8_bytes(part)
            n_symbols += len(part) if unit == "characters" else len(data)
            crc = zlib.crc32(data, crc)
    return TextFingerprint(n_symbols, crc)
