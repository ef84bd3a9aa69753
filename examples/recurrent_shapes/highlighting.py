"""Many-to-many in step: one tag per character, here the coloring of program code.

    tag        code        code       string      string      string
                ^           ^           ^           ^           ^
    state     [GRU] ----> [GRU] ----> [GRU] ----> [GRU] ----> [GRU] ----> ...
                ^           ^           ^           ^           ^
    input      "x"         "="         '"'         "#"         '"'

Each step reads a character and returns the tag of this character: code (shown as "."), string ("s")
or comment ("c"). The output has the length of the input, so training needs no decoding loop.

The tags need memory. A quotation mark begins a string, or ends it, or is part of a comment, or of a
string if it follows a backslash; a "#" begins a comment, but not inside a string; and any other
character has the tag of its context. The same network without an arrow from step to step can only
learn the most frequent tag of each character. Padding has no tag: loss and accuracy ignore it.

The output shows a line of held-out code with its tags, the fraction of correct tags, and the
fraction of lines without a wrong tag, for both networks.
"""

import random
from typing import NamedTuple

import torch
from building_blocks import PADDING, Alphabet, Recurrent, run_from_command_line, train
from torch import Tensor, nn
from torch.nn import functional

CHARACTERS = 'abcdefghijklmnopqrstuvwxyz0123456789 =+()"#\\'
TAGS = ".sc"  # code, string, comment
STRING_WORDS, COMMENT_WORDS = ["#", '\\"', "="], ['"', "#", "="]


class Figures(NamedTuple):
    """Fractions of correct tags and correct lines in held-out code."""

    tags: float
    lines: float
    tags_without_memory: float
    lines_without_memory: float


def random_words(rng: random.Random, special: list[str]) -> str:
    """Return one to three words, some of which are special."""
    words = ["".join(rng.choices(CHARACTERS[:26], k=rng.randint(1, 5))) for _ in range(5)]
    return " ".join(rng.choices(words + special, k=rng.randint(1, 3)))


def random_line(rng: random.Random) -> tuple[str, str]:
    """Return a line of code and its tags."""
    parts = [(rng.choice(CHARACTERS[:26]) + " = ", ".")]
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.6:
            parts.append((f'"{random_words(rng, STRING_WORDS)}"', "s"))
        else:
            parts.append((f"f({rng.randint(0, 99)})", "."))
        parts.append((rng.choice([" + ", "+", " "]), "."))
    if rng.random() < 0.5:
        parts.append((f"# {random_words(rng, COMMENT_WORDS)}", "c"))
    text = "".join(part for part, _ in parts)
    return text, "".join(tag * len(part) for part, tag in parts)


class Tagger(nn.Module):
    """Returns the logits of one tag per character, with or without a recurrent layer."""

    def __init__(self, n_characters: int, n_tags: int, memory: bool) -> None:
        """Create the layers."""
        super().__init__()
        self.embedding = nn.Embedding(n_characters, 16)
        self.hidden: nn.Module = Recurrent(16, 32) if memory else nn.Linear(16, 32)
        self.logits = nn.Linear(32, n_tags)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the logits (time, batch, tags) for ids (time, batch)."""
        logits: Tensor = self.logits(self.hidden(self.embedding(ids)))
        return logits


def main(steps: int = 200, seed: int = 1) -> Figures:
    """Train a tagger with and one without memory."""
    torch.manual_seed(seed)
    rng = random.Random(seed)
    characters, tags = Alphabet(CHARACTERS), Alphabet(TAGS)
    held_out = [random_line(rng) for _ in range(500)]

    def padded(lines: list[tuple[str, str]]) -> tuple[Tensor, Tensor]:
        texts, tag_lines = zip(*lines, strict=True)
        return characters.batch(texts)[0], tags.batch(tag_lines)[0]

    models = []
    for memory in (True, False):
        print("GRU" if memory else "no memory")
        model = Tagger(len(characters), len(tags), memory)

        def batch_loss(model: Tagger = model) -> Tensor:
            lines = [random_line(rng) for _ in range(32)]
            ids, targets = padded([line for line in lines if line not in held_out])
            logits = model(ids).flatten(0, 1)
            return functional.cross_entropy(logits, targets.flatten(), ignore_index=PADDING)

        train(model, batch_loss, steps)
        models.append(model)

    ids, targets = padded(held_out)
    shown = next(i for i, (text, tag) in enumerate(held_out) if '\\"' in text and "c" in tag)
    text, expected = held_out[shown]
    print(f"line         {text}\nexpected     {expected}")
    values = []
    for name, model in zip(("GRU", "no memory"), models, strict=True):
        with torch.no_grad():
            predicted = model(ids)[:, :, 1:].argmax(2) + 1  # tags only, not padding
        wrong = (predicted != targets) & (targets != PADDING)
        values += [1 - (wrong.sum() / (targets != PADDING).sum()).item()]
        values += [1 - wrong.any(0).float().mean().item()]
        print(f"{name:12} {''.join(tags.symbols[i] for i in predicted[: len(text), shown])}")
    figures = Figures(*values)
    print(f"held-out code, GRU: {figures.tags:.2%} of the tags, {figures.lines:.1%} of the lines")
    print(
        f"held-out code, no memory: {figures.tags_without_memory:.2%} of the tags, "
        f"{figures.lines_without_memory:.1%} of the lines"
    )
    return figures


if __name__ == "__main__":
    run_from_command_line(main)
