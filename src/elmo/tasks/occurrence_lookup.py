"""Nearest occurrences: where else in a text a word stands as it stands in a sentence."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from elmo.config import TaskConfig
from elmo.errors import InputError
from elmo.evaluate.occurrence_index import OccurrenceIndex
from elmo.evaluate.probe_vectors import Encode, Vectors, encode_in_parts
from elmo.tasks.examples import Example
from elmo.tasks.frozen_layers import Words
from elmo.tasks.readers.occurrence_files import occurrence_example
from elmo.tasks.readers.raw_text import SplitFunction


class Stored(NamedTuple):
    """An occurrence: number of its sentence, number of the word in it, name of its sense."""

    sentence: int
    place: int
    sense: str | None


@dataclass(frozen=True)
class NearestOccurrences:
    """The nearest occurrences of a word.

    Attributes:
        place: number of the word in its sentence.
        nearest: occurrences with their cosines, the nearest first.
    """

    place: int
    nearest: tuple[tuple[Stored, float], ...]


class OccurrenceLookup:
    """Occurrences of words with their vectors."""

    n_texts: ClassVar[int] = 2
    target_description: ClassVar[str] = "the name of a sense: word, sense and sentence between tabs"
    metric = "accuracy"

    def __init__(
        self,
        sentences: Sequence[Words],
        occurrences: Sequence[Stored],
        vectors: NDArray[np.float16],
        n_nearest: int,
    ) -> None:
        """Take what is remembered.

        Args:
            sentences: of the text.
            occurrences: in them.
            vectors: theirs, (occurrences, dim).
            n_nearest: how many are answered, at most.
        """
        self.sentences = sentences
        self.occurrences = occurrences
        self.vectors = vectors
        self.n_nearest = n_nearest
        words = [sentences[one.sentence][one.place].lower() for one in occurrences]
        self.index = OccurrenceIndex(words, vectors)
        self._numbers: dict[Words, list[int]] = {}
        for number, one in enumerate(occurrences):
            self._numbers.setdefault(sentences[one.sentence], []).append(number)

    @classmethod
    def from_examples(cls, encode: Encode, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Remember the words of examples, of each the first `max_per_word` occurrences."""
        counts: Counter[str] = Counter()
        occurrences = []
        for number, example in enumerate(examples):
            for place in _places(example):
                word = example.words[place].lower()
                counts[word] += 1
                if counts[word] <= config.lookup.max_per_word:
                    occurrences.append(Stored(number, place, example.target))
        sentences = [example.words for example in examples]
        places = [(one.sentence, one.place) for one in occurrences]
        parts = [part.astype(np.float16) for part in _vectors(encode, sentences, places)]
        return cls(sentences, occurrences, np.concatenate(parts), config.lookup.n_nearest)

    @classmethod
    def from_state(cls, plain: Any, vectors: NDArray[np.float16], config: TaskConfig) -> Self:
        """Take what `state` gave."""
        occurrences = [Stored(*one) for one in plain["occurrences"]]
        if len(occurrences) != len(vectors):
            raise ValueError(f"{len(occurrences):,} occurrences have {len(vectors):,} vectors")
        sentences = [tuple(words) for words in plain["sentences"]]
        return cls(sentences, occurrences, vectors, config.lookup.n_nearest)

    def state(self) -> tuple[Any, NDArray[np.float16]]:
        """Give all that is remembered: plain data, and vectors, (occurrences, dim)."""
        plain = {
            "sentences": [list(words) for words in self.sentences],
            "occurrences": [list(one) for one in self.occurrences],
        }
        return plain, self.vectors

    @staticmethod
    def has_valid_target(example: Example) -> bool:
        """Tell whether an example has a sense."""
        return isinstance(example.target, str)

    def make_example(self, texts: Sequence[str | Sequence[str]], split: SplitFunction) -> Example:
        """Make an example of a word and its sentence."""
        word, sentence = texts
        found = word if isinstance(word, str) else " ".join(word)
        words = sentence if isinstance(sentence, str) else tuple(sentence)
        return occurrence_example(found.strip(), words, split, "the text")

    def predict(self, encode: Encode, examples: Sequence[Example]) -> list[Any]:
        """Give the nearest occurrences of each word that is asked for.

        Those in a sentence of the same words are none: it would be the nearest to itself.
        """
        places = [(n, place) for n, example in enumerate(examples) for place in _places(example)]
        sentences = [example.words for example in examples]
        answers: list[list[NearestOccurrences]] = [[] for _ in examples]
        vectors = (vector for part in _vectors(encode, sentences, places) for vector in part)
        for (number, place), vector in zip(places, vectors, strict=True):
            words = sentences[number]
            same = self._numbers.get(words, [])
            found = self.index.nearest(words[place].lower(), vector, self.n_nearest, same)
            nearest = tuple((self.occurrences[other], cosine) for other, cosine in found)
            answers[number].append(NearestOccurrences(place, nearest))
        return [tuple(one) for one in answers]

    def scores(self, examples: Sequence[Example], answers: Sequence[Any]) -> dict[str, float]:
        """Give the share of words most of whose neighbours, and whose first one, mean the same."""
        if all(one.sense is None for one in self.occurrences):
            raise InputError(
                "what is remembered has no senses to compare with: fit it on words with senses, "
                "between tabs, before their sentences"
            )
        most, first = [], []
        for example, found in zip(examples, answers, strict=True):
            for one in found:
                same = [other.sense == example.target for other, _ in one.nearest]
                most.append(2 * sum(same) > len(same))
                first.append(any(same[:1]))
        if not most:
            raise InputError("no word is asked for its nearest occurrences")
        return {"accuracy": sum(most) / len(most), "nearest": sum(first) / len(first)}

    def to_record(self, example: Example, answer: Any) -> dict[str, Any]:
        """Give the words asked for, each with its nearest occurrences in their sentences."""
        occurrences = [
            {
                "word": example.words[found.place],
                "place": found.place,
                "nearest": [
                    {
                        "text": " ".join(self.sentences[other.sentence]),
                        "place": other.place,
                        **({} if other.sense is None else {"sense": other.sense}),
                        "cosine": round(cosine, 4),
                    }
                    for other, cosine in found.nearest
                ],
            }
            for found in answer
        ]
        return {"words": list(example.words), "occurrences": occurrences}


def _places(example: Example) -> Sequence[int]:
    return range(len(example.words)) if example.extra is None else [example.extra]


def _vectors(
    encode: Encode, sentences: Sequence[Words], places: Sequence[tuple[int, int]]
) -> Iterator[Vectors]:
    """Give the vectors of words of sentences, (places, dim), in parts, in their order."""
    by_sentence: dict[int, list[int]] = {}
    for number, place in places:
        by_sentence.setdefault(number, []).append(place)
    asked = list(by_sentence)
    for numbers, vectors in encode_in_parts(encode, [sentences[number] for number in asked]):
        rows, start = [], 0
        for number in numbers:
            rows += [start + place for place in by_sentence[asked[number]]]
            start += len(sentences[asked[number]])
        yield vectors[0, rows]
