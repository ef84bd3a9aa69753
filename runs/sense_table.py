"""Check whether a model distinguishes two senses of ten ambiguous words.

    python runs/sense_table.py MODEL [--layer 2] [--random] [--show]

Each sense has fifteen sentences. An occurrence counts as right if most of its three nearest
occurrences of the word, by cosine, have the same sense; the table has the fraction of right ones
for each sense. A word is distinguished if that fraction is above one half for both of its senses.

Two stricter counts use only the first sentence of each sense: most of its three nearest
occurrences, or the nearest one, must have the same sense.
"""

import argparse

from elmo import ELMo
from elmo.demo.sense_neighbors import (
    correct_fractions,
    load_occurrences,
    n_distinguished,
    nearest_occurrences,
)


def main() -> None:
    """Print a table and, if requested, the neighbors of the first sentence of each sense."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", help="Model name or folder.")
    parser.add_argument("--layer", type=int, help="Layer of the vectors. Default: the last.")
    parser.add_argument(
        "--random", action="store_true", help="Also evaluate the model with random weights."
    )
    parser.add_argument(
        "--show", action="store_true", help="Show the neighbors of each sense's first sentence."
    )
    args = parser.parse_args()
    elmo = ELMo.from_pretrained(args.model)
    layer = elmo.config.n_layers - 1 if args.layer is None else args.layer
    neighbors = nearest_occurrences(elmo, load_occurrences(), layer=layer)
    fractions = correct_fractions(neighbors)
    print(f"layer {layer}\n\n| word | first sense | second sense |\n| --- | --- | --- |")
    for word, senses in fractions.items():
        print(f"| {word} | " + " | ".join(f"{s} {x:.0%}" for s, x in senses.items()) + " |")
    nearest = sum(item.nearest[0][0].sense == item.query.sense for item in neighbors) / len(
        neighbors
    )
    print(
        f"\n{n_distinguished(fractions)} of {len(fractions)} words are distinguished; the nearest "
        f"occurrence has the same sense for {nearest:.0%}"
    )
    first_sentences = {(item.query.word, item.query.sense): item for item in reversed(neighbors)}
    for name, n_nearest in (("most of the three nearest", 3), ("the nearest", 1)):
        wrong = {
            word
            for (word, sense), item in first_sentences.items()
            if 2 * sum(other.sense == sense for other, _ in item.nearest[:n_nearest]) <= n_nearest
        }
        n_right = len(fractions) - len(wrong)
        print(f"{n_right} of {len(fractions)} by the first sentence of each sense only, {name}")
    if args.random:
        from probe import random_twin

        random_fractions = correct_fractions(
            nearest_occurrences(random_twin(elmo), load_occurrences(), layer=layer)
        )
        print(f"{n_distinguished(random_fractions)} of {len(random_fractions)} with random weights")
    if args.show:
        print("", *reversed(first_sentences.values()), sep="\n")


if __name__ == "__main__":
    main()
