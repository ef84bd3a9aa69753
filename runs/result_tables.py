"""What the runs of runs/tasks.sh came to, as tables; runs/results.py makes a page of them."""

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
    "elmo": "ELMo",
}
TUNED = {"tuned": "ELMo, learning"}
FURTHER_WAYS = TUNED | {"finetuned": "ELMo, fine-tuned first"}
ALL_WAYS = WAYS | FURTHER_WAYS
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


@dataclass(frozen=True)
class Curve:
    """A set of which shares were learned from.

    Attributes:
        task: the set.
        ways: names in runs, and titles: without ELMo, and with it.
    """

    task: Task
    ways: dict[str, str]


_WITH_AND_WITHOUT = {way: WAYS[way] for way in ("static", "elmo")}
CURVES = {
    **{name: Curve(TASKS[name], _WITH_AND_WITHOUT) for name in ("conll2003", "ud-pos", "ynat")},
    "pos-probe": Curve(
        Task("parts of speech by a linear map", "accuracy", "test accuracy", ""),
        {"static": "static vectors", "0": "layer 0", "all": "ELMo"},
    ),
}
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
    """What the runs of a record came to."""

    def __init__(self, record: Record) -> None:
        """Take the record."""
        self._record = record

    def result(self, name: str) -> dict[str, Any] | None:
        """Give what a run came to; None where it is not there."""
        return self._record[name]["found"] if name in self._record else None

    def spread(
        self, name: str, measure: str, *, part: str = "test", times: float = 100
    ) -> Spread | None:
        """Give mean and deviation of a score, of the development part where there is no other."""
        found = self.result(name)
        if found is None:
            return None
        part = part if found["runs"][0].get(part) else "development"
        return mean_and_deviation([times * run[part][measure] for run in found["runs"]])

    def ends(self, name: str, way: str, tail: str = "") -> list[str]:
        """Give the dials that a way of a task has runs with, as their names have them, or none."""
        pattern = re.compile(rf"{re.escape(f'{name}-{way}')}({END})?{re.escape(tail)}")
        found = [match[1] or "" for run in self._record if (match := pattern.fullmatch(run))]
        return sorted(found, key=order)

    def tries(self, name: str, way: str) -> dict[str, float]:
        """Give what the first seed of a way has on the development part, by its dials."""
        measure = TASKS[name].measure
        found = {}
        for end in sorted({*self.ends(name, way), *self.ends(name, way, "-try")}, key=order):
            run = f"{name}-{way}{end}"
            one = self.result(f"{run}-try") or self.result(run)
            assert one is not None
            found[end] = one["runs"][0]["development"][measure]
        return found

    def best_try(self, name: str, way: str, dials: Collection[str] = DIALS) -> str | None:
        """Give what did best of the tries that turn no other dials; None where there are none."""
        tries = self.tries(name, way)
        ends = [end for end in tries if set(dials_of(end)) <= set(dials)]
        # Of two that are equal it is the one that is nearer to the preset.
        return max(ends, key=lambda end: (tries[end], -len(dials_of(end))), default=None)

    def at_best(self, name: str, way: str, tail: str = "") -> str:
        """Give the run of a way whose dials did best on the development part, of all seeds.

        Args:
            name: of the task.
            way: with ELMo or without.
            tail: what else the run has in its name, the share of the examples.
        """
        ends = self.ends(name, way, tail)
        if len(ends) > 1:
            # Nothing is chosen by pronouns: they are asked of the models of LitBank.
            chooses = "litbank" if name == "gap" else name
            # Of two that are equal it is the preset's.
            ends.sort(
                key=lambda end: (self._chosen_by(chooses, f"{way}{end}{tail}"), end == ""),
                reverse=True,
            )
        return f"{name}-{way}{ends[0] if ends else ''}{tail}"

    def by_share(self, name: str, way: str) -> dict[float, str]:
        """Give the run that `at_best` gives, for each share of the training examples."""
        return {
            share: self.at_best(name, way, f"-{share}" if share < 1 else "") for share in SHARES
        }

    def chosen(self, name: str) -> str | None:
        """Give the way with all of ELMo's layers that does best on the development part."""
        runs = {way: self.at_best(name, way) for way in ("elmo", *FURTHER_WAYS)}
        ways = [way for way, run in runs.items() if self.result(run)]
        if len(ways) > 1:
            ways.sort(
                key=lambda way: self._chosen_by(name, runs[way].removeprefix(f"{name}-")),
                reverse=True,
            )
        return ways[0] if ways else None

    def with_elmo(self, name: str) -> Spread | None:
        """Give the score of that way."""
        way = self.chosen(name)
        return None if way is None else self.spread(self.at_best(name, way), TASKS[name].measure)

    def _chosen_by(self, name: str, way: str) -> float:
        """Give the score that a run was chosen by."""
        found = self.spread(f"{name}-{way}", TASKS[name].measure, part="development")
        assert found is not None
        return found.mean

    def cell(self, name: str, measure: str, *, part: str = "test", times: float = 100) -> str:
        """Write a score."""
        return _written(self.spread(name, measure, part=part, times=times))

    def number(self, name: str, key: str) -> float | None:
        """Give a number out of a file of numbers."""
        found = self.result(name)
        return None if found is None else float(found[key])

    def shares(self) -> dict[str, list[float]]:
        """Give the mean shares of the layers in the mixes of all tasks, by task and place."""
        found = {}
        for name, task in TASKS.items():
            runs = (self.result(self.at_best(name, "elmo")) or {"runs": []})["runs"]
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
            baseline = runs.spread(runs.at_best(name, "static"), task.measure)
            elmo = runs.with_elmo(name)
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
        found = {way: runs.spread(runs.at_best(name, way), task.measure) for way in ways}
        if not any(found.values()):
            continue
        without = found["static"]
        elmo = runs.with_elmo(name)
        gain = f"{elmo.mean - without.mean:+.2f}" if elmo and without else ""
        tfidf = runs.number(f"{name}-tfidf", task.measure)
        line = [f"{100 * tfidf:.2f}" if tfidf is not None else ""] if with_tfidf else []
        chosen = runs.chosen(name)
        cells = [
            f"**{_written(one)}**" if way == chosen else _written(one) for way, one in found.items()
        ]
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
            *(runs.cell(runs.at_best("gap", way), measure) for measure in measures.values()),
            runs.cell(runs.at_best("gap", way), "bias", times=1),
        ]
        for way, title in WAYS.items()
        if runs.result(runs.at_best("gap", way))
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
    rows = []
    for name, curve in CURVES.items():
        measure, title = curve.task.measure, f"{curve.task.title}, {curve.task.unit}"
        baselines: list[float] = []
        for way, way_title in curve.ways.items():
            made = runs.by_share(name, way)
            found = {share: runs.spread(run, measure) for share, run in made.items()}
            enough = (
                f"{share:.0%}"
                for share, one in found.items()
                if one and baselines and one.mean >= max(baselines)
            )
            cells = [runs.cell(run, measure) for run in made.values()]
            rows.append([title, way_title, *cells, next(enough, "")])
            baselines += [one.mean] if (one := found[1.0]) else []
    return table(["set", "way", *(f"{share:.0%}" for share in SHARES), "enough"], rows)


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
