"""What the search for dials found, as tables: with ELMo and without it alike."""

from result_tables import TASKS, WAYS, Runs, table
from search_space import PRESET_RATE, dials_of, rate_of

# Of pronouns nothing is learned.
_SEARCHED = [(name, way) for name in TASKS if name != "gap" for way in ("static", "elmo")]


def rates(runs: Runs) -> str:
    """Tell what the search for the rate of learning found, without ELMo and with it."""
    rows = {}
    for name, way in _SEARCHED:
        tries = {end: score for end, score in runs.tries(name, way).items() if _is_rate(end)}
        if len(tries) > 1:
            rows[name, way] = _scores(runs, name, way, tries)
    columns = sorted({end for row in rows.values() for end in row}, key=rate_of)
    return table(
        ["data set", "setup", *(end.removeprefix("@") or PRESET_RATE for end in columns)],
        [[*_named(*of), *(row.get(end, "") for end in columns)] for of, row in rows.items()],
    )


def other_dials(runs: Runs) -> str:
    """Tell what dropouts and twice the epochs did at the rate that was best."""
    rows = []
    dropouts = ("dropout0.1", "dropout0.3", "dropout0.5")
    for name, way in _SEARCHED:
        tries = runs.tries(name, way)
        scores = _scores(runs, name, way, tries)
        for rate in filter(_is_rate, tries):
            beside = {end: dials for end in tries if (dials := _beside(rate, end))}
            by_dial = {dial: scores[end] for end, dial in beside.items()}
            twice = [score for dial, score in by_dial.items() if dial.startswith("epochs")]
            if by_dial:
                cells = [
                    scores[rate],
                    *(by_dial.get(one, "") for one in dropouts),
                    *(twice or [""]),
                ]
                rows.append([*_named(name, way), rate.removeprefix("@") or PRESET_RATE, *cells])
    header = ["preset", "dropout 0.1", "dropout 0.3", "dropout 0.5", "twice the epochs"]
    return table(["data set", "setup", "learning rate", *header], rows)


def unfinished(runs: Runs) -> str:
    """Tell which of the best tries have one seed alone."""
    found = [
        f"{TASKS[name].title} ({WAYS[way]}, {best.removeprefix('@')})"
        for name, way in _SEARCHED
        if (best := runs.best_try(name, way)) and not runs.result(f"{name}-{way}{best}")
    ]
    return f"Not yet run with all seeds: {', '.join(found)}." if found else ""


def _is_rate(end: str) -> bool:
    return set(dials_of(end)) <= {"rate"}


def _beside(rate: str, end: str) -> str:
    """Give the one dial that is turned beside a rate; nothing where it is another rate."""
    before = f"{rate}+" if rate else "@"
    dial = end.removeprefix(before) if end.startswith(before) else ""
    return "" if "+" in dial or not dial.startswith(("dropout", "epochs")) else dial


def _scores(runs: Runs, name: str, way: str, tries: dict[str, float]) -> dict[str, str]:
    """Write what tries have; bold is what stands in the other tables."""
    best = runs.at_best(name, way)
    return {
        end: f"**{100 * score:.2f}**" if f"{name}-{way}{end}" == best else f"{100 * score:.2f}"
        for end, score in tries.items()
    }


def _named(name: str, way: str) -> list[str]:
    return [
        f"{TASKS[name].title}, {TASKS[name].measure.replace('_', ' ').replace('f1', 'F1')}",
        WAYS[way],
    ]
