"""Geometry of word vectors in each layer, after Ethayarajh (2019).

Self-similarity is the mean cosine between occurrences of the same word in different sentences,
averaged over words; 1 means that the context has no effect. Anisotropy is the mean cosine between
words from different sentences; 1 means that all vectors point in the same direction. Both values
are raw cosines. The paper plots adjusted values, from which the anisotropy of the layer has been
subtracted.

Unlike in the paper, the means are exact and not estimated from samples, because the mean cosine
over all pairs can be computed from the sum of the unit vectors.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from elmo.errors import InputError
from elmo.evaluate.probe_vectors import Encode, Vectors, encode_in_parts, unit
from elmo.text.token_batches import Sentence

# Only words that occur in at least this many sentences count in the self-similarity, as in the
# paper.
MIN_SENTENCES = 5


@dataclass(frozen=True)
class LayerGeometry:
    """Mean cosines between the word vectors of one layer.

    Attributes:
        self_similarity: Mean cosine between occurrences of the same word, averaged over words.
        anisotropy: Mean cosine between words from different sentences, with the same weight for
            every sentence.
        intra_sentence: Mean cosine between a word vector and the mean vector of its sentence.
    """

    self_similarity: float
    anisotropy: float
    intra_sentence: float

    @property
    def adjusted_self_similarity(self) -> float:
        """Self-similarity minus anisotropy."""
        return self.self_similarity - self.anisotropy


@dataclass(frozen=True)
class Geometry:
    """Geometry of the word vectors of a text.

    Attributes:
        layers: Mean cosines for each layer, starting with layer 0.
        n_words: Number of distinct words used for the self-similarity.
        n_occurrences: Total number of occurrences of these words, counting at most one per
            sentence.
        n_sentences: Number of distinct sentences.
    """

    layers: tuple[LayerGeometry, ...]
    n_words: int
    n_occurrences: int
    n_sentences: int


def geometry(encode: Encode, sentences: Iterable[Sentence]) -> Geometry:
    """Compute the geometry of the word vectors of a text.

    Repeated sentences and repeated occurrences of a word in the same sentence are ignored. Tokens
    without a letter or digit do not count in the self-similarity.

    Args:
        encode: Function that returns an array (layers, words, dim) for each sentence.
        sentences: Sentences as lists of words.

    Raises:
        InputError: No word occurs in enough sentences.
    """
    distinct = list(dict.fromkeys(tuple(words) for words in sentences if len(words)))
    counts = Counter(word for words in distinct for word in dict.fromkeys(words))
    word_ids: dict[str, int] = {}
    for word, count in counts.items():
        if count >= MIN_SENTENCES and any(map(str.isalnum, word)):
            word_ids[word] = len(word_ids)
    if not word_ids:
        raise InputError(
            f"No word occurs in at least {MIN_SENTENCES} of the {len(distinct)} distinct "
            "sentences. Use more text."
        )
    sums = _GeometrySums(len(word_ids), len(distinct))
    for part, vectors in encode_in_parts(encode, distinct):
        sums.add([distinct[number] for number in part], vectors, word_ids)
    word_counts = np.array([counts[word] for word in word_ids], dtype=np.float64)
    return Geometry(sums.layers(word_counts), len(word_ids), int(word_counts.sum()), len(distinct))


class _GeometrySums:
    """Running sums over sentences, from which the mean cosines are computed."""

    def __init__(self, n_words: int, n_sentences: int) -> None:
        self.n_words = n_words
        self.n_sentences = n_sentences
        self.word_sums = torch.zeros(0)
        self.sentence_means: np.ndarray = np.zeros(0)
        self.squared_means: np.ndarray = np.zeros(0)
        self.intra: np.ndarray = np.zeros(0)

    def add(
        self, sentences: Sequence[Sentence], vectors: Vectors, word_ids: dict[str, int]
    ) -> None:
        """Add sentences, given the vectors of all their words, (layers, words, dim)."""
        n_layers, _, dim = vectors.shape
        if not len(self.word_sums):
            self.word_sums = torch.zeros(n_layers, self.n_words, dim)
            self.sentence_means = np.zeros((n_layers, dim))
            self.squared_means, self.intra = np.zeros(n_layers), np.zeros(n_layers)
        units = unit(vectors)
        lengths = np.array([len(words) for words in sentences])
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        # (layers, sentences, dim)
        means = np.add.reduceat(units, starts, axis=1) / lengths[:, None]
        self.sentence_means += means.sum(axis=1, dtype=np.float64)
        self.squared_means += np.square(means).sum(axis=(1, 2), dtype=np.float64)
        centroids = unit(np.add.reduceat(vectors, starts, axis=1))
        self.intra += (means * centroids).sum(axis=(1, 2), dtype=np.float64)
        pairs = [
            (start + words.index(word), word_ids[word])
            for words, start in zip(sentences, starts.tolist(), strict=True)
            for word in dict.fromkeys(words)
            if word in word_ids
        ]
        if pairs:
            positions, rows = torch.tensor(pairs).T
            self.word_sums.index_add_(1, rows, torch.from_numpy(units)[:, positions])

    def layers(self, counts: np.ndarray) -> tuple[LayerGeometry, ...]:
        """Return the mean cosines of each layer, given the number of occurrences of each word."""
        # The cosines of all ordered pairs of n unit vectors sum to |sum of the vectors|² - n.
        squared = self.word_sums.double().square().sum(dim=2).numpy()
        self_similarity = ((squared - counts) / (counts * (counts - 1))).mean(axis=1)
        n = self.n_sentences
        squared_sum = np.square(self.sentence_means).sum(axis=1)
        anisotropy = (squared_sum - self.squared_means) / (n * (n - 1))
        intra = self.intra / n
        return tuple(
            map(LayerGeometry, self_similarity.tolist(), anisotropy.tolist(), intra.tolist())
        )
