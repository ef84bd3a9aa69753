"""Lookup of word senses: the nearest sense that a lemma has in SemCor, else WordNet's first sense.

Sentences without lemma annotation are supported too. Each word form that occurs in SemCor gets the
nearest sense of all the lemmas it stands for there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from elmo.config import TaskConfig
from elmo.errors import ConfigError, InputError
from elmo.evaluate.probe_vectors import Encode, Vectors, unit
from elmo.evaluate.word_senses import (
    Entry,
    SenseIndex,
    SenseOccurrence,
    TaggedWords,
    occurrence_vectors,
    read_wordnet,
)
from elmo.tasks.examples import Example
from elmo.tasks.readers.raw_text import SplitFunction
from elmo.tasks.readers.sense_tagged_files import SenseTarget

# Default path of WordNet's index.sense, relative to the folder that contains SemCor.
WORDNET = Path("wordnet-3.0") / "index.sense"


@dataclass(frozen=True)
class PredictedSense:
    """The predicted sense of one or more adjacent words of a sentence.

    Attributes:
        first: Index of the first word.
        stop: Index after the last word.
        sense: Sense key of WordNet; None if WordNet has no such word.
        is_seen: Whether the sense is the nearest of the index; otherwise it is WordNet's first
            sense.
    """

    first: int
    stop: int
    sense: str | None
    is_seen: bool


class WordSenseLookup:
    """Index of senses with their vectors."""

    n_texts: ClassVar[int] = 1
    target_description: ClassVar[str] = "the senses of its words"
    metric = "f1"

    def __init__(self, senses: SenseIndex, forms: dict[str, list[Entry]]) -> None:
        """Create the index.

        Args:
            senses: Senses and their vectors, of a single layer.
            forms: Entries (lemma and part of speech) of each lowercased word form.
        """
        self.senses = senses
        self.forms = forms

    @classmethod
    def from_examples(cls, encode: Encode, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Build the index from the senses of examples and the sense order of WordNet."""
        train = config.examples.train
        path = config.lookup.wordnet or (None if train is None else Path(train).parent / WORDNET)
        if path is None:
            raise ConfigError("Give the path of WordNet's index.sense with --wordnet.")
        forms: dict[str, list[Entry]] = {}
        for example in examples:
            for first, stop, entry in example.extra or ():
                entries = forms.setdefault("_".join(example.words[first:stop]).lower(), [])
                if entry not in entries:
                    entries.append(entry)
        senses = SenseIndex.of(encode, _tagged(examples), read_wordnet(Path(path)))
        if not senses.rows:
            raise InputError(f"None of the senses of the examples is in {path}.")
        return cls(senses, forms)

    @classmethod
    def from_state(cls, content: Any, vectors: NDArray[np.float16], config: TaskConfig) -> Self:
        """Restore an index from the return values of `state`."""
        wordnet = {(lemma, part): senses for lemma, part, senses in content["wordnet"]}
        rows = {sense: row for row, sense in enumerate(content["senses"])}
        if len(rows) != len(vectors):
            raise ValueError(f"there are {len(rows):,} senses, but {len(vectors):,} vectors")
        forms = {
            form: [(entry[0], entry[1]) for entry in entries]
            for form, entries in content["forms"].items()
        }
        return cls(SenseIndex(wordnet, rows, unit(vectors[None].astype(np.float32))), forms)

    def state(self) -> tuple[Any, NDArray[np.float16]]:
        """Return the content of the index: JSON data, and vectors, (senses, dim)."""
        content = {
            "wordnet": [[*entry, list(senses)] for entry, senses in self.senses.wordnet.items()],
            "senses": list(self.senses.rows),
            "forms": self.forms,
        }
        return content, self.senses.centroids[0].astype(np.float16)

    @staticmethod
    def has_valid_target(example: Example) -> bool:
        """Whether an example has senses."""
        return isinstance(example.target, tuple) and example.extra is not None

    def make_example(self, texts: Sequence[str | Sequence[str]], split: SplitFunction) -> Example:
        """Return an example for a sentence, raw or split into words."""
        (text,) = texts
        return Example((tuple(split(text) if isinstance(text, str) else text),))

    def predict(self, encode: Encode, examples: Sequence[Example]) -> list[Any]:
        """Return the senses of the target words, or of all words with a known form."""
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

    def _targets(self, example: Example) -> list[tuple[int, int, list[Entry]]]:
        """Return first index, end index and possible entries of the words to disambiguate."""
        if example.extra is not None:
            words: Sequence[SenseTarget] = example.extra
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

    def scores(self, examples: Sequence[Example], predictions: Sequence[Any]) -> dict[str, float]:
        """Return F1 and that of WordNet's first sense.

        Every word gets a prediction, so F1 equals the share of words with a correct sense.
        """
        correct, first = [], []
        for example, of_example in zip(examples, predictions, strict=True):
            for word, prediction, senses in zip(
                example.extra, of_example, example.target, strict=True
            ):
                correct.append(prediction.sense in senses)
                first.append(self.senses.first_sense(word.entry) in senses)
        if not correct:
            raise InputError("The examples contain no word with a sense.")
        return {"f1": sum(correct) / len(correct), "first_sense": sum(first) / len(first)}

    def to_record(self, example: Example, prediction: Any) -> dict[str, Any]:
        """Return words and senses as a dictionary for JSON."""
        senses = [
            {
                "text": " ".join(example.words[word.first : word.stop]),
                "start": word.first,
                "end": word.stop,
                "sense": word.sense,
                "by": "nearest" if word.is_seen else "first sense",
            }
            for word in prediction
        ]
        return {"words": list(example.words), "senses": senses}


def _tagged(examples: Sequence[Example]) -> TaggedWords:
    """Return examples as sentences with sense-tagged occurrences."""
    occurrences = [
        SenseOccurrence(number, word.first, word.stop, senses)
        for number, example in enumerate(examples)
        for word, senses in zip(example.extra or (), example.target or (), strict=True)
    ]
    return TaggedWords([example.words for example in examples], occurrences)
