"""Draw the pictures of the page `gallery.md`: docs/images/unit-*.svg.

Each argument is a model and a text that the model was not trained on. A unit is chosen on the first
half of the text and scored on the second, and then drawn over a short text. The tables of all units
are printed.

python docs/make_gallery.py --shakespeare run held-out.txt --linux run held-out.c
python docs/make_gallery.py --elmo small-en en_ewt-ud-dev.conllu
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unit_picture import unit_picture

from elmo.lab import find_units, read_traces
from elmo.lab.units.found_units import PropertyUnits
from elmo.lab.units.read_traces import Model, model_of

IMAGES = Path(__file__).parent / "images"
# Positions of the text that are read.
N_CHARACTERS, N_WORDS = 50_000, 20_000
# Characters of a play that are drawn.
N_DRAWN = 620
# Written for the picture, so that no source code of others is copied into the documentation.
C_SOURCE = """\
/*
 * Return the number of free slots, or a negative error code.
 * The caller must hold the lock.
 */
static int count_slots(struct pool *pool, unsigned int flags)
{
	int i, n = 0;

	if (!pool || (flags & POOL_DEAD))
		return -EINVAL;

	for (i = 0; i < pool->size; i++) {
		/* skip the slots in use */
		if (test_bit(i, pool->used) && !(flags & POOL_FORCE))
			continue;
		n++;
	}
	if (n == 0)
		pr_warn("pool %s: no free slots\\n", pool->name);
	return n;
}
"""
SENTENCES = """\
The two dogs chased a cat across the fields .
Our neighbors sold their houses and moved to the city last year .
She writes long stories for her friends and reads old books .
He walked home , opened the door and found the keys on the table .
We eat apples every day , but yesterday they ate three pears .
The children were tired because the trains had arrived late .
"""


@dataclass(frozen=True)
class Drawing:
    """A picture of the gallery.

    Attributes:
        name: Part of the name of its file.
        builtin: Built-in property, or empty.
        pattern: Regular expression of the property, or None.
    """

    name: str
    builtin: str = ""
    pattern: str | None = None


SHAKESPEARE = (Drawing("line-position", "line-position"),)
LINUX = (
    Drawing("comment", "comment"),
    Drawing("if", "if"),
    Drawing("string", "string"),
    Drawing("parentheses", pattern=r"\([^()]*"),
)
ELMO = (Drawing("plural", "Number=Plur"), Drawing("past", "Tense=Past"))


def subtitle(found: PropertyUnits, name: str) -> str:
    """Return the score of the best unit, with that of a random network."""
    best, random = found.units[0], found.random
    score = "correlation" if best.auc is None else "AUC"
    text = f"{name}: {score} {best.score:.3f}"
    return text if random is None else f"{text} (best unit of a random network: {random.score:.3f})"


def draw(model: Model, text: Path, drawn_text: str, drawings: Sequence[Drawing]) -> None:
    """Find the units of all properties of a model and write their pictures."""
    loaded = model_of(model, "cpu")
    drawn = read_traces(loaded, drawn_text, kinds=["hidden", "cell"], n_guesses=0)
    names = [drawing.builtin for drawing in drawings if drawing.builtin]
    patterns = [drawing.pattern for drawing in drawings if drawing.pattern]
    found = find_units(
        loaded,
        text,
        builtin=names,
        pattern=patterns[0] if patterns else None,
        max_positions=N_WORDS if drawn.unit == "words" else N_CHARACTERS,
        shifts=1,
    )
    sys.stdout.write(f"{found}\n\n")
    for drawing, units in zip(drawings, found.properties, strict=True):
        best = units.units[0]
        picture = unit_picture(drawn, best.track, best.unit, subtitle(units, drawing.name))
        path = IMAGES / f"unit-{drawing.name}.svg"
        path.write_text(picture, encoding="utf-8")


def main() -> None:
    """Draw the pictures of the given models."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("shakespeare", "linux", "elmo"):
        parser.add_argument(f"--{option}", nargs=2, metavar=("MODEL", "TEXT"))
    options = parser.parse_args()
    if options.shakespeare:
        model, text = options.shakespeare
        play = Path(text).read_text(encoding="utf-8")
        # The end of the text comes after the half on which the unit is chosen.
        drawn = play[-N_DRAWN:].split("\n\n", 1)[-1]
        draw(model, Path(text), drawn, SHAKESPEARE)
    if options.linux:
        model, text = options.linux
        draw(model, Path(text), C_SOURCE, LINUX)
    if options.elmo:
        model, text = options.elmo
        draw(model, Path(text), SENTENCES, ELMO)


if __name__ == "__main__":
    main()
