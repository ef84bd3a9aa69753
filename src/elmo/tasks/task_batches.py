"""Examples in batches: shuffled anew in each epoch, those of like length side by side.

A step learns from a number of examples, whatever their lengths, so that the steps of an epoch can
be counted. What is computed at a time is bounded by words: a step may be taken in parts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
import torch
from torch import Tensor

from elmo.kernels.device import to_device
from elmo.tasks.examples import Example
from elmo.tasks.input_features import TokenBatch, TokenIndexer
from elmo.tasks.task_types.task import Task, TextGroup

# Batches whose examples are put in order of length together: enough to waste little on padding,
# few enough for each epoch to meet other neighbours.
POOL = 32


@dataclass(frozen=True)
class TaskBatch:
    """Examples that are computed together.

    Attributes:
        groups: words as numbers, of each group of texts.
        targets: as the kind of task gives them.
        share: what it counts in the loss of its step.
    """

    groups: tuple[TokenBatch, ...]
    targets: Tensor
    share: float = 1.0

    def to(self, device: torch.device) -> "TaskBatch":
        """Move everything."""
        groups = tuple(group.to(device) for group in self.groups)
        return TaskBatch(groups, to_device(self.targets, device), self.share)


def epoch_order(lengths: Sequence[int], batch_size: int, seed: Sequence[int]) -> list[list[int]]:
    """Give the numbers of the examples of each batch of an epoch.

    Args:
        lengths: words of each example.
        batch_size: examples of a batch; the last one may have fewer.
        seed: decides the order.
    """
    generator = np.random.default_rng(list(seed))
    order = generator.permutation(len(lengths))
    batches: list[list[int]] = []
    for start in range(0, len(order), POOL * batch_size):
        pool = sorted(order[start : start + POOL * batch_size].tolist(), key=lengths.__getitem__)
        batches += [pool[at : at + batch_size] for at in range(0, len(pool), batch_size)]
    return [batches[place] for place in generator.permutation(len(batches))]


def n_words(example: Example) -> int:
    """Give the words of all texts of an example."""
    return sum(map(len, example.texts))


def sizes_of(example: Example) -> tuple[int, ...]:
    """Give the words of each text of an example."""
    return tuple(map(len, example.texts))


def in_parts(
    chosen: Sequence[int],
    sizes: Sequence[tuple[int, ...]],
    *,
    words: int,
    most: int | None = None,
) -> Iterator[list[int]]:
    """Cut a batch where, padding and all, it would hold too many words.

    Args:
        chosen: numbers of its examples, those of like length side by side.
        sizes: words of each text of each example; those of one place are padded together.
        words: of a part at most; an example with more is a part of its own.
        most: examples of a part; any number where None.
    """
    part: list[int] = []
    widest: tuple[int, ...] = ()
    for number in chosen:
        wider = tuple(map(max, zip_longest(widest, sizes[number], fillvalue=0)))
        if part and (sum(wider) * (len(part) + 1) > words or len(part) == most):
            yield part
            part, wider = [], sizes[number]
        part.append(number)
        widest = wider
    if part:
        yield part


def grouped(
    kind: Task, fields: TokenIndexer, examples: Sequence[Example], words: int
) -> tuple[TokenBatch, ...]:
    """Make numbers of the texts of examples, by the groups that are padded together.

    Args:
        kind: of task, which says what the groups are.
        fields: makes the numbers.
        examples: no more than fit, but for one alone, which may be a document.
        words: of a block of a document's sentences at most, padding and all.
    """
    groups = kind.text_groups(examples)
    if kind.has_sentences:
        groups = [block for group in groups for block in _blocks(group, words)]
    return tuple(
        fields.batch(group.texts, group.indicators, group.text_indices) for group in groups
    )


def _blocks(group: TextGroup, words: int) -> Iterator[TextGroup]:
    """Cut a group, so that a long sentence among many short ones does not pad them all."""
    sizes = [(len(text),) for text in group.texts]
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    for part in in_parts(order, sizes, words=words):
        numbers = sorted(part)
        marks = group.indicators and [group.indicators[number] for number in numbers]
        yield TextGroup([group.texts[number] for number in numbers], marks, numbers)


class Batches:
    """All batches of a run, from any step on."""

    def __init__(
        self,
        examples: Sequence[Example],
        fields: TokenIndexer,
        kind: Task,
        numbers: Mapping[str, int],
        *,
        batch_size: int,
        batch_words: int,
        seed: int,
    ) -> None:
        """Take the examples of a run.

        Args:
            examples: to learn from.
            fields: makes numbers of words.
            kind: makes numbers of targets.
            numbers: of labels.
            batch_size: examples of a batch.
            batch_words: words of a part of it at most.
            seed: of the run.
        """
        self.examples = examples
        self.fields = fields
        self.kind = kind
        self.numbers = numbers
        self.batch_size = batch_size
        self.batch_words = batch_words
        self.seed = seed
        self.per_epoch = -(-len(examples) // batch_size)

    def from_step(self, step: int) -> Iterator[list[TaskBatch]]:
        """Give batches from a step on, in their parts, without an end."""
        lengths = list(map(n_words, self.examples))
        sizes = list(map(sizes_of, self.examples))
        epoch, first = divmod(step, self.per_epoch)
        while True:
            for chosen in epoch_order(lengths, self.batch_size, (self.seed, epoch))[first:]:
                whole = self._weight(chosen)
                parts = in_parts(
                    chosen, sizes, words=self.batch_words, most=self.kind.max_batch_examples
                )
                yield [self._batch(part, self._weight(part) / whole) for part in parts]
            epoch, first = epoch + 1, 0

    def _weight(self, chosen: Sequence[int]) -> float:
        return sum(self.kind.weight(self.examples[number]) for number in chosen)

    def _batch(self, chosen: Sequence[int], share: float) -> TaskBatch:
        examples = [self.examples[number] for number in chosen]
        groups = grouped(self.kind, self.fields, examples, self.batch_words)
        return TaskBatch(groups, self.kind.targets(examples, self.numbers), share)
