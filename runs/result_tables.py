"""Tables of the results of runs/tasks.sh, for the page that runs/results.py writes."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from record_result import Record
from search_space import DIALS, END, dials_of, order

from elmo.tasks.fit import PARTS
from elmo.tasks.scores.label_scores import Spread, mean_and_deviation

SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)
WAYS = {
    "static": "static vectors",
    "layer0": "layer 0",
    "elmo": "ELMo, frozen",
}
TUNED = {"tuned": "ELMo, tuned"}
TRAINED_WAYS = TUNED | {"finetuned": "ELMo, adapted"}
ALL_WAYS = WAYS | TRAINED_WAYS
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
        measure: Key of the reported score.
        unit: Split and score, for the tables.
        published: Published scores.
    """

    title: str
    measure: str
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
        ways: Setups without and with ELMo: key in the run's name, and title.
    """

    task: DataSet
    ways: dict[str, str]


_WITH_AND_WITHOUT = {way: WAYS[way] for way in ("static", "elmo")}
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

    def spread(
        self, name: str, measure: str, *, part: str = "test", times: float = 100
    ) -> Spread | None:
        """Return mean and deviation of a score; on the development set if the part is missing."""
        result = self.result(name)
        if result is None:
            return None
        part = part if result["runs"][0].get(part) else "development"
        return mean_and_deviation([times * run[part][measure] for run in result["runs"]])

    def ends(self, name: str, way: str, tail: str = "") -> list[str]:
        """Return the hyperparameter suffixes of the recorded runs of a setup, sorted."""
        pattern = re.compile(rf"{re.escape(f'{name}-{way}')}({END})?{re.escape(tail)}")
        suffixes = [match[1] or "" for run in self._record if (match := pattern.fullmatch(run))]
        return sorted(suffixes, key=order)

    def tries(self, name: str, way: str) -> dict[str, float]:
        """Return the development score of the first seed by hyperparameter suffix."""
        measure = TASKS[name].measure
        scores = {}
        for end in sorted({*self.ends(name, way), *self.ends(name, way, "-try")}, key=order):
            run = f"{name}-{way}{end}"
            result = self.result(f"{run}-try") or self.result(run)
            assert result is not None
            scores[end] = result["runs"][0]["development"][measure]
        return scores

    def best_try(self, name: str, way: str, hyperparameters: Collection[str] = DIALS) -> str | None:
        """Return the suffix with the best development score of the first seed, or None."""
        tries = self.tries(name, way)
        ends = [end for end in tries if set(dials_of(end)) <= set(hyperparameters)]
        # On a tie, prefer the one nearer to the preset.
        return max(ends, key=lambda end: (tries[end], -len(dials_of(end))), default=None)

    def at_best(self, name: str, way: str, tail: str = "") -> str:
        """Return the run of a setup with the best mean development score over all seeds.

        Args:
            name: Name of the task.
            way: Setup, with or without ELMo.
            tail: End of the run's name: the fraction of the examples.
        """
        ends = self.ends(name, way, tail)
        if len(ends) > 1:
            # GAP is only evaluated, with the models that were selected on LitBank.
            selected_on = "litbank" if name == "gap" else name
            # On a tie, prefer the preset.
            ends.sort(
                key=lambda end: (
                    self._development_mean(selected_on, f"{way}{end}{tail}"),
                    end == "",
                ),
                reverse=True,
            )
        return f"{name}-{way}{ends[0] if ends else ''}{tail}"

    def by_share(self, name: str, way: str) -> dict[float, str]:
        """Return the run of `at_best` for each fraction of the training examples."""
        return {
            share: self.at_best(name, way, f"-{share}" if share < 1 else "") for share in SHARES
        }

    def chosen(self, name: str) -> str | None:
        """Return the setup with all ELMo layers that does best on the development set."""
        runs = {way: self.at_best(name, way) for way in ("elmo", *TRAINED_WAYS)}
        ways = [way for way, run in runs.items() if self.result(run)]
        if len(ways) > 1:
            ways.sort(
                key=lambda way: self._development_mean(name, runs[way].removeprefix(f"{name}-")),
                reverse=True,
            )
        return ways[0] if ways else None

    def with_elmo(self, name: str) -> Spread | None:
        """Return the score of the setup that `chosen` returns."""
        way = self.chosen(name)
        return None if way is None else self.spread(self.at_best(name, way), TASKS[name].measure)

    def _development_mean(self, name: str, way: str) -> float:
        """Return the mean development score of a run."""
        spread = self.spread(f"{name}-{way}", TASKS[name].measure, part="development")
        assert spread is not None
        return spread.mean

    def cell(self, name: str, measure: str, *, part: str = "test", times: float = 100) -> str:
        """Format a score for a table."""
        return _score_text(self.spread(name, measure, part=part, times=times))

    def number(self, name: str, key: str) -> float | None:
        """Return one value of a run that holds plain numbers."""
        result = self.result(name)
        return None if result is None else float(result[key])

    def shares(self) -> dict[str, list[float]]:
        """Return the mean layer weights of all tasks, by task and placement."""
        weights = {}
        for name, task in TASKS.items():
            runs = (self.result(self.at_best(name, "elmo")) or {"runs": []})["runs"]
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
            baseline = runs.spread(runs.at_best(name, "static"), task.measure)
            elmo = runs.with_elmo(name)
            if baseline is None or elmo is None:
                continue
            paper = [title, f"{before}", f"{after}", _gain(before, after)]
            project = [_score_text(baseline), _score_text(elmo), _gain(baseline.mean, elmo.mean)]
            rows.append([*paper, f"{task.title}, {task.unit}", *project])
    header = ["without", "with ELMo", "gain"]
    return table(["ELMo paper", *header, "this project", *header], rows)


def compare_setups(
    runs: Runs, tasks: dict[str, DataSet], ways: dict[str, str], *, with_tfidf: bool = False
) -> str:
    """Return the scores of all setups of several data sets."""
    rows = []
    for name, task in tasks.items():
        spreads = {way: runs.spread(runs.at_best(name, way), task.measure) for way in ways}
        if not any(spreads.values()):
            continue
        without = spreads["static"]
        elmo = runs.with_elmo(name)
        gain = f"{elmo.mean - without.mean:+.2f}" if elmo and without else ""
        tfidf = runs.number(f"{name}-tfidf", task.measure)
        line = [f"{100 * tfidf:.2f}" if tfidf is not None else ""] if with_tfidf else []
        chosen = runs.chosen(name)
        cells = [
            f"**{_score_text(spread)}**" if way == chosen else _score_text(spread)
            for way, spread in spreads.items()
        ]
        rows.append([f"{task.title}, {task.unit}", *line, *cells, gain, task.published])
    first = ["TF-IDF"] if with_tfidf else []
    return table(["data set", *first, *ways.values(), "gain", "published"], rows)


def perplexities(runs: Runs) -> str:
    """Return perplexity and score before and after adapting ELMo to the text of a task."""
    rows = []
    for name, published in PERPLEXITIES.items():
        task = TASKS[name]
        numbers = [runs.number(f"{name}-{when}", "mean") for when in ("before", "after")]
        cells = [f"{number:.1f}" if number is not None else "" for number in numbers]
        scores = [runs.cell(f"{name}-{way}", task.measure) for way in ("elmo", "finetuned")]
        rows.append([task.title, *cells, published, *scores])
    header = ["data set", "perplexity before", "after", "published", "score before", "after"]
    return table(header, rows)


def layers(runs: Runs) -> str:
    """Return the scores of several layer selections."""
    names = ("sst5", "conll2003")
    header = ["layers", *(f"{TASKS[name].title}, {TASKS[name].unit}" for name in names)]
    rows = [
        [title, *(runs.cell(f"{name}-{way}", TASKS[name].measure) for name in names)]
        for way, title in LAYERS.items()
    ]
    return table(header, rows)


def placements(runs: Runs) -> str:
    """Return the scores with ELMo at the input, the output or both."""
    rows = [
        [title, *(runs.cell(f"sick-{way}", "accuracy", part=part) for part in PARTS)]
        for way, title in PLACEMENTS.items()
        if runs.result(f"sick-{way}")
    ]
    return table(["placement of ELMo", "SICK, dev accuracy", "test accuracy"], rows)


def pronouns(runs: Runs) -> str:
    """Return the GAP scores by gender."""
    measures = {"F1": "gap_f1", "masculine F1": "masculine_f1", "feminine F1": "feminine_f1"}
    rows = [
        [
            title,
            *(runs.cell(runs.at_best("gap", way), measure) for measure in measures.values()),
            runs.cell(runs.at_best("gap", way), "bias", times=1),
        ]
        for way, title in WAYS.items()
        if runs.result(runs.at_best("gap", way))
    ]
    return table(["GAP test", *measures, "bias"], rows)


def gamma(runs: Runs) -> str:
    """Return the scores of a layer mix with and without the scale γ."""
    measures = ("macro_f1", "accuracy")
    rows = [
        [title, *(runs.cell(name, measure) for measure in measures)]
        for title, name in (("γ learned", "ynat-elmo"), ("γ = 1", "ynat-nogamma"))
    ]
    return table(["KLUE-YNAT dev", "macro F1", "accuracy"], rows)


def efficiency(runs: Runs) -> str:
    """Return the scores by fraction of the training examples."""
    rows = []
    for name, curve in CURVES.items():
        measure, title = curve.task.measure, f"{curve.task.title}, {curve.task.unit}"
        baselines: list[float] = []
        for way, way_title in curve.ways.items():
            by_share = runs.by_share(name, way)
            spreads = {share: runs.spread(run, measure) for share, run in by_share.items()}
            sufficient = (
                f"{share:.0%}"
                for share, spread in spreads.items()
                if spread and baselines and spread.mean >= max(baselines)
            )
            cells = [runs.cell(run, measure) for run in by_share.values()]
            rows.append([title, way_title, *cells, next(sufficient, "")])
            baselines += [spread.mean] if (spread := spreads[1.0]) else []
    return table(["data set", "setup", *(f"{share:.0%}" for share in SHARES), "sufficient"], rows)


def mixes(runs: Runs) -> str:
    """Return the learned layer weights by task."""
    rows = [
        [title, *(f"{share:.2f}" for share in shares)] for title, shares in runs.shares().items()
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
            [title, *(runs.cell(f"{name}-{layer}", measure) for layer in (0, 1, 2, "all")), others]
            for (title, name, measure), others in zip(rows, published, strict=True)
        ],
    )
