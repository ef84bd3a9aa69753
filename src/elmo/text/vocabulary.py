"""The vocabulary of a softmax or a token table: words in the order of their ids.

Reads the one-word-a-line files of bilm-tf, plain or gzipped, and says aloud which of their traps
it met.
"""

import gzip
import io
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from elmo.errors import FormatError
from elmo.text.characters import BEGIN_TOKEN, END_TOKEN

UNKNOWN = "<UNK>"
SPECIAL_TOKENS = (BEGIN_TOKEN, END_TOKEN, UNKNOWN)
# A line some published vocabularies hold, which bilm-tf passes over.
SKIPPED_LINE = "!!!MAXTERMID"


class Vocabulary:
    """Words by id. Of a word that stands twice the last id counts, as in bilm-tf."""

    def __init__(self, words: Iterable[str]) -> None:
        """Number the words from 0.

        Args:
            words: in the order of their ids.
        """
        self.words: Sequence[str] = tuple(words)
        self.ids = {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        """Count ids, repeated words included."""
        return len(self.words)

    def problems(self) -> list[str]:
        """Describe what the older programs would trip over, in sentences."""
        found = []
        missing = [mark for mark in SPECIAL_TOKENS if mark not in self.ids]
        if missing:
            found.append(
                f"the vocabulary has no {', '.join(missing)}; the older programs spoil their last "
                "word over that, here it is harmless for embedding and refused for training"
            )
        repeated = len(self.words) - len(self.ids)
        if repeated:
            found.append(
                f"the vocabulary repeats {repeated} word{'s' if repeated > 1 else ''}; the last "
                "line of each counts"
            )
        return found

    def require_special_tokens(self) -> None:
        """Refuse a vocabulary a language model cannot be trained with."""
        missing = [mark for mark in SPECIAL_TOKENS if mark not in self.ids]
        if missing:
            raise FormatError(
                f"the vocabulary has no {', '.join(missing)}: put {' '.join(SPECIAL_TOKENS)} on its "
                "first three lines"
            )

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """Read a file, gunzipped where its name ends in .gz; `problems` tells its traps."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise FormatError(f"cannot read the vocabulary {path}: {error.strerror}") from None
        return cls.parse(data, path.name)

    @classmethod
    def parse(cls, data: bytes, name: str) -> "Vocabulary":
        """Read the bytes of a vocabulary file.

        Args:
            data: its content.
            name: its name, for messages and to know whether it is gzipped.
        """
        if name.endswith(".gz"):
            try:
                data = gzip.GzipFile(fileobj=io.BytesIO(data)).read()
            except (OSError, EOFError, zlib.error) as error:
                raise FormatError(
                    f"the vocabulary {name} is not a whole gzip file: {error}"
                ) from None
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            raise FormatError(f"the vocabulary {name} is not UTF-8 at line {line}") from None
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        words = [line.strip() for line in lines]
        return cls(word for word in words if word != SKIPPED_LINE)

    def to_bytes(self) -> bytes:
        """Give the content of a vocabulary file."""
        return "".join(f"{word}\n" for word in self.words).encode("utf-8")
