"""Files of labelled texts, as they are published, to examples: `read(path, kind)`."""

from elmo.tasks.readers.reader_registry import READERS, read

__all__ = ["READERS", "read"]
