"""Draw docs/images/packing.png: padded, sorted and packed batches of the same sentences.

Run it with the extra `train`, which installs matplotlib, and a text with one sentence per line:
`python docs/make_packing_picture.py ptb.valid.txt`. It prints the figures, too.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from torch import Tensor

from elmo.kernels.lstm_call import LSTMCall
from elmo.kernels.lstm_reference import lstm

PICTURE = Path(__file__).parent / "images" / "packing.png"
N_SENTENCES, BATCH_SIZE = 1024, 64
INPUT_DIM, HIDDEN_DIM = 128, 256
REPEATS = 5
# Steps of the drawn batches.
N_STEPS = 50
REAL, PADDING, INK = "#0072b2", "#f0c9a8", "#222222"


@dataclass(frozen=True)
class Method:
    """A way to compute sentences of unequal lengths.

    Attributes:
        name: Its name.
        sorts: Whether all sentences are sorted by length before they are divided into batches.
        packs: Whether a step computes only the sentences that have not ended.
    """

    name: str
    sorts: bool
    packs: bool

    def batches(self, lengths: Sequence[int], batch_size: int = BATCH_SIZE) -> list[list[int]]:
        """Return the numbers of the sentences of each batch, longest first if it is packed."""
        order = list(range(len(lengths)))
        if self.sorts:
            order.sort(key=lambda i: -lengths[i])
        batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
        if self.packs:
            batches = [sorted(batch, key=lambda i: -lengths[i]) for batch in batches]
        return batches

    def positions(self, lengths: Sequence[int], batch_size: int = BATCH_SIZE) -> int:
        """Return the number of computed positions."""
        if self.packs:
            return sum(lengths)
        batches = self.batches(lengths, batch_size)
        return sum(len(batch) * max(lengths[i] for i in batch) for batch in batches)


METHODS = (
    Method("padded", sorts=False, packs=False),
    Method("sorted", sorts=True, packs=False),
    Method("packed", sorts=False, packs=True),
    Method("sorted and packed", sorts=True, packs=True),
)


class Layer:
    """An LSTM layer with random weights."""

    def __init__(self, input_dim: int = INPUT_DIM, hidden_dim: int = HIDDEN_DIM) -> None:
        """Draw the weights."""
        generator = torch.Generator().manual_seed(1)
        self.hidden_dim = hidden_dim
        self.weight_ih, self.weight_hh = (
            torch.randn(4 * hidden_dim, dim, generator=generator) / hidden_dim**0.5
            for dim in (input_dim, hidden_dim)
        )

    @torch.no_grad()
    def last_states(
        self, method: Method, sentences: Sequence[Tensor], batch_size: int = BATCH_SIZE
    ) -> Tensor:
        """Return the state after the last word of each sentence, (sentences, hidden)."""
        lengths = [len(sentence) for sentence in sentences]
        states = torch.empty(len(sentences), self.hidden_dim)
        for batch in method.batches(lengths, batch_size):
            x = torch.nn.utils.rnn.pad_sequence([sentences[i] for i in batch])
            ends = torch.tensor([lengths[i] for i in batch])
            mask = torch.arange(len(x))[:, None] < ends
            zeros = torch.zeros(len(batch), self.hidden_dim)
            call = LSTMCall(
                x=x,
                weight_ih=self.weight_ih,
                weight_hh=self.weight_hh,
                bias=torch.zeros(4 * self.hidden_dim),
                weight_hr=None,
                h=zeros,
                c=zeros,
                # A padded batch computes all of its positions.
                mask=mask if method.packs else torch.ones_like(mask),
                active=mask.sum(1).tolist() if method.packs else None,
                cell_clip=None,
                projection_clip=None,
                reverse=False,
            )
            ((output, _, _),) = lstm([call])
            states[batch] = output[ends - 1, torch.arange(len(batch))]
        return states


def measured_seconds(sentences: Sequence[Tensor]) -> dict[str, float]:
    """Return the median time of each method; the methods take turns."""
    layer = Layer()
    seconds: dict[str, list[float]] = {method.name: [] for method in METHODS}
    for repeat in range(REPEATS + 1):
        for method in METHODS:
            started = time.perf_counter()
            layer.last_states(method, sentences)
            if repeat:  # the first round warms up
                seconds[method.name].append(time.perf_counter() - started)
    return {name: statistics.median(times) for name, times in seconds.items()}


def read_sentences(path: Path) -> list[Tensor]:
    """Return random input vectors for the words of each sentence, (words, dim)."""
    lines = path.read_text(encoding="utf-8").splitlines()
    lengths = [len(line.split()) for line in lines if line.strip()][:N_SENTENCES]
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(length, INPUT_DIM, generator=generator) for length in lengths]


def draw_batch(plot: Axes, method: Method, lengths: Sequence[int]) -> None:
    """Draw the positions of a batch from the middle: real words and computed padding."""
    batches = method.batches(lengths)
    rows = [lengths[i] for i in batches[len(batches) // 2]]
    steps = np.arange(N_STEPS)
    is_real = steps < np.array(rows)[:, None]
    is_computed = is_real if method.packs else np.broadcast_to(steps < max(rows), is_real.shape)
    values = np.where(is_real, 2, np.where(is_computed, 1, 0))
    colors = ListedColormap(["white", PADDING, REAL])
    plot.imshow(values, cmap=colors, vmin=0, vmax=2, aspect="auto", interpolation="nearest")
    plot.set_title(method.name)
    plot.set_xlabel("step")
    plot.set_yticks([])
    plot.set_ylabel("sentences of a batch" if method is METHODS[0] else "")


def draw_bars(plot: Axes, title: str, values: Sequence[float], labels: Sequence[str]) -> None:
    """Draw one bar per method."""
    bars = plot.barh(range(len(METHODS)), values, color=REAL, height=0.6)
    plot.bar_label(bars, labels, padding=4)
    plot.set_yticks(range(len(METHODS)), [method.name for method in METHODS])
    plot.set_xlim(0, max(values) * 1.25)
    plot.invert_yaxis()
    plot.set_title(title)
    plot.spines[["top", "right", "bottom"]].set_visible(False)
    plot.set_xticks([])


def main() -> None:
    """Measure the methods, print the figures and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path, help="Text file with one sentence per line.")
    torch.set_num_threads(1)
    sentences = read_sentences(parser.parse_args().text)
    lengths = [len(sentence) for sentence in sentences]
    seconds = measured_seconds(sentences)
    positions = [method.positions(lengths) for method in METHODS]
    for method, count in zip(METHODS, positions, strict=True):
        sys.stdout.write(
            f"{method.name:18} {count:7,} positions, {sum(lengths) / count:4.0%} of them real, "
            f"{seconds[method.name]:.2f} s\n"
        )
    mpl.rcParams.update({"font.size": 9, "text.color": INK, "axes.edgecolor": "#999999"})
    figure = plt.figure(figsize=(10, 5.4), dpi=100, layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=[1.25, 1])
    for plot, method in zip(upper.subplots(1, 4), METHODS, strict=True):
        draw_batch(plot, method, lengths)
    handles = [
        Patch(color=color, label=label)
        for color, label in ((REAL, "words"), (PADDING, "padding that is computed"))
    ]
    upper.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    left, right = lower.subplots(1, 2)
    labels = [f"{count:,} ({sum(lengths) / count:.0%} real)" for count in positions]
    draw_bars(left, "computed positions", positions, labels)
    times = [seconds[method.name] for method in METHODS]
    labels = [f"{value:.2f} s" for value in times]
    draw_bars(right, "time", times, labels)
    figure.savefig(PICTURE)


if __name__ == "__main__":
    main()
