"""The symbols of a language model (characters, bytes or words) and their ids.

Id 0 is `<UNK>` for characters and words that are not symbols, and for the word `<unk>`, with which
benchmarks replace rare words. Bytes have no unknown symbol: the id of a byte is its value.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from elmo.config.language_models import SymbolConfig, Unit
from elmo.lab.text_bytes import utf8_bytes
from elmo.lab.word_writers import separator_of
from elmo.text.characters import END_TOKEN, N_CODE_POINTS
from elmo.text.tokenizer import replace_surrogates
from elmo.text.tokenizers_by_name import get_tokenizer
from elmo.text.vocabulary import UNKNOWN

# Written for unknown words in the Penn Treebank, WikiText and other benchmarks.
BENCHMARK_UNKNOWN = "<unk>"
Integer = TypeVar("Integer", np.int32, np.int64)
Ids = NDArray[np.int32]

N_BYTES = 256
SPECIAL_WORDS = (UNKNOWN, BENCHMARK_UNKNOWN, END_TOKEN)


class OpenIds(NamedTuple):
    """A text as input of a model, in which words that are not symbols differ from each other.

    Attributes:
        ids: Symbol ids; the ids of other words continue those of the symbols.
        new_words: The distinct words that are not symbols, in the order of their ids.
    """

    ids: Ids
    new_words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Symbols:
    """The symbols of a language model.

    Attributes:
        unit: "characters", "bytes" or "words".
        names: Characters or words in the order of their ids, starting with `<UNK>`; empty for
            bytes. Words include `</S>`, the end of a line.
        tokenizer: Tokenizer that splits a line into words.
    """

    unit: Unit
    names: tuple[str, ...] = ()
    tokenizer: str = "whitespace"

    @classmethod
    def of_text(cls, texts: Sequence[str], config: SymbolConfig) -> "Symbols":
        """Collect the symbols of texts, sorted by frequency.

        Args:
            texts: For characters all texts, because a split at a fixed position must not decide
                whether a letter is known. For words the training text.
            config: Unit, and limits on the number of symbols.
        """
        if config.unit == "bytes":
            return cls("bytes")
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(_words(text, config.tokenizer) if config.unit == "words" else text)
        # `most_common` keeps the order of the text for equal counts.
        names = [name for name, count in counts.most_common() if count >= config.min_count]
        if config.unit == "words":
            names = [name for name in names if name not in SPECIAL_WORDS]
            names = [END_TOKEN, *names[: config.vocab_size]]
        return cls(config.unit, (UNKNOWN, *names), config.tokenizer)

    def __len__(self) -> int:
        """Return the number of symbols, including `<UNK>`."""
        return N_BYTES if self.unit == "bytes" else len(self.names)

    @property
    def unknown(self) -> int | None:
        """Id of `<UNK>`; None for bytes."""
        return None if self.unit == "bytes" else 0

    @property
    def end(self) -> int | None:
        """Id of the end of a line; None for characters of a text without line breaks."""
        if self.unit == "bytes":
            return ord("\n")
        return self._ids.get(END_TOKEN if self.unit == "words" else "\n")

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def _id_of_code_point(self) -> Ids:
        table = np.zeros(N_CODE_POINTS, dtype=np.int32)
        for number, name in enumerate(self.names[1:], start=1):
            table[ord(name)] = number
        return table

    def name(self, number: int) -> str:
        """Return a symbol by its id; bytes that are not ASCII have a backslash and hex digits."""
        if self.unit == "bytes":
            return bytes([number]).decode("ascii", "backslashreplace")
        return self.names[number]

    def encode(self, text: str) -> Ids:
        """Return the ids of a text; see `open_ids`."""
        return self.close(self.open_ids(text).ids)

    def close(self, ids: NDArray[Integer]) -> NDArray[Integer]:
        """Replace the ids of words that are not symbols by that of `<UNK>`."""
        return np.where(ids < len(self), ids, 0) if self.unit == "words" else ids

    def open_ids(self, text: str) -> OpenIds:
        """Return the ids of a text as input.

        The words of each line are followed by `</S>`; the last line only if it ends with a line
        break.
        """
        if self.unit == "words":
            return self.word_ids(_words(replace_surrogates(text), self.tokenizer))
        return OpenIds(self._character_ids(text))

    def word_ids(self, words: Iterable[str]) -> OpenIds:
        """Return the ids of words as input."""
        numbers = {**self._ids, BENCHMARK_UNKNOWN: 0}
        n_known = len(numbers)
        ids = (numbers.setdefault(word, len(self) + len(numbers) - n_known) for word in words)
        array = np.fromiter(ids, dtype=np.int32)
        return OpenIds(array, tuple(numbers)[n_known:])

    def _character_ids(self, text: str) -> Ids:
        if self.unit == "bytes":
            return np.frombuffer(utf8_bytes(text), dtype=np.uint8).astype(np.int32)
        code_points = replace_surrogates(text).encode("utf-32-le")
        return self._id_of_code_point[np.frombuffer(code_points, dtype=np.uint32)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids. Bytes that are not UTF-8 become replacement characters."""
        if self.unit == "bytes":
            return bytes(ids).decode("utf-8", "replace")
        names = [self.names[number] for number in ids]
        if self.unit == "characters":
            return "".join(names)
        lines: list[list[str]] = [[]]
        for name in names:
            if name == END_TOKEN:
                lines.append([])
            else:
                lines[-1].append(name)
        separator = separator_of(self.tokenizer)
        return "\n".join(separator.join(words) for words in lines)


def _words(text: str, tokenizer: str) -> Iterable[str]:
    """Yield the words of each line, followed by `</S>`; not after text without a line break."""
    tokenize = get_tokenizer(tokenizer).words
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        yield from tokenize(line)
        if number < len(lines):
            yield END_TOKEN
