"""Record of the text from which the corpus in a training folder was prepared.

The record is compared with the text and the options of a command before the corpus is used again.
"""

import dataclasses
import hashlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from elmo.config import CorpusConfig
from elmo.config.serialization import from_dict, to_dict
from elmo.corpus.text_sources import resolve
from elmo.errors import ConfigError, InputError
from elmo.files import atomic_path
from elmo.text.input_lines import STDIN


@dataclass(frozen=True)
class FileRecord:
    """State of a file, by its path on the command line; the time of modification is in ns."""

    name: str
    size: int
    modified: int
    sha256: str

    @classmethod
    def of(cls, name: str) -> "FileRecord":
        """Read the state of a file."""
        try:
            with open(name, "rb") as file:
                status = os.fstat(file.fileno())
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise InputError(f"Cannot read {name}: {error.strerror}.") from None
        return cls(name, status.st_size, status.st_mtime_ns, digest)

    def is_current(self) -> bool:
        """Whether the file still has this content; it is only read if its time has changed."""
        status = os.stat(self.name)
        if status.st_size != self.size:
            return False
        return status.st_mtime_ns == self.modified or FileRecord.of(self.name).sha256 == self.sha256


@dataclass(frozen=True)
class TextRecord:
    """Text and options of a prepared corpus; `files` lacks standard input and pipes."""

    data: tuple[str, ...]
    valid: tuple[str, ...]
    corpus: CorpusConfig
    files: tuple[FileRecord, ...]

    @classmethod
    def of(
        cls, data: tuple[str, ...], valid: tuple[str, ...], corpus: CorpusConfig
    ) -> "TextRecord":
        """Record the text and the options of a command."""
        files = filter(_is_regular, _names(data, valid, corpus))
        return cls(data, valid, _comparable(corpus), tuple(map(FileRecord.of, files)))

    @classmethod
    def load(cls, path: Path) -> "TextRecord | None":
        """Read a record; None if the file does not exist or is damaged."""
        try:
            return from_dict(cls, json.loads(path.read_bytes()), str(path))
        except (OSError, ValueError, ConfigError):
            return None

    def save(self, path: Path) -> None:
        """Write the record."""
        with atomic_path(path) as partial:
            partial.write_text(json.dumps(to_dict(self), indent=1) + "\n", encoding="ascii")

    def matches(self, data: tuple[str, ...], valid: tuple[str, ...], corpus: CorpusConfig) -> bool:
        """Whether the options are equal and all text is in files with the recorded content."""
        if (data, valid, _comparable(corpus)) != (self.data, self.valid, self.corpus):
            return False
        if _names(data, valid, corpus) != [file.name for file in self.files]:
            return False
        return all(file.is_current() for file in self.files)

    def changed_files(self) -> list[str]:
        """Return the names of files that were changed or added; deleted files are ignored."""
        changed = [
            file.name for file in self.files if os.path.exists(file.name) and not file.is_current()
        ]
        recorded = {file.name for file in self.files}
        with suppress(InputError):
            names = filter(_is_regular, _names(self.data, self.valid, self.corpus))
            changed += [name for name in names if name not in recorded]
        return changed


def _names(data: tuple[str, ...], valid: tuple[str, ...], corpus: CorpusConfig) -> list[str]:
    """Return the names of all files that are read to prepare a corpus."""
    vocabulary = () if corpus.vocab is None else (corpus.vocab,)
    return [name for inputs in (data, valid, vocabulary) for name in resolve(inputs)]


def _is_regular(name: str) -> bool:
    return name != STDIN and os.path.isfile(name)


def _comparable(corpus: CorpusConfig) -> CorpusConfig:
    """Return the options without those that do not change the corpus."""
    return dataclasses.replace(corpus, workers=None)
