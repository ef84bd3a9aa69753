"""The `find-units` command: a table of units, and a page that shows them."""

from dataclasses import replace

from elmo.config.look_inside import FindUnitsConfig
from elmo.lab.explorer.explore import explore
from elmo.lab.units.annotated_text import read_annotated_text, text_of_file
from elmo.lab.units.find_units import find_units
from elmo.lab.units.found_units import FoundUnits
from elmo.lab.units.read_traces import MAX_POSITIONS


def find_units_command(config: FindUnitsConfig) -> FoundUnits:
    """Find units, and write a page if one is wanted."""
    text = text_of_file(config.text, pretokenized=config.pretokenized)
    found = find_units(
        config.model,
        text,
        network=config.network,
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
    page = explore(
        config.model,
        read_annotated_text(text).text,
        network=config.network,
        kinds=config.kinds,
        units={score.unit for item in found.properties for score in item.units},
        max_positions=min(config.max_positions, MAX_POSITIONS),
        device=config.device,
    )
    return replace(found, page=str(page.save(config.page)))
