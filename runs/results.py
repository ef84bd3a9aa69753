"""The runs of runs/tasks.sh as the page docs/results.md, with its two pictures.

    python runs/results.py OUT --docs docs --commit ... --machine "..."

Runs go into the record beside the page, results.jsonl, where they take the place of earlier ones of
the same name; the page is made of all that the record has. Without OUT it is made anew.

A figure is the mean over seeds with its deviation, in hundredths, as papers give them; a run that
is not there yet leaves its place empty, and a set without any is left out. Figures of others stand
beside ours.
"""

import argparse
from collections import Counter
from pathlib import Path

from record_result import Record, gather, read, write
from result_tables import (
    ALL_WAYS,
    CLASSIFICATION,
    CURVES,
    PAIRS,
    SHARES,
    STRUCTURES,
    TAGGING,
    TUNED,
    WAYS,
    Runs,
    beside_the_paper,
    by_way,
    efficiency,
    gamma,
    layers,
    mixes,
    perplexities,
    places,
    probes,
    pronouns,
)
from search_space import PRESET_RATE
from search_tables import other_dials, rates, unfinished

from elmo.tasks.mix_plot import draw_mixes

CURVES_PICTURE = "sample-efficiency.png"
MIXES_PICTURE = "mixes.png"
RECORD = "results.jsonl"
COLORS = {"static vectors": "tab:gray", "layer 0": "tab:orange", "ELMo": "tab:blue"}


# ---------------------------------------------------------------------------------------- pictures


def draw_curves(runs: Runs, path: Path) -> None:
    """Draw scores over the share of the training examples."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (name, curve) in zip(figure.subplots(2, 2).flat, CURVES.items(), strict=True):
        task = curve.task
        for way, title in curve.ways.items():
            known = {
                100 * share: spread
                for share, run in runs.by_share(name, way).items()
                if (spread := runs.spread(run, task.measure))
            }
            axes.errorbar(
                list(known),
                [spread.mean for spread in known.values()],
                [spread.deviation for spread in known.values()],
                marker="o",
                markersize=4,
                capsize=3,
                color=COLORS[title],
                label=title,
            )
        axes.set_xscale("log")
        ticks = [100 * share for share in SHARES]
        axes.set_xticks(ticks, [f"{tick:g} %" for tick in ticks])
        axes.minorticks_off()
        axes.set_title(task.title)
        axes.set_xlabel("share of the training examples")
        axes.set_ylabel(task.unit)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    figure.savefig(path)


# ---------------------------------------------------------------------------------------- the page


def origins(record: Record) -> str:
    """Say where runs are from, most of them first."""
    found = Counter((entry["commit"], entry["machine"]) for entry in record.values())
    return "; ".join(
        f"{count} of commit {commit} on {machine}"
        for (commit, machine), count in found.most_common()
    )


def page(runs: Runs, origin: str) -> str:
    """Give the whole page.

    Args:
        runs: what it tells of.
        origin: commits and machines.
    """
    return f"""\
# Results

What the bundled models bring to tasks. Each model is trained with and without ELMo, all else being
equal: body, head and the characters of words; dials are searched for
[without ELMo and with it](#dials). Mean and deviation are over seeds; models are chosen on the
development part, and the one that is reported is scored once, after training.

```bash
bash runs/tasks.sh DATA OUT
python runs/results.py OUT --docs docs --commit ... --machine "..."
```

Each run is told by seed in [{RECORD}]({RECORD}), from which this page is made. Its runs are
{origin}. An empty place is a run that is not made yet.

- **static vectors**: the model's own layer 0, a vector for each word of all parts, which learns
  with the task, beside a CNN over the characters of a word: a baseline that has read as much text
  as ELMo. All ways with ELMo have both too.
- **layer 0**: of ELMo layer 0 alone, all there is without context.
- **ELMo**: all layers, frozen; **learning**: its weights learn with the task (`--use tuned`).
- **fine-tuned first**: `elmo finetune` on the training text of the task, then as ELMo, frozen.
- **gain of ELMo**: over static vectors; of the ways with all layers of ELMo the one that did best
  on the part that models are chosen by, in bold.
- KLUE-YNAT, NSMC, KLUE-NLI and the SQuAD part have no part to choose by: a fixed tenth of the
  training part is it.
- Figures of others are from their papers and pages, not from runs of ours.

## Beside the ELMo paper

Its Table 1, and what we have for the same tasks. CoNLL-2003 and SST-5 are the same sets; in the
place of the others stand smaller ones, of which gains can be compared, not figures. A gain is the
difference, and the share of the errors that is gone; without ELMo there are static vectors.

{beside_the_paper(runs)}

## Tagging

{by_way(runs, TAGGING, ALL_WAYS)}

## Classification

TF-IDF is a logistic regression over character n-grams (1 to 3, NSMC 1 to 4; C = 4), with all of
the training part. In KLUE-YNAT and NSMC such n-grams vote in all models of ours, also in those
without ELMo; in NSMC those of up to 6 characters.

{by_way(runs, CLASSIFICATION, ALL_WAYS, with_tfidf=True)}

## Pairs

Whether a text entails another, contradicts it, or neither.

{by_way(runs, PAIRS, WAYS | TUNED)}

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

## Dials

Dials are searched for in the same way without ELMo and with it. Scores are those of the first seed
on the part that models are chosen by. The best of them has all seeds, as the preset has; whichever
does best on that part with all seeds is in bold here and stands in the tables above. Layer 0, ELMo
that learns and ELMo that was fine-tuned first stay with the preset.

A try says little by itself: on a GPU the same seed does not come to the same figure twice (SQuAD
without ELMo at 0.004: 40.25 and 38.56). An empty place was not tried.

The rate of learning, {PRESET_RATE} in the presets:

{rates(runs)}

Dropout of the body and twice the epochs, each by itself at such a rate; of what has no row here
they were not tried:

{other_dials(runs)}

{unfinished(runs)}

## Fine-tuned first

Perplexity is the mean of both directions under the full softmax, on the text of the part that
models are chosen by; the vocabulary is the same before and after. Published ones are those of the
original ELMo after one epoch, over another vocabulary. Scores are those at the preset's rate.

{perplexities(runs)}

## Layers

The ELMo paper has on SQuAD (dev): none 80.8, last alone 84.7, all with λ = 1 85.0, all with
λ = 0.001 85.2. The last alone and λ = 1 have three seeds here, the others five;
all at the preset's rate.

{layers(runs)}

## Placement

The ELMo paper has on SNLI (dev): input 88.9, input and output 89.5, output 88.7. All are at the
preset's rate, at which the model without ELMo is not at its best.

{places(runs)}

## The scale γ

A student ELMo on petitions: accuracy 79 with it, 74 without.

{gamma(runs)}

## Sample efficiency

A share is learned from in as many steps as the whole, with three seeds; all of CoNLL-2003 has
five. Each place has the dials that do best there on the part that models are chosen by, of those
that were run: of shares rates alone were tried, dropout and epochs are the preset's. Enough is the
least share with which a way does no worse than those above it with all examples.

{efficiency(runs)}

![Scores over the share of the training examples]({CURVES_PICTURE})

## Learned mixes

{mixes(runs)}

![Shares of the layers in the learned mixes]({MIXES_PICTURE})

## Probes

What the vectors of a layer know, with no model above them but a linear map (`pos-probe`, `wsd` and
`nearest` of `elmo task fit`); of all layers it is the learned mix for parts of speech, else the
mean.

{probes(runs)}
"""


def main() -> None:
    """Write the record, then the page, and draw the pictures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, nargs="?", help="folder of runs to be recorded")
    parser.add_argument("--docs", type=Path, required=True, help="folder of the page")
    parser.add_argument("--commit", help="of the runs to be recorded")
    parser.add_argument("--machine", help="that they ran on")
    given = parser.parse_args()
    path = given.docs / RECORD
    record = read(path)
    if given.out is not None:
        if not (given.commit and given.machine):
            parser.error("runs are recorded with their --commit and --machine")
        record |= gather(given.out, given.commit, given.machine)
        write(path, record)
    runs = Runs(record)
    (given.docs / "results.md").write_text(page(runs, origins(record)), encoding="utf-8")
    draw_mixes(given.docs / MIXES_PICTURE, runs.shares())
    draw_curves(runs, given.docs / CURVES_PICTURE)


if __name__ == "__main__":
    main()
