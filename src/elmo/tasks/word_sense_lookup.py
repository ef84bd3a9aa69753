"""Word senses: the nearest of the senses a lemma has in SemCor, WordNet's first where it has none.

Sentences whose words are not tagged with lemmas are answered too: for each word that SemCor has, in
that form, by the nearest sense of all the lemmas it stood for there.
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
from elmo.tasks.readers.raw_text import Split
from elmo.tasks.readers.sense_tagged_files import AskedWord

# Where WordNet lies beside SemCor.
WORDNET = Path("wordnet-3.0") / "index.sense"


@dataclass(frozen=True)
class FoundSense:
    """The sense of some words of a sentence.

    Attributes:
        first: number of the first one.
        stop: number after the last one.
        sense: key of WordNet; None where WordNet has no such word.
        is_seen: whether it is the nearest of those remembered, or else WordNet's first.
    """

    first: int
    stop: int
    sense: str | None
    is_seen: bool


class WordSenseLookup:
    """Senses with their vectors."""

    n_texts: ClassVar[int] = 1
    expects: ClassVar[str] = "the senses of its words"
    metric = "f1"

    def __init__(self, memory: SenseIndex, forms: dict[str, list[Entry]]) -> None:
        """Take what is remembered.

        Args:
            memory: senses and their vectors, of one layer.
            forms: entries that a word in small letters stood for.
        """
        self.memory = memory
        self.forms = forms

    @classmethod
    def of(cls, encode: Encode, examples: Sequence[Example], config: TaskConfig) -> Self:
        """Remember the senses of examples, and the order that WordNet has them in."""
        train = config.examples.train
        path = config.lookup.wordnet or (None if train is None else Path(train).parent / WORDNET)
        if path is None:
            raise ConfigError("--wordnet is not given: where its index.sense lies")
        forms: dict[str, list[Entry]] = {}
        for example in examples:
            for first, stop, entry in example.given or ():
                known = forms.setdefault("_".join(example.words[first:stop]).lower(), [])
                if entry not in known:
                    known.append(entry)
        memory = SenseIndex.of(encode, _tagged(examples), read_wordnet(Path(path)))
        if not memory.rows:
            raise InputError(f"no sense of the examples is one of {path}")
        return cls(memory, forms)

    @classmethod
    def from_state(cls, plain: Any, vectors: NDArray[np.float16], config: TaskConfig) -> Self:
        """Take what `state` gave."""
        wordnet = {(lemma, part): senses for lemma, part, senses in plain["wordnet"]}
        rows = {sense: row for row, sense in enumerate(plain["senses"])}
        if len(rows) != len(vectors):
            raise ValueError(f"there are {len(rows):,} senses for {len(vectors):,} vectors")
        forms = {form: [(e[0], e[1]) for e in entries] for form, entries in plain["forms"].items()}
        return cls(SenseIndex(wordnet, rows, unit(vectors[None].astype(np.float32))), forms)

    def state(self) -> tuple[Any, NDArray[np.float16]]:
        """Give all that is remembered: plain data, and vectors, (senses, dim)."""
        memory = self.memory
        plain = {
            "wordnet": [[*entry, list(senses)] for entry, senses in memory.wordnet.items()],
            "senses": list(memory.rows),
            "forms": self.forms,
        }
        return plain, memory.centroids[0].astype(np.float16)

    @staticmethod
    def fits(example: Example) -> bool:
        """Tell whether an example has senses."""
        return isinstance(example.target, tuple) and example.given is not None

    def asked(self, texts: Sequence[str | Sequence[str]], split: Split) -> Example:
        """Make an example of a sentence, raw or split already."""
        (text,) = texts
        return Example((tuple(split(text) if isinstance(text, str) else text),))

    def answers(self, encode: Encode, examples: Sequence[Example]) -> list[Any]:
        """Give the senses of what is asked, or of all words that are known in their form."""
        asked = [self._asked(example) for example in examples]
        places = [
            SenseOccurrence(number, first, stop, ())
            for number, words in enumerate(asked)
            for first, stop, _ in words
        ]
        text = TaggedWords([example.words for example in examples], places)
        vectors = (
            vector for _, part in occurrence_vectors(encode, text) for vector in unit(part)[0]
        )
        return [tuple(self._found(*word, next(vectors)) for word in words) for words in asked]

    def _asked(self, example: Example) -> list[tuple[int, int, list[Entry]]]:
        """Give the words that are asked for, with the entries they may stand for."""
        if example.given is not None:
            words: Sequence[AskedWord] = example.given
            return [(word.first, word.stop, [word.entry]) for word in words]
        small = [word.lower() for word in example.words]
        return [(at, at + 1, self.forms[w]) for at, w in enumerate(small) if w in self.forms]

    def _found(
        self, first: int, stop: int, entries: Sequence[Entry], vector: Vectors
    ) -> FoundSense:
        senses = [sense for entry in entries for sense in self.memory.candidates(entry)]
        if not senses:
            return FoundSense(first, stop, self.memory.first_sense(entries[0]), is_seen=False)
        (sense,) = self.memory.nearest(senses, vector[None])
        return FoundSense(first, stop, sense, is_seen=True)

    def scores(self, examples: Sequence[Example], answers: Sequence[Any]) -> dict[str, float]:
        """Give the share of words with a right sense; every word is answered, so that it is F1."""
        right, first = [], []
        for example, found in zip(examples, answers, strict=True):
            for word, answer, senses in zip(example.given, found, example.target, strict=True):
                right.append(answer.sense in senses)
                first.append(self.memory.first_sense(word.entry) in senses)
        if not right:
            raise InputError("no word is asked for its sense")
        return {"f1": sum(right) / len(right), "first_sense": sum(first) / len(first)}

    def record(self, example: Example, answer: Any) -> dict[str, Any]:
        """Give words and senses."""
        senses = [
            {
                "text": " ".join(example.words[found.first : found.stop]),
                "start": found.first,
                "end": found.stop,
                "sense": found.sense,
                "by": "nearest" if found.is_seen else "first sense",
            }
            for found in answer
        ]
        return {"words": list(example.words), "senses": senses}


def _tagged(examples: Sequence[Example]) -> TaggedWords:
    """Give examples as the sentences and occurrences of a text."""
    places = [
        SenseOccurrence(number, word.first, word.stop, senses)
        for number, example in enumerate(examples)
        for word, senses in zip(example.given or (), example.target or (), strict=True)
    ]
    return TaggedWords([example.words for example in examples], places)
