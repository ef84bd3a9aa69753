"""Examples in batches: shuffled anew in each epoch, those of like length side by side."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from elmo.tasks.examples import Example
from elmo.tasks.kinds import Kind
from elmo.tasks.tokens import TokenBatch, TokenFields

# Batches whose examples are put in order of length together: enough to waste little on padding,
# few enough for each epoch to meet other neighbours.
POOL = 32


@dataclass(frozen=True)
class TaskBatch:
    """What a step learns from.

    Attributes:
        tokens: words as numbers.
        targets: as the kind of task gives them.
    """

    tokens: TokenBatch
    targets: Tensor

    def to(self, device: torch.device) -> "TaskBatch":
        """Move everything."""
        return TaskBatch(self.tokens.to(device), self.targets.to(device))


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


class Batches:
    """All batches of a run, from any step on."""

    def __init__(
        self,
        examples: Sequence[Example],
        fields: TokenFields,
        kind: Kind,
        numbers: Mapping[str, int],
        *,
        batch_size: int,
        seed: int,
    ) -> None:
        """Take the examples of a run.

        Args:
            examples: to learn from.
            fields: makes numbers of words.
            kind: makes numbers of targets.
            numbers: of labels.
            batch_size: examples of a batch.
            seed: of the run.
        """
        self.examples = examples
        self.fields = fields
        self.kind = kind
        self.numbers = numbers
        self.batch_size = batch_size
        self.seed = seed
        self.per_epoch = -(-len(examples) // batch_size)

    def from_step(self, step: int) -> Iterator[TaskBatch]:
        """Give batches from a step on, without an end."""
        lengths = [len(example.words) for example in self.examples]
        epoch, first = divmod(step, self.per_epoch)
        while True:
            for chosen in epoch_order(lengths, self.batch_size, (self.seed, epoch))[first:]:
                examples = [self.examples[number] for number in chosen]
                tokens = self.fields.batch([example.words for example in examples])
                yield TaskBatch(tokens, self.kind.targets(examples, self.numbers))
            epoch, first = epoch + 1, 0
