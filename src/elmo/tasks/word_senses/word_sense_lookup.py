"""Word sense lookup: predicts the nearest SemCor sense of a lemma, or else WordNet's first sense.

Sentences without lemmas are also supported: for each word form that occurs in SemCor, the senses of
all its lemmas in SemCor are candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from elmo.config.tasks import TaskOptions
from elmo.errors import ConfigError, InputError
from elmo.evaluate.probe_vectors import Encode, Vectors, unit
from elmo.tasks.core.example import Example, gold
from elmo.tasks.core.task import LookupTask, Record
from elmo.tasks.word_senses.semcor_files import (
    Entry,
    SenseOccurrence,
    TaggedWords,
    read_wordnet,
)
from elmo.tasks.word_senses.sense_index import SenseIndex, occurrence_vectors
from elmo.tasks.word_senses.sense_tagged_files import SenseTarget
from elmo.tasks.word_senses.word_senses_options import WordSensesOptions

# Default path of WordNet's index.sense file, relative to the folder that contains SemCor.
WORDNET = Path("wordnet-3.0") / "index.sense"


# For each word to disambiguate, the WordNet sense keys that are correct.
Senses = tuple[tuple[str, ...], ...]


class StoredSenses(TypedDict):
    """Content of the index in a model folder."""

    wordnet: list[tuple[str, str, list[str]]]
    senses: list[str]
    forms: dict[str, list[list[str]]]


@dataclass(frozen=True)
class PredictedSense:
    """The predicted sense of adjacent words of a sentence; None if they are not in WordNet.

    `stop` is the index after the last word. `is_seen` is whether the sense was found by
    nearest-neighbor search in the index; otherwise, it is WordNet's first sense.
    """

    first: int
    stop: int
    sense: str | None
    is_seen: bool


class WordSenseLookup(LookupTask[Senses, tuple[PredictedSense, ...]]):
    """Index of word senses and their vectors."""

    empty_answer: tuple[PredictedSense, ...] = ()

    target_description: ClassVar[str] = "the senses of its words"
    metric = "f1"

    def __init__(self, senses: SenseIndex, forms: dict[str, list[Entry]]) -> None:
        """Create the index from senses of a single layer and the entries of lowercased forms."""
        self.senses = senses
        self.forms = forms

    @classmethod
    def from_examples(
        cls,
        encode: Encode,
        examples: Sequence[Example[Senses]],
        options: TaskOptions,
        train: str | None,
    ) -> Self:
        """Build the index from the senses in the examples and WordNet's sense order."""
        assert isinstance(options, WordSensesOptions)
        path = options.wordnet or (None if train is None else Path(train).parent / WORDNET)
        if path is None:
            raise ConfigError("Set the path of WordNet's index.sense file with --wordnet.")
        forms: dict[str, list[Entry]] = {}
        for example in examples:
            for first, stop, entry in targets_of(example) or ():
                entries = forms.setdefault("_".join(example.words[first:stop]).lower(), [])
                if entry not in entries:
                    entries.append(entry)
        senses = SenseIndex.of(encode, _tagged(examples), read_wordnet(Path(path)))
        if not senses.rows:
            raise InputError(f"None of the senses in the examples occurs in {path}.")
        return cls(senses, forms)

    @classmethod
    def from_state(
        cls, content: Record, vectors: NDArray[np.float16], options: TaskOptions
    ) -> Self:
        """Restore an index from the values returned by `state`."""
        stored = cast(StoredSenses, content)
        wordnet = {(lemma, part): senses for lemma, part, senses in stored["wordnet"]}
        rows = {sense: row for row, sense in enumerate(stored["senses"])}
        if len(rows) != len(vectors):
            raise ValueError(f"there are {len(rows):,} senses but {len(vectors):,} vectors")
        forms = {
            form: [(entry[0], entry[1]) for entry in entries]
            for form, entries in stored["forms"].items()
        }
        return cls(SenseIndex(wordnet, rows, unit(vectors[None].astype(np.float32))), forms)

    def state(self) -> tuple[Record, NDArray[np.float16]]:
        """Return the index as JSON-serializable data and vectors, (senses, dim)."""
        content: Record = {
            "wordnet": [[*entry, list(senses)] for entry, senses in self.senses.wordnet.items()],
            "senses": list(self.senses.rows),
            "forms": self.forms,
        }
        return content, self.senses.centroids[0].astype(np.float16)

    @staticmethod
    def has_valid_target(example: Example[object]) -> bool:
        """Whether an example has word senses as its target."""
        return isinstance(example.target, tuple) and example.extra is not None

    def look_up(
        self, encode: Encode, examples: Sequence[Example[Senses]]
    ) -> list[tuple[PredictedSense, ...]]:
        """Return the senses of the target words or, if none are given, of all known word forms."""
        targets = [self._targets(example) for example in examples]
        occurrences = [
            SenseOccurrence(number, first, stop, ())
            for number, words in enumerate(targets)
            for first, stop, _ in words
        ]
        text = TaggedWords([example.words for example in examples], occurrences)
        vectors = (
            vector for _, part in occurrence_vectors(encode, text) for vector in unit(part)[0]
        )
        return [
            tuple(self._predict_word(*word, next(vectors)) for word in words) for words in targets
        ]

    def _targets(self, example: Example[Senses]) -> list[tuple[int, int, list[Entry]]]:
        """Return the start index, end index and possible entries of each word to disambiguate."""
        if (words := targets_of(example)) is not None:
            return [(word.first, word.stop, [word.entry]) for word in words]
        forms = [word.lower() for word in example.words]
        return [
            (index, index + 1, self.forms[form])
            for index, form in enumerate(forms)
            if form in self.forms
        ]

    def _predict_word(
        self, first: int, stop: int, entries: Sequence[Entry], vector: Vectors
    ) -> PredictedSense:
        candidates = [sense for entry in entries for sense in self.senses.candidates(entry)]
        if not candidates:
            return PredictedSense(first, stop, self.senses.first_sense(entries[0]), is_seen=False)
        (sense,) = self.senses.nearest(candidates, vector[None])
        return PredictedSense(first, stop, sense, is_seen=True)

    def scores(
        self, examples: Sequence[Example[Senses]], answers: Sequence[tuple[PredictedSense, ...]]
    ) -> dict[str, float]:
        """Return the F1 of the predictions and of the baseline, WordNet's first sense.

        Every word has a prediction, so F1 equals the share of words with a correct sense.
        """
        correct, first = [], []
        for example, of_example in zip(examples, answers, strict=True):
            for word, prediction, senses in zip(
                targets_of(example) or (), of_example, gold(example), strict=True
            ):
                correct.append(prediction.sense in senses)
                first.append(self.senses.first_sense(word.entry) in senses)
        if not correct:
            raise InputError("The examples do not contain any words with a sense.")
        return {"f1": sum(correct) / len(correct), "first_sense": sum(first) / len(first)}

    def to_record(self, example: Example[Senses], answer: tuple[PredictedSense, ...]) -> Record:
        """Return the words and senses as a JSON-serializable dictionary."""
        senses = [
            {
                "text": " ".join(example.words[word.first : word.stop]),
                "start": word.first,
                "end": word.stop,
                "sense": word.sense,
                "by": "nearest" if word.is_seen else "first sense",
            }
            for word in answer
        ]
        return {"words": list(example.words), "senses": senses}


def targets_of(example: Example[object]) -> tuple[SenseTarget, ...] | None:
    """Return the words to disambiguate in an example; None for all words with a known form."""
    assert example.extra is None or isinstance(example.extra, tuple)
    return example.extra


def _tagged(examples: Sequence[Example[Senses]]) -> TaggedWords:
    """Convert examples to sentences with sense-tagged word occurrences."""
    occurrences = [
        SenseOccurrence(number, word.first, word.stop, senses)
        for number, example in enumerate(examples)
        for word, senses in zip(targets_of(example) or (), example.target or (), strict=True)
    ]
    return TaggedWords([example.words for example in examples], occurrences)
