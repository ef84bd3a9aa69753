"""Model card (README.md) of a task model on a hub."""

from collections.abc import Mapping

from elmo.formats import hub
from elmo.formats.attribution import DERIVED_FROM, LANGUAGE, LICENSE, card_header
from elmo.formats.model_card import label
from elmo.tasks.fitted.fitted_task import ModelRecord
from elmo.tasks.fitted.task_description import describe_target, describe_training
from elmo.tasks.registry.task_rows import TaskRow, task_row


def task_card(
    record: ModelRecord,
    repository: str,
    attribution: Mapping[str, str],
    *,
    includes_elmo: bool,
) -> str:
    """Return the text of the README.md.

    Args:
        record: The record of the task model, as it is uploaded.
        repository: Hub id of the task model.
        attribution: Attribution of its ELMo model.
        includes_elmo: Whether the ELMo model is part of the repository. Its license then holds for
            the repository too.
    """
    config, facts = record.config, record.facts
    shown = (LANGUAGE, LICENSE) if includes_elmo else (LANGUAGE,)
    header = {name: attribution[name] for name in shown if name in attribution}
    lines = ["---", "library_name: elmo-torch", *card_header(header)]
    row = task_row(config.task)
    if row.pipeline_tag is not None:
        lines.append(f"pipeline_tag: {row.pipeline_tag}")
    if config.elmo.model and hub.is_hub_id(config.elmo.model):
        lines.append(f"base_model: {config.elmo.model}")
    title = config.task.replace("_", " ")
    lines += [f"tags: [elmo, {config.task.replace('_', '-')}]", "---", ""]
    lines += [f"# ELMo model for {title}", "", *_example(row, repository)]
    rows = {**describe_target(record), **describe_training(record)}
    if config.elmo.model is not None:
        rows["ELMo"] = _elmo(record, attribution, includes_elmo)
        if LICENSE in attribution:
            rows["ELMo_license"] = attribution[LICENSE]
    rows |= {name: str(facts[name]) for name in ("steps", "program") if name in facts}
    lines += ["", "| | |", "| --- | --- |"]
    lines += [f"| {label(name)} | {_cell(value)} |" for name, value in rows.items()]
    return "\n".join(lines) + "\n"


def _example(row: TaskRow, repository: str) -> list[str]:
    """Return the code that loads the model, for Python or else for the command line."""
    if row.example is None:
        return ["```sh", f"elmo task predict {repository} texts.txt", "```"]
    name, texts = row.example
    return [
        "```python",
        f"from elmo.tasks import {name}",
        "",
        f'model = {name}.load("{repository}")',
        f"print(model.predict({texts}))",
        "```",
    ]


def _elmo(record: ModelRecord, attribution: Mapping[str, str], includes_elmo: bool) -> str:
    """Return the name and the use of the ELMo model."""
    elmo = record.config.elmo
    use = "fine-tuned" if elmo.use == "tuned" else "frozen"
    if not includes_elmo:
        return f"{elmo.model} ({use}), layers {elmo.layers}"
    origin = attribution.get(DERIVED_FROM)
    derived = f", derived from {origin}" if origin else ""
    return f"included ({use}{derived}), layers {elmo.layers}"


def _cell(value: object) -> str:
    """Return a value for a table of Markdown."""
    return str(value).replace("|", "\\|").replace("\n", " ")
