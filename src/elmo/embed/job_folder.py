"""The job folder of `elmo embed`, and the check that a resumed job is the same job.

plan.json       written first: settings, texts and tasks
shards/         one file per task
records/        one file per finished shard: counts and SHA-256
manifest.json   written last: a summary for readers of the vectors

A shard without a record is not finished, whatever it contains.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from elmo.config.serialization import from_dict, to_dict
from elmo.embed.job_texts import InputText, ShardTask, TextSegment
from elmo.errors import ConfigError, ElmoError, FormatError
from elmo.files import LOCK, atomic_path, clear_partials, locked, sync

PLAN = "plan.json"
MANIFEST = "manifest.json"
SHARDS = "shards"
RECORDS = "records"
# Version of the folder layout.
VERSION = 1
# Settings that earlier versions of elmo wrote under another name.
RENAMED_SETTINGS = {"dtype": "precision"}

EXTENSIONS = {"parquet": ".parquet", "hdf5": ".h5", "safetensors": ".safetensors"}

Data = TypeVar("Data")


@dataclass(frozen=True)
class JobSettings:
    """All settings that determine the content of the shards, apart from the texts.

    Attributes:
        model: Fingerprint of the model.
        layers: Layers to store.
        precision: Resolved precision of the computation.
        device: Type of the device.
        batch_size: Requested number of sentences per batch; None for the default of the device.
        raw: Whether the model's tokenizer splits the lines.
        format: File format of the shards.
        storage: Dtype of the stored vectors.
        shard_words: Approximate number of words per shard.
    """

    model: str
    layers: str
    precision: str
    device: str
    batch_size: int | None
    raw: bool
    format: str
    storage: str
    shard_words: int


@dataclass(frozen=True)
class JobPlan:
    """Plan of a job.

    Attributes:
        version: Version of the folder layout.
        settings: Settings that determine the vectors.
        source: The model as named by the user.
        n_layers: Number of stored layers; 0 for a single layer without a layer axis.
        dim: Dimension of the vectors.
        n_threads: Number of threads per worker; it is fixed because it affects rounding.
        texts: Input files.
        tasks: One task per shard.
    """

    version: int
    settings: JobSettings
    source: str
    n_layers: int
    dim: int
    n_threads: int
    texts: tuple[InputText, ...]
    tasks: tuple[ShardTask, ...]

    def shard(self, number: int) -> str:
        """Return the file name of a shard."""
        return f"{number:05d}{EXTENSIONS[self.settings.format]}"


@dataclass(frozen=True)
class ShardRecord:
    """Record of a finished shard.

    Attributes:
        number: Index of the task.
        first_sentence: Index of the first sentence among the sentences of all texts.
        n_sentences: Number of sentences in the shard.
        n_words: Number of words in the shard.
        n_bytes: Size of the file.
        sha256: Checksum of the file.
    """

    number: int
    first_sentence: int
    n_sentences: int
    n_words: int
    n_bytes: int
    sha256: str


@dataclass(frozen=True)
class FinishedShard(ShardRecord):
    """Record of a finished shard with its file name."""

    name: str


@dataclass(frozen=True)
class JobManifest:
    """Summary of a finished job.

    Attributes:
        version: Version of the folder layout.
        n_sentences: Number of sentences in all shards.
        n_words: Number of words in all shards.
        n_bytes: Total size of the shards.
        n_layers: Number of stored layers; 0 for a single layer without a layer axis.
        dim: Dimension of the vectors.
        model: The model as named by the user.
        settings: Settings that determined the vectors.
        texts: Input files.
        shards: The shards in order.
    """

    version: int
    n_sentences: int
    n_words: int
    n_bytes: int
    n_layers: int
    dim: int
    model: str
    settings: JobSettings
    texts: tuple[InputText, ...]
    shards: tuple[FinishedShard, ...]


class JobFolder:
    """Reads and writes the files of a job folder; every file is written atomically."""

    def __init__(self, path: Path) -> None:
        """Store the path.

        Args:
            path: Path of the folder, which need not exist yet.
        """
        self.path = path

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder, remove partial files of killed workers, and leave no empty folder.

        Raises:
            OutputError: Another job uses the folder.
        """
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
                    (self.path / LOCK).unlink(missing_ok=True)
                    for part in reversed(parts) if is_new else ():
                        with suppress(OSError):
                            part.rmdir()

    def plan(self) -> JobPlan | None:
        """Return the plan, or None if the folder is empty.

        Raises:
            ConfigError: The folder contains other files and no plan.
        """
        if not (self.path / PLAN).exists():
            # A job that was killed before it wrote the plan leaves empty subfolders.
            empty = {name for name in (SHARDS, RECORDS) if not any(self.path.glob(f"{name}/*"))}
            others = {path.name for path in self.path.iterdir()} - {LOCK} - empty
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
        """Return the path of a record."""
        return self.path / RECORDS / f"{number:05d}.json"

    def write_record(self, record: ShardRecord) -> None:
        """Record that a shard is finished, after the shard itself is synced to disk."""
        sync(self.path / SHARDS)
        write_json(self.record_path(record.number), to_dict(record))

    def records(self, plan: JobPlan) -> dict[int, ShardRecord]:
        """Return the records of all shards that exist with the recorded size, by task number."""
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
        """Write the manifest, which is the same whether or not the job was interrupted."""
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
                FinishedShard(**to_dict(records[task.number]), name=plan.shard(task.number))
                for task in plan.tasks
            ),
        )
        write_json(self.path / MANIFEST, to_dict(manifest))


def check_same_job(folder: Path, planned: JobSettings, current: JobSettings) -> None:
    """Check that a job is resumed with the settings that it was planned with.

    Args:
        folder: Job folder, for the message.
        planned: Settings of the plan.
        current: Settings of this call.

    Raises:
        ConfigError: A setting differs; the message names the first one.
    """
    for name, old in to_dict(planned).items():
        new = getattr(current, name)
        if old != new:
            if name == "model":
                old, new = old[:12], new[:12]
                name = "the fingerprint of the model"
            raise ConfigError(
                f"{folder} contains another job: {name} was {old}, now it is {new}. Use another "
                "folder, or resume the job with the same options."
            )


def check_same_texts(
    folder: Path, plan: JobPlan, texts: Sequence[InputText], tasks: Sequence[ShardTask]
) -> None:
    """Check that a job is resumed with the same texts; names and dates may differ.

    Args:
        folder: Job folder, for the message.
        plan: Plan of the job.
        texts: Current input files.
        tasks: Tasks that the current input files are divided into.

    Raises:
        ConfigError: The number or the content of the texts changed.
    """
    if len(plan.texts) != len(texts):
        raise ConfigError(
            f"{folder} contains another job: it was planned with {len(plan.texts)} texts, now "
            f"there are {len(texts)}. Use another folder."
        )
    for planned, current in zip(_segments(plan.tasks), _segments(tasks), strict=False):
        if planned != current:
            raise ConfigError(
                f"{folder} contains another job: the content of {texts[current.text].name} changed "
                "since this job was planned. Use another folder."
            )
    if len(plan.tasks) != len(tasks):
        raise ConfigError(
            f"{folder} contains another job: the length of the texts changed since this job was "
            "planned. Use another folder."
        )


def _segments(tasks: Sequence[ShardTask]) -> Iterator[TextSegment]:
    return (segment for task in tasks for segment in task.segments)


def read_plan(path: Path) -> JobPlan:
    """Read a plan.

    Args:
        path: Path of plan.json.

    Raises:
        FormatError: The file is damaged or has another layout version.
    """
    return _read_versioned(JobPlan, path)


def read_manifest(folder: Path) -> JobManifest:
    """Read the manifest of a finished job.

    Args:
        folder: Job folder.

    Raises:
        FormatError: The folder is not a job folder, the job is not finished, or the file is
            damaged.
    """
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
    settings = data.get("settings")
    if isinstance(settings, dict):
        data["settings"] = {
            RENAMED_SETTINGS.get(name, name): value for name, value in settings.items()
        }
    if data.get("version") != VERSION:
        raise FormatError(
            f"{path} has version {data.get('version')}, expected {VERSION}. It was written by "
            "another version of elmo."
        )
    return _build(cls, data, path)


def read_json(cls: type[Data], path: Path) -> Data:
    """Read a dataclass from a JSON file.

    Args:
        cls: Dataclass to build.
        path: Path of the file.

    Raises:
        FormatError: The file cannot be read or has other fields.
    """
    return _build(cls, _read_object(path), path)


def _read_object(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(f"Cannot read {path}: {error}") from None
    if not isinstance(data, dict):
        raise FormatError(f"{path} contains a {type(data).__name__}, expected a JSON object.")
    return data


def _build(cls: type[Data], data: Any, path: Path) -> Data:
    try:
        return from_dict(cls, data, str(path))
    except ElmoError as error:
        raise FormatError(f"The file is damaged: {error}") from None


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically."""
    with atomic_path(path) as partial:
        partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    sync(path.parent)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal text."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
