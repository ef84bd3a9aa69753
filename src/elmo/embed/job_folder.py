"""The job folder of `elmo embed`, and checks that a job is resumed with unchanged input.

plan.json       written first: settings, texts and tasks
shards/         one file per task
records/        one file per finished shard: counts and SHA-256
rows.jsonl      only while a job runs whose input is not lines of plain text: one record per row
manifest.json   written last: a summary for readers of the vectors

A shard without a record counts as unfinished.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from elmo.config.serialization import from_dict, to_dict
from elmo.embed.job_records import FinishedShard, JobManifest, JobPlan, JobSettings, ShardRecord
from elmo.embed.job_texts import InputText, ShardTask, TextSegment
from elmo.errors import ConfigError, ElmoError, FormatError
from elmo.files import LOCK, atomic_path, clear_partials, locked, sync

PLAN = "plan.json"
ROWS = "rows.jsonl"
MANIFEST = "manifest.json"
SHARDS = "shards"
RECORDS = "records"
# Version of the folder layout.
VERSION = 1

# How text is split, by the setting `pretokenized`.
_SPLITS = {True: "at spaces", False: "with the model's tokenizer"}

Data = TypeVar("Data")


class JobFolder:
    """Reads and writes the files of a job folder; every file is written atomically."""

    def __init__(self, path: Path) -> None:
        """Store the path of the folder, which need not exist yet."""
        self.path = path

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder and remove partial files; delete a new folder if it remains empty."""
        is_new = not self.path.exists()
        parts = (self.path, self.path / SHARDS, self.path / RECORDS)
        busy = f"{self.path} is in use by another job. Wait for it, or use another folder."
        with locked(self.path, busy):
            try:
                clear_partials(*parts)
                yield
            finally:
                clear_partials(*parts)
                if not (self.path / PLAN).exists():
                    (self.path / ROWS).unlink(missing_ok=True)
                    (self.path / LOCK).unlink(missing_ok=True)
                    for part in reversed(parts) if is_new else ():
                        with suppress(OSError):
                            part.rmdir()

    def plan(self) -> JobPlan | None:
        """Return the plan, or None if the folder is empty; files without a plan are an error."""
        if not (self.path / PLAN).exists():
            # A job that was killed before it wrote the plan leaves empty subfolders.
            empty = {name for name in (SHARDS, RECORDS) if not any(self.path.glob(f"{name}/*"))}
            others = {path.name for path in self.path.iterdir()} - {LOCK, ROWS} - empty
            if others:
                raise ConfigError(
                    f"{self.path} contains {sorted(others)[0]} but no {PLAN}, so it is not a job "
                    "folder. Use a new folder."
                )
            return None
        return read_plan(self.path / PLAN)

    def write_plan(self, plan: JobPlan) -> None:
        """Create the subfolders and write the plan."""
        for name in (SHARDS, RECORDS):
            (self.path / name).mkdir(exist_ok=True)
        write_json(self.path / PLAN, to_dict(plan))

    def record_path(self, number: int) -> Path:
        """Return the path of the record with the given number."""
        return self.path / RECORDS / f"{number:05d}.json"

    def write_record(self, record: ShardRecord) -> None:
        """Sync the shards folder to disk, then write the record that marks a shard as finished."""
        sync(self.path / SHARDS)
        write_json(self.record_path(record.number), to_dict(record))

    def records(self, plan: JobPlan) -> dict[int, ShardRecord]:
        """Return the records of shards that exist with the recorded size, by task number."""
        records: dict[int, ShardRecord] = {}
        for task in plan.tasks:
            path = self.record_path(task.number)
            if not path.exists():
                continue
            try:
                record = read_json(ShardRecord, path)
            except FormatError:
                continue  # an unreadable record does not count
            shard = self.path / SHARDS / plan.shard(task.number)
            is_same_range = (record.first_sentence, record.n_sentences) == (
                task.first_sentence,
                task.n_sentences,
            )
            if is_same_range and shard.exists() and shard.stat().st_size == record.n_bytes:
                records[task.number] = record
        return records

    def is_finished(self) -> bool:
        """Whether the manifest exists."""
        return (self.path / MANIFEST).exists()

    def write_manifest(self, plan: JobPlan, records: Mapping[int, ShardRecord]) -> None:
        """Write the manifest; its content does not depend on interruptions of the job."""
        manifest = JobManifest(
            version=plan.version,
            n_sentences=sum(record.n_sentences for record in records.values()),
            n_words=sum(record.n_words for record in records.values()),
            n_bytes=sum(record.n_bytes for record in records.values()),
            n_layers=plan.n_layers,
            dim=plan.dim,
            model=plan.source,
            settings=plan.settings,
            texts=plan.texts,
            shards=tuple(
                FinishedShard(**asdict(records[task.number]), name=plan.shard(task.number))
                for task in plan.tasks
            ),
        )
        write_json(self.path / MANIFEST, to_dict(manifest))


def check_same_job(folder: Path, planned: JobSettings, current: JobSettings) -> None:
    """Check that a job is resumed with the settings from its plan."""
    for name, old in to_dict(planned).items():
        new = getattr(current, name)
        if old != new:
            if name == "model":
                old, new = planned.model[:12], current.model[:12]
                name = "the fingerprint of the model"
            if name == "pretokenized":
                before, now = _SPLITS[planned.pretokenized], _SPLITS[current.pretokenized]
                raise ConfigError(
                    f"{folder} contains a job that splits text {before}, but now it would be "
                    f"split {now}. Resume it {'with' if old else 'without'} --pretokenized, or use "
                    "another folder."
                )
            raise ConfigError(
                f"{folder} contains another job: {name} was {old}, now it is {new}. Use another "
                "folder, or resume the job with the same options."
            )


def check_same_texts(
    folder: Path, plan: JobPlan, texts: Sequence[InputText], tasks: Sequence[ShardTask]
) -> None:
    """Check that a job is resumed with the same texts; file names and dates may differ."""
    if len(plan.texts) != len(texts):
        raise ConfigError(
            f"{folder} contains a job for different input: it was planned with "
            f"{len(plan.texts)} texts, but now there are {len(texts)}. Use another folder."
        )
    is_same = list(_segments(plan.tasks)) == list(_segments(tasks))
    for old, new in zip(plan.texts, texts, strict=True):
        if old.name != new.name and not is_same:
            raise ConfigError(
                f"{folder} contains a job for other input files: it was planned with {old.name}, "
                f"but now the input is {new.name}. Use another folder."
            )
    for planned, current in zip(_segments(plan.tasks), _segments(tasks), strict=False):
        if planned != current:
            raise ConfigError(
                f"{folder} contains a job for different input: {texts[current.text].name} has "
                "changed since the job was planned. Use another folder."
            )
    if len(plan.tasks) != len(tasks):
        raise ConfigError(
            f"{folder} contains a job for different input: the length of the texts has changed "
            "since the job was planned. Use another folder."
        )


def _segments(tasks: Sequence[ShardTask]) -> Iterator[TextSegment]:
    return (segment for task in tasks for segment in task.segments)


def read_plan(path: Path) -> JobPlan:
    """Read plan.json; a damaged file or an unsupported version is an error."""
    return _read_versioned(JobPlan, path)


def read_manifest(folder: Path) -> JobManifest:
    """Read the manifest of a finished job; an unfinished or damaged one is an error."""
    if (folder / MANIFEST).exists():
        return _read_versioned(JobManifest, folder / MANIFEST)
    if not (folder / PLAN).exists():
        raise FormatError(f"{folder} is not a folder of shards: it has no {MANIFEST}.")
    plan = read_plan(folder / PLAN)
    missing = len(plan.tasks) - len(JobFolder(folder).records(plan))
    raise FormatError(
        f"{folder} is not finished: {missing} of {len(plan.tasks)} shards are missing. Run the "
        "same elmo embed command again."
    )


def _read_versioned(cls: type[Data], path: Path) -> Data:
    data = _read_object(path)
    if data.get("version") != VERSION:
        raise FormatError(
            f"{path} has version {data.get('version')}, expected {VERSION}. It was written by "
            "another version of elmo."
        )
    return _build(cls, data, path)


def read_json(cls: type[Data], path: Path) -> Data:
    """Read a dataclass from a JSON file."""
    return _build(cls, _read_object(path), path)


def _read_object(path: Path) -> dict[str, object]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(f"Cannot read {path}: {error}") from None
    if not isinstance(data, dict):
        raise FormatError(f"{path} contains a {type(data).__name__}, expected a JSON object.")
    return data


def _build(cls: type[Data], data: object, path: Path) -> Data:
    try:
        return from_dict(cls, data, str(path))
    except ElmoError as error:
        raise FormatError(f"The file is damaged: {error}") from None


def write_json(path: Path, content: object) -> None:
    """Write a JSON file atomically."""
    with atomic_path(path) as partial:
        partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    sync(path.parent)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 checksum of a file as a hexadecimal string."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
