"""Many-to-many with delay: an encoder-decoder that normalizes dates, with and without attention.

    output                                "1"       "9"       "9"       ...
                                           ^         ^         ^
    [enc] -> [enc] -> ... -> [enc] ----> [dec] --> [dec] --> [dec] --> ...
      ^        ^               ^           ^         ^         ^
     "3"      " "             "8"       <start>     "1"       "9"

The output, "1998-03-03", begins after the whole input, "3 March 1998", has been read, because its
first character depends on the end of the input. The last state of the encoder is the first state of
the decoder, which then writes as in the one-to-many shape. The encoder consists of two GRUs, one
for each direction: its state at the "1" of "10 March" must know what follows.

Teacher forcing: in training, the decoder reads the characters of the right output, not those that
it would write. An early error does not spoil the rest, and all steps are computed in one call. When
the trained model is used, it reads its own output, step by step (`write`).

Without attention, all that the decoder knows of the input is one vector. With attention, each step
also looks back: it compares its state with the states of the encoder at all positions, and reads
their average, weighted by similarity. Padding has the weight 0.

    decoder state --compare--> weights of the input positions --average--> context --> output

The output shows the fraction of held-out dates without error, after the same number of steps, and
the input character with the largest weight for each output character.
"""

import random
from datetime import date, timedelta
from typing import NamedTuple

import torch
from building_blocks import (
    PADDING,
    Alphabet,
    Recurrent,
    last_real_states,
    run_from_command_line,
    train,
)
from torch import Tensor, nn
from torch.nn import functional

FORMATS = ["{d} {month} {y}", "{month} {d}, {y}", "{d:02}.{m:02}.{y}", "{m}/{d}/{y}"]
FORMATS += ["{weekday}, {d} {mon} {y}", "{y}, {mon} {d}", "{mon} {d} '{yy:02}", "{d}-{mon}-{y}"]
START = "<"
# A hundred years, so that two digits of a year are enough.
FIRST_DAY = date(1950, 1, 1)
N_DAYS = (date(2050, 1, 1) - FIRST_DAY).days
N_HELD_OUT = 500


class Figures(NamedTuple):
    """Fractions of held-out dates without error."""

    without_attention: float
    with_attention: float


def random_format(day: date, rng: random.Random) -> str:
    """Return a date in one of the formats."""
    return rng.choice(FORMATS).format(
        d=day.day, m=day.month, y=day.year, yy=day.year % 100,
        month=f"{day:%B}", mon=f"{day:%b}", weekday=f"{day:%A}",
    )  # fmt: skip


def reversed_sequences(x: Tensor, lengths: Tensor) -> Tensor:
    """Return sequences (time, batch, dim) from the last to the first step; padding stays behind."""
    steps = torch.arange(len(x)).unsqueeze(1)
    return x[(lengths - 1 - steps) % len(x), torch.arange(len(lengths))]


class Translator(nn.Module):
    """Encoder and decoder."""

    def __init__(self, n_inputs: int, n_outputs: int, attention: bool, dim: int = 64) -> None:
        """Create the layers."""
        super().__init__()
        self.attention = attention
        self.input_embedding = nn.Embedding(n_inputs, 24)
        self.forward_encoder = Recurrent(24, dim // 2)
        self.backward_encoder = Recurrent(24, dim // 2)
        self.output_embedding = nn.Embedding(n_outputs, 24)
        self.decoder = Recurrent(24, dim)
        self.query = nn.Linear(dim, dim, bias=False)
        self.combined = nn.Linear(2 * dim, dim)
        self.logits = nn.Linear(dim, n_outputs)

    def encode(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states at all input positions and the state after the last character."""
        vectors = self.input_embedding(ids)
        forward = self.forward_encoder(vectors)
        backward = self.backward_encoder(reversed_sequences(vectors, lengths))
        last = [last_real_states(states, lengths) for states in (forward, backward)]
        states = [forward, reversed_sequences(backward, lengths)]
        return torch.cat(states, 2), torch.cat(last, 1)

    def decode(
        self, outputs: Tensor, h: Tensor, encoded: Tensor, is_real: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run the decoder for one or more steps.

        Args:
            outputs: Previous characters, (steps, batch).
            h: State before the first of these steps.
            encoded: States of the encoder, (time, batch, dim).
            is_real: Whether an input position is not padding, (time, batch).

        Returns:
            Logits of the next characters, last state, and attention weights (batch, steps, time).
        """
        states = self.decoder(self.output_embedding(outputs), h)
        # From here on the batch comes first: (batch, steps, time).
        scores = self.query(states).transpose(0, 1) @ encoded.permute(1, 2, 0)
        weights = scores.masked_fill(~is_real.t().unsqueeze(1), -torch.inf).softmax(2)
        context = (weights @ encoded.transpose(0, 1)).transpose(0, 1)
        if not self.attention:
            context = torch.zeros_like(context)
        combined = torch.tanh(self.combined(torch.cat([states, context], 2)))
        return self.logits(combined), states[-1], weights


@torch.no_grad()
def write(model: Translator, ids: Tensor, lengths: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """Return the greedy output (10, batch) and the attention weights (batch, 10, time)."""
    encoded, h = model.encode(ids, lengths)
    outputs, weights = [torch.full((1, len(lengths)), start)], []
    for _ in range(len("1998-03-03")):
        logits, h, step_weights = model.decode(outputs[-1], h, encoded, ids != PADDING)
        outputs.append(logits.argmax(2))
        weights.append(step_weights)
    return torch.cat(outputs[1:]), torch.cat(weights, 1)


def main(steps: int = 400, seed: int = 1) -> Figures:
    """Train both models on the same dates and compare them on other dates."""
    days = [FIRST_DAY + timedelta(number) for number in range(N_DAYS)]
    random.Random(seed).shuffle(days)
    held_out = days[:N_HELD_OUT]
    texts = [random_format(day, random.Random(number)) for number, day in enumerate(held_out)]
    names = "".join(f"{date(2000, month, month):%B%A}" for month in range(1, 13))
    inputs = Alphabet(sorted(set(names + "0123456789 ,./-'")))
    outputs = Alphabet("0123456789-" + START)
    ids, lengths = inputs.batch(texts)
    accuracies = []
    for attention in (False, True):
        print("with attention" if attention else "without attention")
        torch.manual_seed(seed)
        rng = random.Random(seed)
        model = Translator(len(inputs), len(outputs), attention)

        def batch_loss(model: Translator = model, rng: random.Random = rng) -> Tensor:
            batch = rng.choices(days[N_HELD_OUT:], k=32)
            ids, lengths = inputs.batch([random_format(day, rng) for day in batch])
            targets, _ = outputs.batch([START + day.isoformat() for day in batch])
            encoded, h = model.encode(ids, lengths)
            logits, _, _ = model.decode(targets[:-1], h, encoded, ids != PADDING)
            return functional.cross_entropy(logits.flatten(0, 1), targets[1:].flatten())

        train(model, batch_loss, steps, learning_rate=0.003)
        written, weights = write(model, ids, lengths, outputs.ids[START])
        rows = ["".join(outputs.symbols[number] for number in row) for row in written.t()]
        right = [row == day.isoformat() for row, day in zip(rows, held_out, strict=True)]
        accuracies.append(sum(right) / len(right))
        for number in range(4):
            print(f"  {texts[number]:24} {rows[number]}{'' if right[number] else '  wrong'}")
    attended = "".join(texts[0][position] for position in weights[0].argmax(1))
    print(f"  {'output of the first date':24} {rows[0]}\n  {'looking at':24} {attended}")
    figures = Figures(*accuracies)
    print(f"held-out dates without error, without attention: {figures.without_attention:.1%}")
    print(f"held-out dates without error, with attention: {figures.with_attention:.1%}")
    return figures


if __name__ == "__main__":
    run_from_command_line(main)
