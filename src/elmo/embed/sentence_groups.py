"""Groups of sentences that are encoded together: repeated sentences, order and batches."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from torch import Tensor

from elmo.embed.host_arrays import HostArray
from elmo.text.token_batches import Sentence

# The vectors of a sentence; arrays on the host, because they are faster to create than tensors.
Vectors = HostArray | Tensor
Key = TypeVar("Key")
Group = tuple[Key, Sequence[Sequence[str]]]


class PendingGroup(Generic[Key]):
    """A group of sentences and the vectors computed so far."""

    def __init__(self, key: Key, sentences: Sequence[Sequence[str]]) -> None:
        self.key = key
        self.sentences = [tuple(sentence) for sentence in sentences]
        self.counts: Counter[Sentence] = Counter(self.sentences)
        self.distinct = list(dict.fromkeys(self.sentences))
        self.vectors: dict[Sentence, Vectors] = {}

    @property
    def n_positions(self) -> int:
        """Number of positions to compute, including boundary tokens."""
        return count_positions(self.distinct)

    @property
    def is_complete(self) -> bool:
        """Whether the vectors of all sentences have been computed."""
        return len(self.vectors) == len(self.counts)

    def results(self) -> list[Vectors]:
        """Return the vectors of each sentence; repeated sentences get separate copies."""
        results = [self.vectors[sentence] for sentence in self.sentences]
        if len(self.counts) < len(self.sentences):
            seen: set[Sentence] = set()
            for index, sentence in enumerate(self.sentences):
                if sentence in seen:
                    results[index] = _copy(results[index])
                seen.add(sentence)
        return results


def _copy(vectors: Vectors) -> Vectors:
    return vectors.clone() if isinstance(vectors, Tensor) else vectors.copy()


def count_positions(sentences: Sequence[Sequence[str]]) -> int:
    """Return the number of positions of sentences, including boundary tokens."""
    return sum(map(len, sentences)) + 2 * len(sentences)


def batches_by_length(
    sentences: Sequence[tuple[str, ...]], batch_size: int, max_positions: int
) -> Iterator[list[tuple[str, ...]]]:
    """Yield batches of distinct sentences, longest first, equal lengths sorted by words."""
    ordered = sorted(sentences, key=lambda words: (-len(words), words))
    start = 0
    while start < len(ordered):
        length = len(ordered[start]) + 2
        count = min(batch_size, max(1, max_positions // length))
        yield ordered[start : start + count]
        start += count
