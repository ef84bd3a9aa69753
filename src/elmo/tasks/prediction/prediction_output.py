"""Output formats of `elmo task predict`: JSON lines, CoNLL columns, CSV and TSV."""

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from elmo.config import TaskPredictConfig
from elmo.errors import ConfigError
from elmo.tasks.core.task import Record
from elmo.tasks.prediction.prediction_tables import CONLL_SUFFIXES, InputRow
from elmo.tasks.reading.load_examples import default_columns
from elmo.tasks.registry.task_rows import TASKS, task_row

_FORMATS = {".csv": "csv", ".tsv": "tsv"} | dict.fromkeys(CONLL_SUFFIXES, "conll")
# Extensions of table formats that are not supported.
_UNSUPPORTED = (".xlsx", ".xls", ".ods", ".parquet")
_ID = "id"


class PredictionOutput:
    """The output format of a command."""

    def __init__(self, config: TaskPredictConfig, task: str) -> None:
        """Choose the format, and check that the predictions of the task can be written in it."""
        self.task = task
        self.format_name: str = config.to
        suffix = Path(config.out).suffix.lower()
        if config.to == "auto" and suffix in _UNSUPPORTED:
            raise ConfigError(
                f"Predictions cannot be written as {suffix}. Use the extension .jsonl or .csv."
            )
        if config.to == "auto":
            self.format_name = _FORMATS.get(suffix, "jsonl")
        self.has_id = config.id_column is not None
        self.columns = task_row(task).answer_columns
        in_tables = [name for name, row in TASKS.items() if row.answer_columns]
        tagged = [name for name, row in TASKS.items() if row.has_word_tags]
        supported = {"conll": tagged, "csv": in_tables, "tsv": in_tables}
        tasks = supported.get(self.format_name, [task])
        if task not in tasks:
            others = " or --to conll (.conll)" if task in tagged else ""
            name = "CoNLL" if self.format_name == "conll" else self.format_name.upper()
            raise ConfigError(
                f"{config.model} is a model for {task}. {name} output is only supported for "
                f"{', '.join(tasks)}. Use --to jsonl (.jsonl){others}."
            )

    def header(self, columns: Sequence[str] | None) -> str:
        """Return the first line of a table with text columns, or ""."""
        if self.format_name not in ("csv", "tsv"):
            return ""
        texts = default_columns(self.task, ()) if columns is None else columns
        names = [*[_ID] * self.has_id, *texts, *self.columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigError(
                f"The output would have two columns named {twice[0]!r}. Rename the column of the "
                "input, or use --to jsonl."
            )
        return self._row(names)

    def format(self, row: InputRow, record: Record) -> str:
        """Format a prediction, a record returned by `Task.to_record`."""
        if self.format_name == "conll":
            words, tags = (cast(list[str], record[name]) for name in ("words", "tags"))
            pairs = zip(words, tags, strict=True)
            return "".join(f"{word}\t{tag}\n" for word, tag in pairs) + "\n"
        if self.format_name == "jsonl":
            record = {_ID: row.id, **record} if self.has_id else record
            return json.dumps(record, ensure_ascii=False) + "\n"
        if "confidence" in self.columns:
            probabilities = cast(dict[object, float], record["probabilities"])
            record = {**record, "confidence": probabilities.get(record["label"])}
        texts = [text if isinstance(text, str) else " ".join(text) for text in row.texts]
        values = [record[name] for name in self.columns]
        return self._row([*[row.id] * self.has_id, *texts, *values])

    def _row(self, values: Sequence[object]) -> str:
        cells = ["" if value is None else str(value) for value in values]
        if self.format_name == "tsv":
            # Nothing can be quoted in TSV.
            return "\t".join(re.sub(r"[\t\r\n]", " ", cell) for cell in cells) + "\n"
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(cells)
        return line.getvalue()
