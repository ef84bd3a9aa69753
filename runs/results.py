"""The runs of runs/tasks.sh as the page docs/results.md, with its two pictures.

    python runs/results.py OUT --docs docs --command "..." --commit ... --machine "..."

A figure is the mean over seeds with its deviation, in hundredths, as papers give them; a run that
is not there yet leaves its place empty. Figures of others stand beside ours.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.tasks.mix_picture import draw_mixes
from elmo.tasks.scores import Spread, mean_and_deviation

CURVES = "sample-efficiency.png"
MIXES = "mixes.png"
SHARES = ("0.01", "0.03", "0.1", "0.3")
WAYS = {
    "none": "letters alone",
    "static": "static vectors",
    "layer0": "layer 0",
    "elmo": "ELMo",
    "finetuned": "ELMo, fine-tuned first",
}
LAYERS = {
    "none": "none",
    "layer0": "layer 0 alone",
    "top": "last alone",
    "lambda1": "all, λ = 1",
    "elmo": "all, λ = 0.001",
}


@dataclass(frozen=True)
class Task:
    """A set and what is known of it.

    Attributes:
        title: of its rows.
        measure: name of the score that is reported.
        unit: what the score is, and of which part.
        published: figures of others.
    """

    title: str
    measure: str
    unit: str
    published: str


TAGGING = {
    "conll2003": Task(
        "CoNLL-2003 names", "span_f1", "test F1", "90.15 → 92.22 ± 0.10 (ELMo paper)"
    ),
    "kmou-ner": Task("KMOU names", "span_f1", "test F1", "85.9 → 88.2 (GloVe → ELMo, BiLSTM-CRF)"),
    "ud-pos": Task("UD English EWT, universal tags", "accuracy", "test accuracy", ""),
}
CLASSIFICATION = {
    "sst5": Task("SST-5", "accuracy", "test accuracy", "51.4 → 54.7 ± 0.5 (ELMo paper)"),
    "sst2": Task("SST-2", "accuracy", "test accuracy", ""),
    "ynat": Task(
        "KLUE-YNAT",
        "macro_f1",
        "dev macro F1",
        "76.39 (a student ELMo); test: 81.55 (mBERT), 84.98 (KLUE-RoBERTa-small)",
    ),
    "nsmc": Task(
        "NSMC", "accuracy", "test accuracy", "87.44 (Korean ELMo), 89.36 (KoELECTRA-small)"
    ),
}
TASKS = TAGGING | CLASSIFICATION
PERPLEXITIES = {
    "conll2003": "103.2 → 46.3",
    "sst5": "131.5 → 78.6",
    "ynat": "",
    "nsmc": "",
}


class Runs:
    """What runs/tasks.sh has left behind."""

    def __init__(self, out: Path) -> None:
        """Take the folder of the runs."""
        self.out = out

    def result(self, name: str) -> dict[str, Any] | None:
        """Give what a run came to; None where it is not there."""
        path = self.out / name / "results.json"
        return json.loads(path.read_text()) if path.is_file() else None

    def spread(self, name: str, measure: str) -> Spread | None:
        """Give mean and deviation of a score, of the test part where there is one."""
        found = self.result(name)
        if found is None:
            return None
        part = "test" if found["runs"][0]["test"] else "development"
        return mean_and_deviation([100 * run[part][measure] for run in found["runs"]])

    def cell(self, name: str, measure: str) -> str:
        """Write a score."""
        return _written(self.spread(name, measure))

    def number(self, name: str, key: str) -> float | None:
        """Give a number out of a file of numbers."""
        path = self.out / f"{name}.json"
        return float(json.loads(path.read_text())[key]) if path.is_file() else None

    def shares(self, name: str) -> list[float] | None:
        """Give the mean shares of the layers in the mix at the input."""
        found = self.result(name)
        if found is None:
            return None
        runs = [run["mixes"]["input"]["shares"] for run in found["runs"]]
        return [sum(layer) / len(runs) for layer in zip(*runs, strict=True)]


def _written(spread: Spread | None) -> str:
    if spread is None:
        return ""
    return f"{spread.mean:.2f}" + (f" ± {spread.deviation:.2f}" if spread.n > 1 else "")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Give a table in Markdown, its first column to the left."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# ------------------------------------------------------------------------------------------ tables


def by_way(runs: Runs, tasks: dict[str, Task], *, with_tfidf: bool) -> str:
    """Compare all ways of all tasks of a kind."""
    rows = []
    for name, task in tasks.items():
        found = {way: runs.spread(f"{name}-{way}", task.measure) for way in WAYS}
        without = [one.mean for way in ("none", "static") if (one := found[way]) is not None]
        elmo = found["elmo"]
        gain = f"{elmo.mean - max(without):+.2f}" if elmo is not None and without else ""
        tfidf = runs.number(f"{name}-tfidf", task.measure)
        line = [f"{100 * tfidf:.2f}" if tfidf is not None else ""] if with_tfidf else []
        cells = [_written(found[way]) for way in WAYS]
        rows.append([f"{task.title}, {task.unit}", *line, *cells, gain, task.published])
    first = ["TF-IDF"] if with_tfidf else []
    return table(["set", *first, *WAYS.values(), "gain of ELMo", "published"], rows)


def perplexities(runs: Runs) -> str:
    """Tell what fine-tuning did to the language models."""
    rows = []
    for name, published in PERPLEXITIES.items():
        task = TASKS[name]
        numbers = [runs.number(f"{name}-{when}", "mean") for when in ("before", "after")]
        cells = [f"{number:.1f}" if number is not None else "" for number in numbers]
        scores = [runs.cell(f"{name}-{way}", task.measure) for way in ("elmo", "finetuned")]
        rows.append([task.title, *cells, published, *scores])
    header = ["set", "perplexity before", "after", "published", "score before", "after"]
    return table(header, rows)


def layers(runs: Runs) -> str:
    """Compare what is taken of ELMo's layers."""
    names = ("sst5", "conll2003")
    header = ["layers", *(f"{TASKS[name].title}, {TASKS[name].unit}" for name in names)]
    rows = [
        [title, *(runs.cell(f"{name}-{way}", TASKS[name].measure) for name in names)]
        for way, title in LAYERS.items()
    ]
    return table(header, rows)


def gamma(runs: Runs) -> str:
    """Compare a mix with and without its scale."""
    measures = ("macro_f1", "accuracy")
    rows = [
        [title, *(runs.cell(name, measure) for measure in measures)]
        for title, name in (("γ learned", "ynat-elmo"), ("γ = 1", "ynat-nogamma"))
    ]
    return table(["KLUE-YNAT dev", "macro F1", "accuracy"], rows)


def efficiency(runs: Runs) -> str:
    """Compare parts of the training examples."""
    header = ["set", "way", *(f"{float(share):.0%}" for share in SHARES), "100%"]
    rows = []
    for name in ("conll2003", "ynat"):
        for way in ("static", "elmo"):
            cells = [runs.cell(f"{name}-{way}-{share}", TASKS[name].measure) for share in SHARES]
            whole = runs.cell(f"{name}-{way}", TASKS[name].measure)
            rows.append([f"{TASKS[name].title}, {TASKS[name].unit}", WAYS[way], *cells, whole])
    return table(header, rows)


def mixes(runs: Runs) -> str:
    """Give the shares of the layers by task."""
    found = {task.title: runs.shares(f"{name}-elmo") for name, task in TASKS.items()}
    rows = [
        [title, *(f"{share:.2f}" for share in shares)] for title, shares in found.items() if shares
    ]
    return table(["set", "layer 0", "layer 1", "layer 2"], rows)


def probes(runs: Runs) -> str:
    """Give what each layer knows."""
    first = runs.spread("wsd-2", "first_sense")
    rows = [
        ["parts of speech, tags of the Penn Treebank, test accuracy", "pos-probe", "accuracy"],
        [f"word senses, F1; first sense {_written(first)}", "wsd", "f1"],
        ["nearest occurrences, most mean the same", "nearest", "accuracy"],
    ]
    published = ["97.3, 96.8 (layers 1, 2; other text)", "67.4, 69.0; first sense 65.9", ""]
    return table(
        ["probe", "layer 0", "layer 1", "layer 2", "all", "ELMo paper"],
        [
            [title, *(runs.cell(f"{name}-{layer}", measure) for layer in (0, 1, 2, "all")), others]
            for (title, name, measure), others in zip(rows, published, strict=True)
        ],
    )


# ---------------------------------------------------------------------------------------- pictures


def draw_curves(runs: Runs, path: Path) -> None:
    """Draw scores over the share of the training examples."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, name in zip(figure.subplots(1, 2), ("conll2003", "ynat"), strict=True):
        for way, color in (("static", "tab:gray"), ("elmo", "tab:blue")):
            points = {
                share: runs.spread(f"{name}-{way}-{share}", TASKS[name].measure) for share in SHARES
            }
            points["1"] = runs.spread(f"{name}-{way}", TASKS[name].measure)
            known = {100 * float(share): spread for share, spread in points.items() if spread}
            axes.errorbar(
                list(known),
                [spread.mean for spread in known.values()],
                [spread.deviation for spread in known.values()],
                marker="o",
                markersize=4,
                capsize=3,
                color=color,
                label=WAYS[way],
            )
        axes.set_xscale("log")
        ticks = [100 * float(share) for share in (*SHARES, "1")]
        axes.set_xticks(ticks, [f"{tick:g} %" for tick in ticks])
        axes.minorticks_off()
        axes.set_title(TASKS[name].title)
        axes.set_xlabel("share of the training examples")
        axes.set_ylabel(TASKS[name].unit)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    figure.savefig(path)


# ---------------------------------------------------------------------------------------- the page


def page(runs: Runs, command: str, commit: str, machine: str) -> str:
    """Give the whole page."""
    return f"""\
# Results

What the bundled models bring to tasks. Each model is trained with and without ELMo, all else being
equal: body, head, dials, epochs and the characters of words. Mean and deviation are over seeds;
models are chosen on the development part, and the part that is reported is read once, after
training.

```bash
{command}
```

Commit {commit}; {machine}. The page is written by `runs/results.py`.

- **letters alone**: a CNN over the characters of a word.
- **static vectors**: beside it the model's own layer 0, a vector for each word of all parts, which
  learns with the task: a baseline that has read as much text as ELMo.
- **layer 0**: of ELMo layer 0 alone, all there is without context.
- **fine-tuned first**: `elmo finetune` on the training text of the task, then as ELMo.
- **gain of ELMo**: over the better one of the first two.
- KLUE-YNAT and NSMC have no part to choose by: a fixed tenth of the training part is it.
- Figures of others are from their papers and pages, not from runs of ours.

## Tagging

{by_way(runs, TAGGING, with_tfidf=False)}

## Classification

TF-IDF is a logistic regression over character n-grams (1 to 3, NSMC 1 to 4; C = 4), with all of
the training part.

{by_way(runs, CLASSIFICATION, with_tfidf=True)}

## Fine-tuned first

Perplexity is the mean of both directions under the full softmax, on the text of the part that
models are chosen by; the vocabulary is the same before and after. Published ones are those of the
original ELMo after one epoch, over another vocabulary.

{perplexities(runs)}

## Layers

The ELMo paper has on SQuAD (dev): none 80.8, last alone 84.7, all with λ = 1 85.0, all with
λ = 0.001 85.2.

{layers(runs)}

## The scale γ

A student ELMo on petitions: accuracy 79 with it, 74 without.

{gamma(runs)}

## Sample efficiency

{efficiency(runs)}

![Scores over the share of the training examples]({CURVES})

## Learned mixes

{mixes(runs)}

![Shares of the layers in the learned mixes]({MIXES})

## Probes

What the vectors of a layer know, with no model above them but a linear map (`pos-probe`, `wsd` and
`nearest` of `elmo task fit`); of all layers it is the learned mix for parts of speech, else the
mean.

{probes(runs)}
"""


def main() -> None:
    """Write the page and draw the pictures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, help="folder of the runs")
    parser.add_argument("--docs", type=Path, required=True, help="folder of the page")
    parser.add_argument("--command", default="bash runs/tasks.sh DATA OUT")
    parser.add_argument("--commit", required=True)
    parser.add_argument("--machine", required=True)
    given = parser.parse_args()
    runs = Runs(given.out)
    text = page(runs, given.command, given.commit, given.machine)
    (given.docs / "results.md").write_text(text, encoding="utf-8")
    found = {task.title: runs.shares(f"{name}-elmo") for name, task in TASKS.items()}
    draw_mixes(given.docs / MIXES, {title: shares for title, shares in found.items() if shares})
    draw_curves(runs, given.docs / CURVES)


if __name__ == "__main__":
    main()
