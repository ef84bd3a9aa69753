"""Readers for published data sets; `read(path, reader)` returns the examples of a file."""

from elmo.tasks.readers.reader_registry import READERS, read

__all__ = ["READERS", "read"]
