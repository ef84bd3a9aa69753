"""Compressed files as streams of bytes: .gz .bz2 .xz .zst, by the end of the name."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from elmo.errors import MissingExtra

SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
# What reading a file can fail with, a damaged one included.
DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError)
# Compressed bytes unpacked in one call: a file of zeros can grow thirty thousandfold.
ZSTD_CHUNK = 2**13


def plain_name(name: str) -> str:
    """Give a name without the ending that tells of compression."""
    for suffix in SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


@contextmanager
def decompressed(name: str, raw: BinaryIO) -> Iterator[BinaryIO]:
    """Give the bytes inside a file; files put end to end are read as one.

    Args:
        name: of the file; its end tells how it is compressed.
        raw: the file, opened.
    """
    suffix = name[len(plain_name(name)) :].lower()
    if suffix == ".gz":
        file: Any = gzip.GzipFile(fileobj=raw)
    elif suffix == ".bz2":
        file = bz2.BZ2File(raw)
    elif suffix == ".xz":
        file = lzma.LZMAFile(raw)
    elif suffix == ".zst":
        file = io.BufferedReader(ZstdFile(name, raw))
    else:
        yield raw
        return
    with file:
        yield cast(BinaryIO, file)


class ZstdFile(io.RawIOBase):
    """The content of a .zst file.

    The reader of the zstandard package takes a file that ends too early for a whole one.
    """

    def __init__(self, name: str, raw: BinaryIO) -> None:
        """Begin at the beginning.

        Args:
            name: of the file, for messages.
            raw: the file, opened.
        """
        try:
            import zstandard
        except ImportError:
            raise MissingExtra(f"reading {name}", "train") from None
        self._raw = raw
        self._error = zstandard.ZstdError
        # As wide as `zstd --long=31` can make it.
        self._unpacker = zstandard.ZstdDecompressor(max_window_size=2**31)
        self._frame = self._unpacker.decompressobj()
        self._begun = False
        self._ready = b""

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, as far as one call can."""
        while not self._ready:
            packed = self._frame.unused_data if self._frame.eof else b""
            packed = packed or self._raw.read(ZSTD_CHUNK)
            if not packed:
                if self._begun and not self._frame.eof:
                    raise EOFError("compressed file ended before its end mark was reached")
                return 0
            if self._frame.eof:
                self._frame = self._unpacker.decompressobj()
            self._begun = True
            try:
                self._ready = self._frame.decompress(packed)
            except self._error as error:
                raise OSError(str(error)) from None
        n_bytes = min(len(buffer), len(self._ready))
        buffer[:n_bytes] = self._ready[:n_bytes]
        self._ready = self._ready[n_bytes:]
        return n_bytes
