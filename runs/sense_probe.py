"""Word sense probe: accuracy of the nearest sense in SemCor, for each layer.

Each word is assigned the sense of its lemma and part of speech whose mean vector is nearest, or
WordNet's first sense if none of its senses occurs in SemCor. Since every word is assigned a sense,
the accuracy equals the F1 score reported in the literature. `elmo task fit wsd` does the same for
one layer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmo.evaluate.probe_vectors import Encode, unit
from elmo.tasks.word_senses.semcor_files import (
    Entry,
    TaggedWords,
    read_semcor,
    read_targets,
    read_wordnet,
)
from elmo.tasks.word_senses.sense_index import SenseIndex, occurrence_vectors


@dataclass(frozen=True)
class SenseData:
    """Data for the word sense probe.

    Attributes:
        wordnet: Sense keys for each lemma and part of speech, in WordNet order.
        semcor: Sense-tagged training text, from which the sense vectors are computed.
        targets: Test text with the occurrences to disambiguate.
        entries: Lemma and part of speech of each target.
    """

    wordnet: Mapping[Entry, Sequence[str]]
    semcor: TaggedWords
    targets: TaggedWords
    entries: Sequence[Entry]

    @classmethod
    def read(cls, folder: Path, limit: int | None = None) -> "SenseData":
        """Read WordNet, SemCor and the test set.

        Args:
            folder: Folder with wordnet-3.0, semcor3.0 and Evaluation_Datasets.
            limit: Maximum number of SemCor sentences to read. Default: all.
        """
        wordnet = read_wordnet(folder / "wordnet-3.0" / "index.sense")
        targets, entries = read_targets(folder / "Evaluation_Datasets" / "ALL")
        return cls(wordnet, read_semcor(folder / "semcor3.0", limit), targets, entries)


@dataclass(frozen=True)
class SenseAccuracy:
    """Accuracy of word sense disambiguation, from 0 to 1.

    Attributes:
        layers: Accuracy for each layer.
        first_sense: Accuracy of the baseline that always predicts WordNet's first sense.
        n_targets: Number of targets.
        n_unseen: Number of targets whose lemma does not occur in SemCor, for which WordNet's first
            sense is predicted.
        n_senses: Number of sense vectors for the lemmas of the targets.
        n_occurrences: Number of SemCor occurrences from which these vectors are computed.
    """

    layers: tuple[float, ...]
    first_sense: float
    n_targets: int
    n_unseen: int
    n_senses: int
    n_occurrences: int


def first_sense_accuracy(data: SenseData) -> float:
    """Return the accuracy of always predicting WordNet's first sense."""
    is_correct = [
        next(iter(data.wordnet.get(entry, ())), None) in target.senses
        for target, entry in zip(data.targets.occurrences, data.entries, strict=True)
    ]
    return sum(is_correct) / len(is_correct)


def sense_accuracy(encode: Encode, data: SenseData) -> SenseAccuracy:
    """Disambiguate all targets with the vectors of each layer and return the accuracies.

    Args:
        encode: Function that returns an array (layers, words, dim) for each sentence.
        data: Result of `SenseData.read`.
    """
    index = SenseIndex.of(encode, data.semcor, data.wordnet, set(data.entries))
    parts = [part for _, part in occurrence_vectors(encode, data.targets)]
    vectors = unit(np.concatenate(parts, axis=1))
    n_correct = np.zeros(len(vectors), dtype=np.int64)
    n_unseen = 0
    for number, (target, entry) in enumerate(
        zip(data.targets.occurrences, data.entries, strict=True)
    ):
        senses = index.candidates(entry)
        if not senses:
            n_unseen += 1
            n_correct += index.first_sense(entry) in target.senses
            continue
        predicted = index.nearest(senses, vectors[:, number])
        n_correct += np.array([sense in target.senses for sense in predicted])
    n_targets = len(data.entries)
    n_occurrences = sum(
        any(key in index.rows for key in item.senses) for item in data.semcor.occurrences
    )
    return SenseAccuracy(
        layers=tuple((n_correct / n_targets).tolist()),
        first_sense=first_sense_accuracy(data),
        n_targets=n_targets,
        n_unseen=n_unseen,
        n_senses=len(index.rows),
        n_occurrences=n_occurrences,
    )
