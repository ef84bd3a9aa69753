"""Dials of a run that its preset has not, as its name ends with them: @0.002+dropout0.1+epochs8."""

import re

PRESET_RATE = "0.001"
DIALS = {"rate": r"[0-9.]+", "dropout": r"dropout[0-9.]+", "epochs": r"epochs[0-9]+"}
_ONE = f"(?:{'|'.join(DIALS.values())})"
END = rf"@{_ONE}(?:\+{_ONE})*"


def dials_of(end: str) -> dict[str, float]:
    """Give the dials that the name of a run ends with."""
    found = {}
    for value in filter(None, end.removeprefix("@").split("+")):
        name = next(dial for dial, pattern in DIALS.items() if re.fullmatch(pattern, value))
        found[name] = float(value.removeprefix(name))
    return found


def rate_of(end: str) -> float:
    """Give the rate of learning among them, or the preset's."""
    return dials_of(end).get("rate", float(PRESET_RATE))


def order(end: str) -> tuple[float, ...]:
    """Give what ends are sorted by: rates from below, and what is nearest to the preset first."""
    dials = dials_of(end)
    return (rate_of(end), len(dials), *dials.values())
