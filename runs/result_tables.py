"""Tables of the results of runs/tasks.sh, for the page that runs/results.py writes."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from record_result import Record
from search_space import HYPERPARAMETERS, SUFFIX_PATTERN, parse_suffix, sort_key

from elmo.tasks.core.label_scores import Spread, mean_and_deviation
from elmo.tasks.training.fit_result import PARTS

FRACTIONS = (0.01, 0.03, 0.1, 0.15, 0.3, 1.0)
SETUPS = {
    "static": "static vectors",
    "layer0": "layer 0",
    "elmo": "ELMo, frozen",
}
TUNED = {"tuned": "ELMo, tuned"}
TRAINED_SETUPS = TUNED | {"finetuned": "ELMo, adapted"}
ALL_SETUPS = SETUPS | TRAINED_SETUPS
LAYERS = {
    "static": "none",
    "layer0": "layer 0 alone",
    "top": "last layer alone",
    "lambda1": "all layers, λ = 1",
    "elmo": "all layers, λ = 0.001",
}
PLACEMENTS = {"static": "none", "input": "input", "elmo": "input and output", "output": "output"}


@dataclass(frozen=True)
class DataSet:
    """A data set and its reported score.

    Attributes:
        title: Name in the tables.
        metric: Key of the reported score.
        unit: Split and score, for the tables.
        published: Published scores.
    """

    title: str
    metric: str
    unit: str
    published: str


TAGGING = {
    "conll2003": DataSet(
        "CoNLL-2003 NER", "span_f1", "test F1", "90.15 → 92.22 ± 0.10 (ELMo paper)"
    ),
    "kmou-ner": DataSet("KMOU NER", "span_f1", "test F1", "85.9 → 88.2 (GloVe → ELMo, BiLSTM-CRF)"),
    "ud-pos": DataSet("UD English EWT POS (universal tags)", "accuracy", "test accuracy", ""),
}
CLASSIFICATION = {
    "sst5": DataSet("SST-5", "accuracy", "test accuracy", "51.4 → 54.7 ± 0.5 (ELMo paper)"),
    "sst2": DataSet("SST-2", "accuracy", "test accuracy", ""),
    "ynat": DataSet(
        "KLUE-YNAT",
        "macro_f1",
        "dev macro F1",
        "76.39 (a student project's ELMo); test: 81.55 (mBERT), 84.98 (KLUE-RoBERTa-small)",
    ),
    "nsmc": DataSet(
        "NSMC", "accuracy", "test accuracy", "87.44 (Korean ELMo), 89.36 (KoELECTRA-small)"
    ),
}
PAIRS = {
    "sick": DataSet("SICK", "accuracy", "test accuracy", "SNLI: 88.0 → 88.7 (ELMo paper)"),
    "klue-nli": DataSet("KLUE-NLI", "accuracy", "dev accuracy", ""),
}
STRUCTURES = {
    "squad": DataSet("SQuAD subset", "f1", "XQuAD-en F1", "full SQuAD: 81.1 → 85.8 (ELMo paper)"),
    "propbank-ewt": DataSet(
        "PropBank-EWT SRL", "span_f1", "test F1", "OntoNotes: 81.4 → 84.6 (ELMo paper)"
    ),
    "litbank": DataSet(
        "LitBank coreference", "mean_f1", "test mean F1", "OntoNotes: 67.2 → 70.4 (ELMo paper)"
    ),
    "gap": DataSet("GAP, LitBank models", "gap_f1", "test F1", ""),
}
TASKS = TAGGING | CLASSIFICATION | PAIRS | STRUCTURES


@dataclass(frozen=True)
class Curve:
    """A data set that was trained on fractions of its examples.

    Attributes:
        task: The data set.
        setups: Setups without and with ELMo: key in the run's name, and title.
    """

    task: DataSet
    setups: dict[str, str]


_WITH_AND_WITHOUT = {setup: SETUPS[setup] for setup in ("static", "elmo")}
CURVES = {
    **{name: Curve(TASKS[name], _WITH_AND_WITHOUT) for name in ("conll2003", "ud-pos", "ynat")},
    "pos-probe": Curve(
        DataSet("POS, linear probe", "accuracy", "test accuracy", ""),
        {"static": "static vectors", "0": "layer 0", "all": "ELMo, frozen"},
    ),
}
# Table 1 of the ELMo paper: score, without and with ELMo, and our data sets for the same task.
PAPER = (
    ("SQuAD, F1", 81.1, 85.8, ("squad",)),
    ("SNLI, accuracy", 88.0, 88.7, ("sick", "klue-nli")),
    ("SRL, F1", 81.4, 84.6, ("propbank-ewt",)),
    ("coreference, mean F1", 67.2, 70.4, ("litbank",)),
    ("CoNLL-2003 NER, F1", 90.15, 92.22, ("conll2003",)),
    ("SST-5, accuracy", 51.4, 54.7, ("sst5",)),
)
PERPLEXITIES = {
    "conll2003": "103.2 → 46.3",
    "sst5": "131.5 → 78.6",
    "ynat": "",
    "nsmc": "",
}


class Runs:
    """Results of the recorded runs."""

    def __init__(self, record: Record) -> None:
        """Initialize from a record."""
        self._record = record

    def result(self, name: str) -> dict[str, Any] | None:
        """Return the result of a run, or None if it is not recorded."""
        return self._record[name]["found"] if name in self._record else None

    def models(self, ending: str) -> list[str]:
        """Return the models of the runs whose names consist of a model and this ending, sorted."""
        return sorted(
            run.removesuffix(f"-{ending}") for run in self._record if run.endswith(f"-{ending}")
        )

    def spread(
        self, name: str, metric: str, *, part: str = "test", times: float = 100
    ) -> Spread | None:
        """Return mean and deviation of a score; on the development set if the part is missing."""
        result = self.result(name)
        if result is None:
            return None
        part = part if result["runs"][0].get(part) else "development"
        return mean_and_deviation([times * run[part][metric] for run in result["runs"]])

    def gains(self, name: str, setup: str, suffix: str) -> list[float]:
        """Return how much better each seed is on the development set than the start of the search.

        Args:
            name: Name of the task.
            setup: Setup, with or without ELMo.
            suffix: Hyperparameter suffix of the runs.
        """
        by_seed = []
        for tail in ("", suffix):
            result = self.result(f"{name}-{setup}{tail}")
            runs = result["runs"] if result else []
            by_seed.append({run["seed"]: run["development"][TASKS[name].metric] for run in runs})
        start, changed = by_seed
        return [score - start[seed] for seed, score in changed.items() if seed in start]

    def suffixes(self, name: str, setup: str, tail: str = "") -> list[str]:
        """Return the hyperparameter suffixes of the recorded runs of a setup, sorted."""
        pattern = re.compile(rf"{re.escape(f'{name}-{setup}')}({SUFFIX_PATTERN})?{re.escape(tail)}")
        suffixes = [match[1] or "" for run in self._record if (match := pattern.fullmatch(run))]
        return sorted(suffixes, key=sort_key)

    def trials(self, name: str, setup: str) -> dict[str, float]:
        """Return the development score of the first seed by hyperparameter suffix."""
        metric = TASKS[name].metric
        scores = {}
        for suffix in sorted(
            {*self.suffixes(name, setup), *self.suffixes(name, setup, "-try")}, key=sort_key
        ):
            run = f"{name}-{setup}{suffix}"
            result = self.result(f"{run}-try") or self.result(run)
            assert result is not None
            scores[suffix] = result["runs"][0]["development"][metric]
        return scores

    def best_trial(
        self, name: str, setup: str, hyperparameters: Collection[str] = HYPERPARAMETERS
    ) -> str | None:
        """Return the suffix with the best development score of the first seed, or None."""
        trials = self.trials(name, setup)
        suffixes = [
            suffix for suffix in trials if set(parse_suffix(suffix)) <= set(hyperparameters)
        ]
        # On a tie, prefer the one nearer to the start.
        return max(
            suffixes, key=lambda suffix: (trials[suffix], -len(parse_suffix(suffix))), default=None
        )

    def best_run(self, name: str, setup: str, tail: str = "") -> str:
        """Return the run of a setup with the best mean development score over all seeds.

        Args:
            name: Name of the task.
            setup: Setup, with or without ELMo.
            tail: End of the run's name: the fraction of the examples.
        """
        suffixes = self.suffixes(name, setup, tail)
        if len(suffixes) > 1:
            # GAP is only evaluated, with the models that were selected on LitBank.
            selected_on = "litbank" if name == "gap" else name
            # On a tie, prefer the start of the search.
            suffixes.sort(
                key=lambda suffix: (
                    self._development_mean(selected_on, f"{setup}{suffix}{tail}"),
                    suffix == "",
                ),
                reverse=True,
            )
        return f"{name}-{setup}{suffixes[0] if suffixes else ''}{tail}"

    def fractions(self) -> list[float]:
        """Return the fractions of the training examples that have runs, and all examples."""
        return [
            fraction
            for fraction in FRACTIONS
            if fraction == 1 or any(run.endswith(f"-{fraction}") for run in self._record)
        ]

    def by_fraction(self, name: str, setup: str) -> dict[float, str]:
        """Return the run of `best_run` for each fraction of the training examples."""
        return {
            fraction: self.best_run(name, setup, f"-{fraction}" if fraction < 1 else "")
            for fraction in self.fractions()
        }

    def best_elmo_setup(self, name: str) -> str | None:
        """Return the setup with all ELMo layers that does best on the development set."""
        runs = {setup: self.best_run(name, setup) for setup in ("elmo", *TRAINED_SETUPS)}
        setups = [setup for setup, run in runs.items() if self.result(run)]
        if len(setups) > 1:
            setups.sort(
                key=lambda setup: self._development_mean(
                    name, runs[setup].removeprefix(f"{name}-")
                ),
                reverse=True,
            )
        return setups[0] if setups else None

    def with_elmo(self, name: str) -> Spread | None:
        """Return the score of the setup that `best_elmo_setup` returns."""
        setup = self.best_elmo_setup(name)
        return (
            None if setup is None else self.spread(self.best_run(name, setup), TASKS[name].metric)
        )

    def _development_mean(self, name: str, setup: str) -> float:
        """Return the mean development score of a run."""
        spread = self.spread(f"{name}-{setup}", TASKS[name].metric, part="development")
        assert spread is not None
        return spread.mean

    def cell(self, name: str, metric: str, *, part: str = "test", times: float = 100) -> str:
        """Format a score for a table."""
        return _score_text(self.spread(name, metric, part=part, times=times))

    def number(self, name: str, key: str) -> float | None:
        """Return one value of a run that holds plain numbers."""
        result = self.result(name)
        return None if result is None else float(result[key])

    def layer_weights(self) -> dict[str, list[float]]:
        """Return the mean layer weights of all tasks, by task and placement."""
        weights = {}
        for name, task in TASKS.items():
            runs = (self.result(self.best_run(name, "elmo")) or {"runs": []})["runs"]
            for placement in ("input", "output"):
                mixes = [run["mixes"][placement] for run in runs if placement in run["mixes"]]
                if mixes:
                    title = task.title if placement == "input" else f"{task.title}, at the output"
                    by_layer = zip(*(mix["shares"] for mix in mixes), strict=True)
                    weights[title] = [sum(layer) / len(mixes) for layer in by_layer]
        return weights


def _score_text(spread: Spread | None) -> str:
    if spread is None:
        return ""
    return f"{spread.mean:.2f}" + (f" ± {spread.deviation:.2f}" if spread.n > 1 else "")


def _gain(before: float, after: float) -> str:
    """Format a gain and the relative error reduction, as the ELMo paper does."""
    return f"{after - before:+.2f} / {(after - before) / (100 - before):.1%}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with a left-aligned first column."""
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# ------------------------------------------------------------------------------------------ tables


def paper_comparison(runs: Runs) -> str:
    """Return Table 1 of the ELMo paper next to our data sets."""
    rows = []
    for title, before, after, names in PAPER:
        for name in names:
            task = TASKS[name]
            baseline = runs.spread(runs.best_run(name, "static"), task.metric)
            elmo = runs.with_elmo(name)
            if baseline is None or elmo is None:
                continue
            paper = [title, f"{before}", f"{after}", _gain(before, after)]
            project = [_score_text(baseline), _score_text(elmo), _gain(baseline.mean, elmo.mean)]
            rows.append([*paper, f"{task.title}, {task.unit}", *project])
    header = ["without", "with ELMo", "gain"]
    return table(["ELMo paper", *header, "this project", *header], rows)


def compare_setups(
    runs: Runs, tasks: dict[str, DataSet], setups: dict[str, str], *, with_tfidf: bool = False
) -> str:
    """Return the scores of all setups of several data sets."""
    rows = []
    for name, task in tasks.items():
        spreads = {setup: runs.spread(runs.best_run(name, setup), task.metric) for setup in setups}
        if not any(spreads.values()):
            continue
        without = spreads["static"]
        elmo = runs.with_elmo(name)
        gain = f"{elmo.mean - without.mean:+.2f}" if elmo and without else ""
        tfidf = runs.number(f"{name}-tfidf", task.metric)
        line = [f"{100 * tfidf:.2f}" if tfidf is not None else ""] if with_tfidf else []
        chosen = runs.best_elmo_setup(name)
        cells = [
            f"**{_score_text(spread)}**" if setup == chosen else _score_text(spread)
            for setup, spread in spreads.items()
        ]
        rows.append([f"{task.title}, {task.unit}", *line, *cells, gain, task.published])
    first = ["TF-IDF"] if with_tfidf else []
    return table(["data set", *first, *setups.values(), "gain", "published"], rows)


def perplexities(runs: Runs) -> str:
    """Return perplexity and score before and after adapting ELMo to the text of a task."""
    rows = []
    for name, published in PERPLEXITIES.items():
        task = TASKS[name]
        numbers = [runs.number(f"{name}-{when}", "mean") for when in ("before", "after")]
        cells = [f"{number:.1f}" if number is not None else "" for number in numbers]
        scores = [runs.cell(f"{name}-{setup}", task.metric) for setup in ("elmo", "finetuned")]
        rows.append([task.title, *cells, published, *scores])
    header = ["data set", "perplexity before", "after", "published", "score before", "after"]
    return table(header, rows)


def layers(runs: Runs) -> str:
    """Return the scores of several layer selections."""
    names = ("sst5", "conll2003")
    header = ["layers", *(f"{TASKS[name].title}, {TASKS[name].unit}" for name in names)]
    rows = [
        [title, *(runs.cell(f"{name}-{setup}", TASKS[name].metric) for name in names)]
        for setup, title in LAYERS.items()
    ]
    return table(header, rows)


def placements(runs: Runs) -> str:
    """Return the scores with ELMo at the input, the output or both."""
    rows = [
        [title, *(runs.cell(f"sick-{setup}", "accuracy", part=part) for part in PARTS)]
        for setup, title in PLACEMENTS.items()
        if runs.result(f"sick-{setup}")
    ]
    return table(["placement of ELMo", "SICK, dev accuracy", "test accuracy"], rows)


def pronouns(runs: Runs) -> str:
    """Return the GAP scores by gender."""
    metrics = {"F1": "gap_f1", "masculine F1": "masculine_f1", "feminine F1": "feminine_f1"}
    rows = [
        [
            title,
            *(runs.cell(runs.best_run("gap", setup), metric) for metric in metrics.values()),
            runs.cell(runs.best_run("gap", setup), "bias", times=1),
        ]
        for setup, title in SETUPS.items()
        if runs.result(runs.best_run("gap", setup))
    ]
    return table(["GAP test", *metrics, "bias"], rows)


def gamma(runs: Runs) -> str:
    """Return the scores of a layer mix with and without the scale γ."""
    metrics = ("macro_f1", "accuracy")
    rows = [
        [title, *(runs.cell(name, metric) for metric in metrics)]
        for title, name in (("γ learned", "ynat-elmo"), ("γ = 1", "ynat-nogamma"))
    ]
    return table(["KLUE-YNAT dev", "macro F1", "accuracy"], rows)


def efficiency(runs: Runs) -> str:
    """Return the scores by fraction of the training examples."""
    rows = []
    for name, curve in CURVES.items():
        metric, title = curve.task.metric, f"{curve.task.title}, {curve.task.unit}"
        baselines: list[float] = []
        for setup, setup_title in curve.setups.items():
            by_fraction = runs.by_fraction(name, setup)
            spreads = {fraction: runs.spread(run, metric) for fraction, run in by_fraction.items()}
            sufficient = (
                f"{fraction:.0%}"
                for fraction, spread in spreads.items()
                if spread and baselines and spread.mean >= max(baselines)
            )
            cells = [runs.cell(run, metric) for run in by_fraction.values()]
            rows.append([title, setup_title, *cells, next(sufficient, "")])
            baselines += [spread.mean] if (spread := spreads[1.0]) else []
    return table(
        ["data set", "setup", *(f"{fraction:.0%}" for fraction in runs.fractions()), "sufficient"],
        rows,
    )


def mixes(runs: Runs) -> str:
    """Return the learned layer weights by task."""
    rows = [
        [title, *(f"{weight:.2f}" for weight in weights)]
        for title, weights in runs.layer_weights().items()
    ]
    return table(["data set", "layer 0", "layer 1", "layer 2"], rows)


def probes(runs: Runs) -> str:
    """Return the probe scores by layer."""
    first = runs.spread("wsd-2", "first_sense")
    rows = [
        ["POS (Penn Treebank tags), test accuracy", "pos-probe", "accuracy"],
        [f"word sense disambiguation, F1 (first-sense baseline {_score_text(first)})", "wsd", "f1"],
        ["nearest occurrences, same sense, accuracy", "nearest", "accuracy"],
    ]
    published = [
        "97.3, 96.8 (layers 1, 2; other text)",
        "67.4, 69.0 (layers 1, 2); first sense 65.9",
        "",
    ]
    return table(
        ["probe", "layer 0", "layer 1", "layer 2", "all layers", "ELMo paper"],
        [
            [title, *(runs.cell(f"{name}-{layer}", metric) for layer in (0, 1, 2, "all")), others]
            for (title, name, metric), others in zip(rows, published, strict=True)
        ],
    )
