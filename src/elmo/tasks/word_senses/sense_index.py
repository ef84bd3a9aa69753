"""Nearest-neighbor search for word senses (Peters et al., 2018, 5.3).

The vector of a sense is the mean vector of its occurrences. A word has the sense of its lemma and
part of speech whose vector has the highest cosine similarity.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from elmo.evaluate.probe_vectors import Encode, Vectors, encode_in_parts, unit
from elmo.tasks.word_senses.semcor_files import Entry, SenseOccurrence, TaggedWords, entry_of

# Float32 cosines that differ by less than this are treated as equal.
COSINE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class SenseIndex:
    """Index of sense vectors, each the mean vector of the occurrences of a sense.

    Attributes:
        wordnet: Sense keys for each lemma and part of speech, in WordNet order.
        rows: Row of each sense in `centroids`. The senses of each lemma and part of speech are
            consecutive and in WordNet order, which breaks ties.
        centroids: Mean vector of each sense, scaled to length 1, (layers, senses, dim).
    """

    wordnet: Mapping[Entry, Sequence[str]]
    rows: Mapping[str, int]
    centroids: Vectors

    @classmethod
    def of(
        cls,
        encode: Encode,
        text: TaggedWords,
        wordnet: Mapping[Entry, Sequence[str]],
        entries: Collection[Entry] | None = None,
    ) -> "SenseIndex":
        """Compute sense vectors from a sense-tagged text.

        `encode` returns an array (layers, words, dim) for each sentence. By default, all entries
        that occur in the text are indexed. Only one running sum per sense is held in memory.
        """
        senses = {sense for occurrence in text.occurrences for sense in occurrence.senses}
        if entries is None:
            entries = {entry_of(sense) for sense in senses}
        indexed = [
            key for entry in sorted(set(entries)) for key in wordnet.get(entry, ()) if key in senses
        ]
        rows = {sense: row for row, sense in enumerate(indexed)}
        used = [item for item in text.occurrences if any(key in rows for key in item.senses)]
        sums = torch.zeros(0)
        for numbers, vectors in occurrence_vectors(encode, TaggedWords(text.sentences, used)):
            if not len(sums):
                sums = torch.zeros(vectors.shape[0], len(rows), vectors.shape[2])
            _add_vectors(sums, rows, used[numbers.start : numbers.stop], vectors)
        # The sum has the same direction as the mean.
        return cls(wordnet, rows, unit(sums.numpy()) if len(sums) else np.zeros((0, 0, 0), "f4"))

    def candidates(self, entry: Entry) -> list[str]:
        """Return the senses of a lemma and part of speech that have a vector."""
        return [sense for sense in self.wordnet.get(entry, ()) if sense in self.rows]

    def first_sense(self, entry: Entry) -> str | None:
        """Return WordNet's first sense of a lemma and part of speech, or None if there is none."""
        return next(iter(self.wordnet.get(entry, ())), None)

    def nearest(self, senses: Sequence[str], vectors: Vectors) -> list[str]:
        """Return the sense that is nearest to the query, unit vectors (layers, dim), by layer."""
        centroids = self.centroids[:, [self.rows[sense] for sense in senses]]
        cosines = (centroids @ vectors[:, :, None])[:, :, 0]
        # With the tolerance, rounding errors do not break ties between senses with the same vector.
        is_nearest = cosines >= cosines.max(axis=1, keepdims=True) - COSINE_TOLERANCE
        return [senses[position] for position in is_nearest.argmax(axis=1)]


def _add_vectors(
    sums: Tensor, rows: Mapping[str, int], occurrences: Sequence[SenseOccurrence], vectors: Vectors
) -> None:
    """Add occurrence vectors, (layers, occurrences, dim), to the sums of their senses."""
    pairs = [
        (number, rows[sense])
        for number, occurrence in enumerate(occurrences)
        for sense in occurrence.senses
        if sense in rows
    ]
    numbers, sense_rows = torch.tensor(pairs).T
    # Use the CPU, where the order of summation is deterministic.
    sums.index_add_(1, sense_rows, torch.from_numpy(vectors)[:, numbers])


def occurrence_vectors(encode: Encode, text: TaggedWords) -> Iterator[tuple[range, Vectors]]:
    """Yield the indices of the occurrences in a chunk and their vectors, (layers, indices, dim).

    The vector of a phrase is the mean of its word vectors. Sentences without occurrences are not
    encoded.
    """
    by_sentence: dict[int, list[SenseOccurrence]] = {}
    for occurrence in text.occurrences:
        by_sentence.setdefault(occurrence.sentence, []).append(occurrence)
    sentences = [text.sentences[number] for number in by_sentence]
    groups = list(by_sentence.values())
    n_done = 0
    for numbers, vectors in encode_in_parts(encode, sentences):
        spans = []
        start = 0
        for number in numbers:
            spans += [(start + item.first, start + item.stop) for item in groups[number]]
            start += len(sentences[number])
        span_vectors = vectors[:, [first for first, _ in spans]]
        for position, (first, stop) in enumerate(spans):
            if stop - first > 1:
                span_vectors[:, position] = vectors[:, first:stop].mean(axis=1)
        yield range(n_done, n_done + len(spans)), span_vectors
        n_done += len(spans)
