"""The folder of a job: what is planned, what is done, and whether it is the same job.

plan.json       written first: the settings, the texts, the tasks
shards/         a file for each task
records/        a file for each finished shard: its counts and its SHA-256
manifest.json   written last: all of it, for whoever reads the vectors

A shard without a record is not done, whatever is in it.
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
# Of the layout of the folder.
VERSION = 1
# Settings that earlier versions of elmo wrote under another name.
RENAMED = {"dtype": "precision"}

ENDINGS = {"parquet": ".parquet", "hdf5": ".h5", "safetensors": ".safetensors"}

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class JobSettings:
    """All that decides what is in a shard, but for the texts.

    Attributes:
        model: fingerprint of the model.
        layers: which are kept.
        precision: the arithmetic.
        device: its kind.
        batch_size: sentences computed together, as it was asked for.
        raw: whether the model's own tokeniser splits lines.
        format: of the shards.
        storage: type of the numbers in them.
        shard_words: words of a shard.
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
    """What is to be done.

    Attributes:
        version: of the layout.
        settings: what decides the vectors.
        source: the model, as it was named.
        n_layers: layers of each word that are kept; 0 where there is one and no axis for it.
        dim: numbers of a layer.
        n_threads: of each worker; a product rounds otherwise where more share it.
        texts: the files.
        tasks: what becomes a shard each.
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
        """Give the name of a shard."""
        return f"{number:05d}{ENDINGS[self.settings.format]}"


@dataclass(frozen=True)
class ShardRecord:
    """What became of a task.

    Attributes:
        number: of the task.
        first_sentence: number of its first sentence among all.
        n_sentences: sentences in the shard.
        n_words: words in the shard.
        n_bytes: size of the file.
        sha256: of the file.
    """

    number: int
    first_sentence: int
    n_sentences: int
    n_words: int
    n_bytes: int
    sha256: str


@dataclass(frozen=True)
class PlannedShard(ShardRecord):
    """A finished shard, by its name."""

    name: str


@dataclass(frozen=True)
class JobManifest:
    """A finished job.

    Attributes:
        version: of the layout.
        n_sentences: in all shards.
        n_words: in all shards.
        n_bytes: of all shards.
        n_layers: layers of each word; 0 where there is one and no axis for it.
        dim: numbers of a layer.
        model: as it was named.
        settings: what decided the vectors.
        texts: the files they were made of.
        shards: in order.
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
    shards: tuple[PlannedShard, ...]


class JobFolder:
    """Reads and writes the files of a job, each of them whole or not at all."""

    def __init__(self, path: Path) -> None:
        """Name the folder.

        Args:
            path: of the folder; it need not exist yet.
        """
        self.path = path

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep others out, remove what killed workers left, and leave no empty folder behind."""
        is_new = not self.path.exists()
        parts = (self.path, self.path / SHARDS, self.path / RECORDS)
        busy = f"{self.path} is in use by another job: wait for it, or name another folder"
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
        """Read the plan; None in an empty folder."""
        if not (self.path / PLAN).exists():
            # Who was killed before the plan was written has left folders with nothing in them.
            begun = {name for name in (SHARDS, RECORDS) if not any(self.path.glob(f"{name}/*"))}
            others = {path.name for path in self.path.iterdir()} - {LOCK} - begun
            if others:
                raise ConfigError(
                    f"{self.path} holds {sorted(others)[0]} and no plan of a job: name a new folder"
                )
            return None
        return read_plan(self.path / PLAN)

    def write_plan(self, plan: JobPlan) -> None:
        """Begin a job."""
        for name in (SHARDS, RECORDS):
            (self.path / name).mkdir(exist_ok=True)
        write_json(self.path / PLAN, to_dict(plan))

    def record_path(self, number: int) -> Path:
        """Give the path of a record."""
        return self.path / RECORDS / f"{number:05d}.json"

    def write_record(self, record: ShardRecord) -> None:
        """Say that a shard is done; it must be on the disk before this is."""
        sync(self.path / SHARDS)
        write_json(self.record_path(record.number), to_dict(record))

    def records(self, plan: JobPlan) -> dict[int, ShardRecord]:
        """Read the records of shards that are there, and as long as they were."""
        found: dict[int, ShardRecord] = {}
        for task in plan.tasks:
            path = self.record_path(task.number)
            if not path.exists():
                continue
            try:
                record = read_json(ShardRecord, path)
            except FormatError:
                continue  # what cannot be read is no record
            shard = self.path / SHARDS / plan.shard(task.number)
            fits = (record.first_sentence, record.n_sentences) == (
                task.first_sentence,
                task.n_sentences,
            )
            if fits and shard.exists() and shard.stat().st_size == record.n_bytes:
                found[task.number] = record
        return found

    def is_finished(self) -> bool:
        """Tell whether the manifest is written."""
        return (self.path / MANIFEST).exists()

    def write_manifest(self, plan: JobPlan, records: Mapping[int, ShardRecord]) -> None:
        """End a job; the same job has the same manifest, however often it was begun."""
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
                PlannedShard(**to_dict(records[task.number]), name=plan.shard(task.number))
                for task in plan.tasks
            ),
        )
        write_json(self.path / MANIFEST, to_dict(manifest))


def check_same_job(folder: Path, before: JobSettings, now: JobSettings) -> None:
    """Refuse to go on with settings that would make it another job; the first one is named."""
    for name, value in to_dict(before).items():
        new = getattr(now, name)
        if value != new:
            if name == "model":
                value, new = value[:12], new[:12]
                name = "the fingerprint of the model"
            raise ConfigError(
                f"{folder} holds another job: {name} was {value}, now {new}. Name another folder, "
                "or go on as it was begun"
            )


def check_same_texts(
    folder: Path, plan: JobPlan, texts: Sequence[InputText], tasks: Sequence[ShardTask]
) -> None:
    """Refuse to go on with texts of another content; their names and dates do not matter.

    Args:
        folder: for the message.
        plan: what was planned.
        texts: the files now.
        tasks: what they are cut into now.
    """
    if len(plan.texts) != len(texts):
        raise ConfigError(
            f"{folder} holds another job: it has {len(plan.texts)} texts, now there are "
            f"{len(texts)}. Name another folder"
        )
    for before, now in zip(_segments(plan.tasks), _segments(tasks), strict=False):
        if before != now:
            raise ConfigError(
                f"{folder} holds another job: {texts[now.text].name} has another content than it "
                "had. Name another folder"
            )
    if len(plan.tasks) != len(tasks):
        raise ConfigError(f"{folder} holds another job: the texts end elsewhere than they did")


def _segments(tasks: Sequence[ShardTask]) -> Iterator[TextSegment]:
    return (segment for task in tasks for segment in task.segments)


def read_plan(path: Path) -> JobPlan:
    """Read a plan; one of another layout is refused."""
    return _versioned(JobPlan, path)


def read_manifest(folder: Path) -> JobManifest:
    """Read what a finished job left; one that is not finished is refused."""
    if (folder / MANIFEST).exists():
        return _versioned(JobManifest, folder / MANIFEST)
    if not (folder / PLAN).exists():
        raise FormatError(f"{folder} is no folder of shards: there is no {MANIFEST} in it")
    plan = read_plan(folder / PLAN)
    missing = len(plan.tasks) - len(JobFolder(folder).records(plan))
    raise FormatError(
        f"{folder} is not finished, {missing} of {len(plan.tasks)} shards are missing: say the "
        "same elmo embed again"
    )


def _versioned(kind: type[Thing], path: Path) -> Thing:
    data = _parsed(path)
    settings = data.get("settings")
    if isinstance(settings, dict):
        data["settings"] = {RENAMED.get(name, name): value for name, value in settings.items()}
    if data.get("version") != VERSION:
        raise FormatError(
            f"{path} has version {data.get('version')}, expected {VERSION}: it was written by "
            "another version of elmo"
        )
    return _built(kind, data, path)


def read_json(kind: type[Thing], path: Path) -> Thing:
    """Read a dataclass that was written as JSON."""
    return _built(kind, _parsed(path), path)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(f"cannot read {path}: {error}") from None
    if not isinstance(data, dict):
        raise FormatError(f"{path} holds {type(data).__name__}, expected names with values")
    return data


def _built(kind: type[Thing], data: Any, path: Path) -> Thing:
    try:
        return from_dict(kind, data, str(path))
    except ElmoError as error:
        raise FormatError(f"{error}; the file is damaged") from None


def write_json(path: Path, content: Any) -> None:
    """Write JSON, whole or not at all."""
    with atomic_path(path) as partial:
        partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    sync(path.parent)


def sha256_of(path: Path) -> str:
    """Give the digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
