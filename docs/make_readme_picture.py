"""Draw docs/images/bank.png: occurrences of "bank" before and after the model reads the sentence.

Run it with the extra `train`, which installs matplotlib: `python docs/make_readme_picture.py`.
"""

from itertools import takewhile
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from numpy.typing import NDArray
from PIL import Image

from elmo import ELMo
from elmo.demo.sense_neighbors import load_occurrences

PICTURE = Path(__file__).parent / "images" / "bank.png"
MODEL = "small-en"
WORD = "bank"
# Okabe-Ito colors, which color-blind readers can tell apart.
COLORS = {"river": "#0072b2", "money": "#d55e00"}
TITLES = {"river": "river bank", "money": "bank for money"}
INK, GRAY = "#222222", "#767676"
N_CONTEXT = 3
# Possible positions of a label: offset in points, horizontal and vertical alignment.
OFFSETS: list[tuple[float, float, str, str]] = [
    (8, 0, "left", "center"),
    (-8, 0, "right", "center"),
    (0, 9, "center", "bottom"),
    (0, -9, "center", "top"),
    (7, 7, "left", "bottom"),
    (7, -7, "left", "top"),
    (-7, 7, "right", "bottom"),
    (-7, -7, "right", "top"),
]

Array = NDArray[np.float32]


def word_vectors(layer: int) -> tuple[Array, list[str], list[str]]:
    """Return the vector, the sense and a snippet of every occurrence of the word.

    Args:
        layer: Layer of the model.

    Returns:
        Vectors of length 1, (occurrences, dim), then senses and snippets.
    """
    examples = [example for example in load_occurrences() if example.word == WORD]
    elmo = ELMo.from_pretrained(MODEL)
    sentences = [elmo.tokenizer.words(example.sentence) for example in examples]
    positions = [words.index(WORD) for words in sentences]
    encoded = elmo.encode(sentences, layers=layer)
    vectors = np.stack([rows[i] for rows, i in zip(encoded, positions, strict=True)])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    snippets = [snippet(words, i) for words, i in zip(sentences, positions, strict=True)]
    return vectors, [example.sense for example in examples], snippets


def snippet(words: list[str], position: int) -> str:
    """Return the word, in bold, with the neighbors that no punctuation separates from it."""
    before = takewhile(str.isalnum, words[max(position - N_CONTEXT, 0) : position][::-1])
    after = list(takewhile(str.isalnum, words[position + 1 : position + 1 + N_CONTEXT]))
    return " ".join([*reversed(list(before)), rf"$\bf{{{WORD}}}$", *after])


def principal_components(vectors: Array) -> Array:
    """Return the first two principal components, (occurrences, 2)."""
    centered = vectors - vectors.mean(axis=0)
    left, values, _ = np.linalg.svd(centered, full_matrices=False)
    return left[:, :2] * values[:2]


def draw(axes: Axes, points: Array, senses: list[str]) -> None:
    """Draw every occurrence in the color of its sense."""
    for sense, color in COLORS.items():
        chosen = points[[name == sense for name in senses]]
        axes.scatter(
            *chosen.T, s=56, color=color, edgecolor="white", linewidth=0.9, label=TITLES[sense]
        )
    axes.legend(loc="lower right", frameon=False, fontsize=9.5, handletextpad=0.2)


def add_labels(axes: Axes, points: Array, senses: list[str], snippets: list[str]) -> None:
    """Label as many occurrences as fit without covering a point or another label."""
    figure = axes.figure
    figure.canvas.draw()
    pixels = axes.transData.transform(points)
    # A label must be nearer to its own point than to any other.
    radius = 9 * figure.dpi / 72
    taken = [Bbox.from_extents(*(point - radius), *(point + radius)) for point in pixels]
    inside = axes.get_window_extent()
    # The outermost first: they have most space.
    for number in np.argsort(-np.linalg.norm(points - points.mean(axis=0), axis=1)):
        others = [box for i, box in enumerate(taken) if i != number]
        for x, y, horizontal, vertical in OFFSETS:
            label: Text = axes.annotate(
                snippets[number],
                points[number],
                xytext=(x, y),
                textcoords="offset points",
                ha=horizontal,
                va=vertical,
                fontsize=8.8,
                color=COLORS[senses[number]],
            )
            box = label.get_window_extent().padded(3)
            is_inside = inside.x0 <= box.x0 and box.x1 <= inside.x1
            if is_inside and not any(box.overlaps(other) for other in others):
                taken.append(box)
                break
            label.remove()


def main() -> None:
    """Draw the picture and write it."""
    mpl.rcParams.update({"font.family": "DejaVu Sans", "text.color": INK})
    vectors, senses, snippets = word_vectors(layer=2)
    cosines = vectors @ vectors.T
    np.fill_diagonal(cosines, -1)
    nearest = cosines.argmax(axis=1)
    n_same = sum(senses[i] == senses[j] for i, j in enumerate(nearest))
    static = word_vectors(layer=0)[0]
    assert np.allclose(static, static[0], atol=1e-5)

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9.2, 4.8), dpi=170, width_ratios=(1, 3.9), layout="constrained"
    )
    left.scatter(0, 0, s=160, color=GRAY)
    left.annotate(
        "all 30 occurrences:\none vector",
        (0, 0),
        xytext=(0, -16),
        textcoords="offset points",
        ha="center",
        va="top",
        fontsize=9,
        color=GRAY,
    )
    left.set(xlim=(-1, 1), ylim=(-1, 1))
    left.set_title("Layer 0: word alone", fontsize=10.5, loc="left", color=INK)

    points = principal_components(vectors)
    draw(right, points, senses)
    right.margins(0.14, 0.08)
    right.set_title(
        f"Layer 2: word in its sentence ({n_same} of {len(senses)} nearest occurrences "
        "have the same sense)",
        fontsize=10.5,
        loc="left",
        color=INK,
    )
    for axes in (left, right):
        axes.set(xticks=[], yticks=[])
        axes.set_facecolor("#fafafa")
        for spine in axes.spines.values():
            spine.set_color("#dddddd")
    add_labels(right, points, senses, snippets)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.canvas.draw()
    # A palette of 64 colors makes the file a third of the size.
    image = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())).convert("RGB")
    image.quantize(64).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
