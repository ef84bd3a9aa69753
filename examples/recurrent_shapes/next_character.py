"""One-to-one: predict the next character from the current one, without recurrence.

    output     p(next)      p(next)      p(next)
                  ^            ^            ^
    network     table        table        table        no arrow from step to step
                  ^            ^            ^
    input        "b"          "a"          "n"

This is the baseline of the other shapes. The network is one layer: the row of the current character
in a table of logits. It is trained like the others, but there is a direct way to the same result:
count how often each character follows each other character. The counts minimize the loss on the
training text, so the trained network can only reach their loss, not improve on it.

A GRU that reads the same characters carries a state from step to step. Its loss is much lower: what
follows "n" depends on the characters before "n". The difference is the value of a memory.

The output shows the loss in nats per character, on the training text and on held-out text, and the
most likely successors of some characters according to the counts and to the table.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from building_blocks import Alphabet, Recurrent, run_from_command_line, train
from torch import Tensor, nn
from torch.nn import functional

from elmo.demo.toy_corpus import town

BATCH, SEGMENT = 32, 32


class Figures(NamedTuple):
    """Losses in nats per character."""

    counts_train: float
    table_train: float
    counts: float
    table: float
    recurrent: float


class WithState(nn.Module):
    """The same task with a recurrent layer between the character and the logits."""

    def __init__(self, n_characters: int) -> None:
        """Create the layers."""
        super().__init__()
        self.embedding = nn.Embedding(n_characters, 16)
        self.recurrent = Recurrent(16, 64)
        self.logits = nn.Linear(64, n_characters)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the logits of the next characters."""
        logits: Tensor = self.logits(self.recurrent(self.embedding(ids)))
        return logits


def text_loss(model: Callable[[Tensor], Tensor], ids: Tensor) -> Tensor:
    """Return the loss of ids (time, batch): each one but the last predicts the one after it."""
    return functional.cross_entropy(model(ids[:-1]).flatten(0, 1), ids[1:].flatten())


def main(steps: int = 250, seed: int = 1) -> Figures:
    """Compare counts, a trained table and a GRU."""
    torch.manual_seed(seed)
    sentences = list(town(1500, seed=seed))
    new = [sentence for sentence in town(300, seed=seed + 1) if sentence not in sentences]
    text = "\n".join(sentences)
    alphabet = Alphabet(sorted(set(text)))
    ids, held_out = alphabet.encode(text), alphabet.encode("\n".join(new))
    n = len(alphabet)

    # Counts of all pairs. The smoothing, far below one occurrence, keeps unseen pairs possible.
    counts = torch.zeros(n, n).index_put_((ids[:-1], ids[1:]), torch.tensor(1.0), accumulate=True)
    log_counts = (counts + 0.01).log()

    def counted(current: Tensor) -> Tensor:
        return log_counts[current]

    def batch() -> Tensor:
        starts = torch.randint(len(ids) - SEGMENT, (BATCH,))
        return ids[starts + torch.arange(SEGMENT + 1).unsqueeze(1)]

    print("one-to-one: a table")
    table = nn.Embedding(n, n)
    nn.init.zeros_(table.weight)  # all characters are equally likely at first
    train(table, lambda: text_loss(table, batch()), steps, learning_rate=0.3)
    print("with a state: a GRU")
    recurrent = WithState(n)
    train(recurrent, lambda: text_loss(recurrent, batch()), steps)

    with torch.no_grad():
        train_column, held_out_column = ids.unsqueeze(1), held_out.unsqueeze(1)
        figures = Figures(
            counts_train=text_loss(counted, train_column).item(),
            table_train=text_loss(table, train_column).item(),
            counts=text_loss(counted, held_out_column).item(),
            table=text_loss(table, held_out_column).item(),
            recurrent=text_loss(recurrent, held_out_column).item(),
        )
    print(f"training text: counts {figures.counts_train:.3f}, table {figures.table_train:.3f}")
    print(
        f"held-out text: counts {figures.counts:.3f}, table {figures.table:.3f}, "
        f"GRU {figures.recurrent:.3f}"
    )
    for character in "nkr":
        row = alphabet.ids[character]
        best = [
            "".join(alphabet.symbols[number] for number in logits[row].topk(4).indices)
            for logits in (log_counts, table.weight)
        ]
        print(f"after {character!r}: counts {best[0]!r}, table {best[1]!r}")
    return figures


if __name__ == "__main__":
    run_from_command_line(main)
