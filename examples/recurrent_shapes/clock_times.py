"""One-to-many: write a phrase for a label, here a time of day.

    output                "ten"      "past"     "three"     <end>
                            ^          ^           ^          ^
    state     label ----> [GRU] ---> [GRU] ----> [GRU] ---> [GRU]
              3:10          ^          ^           ^          ^
    input                <start>     "ten"      "past"     "three"

The label is read once: its vector is the state before the first step. From then on, the network
reads the words that it has written itself. In training it reads the words of the right phrase
instead (teacher forcing), so that all steps of a phrase are computed in one call.

Most times have two phrases, "three ten" and "ten past three". Greedy output takes the most likely
word at each step and always writes the same one of the two. Sampled output draws each word from the
probabilities and writes both, about equally often, as in the training phrases. It makes more
errors, because it also draws unlikely words.

A fifth of the 720 times is held out: the network must combine an hour and a minute that it has only
seen separately. The output shows how many of its phrases are correct for their time.
"""

import random
from typing import NamedTuple

import torch
from building_blocks import Alphabet, Recurrent, run_from_command_line, train
from torch import Tensor, nn
from torch.nn import functional

ONES = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
ONES += " sixteen seventeen eighteen nineteen"
TENS = "twenty thirty forty fifty"
WORDS = [*ONES.split(), *TENS.split(), "oh", "quarter", "half", "past", "to", "o'clock"]
START, END = "<start>", "<end>"
MAX_WORDS = 6


class Figures(NamedTuple):
    """Fraction of correct phrases for held-out times, and of samples of the form "ten past"."""

    greedy: float
    sampled: float
    past_or_to: float


def spell(number: int) -> str:
    """Return the words of a number from 1 to 59."""
    if number < 20:
        return ONES.split()[number - 1]
    tens = TENS.split()[number // 10 - 2]
    return f"{tens} {spell(number % 10)}" if number % 10 else tens


def phrases(hour: int, minute: int) -> list[str]:
    """Return the correct phrases of a time."""
    if minute == 0:
        return [f"{spell(hour)} o'clock"]
    digits = f"{spell(hour)} {'oh ' if minute < 10 else ''}{spell(minute)}"
    distance = min(minute, 60 - minute)
    spoken = {15: "quarter", 30: "half"}.get(distance) or spell(distance)
    relative = f"past {spell(hour)}" if minute <= 30 else f"to {spell(hour % 12 + 1)}"
    return [digits, f"{spoken} {relative}"]


class Writer(nn.Module):
    """Writes words from a label."""

    def __init__(self, n_words: int) -> None:
        """Create the layers."""
        super().__init__()
        self.hours, self.minutes = nn.Embedding(13, 32), nn.Embedding(60, 32)
        self.state = nn.Linear(64, 96)
        self.embedding = nn.Embedding(n_words, 32)
        self.recurrent = Recurrent(32, 96)
        self.logits = nn.Linear(96, n_words)

    def first_state(self, labels: Tensor) -> Tensor:
        """Return the states of labels (batch, 2) before the first word."""
        parts = [self.hours(labels[:, 0]), self.minutes(labels[:, 1])]
        return torch.tanh(self.state(torch.cat(parts, 1)))

    def forward(self, words: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of the next words (time, batch, words) and the last state."""
        states = self.recurrent(self.embedding(words), h)
        return self.logits(states), states[-1]


@torch.no_grad()
def write(model: Writer, alphabet: Alphabet, labels: Tensor, sample: bool) -> list[str]:
    """Return a phrase for each label, greedy or sampled."""
    h = model.first_state(labels)
    words = torch.full((1, len(labels)), alphabet.ids[START])
    written = []
    for _ in range(MAX_WORDS):
        logits, h = model(words, h)
        words = logits.argmax(2)
        if sample:
            words = torch.multinomial(logits[0].softmax(1), 1).t()
        written.append([alphabet.symbols[number] for number in words[0]])
    # Each row ends at its first end symbol; what it writes after that is not read.
    return [" ".join(row).split(f" {END}")[0] for row in zip(*written, strict=True)]


def main(steps: int = 600, seed: int = 1) -> Figures:
    """Train on 576 times and write phrases for the other 144."""
    torch.manual_seed(seed)
    rng = random.Random(seed)
    times = [(hour, minute) for hour in range(1, 13) for minute in range(60)]
    rng.shuffle(times)
    held_out, known = times[:144], times[144:]
    alphabet = Alphabet([*WORDS, START, END])
    model = Writer(len(alphabet))

    def batch_loss() -> Tensor:
        labels = rng.choices(known, k=64)
        texts = [[START, *rng.choice(phrases(*label)).split(), END] for label in labels]
        words, _ = alphabet.batch(texts)
        logits, _ = model(words[:-1], model.first_state(torch.tensor(labels)))
        return functional.cross_entropy(logits.flatten(0, 1), words[1:].flatten(), ignore_index=0)

    train(model, batch_loss, steps)
    labels = torch.tensor(held_out)
    greedy = write(model, alphabet, labels, sample=False)
    samples = [write(model, alphabet, labels, sample=True) for _ in range(5)]
    for number in range(4):
        hour, minute = held_out[number]
        print(f"{hour}:{minute:02}  greedy: {greedy[number]}")
        print(f"       samples: {'; '.join(texts[number] for texts in samples)}")

    def correct(texts: list[str]) -> float:
        good = [text in phrases(*time) for text, time in zip(texts, held_out, strict=True)]
        return sum(good) / len(good)

    written = [text for texts in samples for text in texts]
    relative = sum(" past " in text or " to " in text for text in written) / len(written)
    figures = Figures(correct(greedy), sum(map(correct, samples)) / len(samples), relative)
    print(f"correct phrases of held-out times: greedy {figures.greedy:.1%}, ", end="")
    print(
        f"sampled {figures.sampled:.1%}; with past or to: {figures.past_or_to:.1%} of the samples"
    )
    return figures


if __name__ == "__main__":
    run_from_command_line(main)
