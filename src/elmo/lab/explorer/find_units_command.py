"""The `find-units` command: a table of units, and a page that shows them."""

from dataclasses import replace
from pathlib import Path

from elmo.config.look_inside import FindUnitsConfig
from elmo.lab.explorer.explore import explore
from elmo.lab.units.find_units import find_units, words_of_conllu
from elmo.lab.units.found_units import FoundUnits
from elmo.lab.units.read_traces import MAX_POSITIONS, Text


def find_units_command(config: FindUnitsConfig) -> FoundUnits:
    """Find units, and write a page if one is wanted."""
    found = find_units(
        config.model,
        Path(config.text),
        builtin=config.builtin,
        pattern=config.pattern,
        labels=config.labels,
        kinds=config.kinds,
        n=config.n,
        max_positions=config.max_positions,
        shifts=config.shifts,
        random=config.random,
        ablate=config.ablate,
        seed=config.seed,
        device=config.device,
    )
    if config.page is None:
        return found
    path = Path(config.text)
    words = words_of_conllu(path)
    text: Text = path
    if words is not None:
        text = [[word.form for word in sentence] for sentence in words]
    page = explore(
        config.model,
        text,
        kinds=config.kinds,
        units={score.unit for item in found.properties for score in item.units},
        max_positions=min(config.max_positions, MAX_POSITIONS),
        device=config.device,
    )
    return replace(found, page=str(page.save(config.page)))
