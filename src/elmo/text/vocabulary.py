"""Vocabulary of a softmax or a word table, and its file format.

A vocabulary file in bilm-tf format has one word per line, in the order of the ids, and can be
gzipped. Known problems of such files are reported.
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
# A line of some published vocabularies, which bilm-tf skips.
SKIPPED_LINE = "!!!MAXTERMID"


class Vocabulary:
    """Words and their ids. A repeated word has the id of its last occurrence, as in bilm-tf."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words: Sequence[str] = tuple(words)
        self.ids = {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        """Return the number of ids, counting repeated words each time."""
        return len(self.words)

    def problems(self) -> list[str]:
        """Return one message per known problem found in the vocabulary."""
        messages = []
        missing = [token for token in SPECIAL_TOKENS if token not in self.ids]
        if missing:
            messages.append(
                f"The vocabulary has no {', '.join(missing)}. bilm-tf overwrites the last word in "
                "that case. Here, the vocabulary can be used for embedding, but not for training."
            )
        repeated = len(self.words) - len(self.ids)
        if repeated:
            messages.append(
                f"The vocabulary repeats {repeated} word{'s' if repeated > 1 else ''}. The last "
                "line of each repeated word determines its id."
            )
        return messages

    def require_special_tokens(self) -> None:
        """Raise an error if a special token required for language model training is missing."""
        missing = [token for token in SPECIAL_TOKENS if token not in self.ids]
        if missing:
            raise FormatError(
                f"The vocabulary has no {', '.join(missing)}. Its first three lines should be "
                f"{' '.join(SPECIAL_TOKENS)}."
            )

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """Read a vocabulary file, which is gzipped if its name ends in .gz."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise FormatError(f"Cannot read the vocabulary {path}: {error.strerror}") from None
        return cls.parse(data, path.name)

    @classmethod
    def parse(cls, data: bytes, name: str) -> "Vocabulary":
        """Parse the content of a vocabulary file, gzipped if its name ends in .gz."""
        if name.endswith(".gz"):
            try:
                data = gzip.GzipFile(fileobj=io.BytesIO(data)).read()
            except (OSError, EOFError, zlib.error) as error:
                raise FormatError(
                    f"The vocabulary {name} is not a complete gzip file: {error}"
                ) from None
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            raise FormatError(f"The vocabulary {name} is not UTF-8 at line {line}.") from None
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        # A line of white space only is a word of a character tokenizer that keeps white space.
        words = [line.strip() or line.removesuffix("\r") for line in lines]
        return cls(word for word in words if word != SKIPPED_LINE)

    def to_bytes(self) -> bytes:
        """Return the vocabulary as the content of a vocabulary file."""
        return "".join(f"{word}\n" for word in self.words).encode("utf-8")
