"""Many-to-one: classify a sequence by its last state, and pack unequal sequences by hand.

    output                               balanced?
                                             ^
    state     [GRU] --> [GRU] --> [GRU] --> [GRU]      [GRU] --> [GRU]    wrong: these steps read
                ^         ^         ^         ^          ^         ^      padding and change the
    input      "("       "["       "]"       ")"      padding   padding   state
               |------- real characters ------|

The network reads a string of brackets and only its last state is used: it says whether each bracket
is closed by one of its kind. The strings of a batch have different lengths, so that the short ones
are padded. Two problems follow.

1. The state at the last position of a short string is the state after its padding. The right one is
   the state after its last REAL character, at position length - 1 (`last_real_states`).
2. The states after padding are computed for nothing. Packing avoids this (`packed_by_hand`):

    padded       sorted by length      step  1 2 3 4 5 6    the first step has four rows, the third
    ()           (([]))                      ( ( [ ] ) )    two, the last one. After each step, the
    (([]))  -->  [()]            -->         [ ( ) ]        rows that have ended are left alone, so
    [()]         ()                          ( )            that their state is their last real one.
    []           []                          [ ]            At the end, the order is restored.

The output shows the accuracy with the right and the wrong state, then the number of computed
positions and the largest difference from the states of one string at a time.
"""

import random
from typing import NamedTuple

import torch
from building_blocks import Alphabet, Recurrent, last_real_states, run_from_command_line, train
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

BRACKETS = "()[]"
INPUT_DIM, HIDDEN_DIM = 16, 48


class Figures(NamedTuple):
    """Accuracies, and computed positions and largest differences by name of the method."""

    last_real: float
    last_position: float
    positions: dict[str, int]
    differences: dict[str, float]


def balanced(rng: random.Random, n_pairs: int) -> str:
    """Return a random balanced string: a pair around some pairs, followed by the other pairs."""
    if n_pairs == 0:
        return ""
    inside = rng.randint(0, n_pairs - 1)
    opening, closing = rng.choice([("(", ")"), ("[", "]")])
    return opening + balanced(rng, inside) + closing + balanced(rng, n_pairs - 1 - inside)


def example(rng: random.Random) -> tuple[str, int]:
    """Return a string and whether it is balanced; if not, one of its brackets was replaced."""
    text = balanced(rng, rng.randint(1, 8))
    if rng.random() < 0.5:
        return text, 1
    position = rng.randrange(len(text))
    others = BRACKETS.replace(text[position], "")
    return text[:position] + rng.choice(others) + text[position + 1 :], 0


class Classifier(nn.Module):
    """Embedding, recurrent layer, and two logits from one state."""

    def __init__(self, n_characters: int) -> None:
        """Create the layers."""
        super().__init__()
        self.embedding = nn.Embedding(n_characters, INPUT_DIM)
        self.recurrent = Recurrent(INPUT_DIM, HIDDEN_DIM)
        self.logits = nn.Linear(HIDDEN_DIM, 2)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the states at all positions of a padded batch."""
        states: Tensor = self.recurrent(self.embedding(ids))
        return states

    def step(self, ids: Tensor, h: Tensor) -> Tensor:
        """Return the state after one more character in each row."""
        states: Tensor = self.recurrent(self.embedding(ids).unsqueeze(0), h)
        return states[0]


def masked_steps(model: Classifier, ids: Tensor, lengths: Tensor) -> Tensor:
    """Return the last real states: each step computes all rows, and keeps those that have ended."""
    h = torch.zeros(len(lengths), HIDDEN_DIM)
    for position, characters in enumerate(ids):
        is_real = (position < lengths).unsqueeze(1)
        h = torch.where(is_real, model.step(characters, h), h)
    return h


def packed_by_hand(model: Classifier, ids: Tensor, lengths: Tensor) -> tuple[Tensor, list[int]]:
    """Return the last real states and the number of computed rows of each step."""
    # The longest first: the rows that are still active are then the first rows in each step.
    order = lengths.argsort(descending=True, stable=True)
    ids, lengths = ids[:, order], lengths[order]
    h = torch.zeros(len(lengths), HIDDEN_DIM)
    sizes = []
    for position, characters in enumerate(ids):
        active = int((lengths > position).sum())
        new = model.step(characters[:active], h[:active])
        h = torch.cat([new, h[active:]])  # the rows that have ended keep their state
        sizes.append(active)
    # Row i of the sorted batch was row order[i]; the inverse of this permutation undoes it.
    return h[order.argsort()], sizes


def packed_by_pytorch(model: Classifier, ids: Tensor, lengths: Tensor) -> tuple[Tensor, list[int]]:
    """Return the same from `nn.GRU` with the same weights, for a packed sequence."""
    gru, layer = nn.GRU(INPUT_DIM, HIDDEN_DIM), model.recurrent.layer
    gru.load_state_dict({f"{name}_l0": value for name, value in layer.state_dict().items()})
    packed = pack_padded_sequence(model.embedding(ids), lengths, enforce_sorted=False)
    _, h = gru(packed)
    return h[0], packed.batch_sizes.tolist()


def main(steps: int = 400, seed: int = 1) -> Figures:
    """Train a classifier and compare ways to compute the last states of a padded batch."""
    torch.manual_seed(seed)
    rng = random.Random(seed)
    held_out = [example(rng) for _ in range(500)]
    alphabet = Alphabet(BRACKETS)
    model = Classifier(len(alphabet))

    def batch_loss() -> Tensor:
        drawn = [example(rng) for _ in range(80)]
        texts, labels = zip(*[pair for pair in drawn if pair not in held_out], strict=True)
        ids, lengths = alphabet.batch(texts)
        logits = model.logits(last_real_states(model(ids), lengths))
        return functional.cross_entropy(logits, torch.tensor(labels))

    train(model, batch_loss, steps)
    texts, labels = zip(*held_out, strict=True)
    ids, lengths = alphabet.batch(texts)
    n_real, n_padded = int(lengths.sum()), ids.numel()
    with torch.no_grad():
        reference = torch.cat([model(alphabet.encode(text).unsqueeze(1))[-1] for text in texts])
        states = model(ids)
        packed, sizes = packed_by_hand(model, ids, lengths)
        pytorch, pytorch_sizes = packed_by_pytorch(model, ids, lengths)
        methods = {
            "one string at a time": (n_real, reference),
            "padded, last real state": (n_padded, last_real_states(states, lengths)),
            "padded, masked steps": (n_padded, masked_steps(model, ids, lengths)),
            "packed by hand": (sum(sizes), packed),
            "packed by PyTorch": (sum(pytorch_sizes), pytorch),
            "padded, last position": (n_padded, states[-1]),
        }
        right = [model.logits(h).argmax(1) == torch.tensor(labels) for _, h in methods.values()]
    figures = Figures(
        last_real=right[1].float().mean().item(),
        last_position=right[-1].float().mean().item(),
        positions={name: positions for name, (positions, _) in methods.items()},
        differences={name: (h - reference).abs().max().item() for name, (_, h) in methods.items()},
    )
    print(f"accuracy from the last real state:    {figures.last_real:.1%}")
    print(f"accuracy from the last position:      {figures.last_position:.1%}")
    print(f"rows of each step, packed by hand:    {sizes}")
    print(f"rows of each step, packed by PyTorch: {pytorch_sizes}")
    print("method                     positions  largest difference")
    for name, positions in figures.positions.items():
        print(f"{name:26} {positions:9,}  {figures.differences[name]:.1e}")
    return figures


if __name__ == "__main__":
    run_from_command_line(main)
