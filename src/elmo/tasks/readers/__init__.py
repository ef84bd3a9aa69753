"""Readers of published data sets: `read(path, reader)` returns examples."""

from elmo.tasks.readers.reader_registry import READERS, read

__all__ = ["READERS", "read"]
