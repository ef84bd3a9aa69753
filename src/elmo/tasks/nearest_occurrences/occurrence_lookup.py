"""Nearest-occurrence lookup: finds other sentences in which a word is used in a similar way."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from elmo.config.tasks import TaskOptions
from elmo.errors import InputError
from elmo.evaluate.probe_vectors import Encode, Vectors, encode_in_parts
from elmo.tasks.core.example import Example, Words
from elmo.tasks.core.task import LookupTask, Record, Text, to_words
from elmo.tasks.nearest_occurrences.nearest_occurrences_options import NearestOccurrencesOptions
from elmo.tasks.nearest_occurrences.occurrence_files import occurrence_example
from elmo.tasks.nearest_occurrences.occurrence_index import OccurrenceIndex
from elmo.text.line_splitter import SplitFunction


class StoredOccurrence(NamedTuple):
    """A word occurrence in the index: sentence, position in it, and sense if known."""

    sentence: int
    position: int
    sense: str | None


class StoredSentences(TypedDict):
    """Content of the index in a model folder."""

    sentences: list[list[str]]
    occurrences: list[tuple[int, int, str | None]]


@dataclass(frozen=True)
class NearestOccurrences:
    """The nearest occurrences of a word of a sentence and their cosines, nearest first."""

    position: int
    nearest: tuple[tuple[StoredOccurrence, float], ...]


class OccurrenceLookup(LookupTask[str, tuple[NearestOccurrences, ...]]):
    """Index of word occurrences and their vectors."""

    empty_answer: tuple[NearestOccurrences, ...] = ()

    n_inputs: ClassVar[int] = 2
    target_description: ClassVar[str] = (
        "the name of a sense (each line has word, sense and sentence, separated by tabs)"
    )
    metric = "accuracy"

    def __init__(
        self,
        sentences: Sequence[Words],
        occurrences: Sequence[StoredOccurrence],
        vectors: NDArray[np.float16],
        n_nearest: int,
    ) -> None:
        """Create the index of occurrences and their vectors, (occurrences, dim)."""
        self.sentences = sentences
        self.occurrences = occurrences
        self.vectors = vectors
        self.n_nearest = n_nearest
        words = [sentences[item.sentence][item.position].lower() for item in occurrences]
        self.index = OccurrenceIndex(words, vectors)
        self._rows_of_sentence: dict[Words, list[int]] = {}
        for row, item in enumerate(occurrences):
            self._rows_of_sentence.setdefault(sentences[item.sentence], []).append(row)

    @classmethod
    def from_examples(
        cls,
        encode: Encode,
        examples: Sequence[Example[str]],
        options: TaskOptions,
        train: str | None,
    ) -> Self:
        """Build the index from the first `max_per_word` occurrences of each word."""
        assert isinstance(options, NearestOccurrencesOptions)
        counts: Counter[str] = Counter()
        occurrences = []
        for number, example in enumerate(examples):
            for position in _positions(example):
                word = example.words[position].lower()
                counts[word] += 1
                if counts[word] <= options.max_per_word:
                    occurrences.append(StoredOccurrence(number, position, example.target))
        sentences = [example.words for example in examples]
        positions = [(item.sentence, item.position) for item in occurrences]
        parts = [part.astype(np.float16) for part in _vectors(encode, sentences, positions)]
        return cls(sentences, occurrences, np.concatenate(parts), options.n_nearest)

    @classmethod
    def from_state(
        cls, content: Record, vectors: NDArray[np.float16], options: TaskOptions
    ) -> Self:
        """Restore an index from the values returned by `state`."""
        assert isinstance(options, NearestOccurrencesOptions)
        stored = cast(StoredSentences, content)
        occurrences = [StoredOccurrence(*item) for item in stored["occurrences"]]
        if len(occurrences) != len(vectors):
            raise ValueError(
                f"there are {len(occurrences):,} occurrences but {len(vectors):,} vectors"
            )
        sentences = [tuple(words) for words in stored["sentences"]]
        return cls(sentences, occurrences, vectors, options.n_nearest)

    def state(self) -> tuple[Record, NDArray[np.float16]]:
        """Return the index as JSON-serializable data and vectors, (occurrences, dim)."""
        content: Record = {
            "sentences": [list(words) for words in self.sentences],
            "occurrences": [list(item) for item in self.occurrences],
        }
        return content, self.vectors

    @staticmethod
    def has_valid_target(example: Example[object]) -> bool:
        """Whether the target of an example is a word sense."""
        return isinstance(example.target, str)

    @classmethod
    def make_example(cls, texts: Sequence[Text], split: SplitFunction) -> Example[str]:
        """Create an example from a word and its sentence."""
        word, sentence = texts
        word = word if isinstance(word, str) else " ".join(to_words(word, split))
        return occurrence_example(word.strip(), to_words(sentence, split), "query")

    def look_up(
        self, encode: Encode, examples: Sequence[Example[str]]
    ) -> list[tuple[NearestOccurrences, ...]]:
        """Return the nearest occurrences of the words in each example.

        Occurrences in an identical sentence are excluded, because each word would be nearest to
        itself.
        """
        positions = [
            (number, position)
            for number, example in enumerate(examples)
            for position in _positions(example)
        ]
        sentences = [example.words for example in examples]
        predictions: list[list[NearestOccurrences]] = [[] for _ in examples]
        vectors = (vector for part in _vectors(encode, sentences, positions) for vector in part)
        for (number, position), vector in zip(positions, vectors, strict=True):
            words = sentences[number]
            excluded = self._rows_of_sentence.get(words, [])
            rows = self.index.nearest(words[position].lower(), vector, self.n_nearest, excluded)
            nearest = tuple((self.occurrences[row], cosine) for row, cosine in rows)
            predictions[number].append(NearestOccurrences(position, nearest))
        return [tuple(of_example) for of_example in predictions]

    def scores(
        self, examples: Sequence[Example[str]], answers: Sequence[tuple[NearestOccurrences, ...]]
    ) -> dict[str, float]:
        """Return how often the nearest occurrences have the same sense as the word.

        `accuracy` is the share of words that have the same sense as more than half of their nearest
        occurrences, `nearest` the share that have the same sense as their single nearest
        occurrence.
        """
        if all(item.sense is None for item in self.occurrences):
            raise InputError(
                "The index contains no senses. Fit it on lines with a word, a sense and a "
                "sentence, separated by tabs."
            )
        majority, first = [], []
        for example, of_example in zip(examples, answers, strict=True):
            for prediction in of_example:
                same = [item.sense == example.target for item, _ in prediction.nearest]
                majority.append(2 * sum(same) > len(same))
                first.append(any(same[:1]))
        if not majority:
            raise InputError("The examples do not contain any words to look up.")
        return {"accuracy": sum(majority) / len(majority), "nearest": sum(first) / len(first)}

    def to_record(self, example: Example[str], answer: tuple[NearestOccurrences, ...]) -> Record:
        """Return each word with its nearest occurrences and their sentences."""
        occurrences = [
            {
                "word": example.words[word.position],
                "place": word.position,
                "nearest": [
                    {
                        "text": " ".join(self.sentences[item.sentence]),
                        "place": item.position,
                        **({} if item.sense is None else {"sense": item.sense}),
                        "cosine": round(cosine, 4),
                    }
                    for item, cosine in word.nearest
                ],
            }
            for word in answer
        ]
        return {"words": list(example.words), "occurrences": occurrences}


def _positions(example: Example[str]) -> Sequence[int]:
    """Return the position of the example's target word; all positions if it has no target word."""
    if example.extra is None:
        return range(len(example.words))
    assert isinstance(example.extra, int)
    return [example.extra]


def _vectors(
    encode: Encode, sentences: Sequence[Words], positions: Sequence[tuple[int, int]]
) -> Iterator[Vectors]:
    """Yield the vectors, (words, dim), of words at (sentence, index) positions, in chunks."""
    by_sentence: dict[int, list[int]] = {}
    for number, position in positions:
        by_sentence.setdefault(number, []).append(position)
    chosen = list(by_sentence)
    for indices, vectors in encode_in_parts(encode, [sentences[number] for number in chosen]):
        rows, start = [], 0
        for index in indices:
            rows += [start + position for position in by_sentence[chosen[index]]]
            start += len(sentences[chosen[index]])
        yield vectors[0, rows]
