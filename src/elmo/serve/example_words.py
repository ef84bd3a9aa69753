"""Words of the English example sentences, and the search for those with the nearest vectors."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.demo.sense_neighbors import load_occurrences
from elmo.evaluate.probe_vectors import unit
from elmo.text.tokenizer import Tokenizer

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class ExampleWord:
    """A word of an example sentence.

    Attributes:
        word: The word.
        sentence: Its sentence.
        start: Index of its first character in the sentence.
        end: Index after its last character.
        sense: Sense of the word, if it is the ambiguous word of its sentence.
    """

    word: str
    sentence: str
    start: int
    end: int
    sense: str | None


class ExampleWords:
    """All words of the example sentences, with vectors of one model and selection of layers.

    The vectors are added in parts. If a request is cancelled while it adds them, the next one
    continues.

    Attributes:
        sentences: Words of each sentence.
        lock: Held by the request that adds vectors.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Split the sentences into words; there are no vectors yet."""
        self.sentences: list[list[str]] = []
        self.lock = asyncio.Lock()
        self._words: list[ExampleWord] = []
        self._vectors: list[Vectors] = []
        for occurrence in load_occurrences():
            text = occurrence.sentence
            tokens = tokenizer.tokens(text)
            self.sentences.append([token.text for token in tokens])
            self._words += [
                ExampleWord(
                    *(token.text, text, token.start, token.end),
                    sense=occurrence.sense if token.text == occurrence.word else None,
                )
                for token in tokens
            ]

    @property
    def n_done(self) -> int:
        """Number of sentences that have vectors."""
        return len(self._vectors)

    @property
    def is_complete(self) -> bool:
        """Whether all sentences have vectors."""
        return self.n_done == len(self.sentences)

    def add(self, vectors: Sequence[Vectors]) -> None:
        """Add the vectors of the next sentences, (words, dim) each."""
        self._vectors += [unit(item) for item in vectors]

    def nearest(self, vector: Vectors, n: int) -> list[tuple[ExampleWord, float]]:
        """Return the n words with the largest cosines to a vector, nearest first."""
        cosines = np.concatenate([item @ unit(vector) for item in self._vectors])
        order = np.argsort(-cosines, kind="stable")[:n]
        return [(self._words[index], float(cosines[index])) for index in order]
