"""Tables of the hyperparameter search, which is the same with and without ELMo."""

from textwrap import fill

from result_tables import SETUPS, TASKS, Runs, table
from search_space import START_RATE, learning_rate, parse_suffix

# GAP is only evaluated; nothing is trained on it.
_SEARCHED = [(name, setup) for name in TASKS if name != "gap" for setup in ("static", "elmo")]


def rates(runs: Runs) -> str:
    """Return the development scores by learning rate."""
    rows = {}
    for name, setup in _SEARCHED:
        trials = {
            suffix: score
            for suffix, score in runs.trials(name, setup).items()
            if _changes_only_rate(suffix)
        }
        if len(trials) > 1:
            rows[name, setup] = _score_cells(runs, name, setup, trials)
    columns = sorted({suffix for row in rows.values() for suffix in row}, key=learning_rate)
    return table(
        ["data set", "setup", *(suffix.removeprefix("@") or START_RATE for suffix in columns)],
        [
            [*_row_titles(*key), *(row.get(suffix, "") for suffix in columns)]
            for key, row in rows.items()
        ],
    )


def other_hyperparameters(runs: Runs) -> str:
    """Return the development scores by dropout and with twice the epochs, per learning rate."""
    rows = []
    dropouts = ("dropout0.1", "dropout0.3", "dropout0.5")
    for name, setup in _SEARCHED:
        trials = runs.trials(name, setup)
        scores = _score_cells(runs, name, setup, trials)
        for rate in filter(_changes_only_rate, trials):
            changes = {suffix: change for suffix in trials if (change := _one_change(rate, suffix))}
            by_change = {change: scores[suffix] for suffix, change in changes.items()}
            twice = [score for change, score in by_change.items() if change.startswith("epochs")]
            if by_change:
                cells = [
                    scores[rate],
                    *(by_change.get(dropout, "") for dropout in dropouts),
                    *(twice or [""]),
                ]
                titles = _row_titles(name, setup)
                rows.append([*titles, rate.removeprefix("@") or START_RATE, *cells])
    header = ["start", "dropout 0.1", "dropout 0.3", "dropout 0.5", "twice the epochs"]
    return table(["data set", "setup", "learning rate", *header], rows)


def all_seeds(runs: Runs) -> str:
    """Return the development scores over all seeds, at the start of the search and after it."""
    rows = []
    for name, setup in _SEARCHED:
        for suffix in filter(None, runs.suffixes(name, setup)):
            gains = runs.gains(name, setup, suffix)
            in_preset = setup == "elmo" and suffix == preset_suffix(runs, name)
            cells = [
                runs.cell(f"{name}-{setup}{tail}", TASKS[name].metric, part="development")
                for tail in ("", suffix)
            ]
            changes = [f"{key} {value:g}" for key, value in parse_suffix(suffix).items()]
            better = f"{sum(gain > 0 for gain in gains)} of {len(gains)}"
            row = [*_row_titles(name, setup), ", ".join(changes), *cells, better]
            rows.append([*row, "yes" if in_preset else ""])
    header = ["hyperparameters", "start", "changed", "better seeds", "preset"]
    return table(["data set", "setup", *header], rows)


def preset_suffix(runs: Runs, name: str) -> str:
    """Return the hyperparameters of frozen ELMo that the preset of a data set should have.

    They differ from those at the start of the search, which the suffix '' means, if the best ones
    are better with every seed.
    """
    best = runs.best_run(name, "elmo").removeprefix(f"{name}-elmo")
    return best if all(gain > 0 for gain in runs.gains(name, "elmo", best)) else ""


def unfinished(runs: Runs) -> str:
    """Return a sentence that lists the best trials that were not run with all seeds."""
    names = [
        f"{TASKS[name].title} ({SETUPS[setup]}, {best.removeprefix('@')})"
        for name, setup in _SEARCHED
        if (best := runs.best_trial(name, setup)) and not runs.result(f"{name}-{setup}{best}")
    ]
    text = f"Not yet run with all seeds: {', '.join(names)}." if names else ""
    return fill(text, 100)


def _changes_only_rate(suffix: str) -> bool:
    return set(parse_suffix(suffix)) <= {"rate"}


def _one_change(rate: str, suffix: str) -> str:
    """Return the only other hyperparameter that is changed at a learning rate, or ''.

    Args:
        rate: Suffix of a run that changes at most the learning rate.
        suffix: Suffix of another run.
    """
    start = f"{rate}+" if rate else "@"
    change = suffix.removeprefix(start) if suffix.startswith(start) else ""
    return "" if "+" in change or not change.startswith(("dropout", "epochs")) else change


def _score_cells(runs: Runs, name: str, setup: str, trials: dict[str, float]) -> dict[str, str]:
    """Format the scores of trials; the run that the other tables report is bold."""
    best = runs.best_run(name, setup)
    return {
        suffix: (
            f"**{100 * score:.2f}**" if f"{name}-{setup}{suffix}" == best else f"{100 * score:.2f}"
        )
        for suffix, score in trials.items()
    }


def _row_titles(name: str, setup: str) -> list[str]:
    return [
        f"{TASKS[name].title}, {TASKS[name].metric.replace('_', ' ').replace('f1', 'F1')}",
        SETUPS[setup],
    ]
