"""Reading of compressed files (.gz, .bz2, .xz, .zst), recognized by extension."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from elmo.errors import MissingExtra

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
# Exceptions raised by reading a file, including a damaged compressed one.
READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)
# Compressed bytes per decompression call. Small, because a file of zeros can expand 30,000 times.
ZSTD_CHUNK = 2**13


def plain_name(name: str) -> str:
    """Return a file name without its compression extension."""
    for suffix in SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


@contextmanager
def decompressed(name: str, raw: BinaryIO) -> Iterator[BinaryIO]:
    """Open the decompressed content of a file, by extension; several archives are read as one."""
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
    """Readable stream of the decompressed content of a .zst file.

    Unlike the reader in the zstandard package, it detects truncated files.
    """

    def __init__(self, name: str, raw: BinaryIO) -> None:
        try:
            import zstandard
        except ImportError:
            raise MissingExtra(f"reading {name}", "train") from None
        self._raw = raw
        self._error = zstandard.ZstdError
        # The largest window that `zstd --long=31` can create.
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=2**31)
        self._frame = self._decompressor.decompressobj()
        self._started = False
        self._buffer = b""

    def readable(self) -> bool:
        """Whether the stream is readable; always True."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read decompressed bytes into a buffer, and return the number of bytes read."""
        while not self._buffer:
            compressed = self._frame.unused_data if self._frame.eof else b""
            compressed = compressed or self._raw.read(ZSTD_CHUNK)
            if not compressed:
                if self._started and not self._frame.eof:
                    raise EOFError("compressed file ended before the end of the stream")
                return 0
            if self._frame.eof:
                self._frame = self._decompressor.decompressobj()
            self._started = True
            try:
                self._buffer = self._frame.decompress(compressed)
            except self._error as error:
                raise OSError(str(error)) from None
        view = memoryview(buffer).cast("B")
        n_bytes = min(len(view), len(self._buffer))
        view[:n_bytes] = self._buffer[:n_bytes]
        self._buffer = self._buffer[n_bytes:]
        return n_bytes
