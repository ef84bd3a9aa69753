"""The runs of runs/tasks.sh as the page docs/results.md, with its two pictures.

    python runs/results.py OUT --docs docs --command "..." --commit ... --machine "..."

A figure is the mean over seeds with its deviation, in hundredths, as papers give them; a run that
is not there yet leaves its place empty, and a set without any is left out. Figures of others stand
beside ours.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.tasks.fit import PARTS
from elmo.tasks.mix_picture import draw_mixes
from elmo.tasks.scores.labels import Spread, mean_and_deviation

CURVES = "sample-efficiency.png"
MIXES = "mixes.png"
SHARES = ("0.01", "0.03", "0.1", "0.3")
WAYS = {
    "none": "letters alone",
    "static": "static vectors",
    "layer0": "layer 0",
    "elmo": "ELMo",
}
ALL_WAYS = WAYS | {"tuned": "ELMo, learning", "finetuned": "ELMo, fine-tuned first"}
LAYERS = {
    "static": "none",
    "layer0": "layer 0 alone",
    "top": "last alone",
    "lambda1": "all, λ = 1",
    "elmo": "all, λ = 0.001",
}
PLACES = {"static": "none", "input": "input", "elmo": "input and output", "output": "output"}


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
PAIRS = {
    "sick": Task("SICK", "accuracy", "test accuracy", "SNLI: 88.0 → 88.7 (ELMo paper)"),
    "klue-nli": Task("KLUE-NLI", "accuracy", "dev accuracy", ""),
}
STRUCTURES = {
    "squad": Task("SQuAD part", "f1", "XQuAD-en F1", "all of SQuAD: 81.1 → 85.8 (ELMo paper)"),
    "propbank-ewt": Task(
        "PropBank-EWT roles", "span_f1", "test F1", "OntoNotes: 81.4 → 84.6 (ELMo paper)"
    ),
    "litbank": Task(
        "LitBank clusters", "mean_f1", "test mean F1", "OntoNotes: 67.2 → 70.4 (ELMo paper)"
    ),
    "gap": Task("GAP, by the models of LitBank", "gap_f1", "test F1", ""),
}
TASKS = TAGGING | CLASSIFICATION | PAIRS | STRUCTURES
# Table 1 of the ELMo paper: what is measured, without and with ELMo; and sets of ours beside it.
PAPER = (
    ("SQuAD, F1", 81.1, 85.8, ("squad",)),
    ("SNLI, accuracy", 88.0, 88.7, ("sick", "klue-nli")),
    ("semantic roles, F1", 81.4, 84.6, ("propbank-ewt",)),
    ("coreference, mean F1", 67.2, 70.4, ("litbank",)),
    ("CoNLL-2003 names, F1", 90.15, 92.22, ("conll2003",)),
    ("SST-5, accuracy", 51.4, 54.7, ("sst5",)),
)
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

    def spread(
        self, name: str, measure: str, *, part: str = "test", times: float = 100
    ) -> Spread | None:
        """Give mean and deviation of a score, of the development part where there is no other."""
        found = self.result(name)
        if found is None:
            return None
        part = part if found["runs"][0][part] else "development"
        return mean_and_deviation([times * run[part][measure] for run in found["runs"]])

    def baseline(self, name: str, measure: str) -> Spread | None:
        """Give the better one of the models without ELMo."""
        found = [self.spread(f"{name}-{way}", measure) for way in ("none", "static")]
        return max(filter(None, found), key=lambda one: one.mean, default=None)

    def with_elmo(self, name: str, measure: str) -> Spread | None:
        """Give ELMo frozen or learning, whichever does better on the development part."""
        frozen, tuned = (self.spread(f"{name}-{way}", measure) for way in ("elmo", "tuned"))
        if frozen is None or tuned is None:
            return frozen or tuned
        known = [
            self.spread(f"{name}-{way}", measure, part="development") for way in ("elmo", "tuned")
        ]
        return tuned if known[1].mean > known[0].mean else frozen

    def cell(self, name: str, measure: str, *, part: str = "test", times: float = 100) -> str:
        """Write a score."""
        return _written(self.spread(name, measure, part=part, times=times))

    def number(self, name: str, key: str) -> float | None:
        """Give a number out of a file of numbers."""
        path = self.out / f"{name}.json"
        return float(json.loads(path.read_text())[key]) if path.is_file() else None

    def shares(self) -> dict[str, list[float]]:
        """Give the mean shares of the layers in the mixes of all tasks, by task and place."""
        found = {}
        for name, task in TASKS.items():
            runs = (self.result(f"{name}-elmo") or {"runs": []})["runs"]
            for place in ("input", "output"):
                mixes = [one[place]["shares"] for run in runs if place in (one := run["mixes"])]
                if mixes:
                    title = task.title if place == "input" else f"{task.title}, at the output"
                    found[title] = [sum(one) / len(mixes) for one in zip(*mixes, strict=True)]
        return found


def _written(spread: Spread | None) -> str:
    if spread is None:
        return ""
    return f"{spread.mean:.2f}" + (f" ± {spread.deviation:.2f}" if spread.n > 1 else "")


def _gain(before: float, after: float) -> str:
    """Write a gain, and the share of the errors that is gone, as the ELMo paper does."""
    return f"{after - before:+.2f} / {(after - before) / (100 - before):.1%}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Give a table in Markdown, its first column to the left."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# ------------------------------------------------------------------------------------------ tables


def beside_the_paper(runs: Runs) -> str:
    """Give Table 1 of the ELMo paper with our sets beside it."""
    rows = []
    for title, before, after, names in PAPER:
        for name in names:
            task = TASKS[name]
            baseline = runs.baseline(name, task.measure)
            elmo = runs.with_elmo(name, task.measure)
            if baseline is None or elmo is None:
                continue
            theirs = [title, f"{before}", f"{after}", _gain(before, after)]
            ours = [_written(baseline), _written(elmo), _gain(baseline.mean, elmo.mean)]
            rows.append([*theirs, f"{task.title}, {task.unit}", *ours])
    header = ["without", "with ELMo", "gain"]
    return table(["ELMo paper", *header, "ours", *header], rows)


def by_way(
    runs: Runs, tasks: dict[str, Task], ways: dict[str, str], *, with_tfidf: bool = False
) -> str:
    """Compare all ways of all tasks of a kind."""
    rows = []
    for name, task in tasks.items():
        found = {way: runs.spread(f"{name}-{way}", task.measure) for way in ways}
        if not any(found.values()):
            continue
        without = runs.baseline(name, task.measure)
        elmo = runs.with_elmo(name, task.measure)
        gain = f"{elmo.mean - without.mean:+.2f}" if elmo and without else ""
        tfidf = runs.number(f"{name}-tfidf", task.measure)
        line = [f"{100 * tfidf:.2f}" if tfidf is not None else ""] if with_tfidf else []
        cells = [_written(one) for one in found.values()]
        rows.append([f"{task.title}, {task.unit}", *line, *cells, gain, task.published])
    first = ["TF-IDF"] if with_tfidf else []
    return table(["set", *first, *ways.values(), "gain of ELMo", "published"], rows)


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


def places(runs: Runs) -> str:
    """Compare where ELMo comes in."""
    rows = [
        [title, *(runs.cell(f"sick-{way}", "accuracy", part=part) for part in PARTS)]
        for way, title in PLACES.items()
        if runs.result(f"sick-{way}")
    ]
    return table(["ELMo at", "SICK, dev accuracy", "test accuracy"], rows)


def pronouns(runs: Runs) -> str:
    """Tell how well pronouns are understood, and whether both genders alike."""
    measures = {"F1": "gap_f1", "masculine F1": "masculine_f1", "feminine F1": "feminine_f1"}
    rows = [
        [
            title,
            *(runs.cell(f"gap-{way}", measure) for measure in measures.values()),
            runs.cell(f"gap-{way}", "bias", times=1),
        ]
        for way, title in WAYS.items()
        if runs.result(f"gap-{way}")
    ]
    return table(["GAP test", *measures, "bias"], rows)


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
    rows = [
        [title, *(f"{share:.2f}" for share in shares)] for title, shares in runs.shares().items()
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
  learns with the task: a baseline that has read as much text as ELMo. All ways with ELMo have
  them too.
- **layer 0**: of ELMo layer 0 alone, all there is without context.
- **ELMo**: all layers, frozen; **learning**: its weights learn with the task (`--use tuned`).
- **fine-tuned first**: `elmo finetune` on the training text of the task, then as ELMo, frozen.
- **gain of ELMo**: over the better one of the first two; of ELMo frozen and learning the one that
  did better on the development part.
- KLUE-YNAT, NSMC, KLUE-NLI and the SQuAD part have no part to choose by: a fixed tenth of the
  training part is it.
- Figures of others are from their papers and pages, not from runs of ours.

## Beside the ELMo paper

Its Table 1, and what we have for the same tasks. CoNLL-2003 and SST-5 are the same sets; in the
place of the others stand smaller ones, of which gains can be compared, not figures. A gain is the
difference, and the share of the errors that is gone; without ELMo it is the better one of letters
alone and static vectors.

{beside_the_paper(runs)}

## Tagging

{by_way(runs, TAGGING, ALL_WAYS)}

## Classification

TF-IDF is a logistic regression over character n-grams (1 to 3, NSMC 1 to 4; C = 4), with all of
the training part.

{by_way(runs, CLASSIFICATION, ALL_WAYS, with_tfidf=True)}

## Pairs

Whether a text entails another, contradicts it, or neither.

{by_way(runs, PAIRS, WAYS)}

## Answers, roles and clusters

- **SQuAD part**: learned from 4,330 questions of its training part, asked the 1,190 of XQuAD-en,
  which are of SQuAD's development part.
- **PropBank-EWT**: spans of the arguments of given predicates, the predicate left out.
- **LitBank**: mean F1 of MUC, B³ and CEAFe; its files, sorted by name, are cut 80/10/10.

{by_way(runs, STRUCTURES, WAYS)}

## Pronouns

Which of two names a pronoun means: GAP, asked of the models of LitBank, which learned nothing of
it. Bias is feminine by masculine F1, 1 where both are understood alike.

{pronouns(runs)}

## Fine-tuned first

Perplexity is the mean of both directions under the full softmax, on the text of the part that
models are chosen by; the vocabulary is the same before and after. Published ones are those of the
original ELMo after one epoch, over another vocabulary.

{perplexities(runs)}

## Layers

The ELMo paper has on SQuAD (dev): none 80.8, last alone 84.7, all with λ = 1 85.0, all with
λ = 0.001 85.2.

{layers(runs)}

## Placement

The ELMo paper has on SNLI (dev): input 88.9, input and output 89.5, output 88.7.

{places(runs)}

## The scale γ

A student ELMo on petitions: accuracy 79 with it, 74 without.

{gamma(runs)}

## Sample efficiency

Shares have three seeds; all of CoNLL-2003 has five.

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
    draw_mixes(given.docs / MIXES, runs.shares())
    draw_curves(runs, given.docs / CURVES)


if __name__ == "__main__":
    main()
