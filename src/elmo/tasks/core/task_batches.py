"""Training batches for tasks, reshuffled in each epoch and grouped by text length.

A batch has a fixed number of examples, regardless of their lengths, so the number of steps per
epoch is known in advance. To bound memory, a batch with too many words is split into micro-batches
(gradient accumulation).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Generic

import numpy as np
import torch
from torch import Tensor

from elmo.kernels.device import to_device
from elmo.tasks.core.example import Example
from elmo.tasks.core.input_features import TokenBatch, TokenIndexer
from elmo.tasks.core.task import Answer, Output, Target, TextGroup, TrainedTask

# Number of batches whose examples are sorted by length together: large enough for little padding,
# small enough that the composition of batches varies between epochs.
POOL = 32


@dataclass(frozen=True)
class TaskBatch:
    """A micro-batch of examples with its share of the loss of its step."""

    groups: tuple[TokenBatch, ...]
    targets: Tensor
    share: float = 1.0

    def to(self, device: torch.device) -> "TaskBatch":
        """Return a copy on the given device."""
        groups = tuple(group.to(device) for group in self.groups)
        return TaskBatch(groups, to_device(self.targets, device), self.share)


def epoch_order(lengths: Sequence[int], batch_size: int, seed: Sequence[int]) -> list[list[int]]:
    """Return the example indices of each batch in an epoch; the last batch can be smaller."""
    generator = np.random.default_rng(list(seed))
    order = generator.permutation(len(lengths))
    batches: list[list[int]] = []
    for start in range(0, len(order), POOL * batch_size):
        pool = sorted(order[start : start + POOL * batch_size].tolist(), key=lengths.__getitem__)
        batches += [pool[first : first + batch_size] for first in range(0, len(pool), batch_size)]
    return [batches[index] for index in generator.permutation(len(batches))]


def n_words(example: Example[object]) -> int:
    """Return the total number of words in an example."""
    return sum(map(len, example.texts))


def text_lengths(example: Example[object]) -> tuple[int, ...]:
    """Return the number of words in each text of an example."""
    return tuple(map(len, example.texts))


def split_batch(
    chosen: Sequence[int],
    lengths: Sequence[tuple[int, ...]],
    *,
    max_words: int,
    max_examples: int | None = None,
) -> Iterator[list[int]]:
    """Split a batch into micro-batches with a limited number of words, including padding.

    The chosen examples are grouped by similar length. The first texts of all examples are padded to
    the same length, and so on. A longer example is processed alone; by default, there is no limit
    of examples.
    """
    part: list[int] = []
    widths: tuple[int, ...] = ()
    for index in chosen:
        new_widths = tuple(map(max, zip_longest(widths, lengths[index], fillvalue=0)))
        if part and (sum(new_widths) * (len(part) + 1) > max_words or len(part) == max_examples):
            yield part
            part, new_widths = [], lengths[index]
        part.append(index)
        widths = new_widths
    if part:
        yield part


def token_batches(
    task: TrainedTask[Target, Answer, Output],
    indexer: TokenIndexer,
    examples: Sequence[Example[Target]],
    max_words: int,
) -> tuple[TokenBatch, ...]:
    """Return one token batch for each group of texts that are padded to the same length.

    Only the groups of a document, which is a micro-batch of its own, are limited to `max_words`
    with padding.
    """
    groups = task.text_groups(examples)
    if task.n_texts is None:
        groups = [block for group in groups for block in _blocks(group, max_words)]
    return tuple(
        indexer.batch(group.texts, group.indicators, group.text_indices) for group in groups
    )


def _blocks(group: TextGroup, max_words: int) -> Iterator[TextGroup]:
    """Split a group by length, so that short sentences are not padded to the longest one."""
    lengths = [(len(text),) for text in group.texts]
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for part in split_batch(order, lengths, max_words=max_words):
        indices = sorted(part)
        indicators = group.indicators and [group.indicators[index] for index in indices]
        yield TextGroup([group.texts[index] for index in indices], indicators, indices)


class TaskBatches(Generic[Target, Answer, Output]):
    """The training batches of a run, which can start at any step."""

    def __init__(
        self,
        examples: Sequence[Example[Target]],
        indexer: TokenIndexer,
        task: TrainedTask[Target, Answer, Output],
        label_ids: Mapping[str, int],
        *,
        batch_size: int,
        batch_words: int,
        seed: int,
    ) -> None:
        """Store the settings; batches of more than `batch_words` words are split."""
        self.examples = examples
        self.indexer = indexer
        self.task = task
        self.label_ids = label_ids
        self.batch_size = batch_size
        self.batch_words = batch_words
        self.seed = seed
        self.per_epoch = -(-len(examples) // batch_size)

    def from_step(self, step: int) -> Iterator[list[TaskBatch]]:
        """Yield batches indefinitely, starting at a step; each is a list of micro-batches."""
        total_lengths = list(map(n_words, self.examples))
        lengths = list(map(text_lengths, self.examples))
        epoch, first = divmod(step, self.per_epoch)
        while True:
            for chosen in epoch_order(total_lengths, self.batch_size, (self.seed, epoch))[first:]:
                total = self._weight(chosen)
                parts = split_batch(
                    chosen,
                    lengths,
                    max_words=self.batch_words,
                    max_examples=self.task.max_batch_examples,
                )
                yield [self._batch(part, self._weight(part) / total) for part in parts]
            epoch, first = epoch + 1, 0

    def _weight(self, chosen: Sequence[int]) -> float:
        return sum(self.task.weight(self.examples[index]) for index in chosen)

    def _batch(self, chosen: Sequence[int], share: float) -> TaskBatch:
        examples = [self.examples[index] for index in chosen]
        groups = token_batches(self.task, self.indexer, examples, self.batch_words)
        return TaskBatch(groups, self.task.targets(examples, self.label_ids), share)
