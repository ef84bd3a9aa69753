"""The geometry of word vectors by layer, as Ethayarajh (2019) measures it.

Self-similarity is the mean cosine between occurrences of one word in different sentences, averaged
over words: 1 means that context changes nothing. Anisotropy is the mean cosine between any two
words of different sentences: how far all vectors point the same way. Both are plain cosines; what
the paper plots is adjusted, that is, less the anisotropy of the layer.

Sums of vectors of length 1 hold every pair at once: nothing is sampled, and the figures are those
the paper's samples estimate.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from elmo.errors import InputError
from elmo.evaluate.probe_vectors import Encode, Vectors, encode_in_parts, unit
from elmo.text.token_batches import Sentence

# Sentences a word must stand in to be counted, as in the paper.
MIN_SENTENCES = 5


@dataclass(frozen=True)
class LayerGeometry:
    """Mean cosines of one layer, none of them adjusted but where the name says so.

    Attributes:
        self_similarity: of occurrences of a word, averaged over words.
        anisotropy: of words of different sentences; every sentence counts the same.
        intra_sentence: of a word and the mean of its sentence.
    """

    self_similarity: float
    anisotropy: float
    intra_sentence: float

    @property
    def adjusted_self_similarity(self) -> float:
        """What is more alike in a word's occurrences than in any two words."""
        return self.self_similarity - self.anisotropy


@dataclass(frozen=True)
class Geometry:
    """What was found in a text.

    Attributes:
        layers: by number.
        n_words: distinct words that self-similarity is averaged over.
        n_occurrences: of these words, one a sentence.
        n_sentences: distinct ones.
    """

    layers: tuple[LayerGeometry, ...]
    n_words: int
    n_occurrences: int
    n_sentences: int


def geometry(encode: Encode, sentences: Iterable[Sentence]) -> Geometry:
    """Measure the geometry of the vectors of a text.

    A sentence that stands there again is left out, and so is a word's second occurrence in a
    sentence; words without a letter or a digit have no self-similarity.

    Args:
        encode: gives (layers, words, dim) for each sentence.
        sentences: lists of words.
    """
    distinct = list(dict.fromkeys(tuple(words) for words in sentences if len(words)))
    counts = Counter(word for words in distinct for word in dict.fromkeys(words))
    numbers: dict[str, int] = {}
    for word, count in counts.items():
        if count >= MIN_SENTENCES and any(map(str.isalnum, word)):
            numbers[word] = len(numbers)
    if not numbers:
        raise InputError(
            f"no word stands in {MIN_SENTENCES} of {len(distinct)} sentences: give more text"
        )
    sums = _GeometrySums(len(numbers), len(distinct))
    for part, vectors in encode_in_parts(encode, distinct):
        sums.add([distinct[number] for number in part], vectors, numbers)
    own_counts = np.array([counts[word] for word in numbers], dtype=np.float64)
    return Geometry(sums.layers(own_counts), len(numbers), int(own_counts.sum()), len(distinct))


class _GeometrySums:
    """What is added up while the text passes by; shapes are known with the first vectors."""

    def __init__(self, n_words: int, n_sentences: int) -> None:
        self.n_words = n_words
        self.n_sentences = n_sentences
        self.by_word = torch.zeros(0)
        self.of_means: np.ndarray = np.zeros(0)
        self.squared_means: np.ndarray = np.zeros(0)
        self.intra: np.ndarray = np.zeros(0)

    def add(self, sentences: Sequence[Sentence], vectors: Vectors, numbers: dict[str, int]) -> None:
        """Add sentences with the vectors of all their words, (layers, words, dim)."""
        n_layers, _, dim = vectors.shape
        if not len(self.by_word):
            self.by_word = torch.zeros(n_layers, self.n_words, dim)
            self.of_means = np.zeros((n_layers, dim))
            self.squared_means, self.intra = np.zeros(n_layers), np.zeros(n_layers)
        units = unit(vectors)
        lengths = np.array([len(words) for words in sentences])
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        # (layers, sentences, dim)
        means = np.add.reduceat(units, starts, axis=1) / lengths[:, None]
        self.of_means += means.sum(axis=1, dtype=np.float64)
        self.squared_means += np.square(means).sum(axis=(1, 2), dtype=np.float64)
        middles = unit(np.add.reduceat(vectors, starts, axis=1))
        self.intra += (means * middles).sum(axis=(1, 2), dtype=np.float64)
        pairs = [
            (start + words.index(word), numbers[word])
            for words, start in zip(sentences, starts.tolist(), strict=True)
            for word in dict.fromkeys(words)
            if word in numbers
        ]
        if pairs:
            places, rows = torch.tensor(pairs).T
            self.by_word.index_add_(1, rows, torch.from_numpy(units)[:, places])

    def layers(self, counts: np.ndarray) -> tuple[LayerGeometry, ...]:
        """Give the means; `counts` has the occurrences of each word."""
        # The cosines of all pairs of n vectors of length 1 are |sum|² - n.
        squared = self.by_word.double().square().sum(dim=2).numpy()
        own = ((squared - counts) / (counts * (counts - 1))).mean(axis=1)
        n = self.n_sentences
        any_two = (np.square(self.of_means).sum(axis=1) - self.squared_means) / (n * (n - 1))
        intra = self.intra / n
        return tuple(map(LayerGeometry, own.tolist(), any_two.tolist(), intra.tolist()))
