"""A small text with a learnable structure, and flags of a training run that takes seconds."""

import random

# Flags of a tiny model.
SMALL = {
    "filters": "[[1, 4], [2, 8]]",
    "n-highway": "1",
    "character-dim": "4",
    "max-characters": "10",
    "cell-dim": "16",
    "projection-dim": "8",
    "batch-size": "4",
    "unroll": "5",
    "log-every": "1",
}


def sentences(count, seed=1):
    """Yield sentences drawn from a small grammar."""
    draw = random.Random(seed)
    names, verbs = ["anna", "bert", "clara"], ["sees", "hears", "likes"]
    things = ["cats", "dogs", "trees", "boats", "houses"]
    for _ in range(count):
        extra = draw.choice([[], ["and", draw.choice(things)]])
        yield [draw.choice(names), draw.choice(verbs), draw.choice(things), *extra, "."]


def write_text(path, count=200, seed=1):
    path.write_text("".join(" ".join(s) + "\n" for s in sentences(count, seed)), encoding="utf-8")
    return path
