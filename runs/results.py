"""Write docs/results.md and its two figures from the runs of runs/tasks.sh.

    python runs/results.py OUT --docs docs --commit ... --machine "..." [--size base]

With --size base, OUT has task runs with the base models, which have their own page,
results-base.md, and figures. Perplexities and minimal pairs of all models are on the main page.

Runs are added to the record next to the page, results.jsonl, and replace earlier runs of the same
name; the page is made from the whole record. Without OUT the pages are only regenerated.

A score is the mean over seeds with its standard deviation, in percent. A missing run leaves its
cell empty, and a data set without runs is omitted. Published scores are listed next to ours.
"""

import argparse
from collections import Counter
from pathlib import Path

from base_page import base_page
from language_model_tables import minimal_pairs, pairs_with_one_unknown, perplexity
from record_result import SIZES, Record, gather, of_size, read, with_size, write
from result_tables import (
    ALL_SETUPS,
    CLASSIFICATION,
    CURVES,
    PAIRS,
    SETUPS,
    STRUCTURES,
    TAGGING,
    TUNED,
    Runs,
    compare_setups,
    efficiency,
    gamma,
    layers,
    mixes,
    paper_comparison,
    perplexities,
    placements,
    probes,
    pronouns,
    table,
)
from search_space import START_RATE
from search_tables import all_seeds, other_hyperparameters, rates, unfinished

from elmo.tasks.training.mix_plot import draw_mixes

CURVES_PICTURE = "sample-efficiency.png"
MIXES_PICTURE = "mixes.png"
BASE_CURVES_PICTURE = "sample-efficiency-base.png"
BASE_MIXES_PICTURE = "mixes-base.png"
RECORD = "results.jsonl"
COLORS = {"static vectors": "tab:gray", "layer 0": "tab:orange", "ELMo, frozen": "tab:blue"}


# ---------------------------------------------------------------------------------------- pictures


def draw_curves(runs: Runs, path: Path) -> None:
    """Plot scores over the fraction of the training examples."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (name, curve) in zip(figure.subplots(2, 2).flat, CURVES.items(), strict=True):
        task = curve.task
        for setup, title in curve.setups.items():
            known = {
                100 * fraction: spread
                for fraction, run in runs.by_fraction(name, setup).items()
                if (spread := runs.spread(run, task.metric))
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
        ticks = [100 * fraction for fraction in runs.fractions()]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_title(task.title)
        axes.set_xlabel("percent of the training examples")
        axes.set_ylabel(task.unit)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    figure.savefig(path)


# ---------------------------------------------------------------------------------------- the page


def provenance(record: Record) -> str:
    """Return a table of the commits and machines of the runs, most frequent first."""
    counts = Counter((entry["commit"], entry["machine"]) for entry in record.values())
    return table(
        ["runs", "commit", "machine"],
        [[f"{count}", commit, machine] for (commit, machine), count in counts.most_common()],
    )


def page(record: Record, *, has_base_page: bool) -> str:
    """Return the text of the page of the small models.

    Args:
        record: Runs with these models, and those of all language models.
        has_base_page: Whether to link to the page of the base models.
    """
    runs = Runs(record)
    link = (
        "\nThe [base models](results-base.md) have a page of their own.\n" if has_base_page else ""
    )
    return f"""\
# Results

What the bundled models bring to tasks: each model is trained with and without ELMo, everything
else being equal (encoder, head, character CNN), with the same
[hyperparameter search](#hyperparameter-search) for both. Scores are means and standard deviations
over seeds, in percent. Models are selected on the development set; the reported set is scored once,
after training.
{link}
| setup | meaning |
| --- | --- |
| static vectors | baseline: trainable word vectors from ELMo's layer 0, and a character CNN |
| layer 0 | the baseline with ELMo's layer 0 (no context) |
| ELMo, frozen | the baseline with a learned mix of all ELMo layers |
| ELMo, tuned | the same, with ELMo's weights trained with the task (`--use tuned`) |
| ELMo, adapted | `elmo finetune` on the task's training text first, then frozen |

- **Gain** is the difference to static vectors of the setup in bold: the setup with all ELMo layers
  that did best on the development set.
- The static vectors come from a model that has read the same text as ELMo, which makes the
  baseline strong.
- KLUE-YNAT, NSMC, KLUE-NLI and the SQuAD subset have no separate development set: a fixed tenth of
  the training set replaces it.
- ELMo's training text contains some test texts as a whole, without labels: 39 of 1,425 of the
  SQuAD subset, 18 of 4,000 of KLUE-NLI, 383 of the 8,459 sentences of LitBank (all parts), 8 of
  2,014 of GAP, 1 of 1,093 of the word senses, 3 of 12,215 of One Billion Word and 6 of 2,736 of
  WikiText-103. The other test sets have none; texts shorter than 30 characters (Korean: 20) were
  not compared.
- An empty cell is a run that is missing. Published scores are from papers and project pages.

## Comparison with the ELMo paper

Table 1 of the paper next to our results. CoNLL-2003 and SST-5 are the same data sets; the others
are smaller ones for the same task, so only gains can be compared. A gain is given in points and as
relative error reduction.

{paper_comparison(runs)}

## Tagging

Named entity recognition (span F1) and part-of-speech tagging.

{compare_setups(runs, TAGGING, ALL_SETUPS)}

## Text classification

TF-IDF is a logistic regression over character n-grams (1 to 3, NSMC 1 to 4; C = 4), trained on the
whole training set. On KLUE-YNAT and NSMC all our models, with and without ELMo, include such an
n-gram classifier (NSMC up to 6 characters).

{compare_setups(runs, CLASSIFICATION, ALL_SETUPS, with_tfidf=True)}

## Sentence pairs

Natural language inference: entailment, contradiction or neutral.

{compare_setups(runs, PAIRS, SETUPS | TUNED)}

## Question answering, semantic roles and coreference

- **SQuAD subset**: trained on 4,330 questions of SQuAD's training set, evaluated on the 1,190 of
  XQuAD-en, which are from SQuAD's development set.
- **PropBank-EWT**: argument spans of given predicates, excluding the predicate.
- **LitBank**: mean F1 of MUC, B³ and CEAFe; the files, sorted by name, are split 80/10/10.

{compare_setups(runs, STRUCTURES, SETUPS)}

## Pronoun resolution

GAP: which of two names a pronoun refers to, answered by the LitBank models without training on GAP.
Bias is feminine F1 divided by masculine F1; 1 is unbiased.

{pronouns(runs)}

## Hyperparameter search

The search is the same without and with ELMo. It starts from learning rate {START_RATE} and dropout
0.5 (SST, SQuAD and LitBank 0.3, PropBank 0.2). The tables of trials show development scores of the
first seed; the best trial and the start are then run with all seeds. Bold marks the hyperparameters
that do best with all seeds, which the other tables report.

Layer 0, tuned and adapted ELMo have the hyperparameters at the start. A single trial is noisy: on a
GPU the same seed does not give the same score twice (SQuAD without ELMo at 0.004: 40.25 and 38.56).

Trials, learning rate ({START_RATE} at the start; an empty cell was not tried):

{rates(runs)}

Trials, dropout of the encoder and twice the epochs, each changed alone at the learning rate shown
(data sets without a row were not tried):

{other_hyperparameters(runs)}

{unfinished(runs)}

All seeds, development scores. A preset of `elmo task fit` has the best hyperparameters of frozen
ELMo if they are better than the start with every seed, otherwise those of the start:

{all_seeds(runs)}

## Adapting ELMo to the task's text

Effect of `elmo finetune` on perplexity and on the task, with the hyperparameters at the start of
the search. Perplexity is the mean of both directions under the full softmax on the development
text, with the same vocabulary before and after. Published values are those of the original ELMo
after one epoch, with another vocabulary.

{perplexities(runs)}

## Layers

Which ELMo layers are used, with the hyperparameters at the start of the search; λ is the penalty on
the layer weights. The last layer alone and λ = 1 have three seeds, the others five. The paper
reports on SQuAD (dev): none 80.8, last layer alone 84.7, all with λ = 1 85.0, all with λ = 0.001
85.2.

{layers(runs)}

## Placement

Where ELMo enters the model, with the hyperparameters at the start of the search, which are not the
best ones for the model without ELMo. The paper reports on SNLI (dev): input 88.9, input and output
89.5, output 88.7.

{placements(runs)}

## The scale γ

A learned against a fixed scale of the layer mix. A student project's ELMo on Korean petitions has
accuracy 79 with γ and 74 without. Both have the hyperparameters at the start of the search.

{gamma(runs)}

## Sample efficiency

Scores by fraction of the training examples, with as many steps as the whole set. Fractions have
three seeds, CoNLL-2003 with all examples five. Each cell has the best learning rate on the
development set; dropout and epochs of the fractions are those at the start of the search.

"Sufficient" is the smallest fraction with which a setup reaches the setups above it with all
examples.

{efficiency(runs)}

![Scores over the fraction of the training examples]({CURVES_PICTURE})

## Learned layer weights

Softmax weights of the layers in the learned mix, mean over seeds, for frozen ELMo.

{mixes(runs)}

![Weights of the layers in the learned mixes]({MIXES_PICTURE})

## Probes

What the vectors of a layer encode, without a trained model except a linear layer (`pos-probe`,
`wsd` and `nearest` of `elmo task fit`). "All layers" is the learned mix for POS, otherwise the
mean of the layers.

{probes(runs)}

## Perplexity

Perplexity under the full softmax. Every sentence starts from the zero state; in WikiText-103 a
paragraph is one sentence. None of these texts was read in training. Words outside the vocabulary of
the softmax count as one word, so models with different vocabularies can only be compared with
`--common-vocab`.

{perplexity(runs)}

```bash
elmo evaluate lm1b/heldout-00010-00011.txt --model small-en --pretokenized \\
  --sentences line --json > OUT/small-en-lm1b.json
elmo evaluate wikitext-103/test.txt --model small-en --pretokenized \\
  --sentences line --json > OUT/small-en-wikitext-103.json
elmo evaluate klue-ynat/dev.tsv --model small-ko --text-column title \\
  --sentences line --json > OUT/small-ko-klue-ynat.json
python runs/results.py OUT --docs docs --commit ... --machine "..."
```

## Minimal pairs (BLiMP)

How often the grammatical sentence of a minimal pair is more probable than the ungrammatical one
([BLiMP](https://github.com/alexwarstadt/blimp), 67 sets of 1,000 pairs): forward, backward, and by
the sum of both log-probabilities. Ties count one half; an accuracy is a mean over sets. The LSTM of
the BLiMP paper has 69.8, forward.

"One unknown" are the pairs in which only one sentence has a word outside the vocabulary of the
softmax, whose probability is that of all unknown words: {pairs_with_one_unknown(runs)}.

{minimal_pairs(runs)}

```bash
python runs/blimp.py small-en --data blimp --out OUT/small-en-blimp.json
python runs/results.py OUT --docs docs --commit ... --machine "..."
```

## Reproduce

The scores of every seed are in [{RECORD}]({RECORD}), from which this page is generated.

```bash
bash runs/tasks.sh DATA OUT
python runs/results.py OUT --docs docs --commit ... --machine "..."
```

{provenance(record)}
"""


def pages(record: Record) -> dict[str, str]:
    """Return the text of each page by file name; there may be no runs with base models.

    Args:
        record: All recorded runs.
    """
    small, base = of_size(record, "small"), of_size(record, "base")
    texts = {"results.md": page(small, has_base_page=bool(base))}
    if base:
        texts["results-base.md"] = base_page(
            Runs(small),
            Runs(base),
            curves=BASE_CURVES_PICTURE,
            weights=BASE_MIXES_PICTURE,
            runs_table=provenance(base),
        )
    return texts


def main() -> None:
    """Update the record, write the pages and draw the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path, nargs="?", help="Folder of runs to record.")
    parser.add_argument("--docs", type=Path, required=True, help="Folder of the pages.")
    parser.add_argument("--commit", help="Commit of these runs.")
    parser.add_argument("--machine", help="Machine of these runs.")
    parser.add_argument("--size", choices=SIZES, default="small", help="Models of these runs.")
    args = parser.parse_args()
    path = args.docs / RECORD
    record = read(path)
    if args.out is not None:
        if not (args.commit and args.machine):
            parser.error("OUT requires --commit and --machine")
        record |= with_size(gather(args.out, args.commit, args.machine), args.size)
        write(path, record)
    for name, text in pages(record).items():
        (args.docs / name).write_text(text, encoding="utf-8")
    pictures = {
        "small": (MIXES_PICTURE, CURVES_PICTURE),
        "base": (BASE_MIXES_PICTURE, BASE_CURVES_PICTURE),
    }
    for size, (weights, curves) in pictures.items():
        if runs_of_size := of_size(record, size):
            runs = Runs(runs_of_size)
            draw_mixes(args.docs / weights, runs.layer_weights())
            draw_curves(runs, args.docs / curves)


if __name__ == "__main__":
    main()
