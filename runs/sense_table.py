"""Whether a model tells ten ambiguous words apart by their nearest occurrences in context.

    python runs/sense_table.py MODEL [--layer 2] [--random] [--show]

For each word and sense the share of its fifteen occurrences most of whose three nearest
occurrences of the word mean the same. A word is told apart where that holds for more than half of
the occurrences of both senses. Stricter: for the first sentence of each sense alone, most of its
three nearest, or the nearest.
"""

import argparse

from elmo import ELMo
from elmo.demo.sense_neighbors import (
    are_distinguished,
    n_distinguished,
    nearest_occurrences,
    occurrences,
)


def main() -> None:
    """Print a table, and the neighbours of the first sentence of each sense if asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--layer", type=int, help="the last one where none is named")
    parser.add_argument("--random", action="store_true", help="random weights too")
    parser.add_argument("--show", action="store_true", help="neighbours of each sense's first")
    given = parser.parse_args()
    elmo = ELMo.from_pretrained(given.model)
    layer = elmo.config.n_layers - 1 if given.layer is None else given.layer
    found = nearest_occurrences(elmo, occurrences(), layer=layer)
    shares = are_distinguished(found)
    print(f"layer {layer}\n\n| word | first sense | second sense |\n| --- | --- | --- |")
    for word, senses in shares.items():
        print(f"| {word} | " + " | ".join(f"{s} {x:.0%}" for s, x in senses.items()) + " |")
    nearest = sum(one.nearest[0][0].sense == one.query.sense for one in found) / len(found)
    print(
        f"\n{n_distinguished(shares)} of {len(shares)} words are told apart; the nearest is right for "
        f"{nearest:.0%}"
    )
    firsts = {(item.query.word, item.query.sense): item for item in reversed(found)}
    for name, n_asked in (("most of the three nearest", 3), ("the nearest", 1)):
        wrong = {
            word
            for (word, sense), item in firsts.items()
            if 2 * sum(one.sense == sense for one, _ in item.nearest[:n_asked]) <= n_asked
        }
        n_right = len(shares) - len(wrong)
        print(f"{n_right} of {len(shares)} by the first sentence of each sense alone, {name}")
    if given.random:
        from probe import random_twin

        twin = are_distinguished(nearest_occurrences(random_twin(elmo), occurrences(), layer=layer))
        print(f"{n_distinguished(twin)} of {len(twin)} with random weights")
    if given.show:
        print("", *reversed(firsts.values()), sep="\n")


if __name__ == "__main__":
    main()
