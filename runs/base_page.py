"""Text of the page docs/results-base.md, which compares the base models with the small ones."""

from result_tables import (
    ALL_SETUPS,
    CLASSIFICATION,
    PAIRS,
    SETUPS,
    STRUCTURES,
    TAGGING,
    TASKS,
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


def compare_sizes(small: Runs, base: Runs) -> str:
    """Return the scores of both sizes, without and with ELMo.

    Args:
        small: Runs of the small models.
        base: Runs of the base models.
    """
    rows = []
    for name, task in TASKS.items():
        cells = []
        for runs in (small, base):
            without = runs.spread(runs.best_run(name, "static"), task.metric)
            elmo = runs.with_elmo(name)
            gain = f"{elmo.mean - without.mean:+.2f}" if elmo and without else ""
            cells += [f"{spread.mean:.2f}" if spread else "" for spread in (without, elmo)]
            cells.append(gain)
        if any(cells[3:]):
            rows.append([f"{task.title}, {task.unit}", *cells])
    header = [
        f"{size}, {column}"
        for size in ("small", "base")
        for column in ("static vectors", "ELMo", "gain")
    ]
    return table(["data set", *header], rows)


def base_page(small: Runs, base: Runs, *, curves: str, weights: str, runs_table: str) -> str:
    """Return the text of the page.

    Args:
        small: Runs of the small models.
        base: Runs of the base models.
        curves: File name of the picture of the sample efficiency.
        weights: File name of the picture of the layer weights.
        runs_table: Table of the commits and machines of the runs.
    """
    return f"""\
# Results of the base models

Scores of tasks with `base-en` and `base-ko`, in the same setups as with the small models.
[Results](results.md) explains setups, scores and numbers of seeds.

There was no search of hyperparameters for the base models. Static vectors and frozen ELMo have
those at the start of the search for the small models or those that it found, whichever do better on
the development set; fractions of the examples differ in the learning rate only. All other runs have
the hyperparameters at the start.

## Small and base models

The setup with ELMo is the one that does best on the development set. Static vectors come from layer
0 of the same model.

{compare_sizes(small, base)}

## Comparison with the ELMo paper

{paper_comparison(base)}

## Tagging

{compare_setups(base, TAGGING, ALL_SETUPS)}

## Text classification

{compare_setups(base, CLASSIFICATION, ALL_SETUPS)}

## Sentence pairs

{compare_setups(base, PAIRS, SETUPS | TUNED)}

## Question answering, semantic roles and coreference

{compare_setups(base, STRUCTURES, SETUPS)}

## Pronoun resolution

{pronouns(base)}

## Adapting ELMo to the task's text

{perplexities(base)}

## Layers

{layers(base)}

## Placement

{placements(base)}

## The scale γ

{gamma(base)}

## Sample efficiency

{efficiency(base)}

![Scores over the fraction of the training examples]({curves})

## Learned layer weights

{mixes(base)}

![Weights of the layers in the learned mixes]({weights})

## Probes

{probes(base)}

## Reproduce

```bash
EN=base-en KO=base-ko SEARCHED=docs/results.jsonl bash runs/tasks.sh DATA OUT
python runs/results.py OUT --size base --docs docs --commit ... --machine "..."
```

{runs_table}
"""
