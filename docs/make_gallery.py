"""Draw the pictures of the page `gallery.md`: docs/images/unit-*.svg.

Each argument is a model and a text that the model was not trained on. A unit is chosen on the first
half of the text and scored on the second, and then drawn over a short text. The tables of all units
are printed.

python docs/make_gallery.py --war-and-peace warpeace held-out.txt --linux linux held-out.c
python docs/make_gallery.py --sentiment sentiment sentences.txt labels.txt
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
from elmo.lab.units.load_model import Loaded
from elmo.lab.units.read_traces import Text, model_of
from elmo.lab.units.text_properties import PROPERTIES
from elmo.lab.units.traces import UnitTraces

IMAGES = Path(__file__).parent / "images"
# The drawn part of War and Peace, which the search does not read: its begin and length.
DIALOGUE, N_DRAWN = '"How sweet!" said Countess Mary', 676
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
REVIEWS = """\
The film is funny , warm and beautifully acted .
A dull plot , flat jokes and a terrible ending .
It begins as a charming comedy and ends as a tedious mess .
I expected little , and was moved to tears by this wonderful story .
The actors are good , but the script is a waste of their time .
This is not a bad film .
"""
# Name of the property that comes from a file of labels.
LABELS = "labels"


@dataclass(frozen=True)
class Drawing:
    """A picture of the gallery.

    Attributes:
        name: Part of the name of its file.
        title: Name of the property in the picture.
        property: Built-in property, or `labels` for those of a file.
        words: Words of `SENTENCES` that have a property of words.
    """

    name: str
    title: str
    property: str
    words: frozenset[str] = frozenset()


PLURAL = "dogs fields neighbors houses stories friends books keys apples pears children trains"
PAST = "chased sold moved walked opened found ate were had arrived"
WAR_AND_PEACE = (
    Drawing("quotes", "inside quotes", "quotes"),
    Drawing("line-position", "position in the line", "line-position"),
)
LINUX = (
    Drawing("comment", "inside a comment", "comment"),
    Drawing("if", "inside if (...)", "if"),
    Drawing("depth", "open curly brackets", "block-depth"),
)
SENTIMENT = (Drawing("sentiment", "positive sentence, at its last word", LABELS),)
ELMO = (
    Drawing("plural", "plural noun", "xpos=NNS", frozenset(PLURAL.split())),
    Drawing("past", "past tense", "Tense=Past", frozenset(PAST.split())),
)


def subtitle(found: PropertyUnits, title: str) -> str:
    """Return the score of the best unit, with that of a random network."""
    best, random = found.units[0], found.random
    score = "correlation" if best.auc is None else "AUC"
    text = f"{title}: {score} {best.score:.3f}"
    return text if random is None else f"{text} (best unit of a random network: {random.score:.3f})"


def marked_positions(drawing: Drawing, drawn: UnitTraces) -> list[bool]:
    """Return whether each position of the drawn text has the property; none if it is a number."""
    if drawing.property not in PROPERTIES:
        return [piece in drawing.words for piece in drawn.pieces]
    values = PROPERTIES[drawing.property].function(drawn.text)
    return [bool(value) for value in values] if values.dtype == bool else []


def draw(
    model: Loaded,
    text: Text,
    drawn_text: Text,
    drawings: Sequence[Drawing],
    *,
    max_positions: int,
    labels: Path | None = None,
) -> None:
    """Find the units of all properties of a model and write their pictures.

    Args:
        model: The model.
        text: Text on which the units are chosen and scored.
        drawn_text: Text of the pictures.
        drawings: The pictures.
        max_positions: Positions of `text` that are read.
        labels: File with a label for each position of `text`.
    """
    drawn = read_traces(model, drawn_text, kinds=["hidden", "cell"], n_guesses=0)
    found = find_units(
        model,
        text,
        builtin=[drawing.property for drawing in drawings if drawing.property != LABELS],
        labels=labels,
        max_positions=max_positions,
    )
    sys.stdout.write(f"{found}\n\n")
    for drawing in drawings:
        units = found[drawing.property]
        best = units.units[0]
        picture = unit_picture(
            drawn,
            best.track,
            best.unit,
            subtitle(units, drawing.title),
            sign=best.sign,
            marked=marked_positions(drawing, drawn),
        )
        path = IMAGES / f"unit-{drawing.name}.svg"
        path.write_text(picture, encoding="utf-8")


def words_of(lines: str) -> list[list[str]]:
    """Return the words of each line, which are separated by spaces."""
    return [line.split(" ") for line in lines.splitlines()]


def main() -> None:
    """Draw the pictures of the given models."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for option in ("war-and-peace", "linux", "elmo"):
        parser.add_argument(f"--{option}", nargs=2, metavar=("MODEL", "TEXT"))
    parser.add_argument("--sentiment", nargs=3, metavar=("MODEL", "SENTENCES", "LABELS"))
    options = parser.parse_args()
    if options.war_and_peace:
        name, text = options.war_and_peace
        novel = Path(text).read_text(encoding="utf-8")
        begin = novel.index(DIALOGUE)
        drawn = novel[begin : begin + N_DRAWN]
        draw(model_of(name, "cpu"), Path(text), drawn, WAR_AND_PEACE, max_positions=100_000)
    if options.linux:
        name, text = options.linux
        draw(model_of(name, "cpu"), Path(text), C_SOURCE, LINUX, max_positions=300_000)
    if options.sentiment:
        name, text, labels = options.sentiment
        draw(
            model_of(name, "cpu", "encoder"),
            words_of(Path(text).read_text(encoding="utf-8")),
            words_of(REVIEWS),
            SENTIMENT,
            max_positions=50_000,
            labels=Path(labels),
        )
    if options.elmo:
        name, text = options.elmo
        draw(model_of(name, "cpu"), Path(text), SENTENCES, ELMO, max_positions=20_000)


if __name__ == "__main__":
    main()
