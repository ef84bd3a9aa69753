"""Many texts to a folder of shards: planned, worked through by workers, and gone on with.

Everything that says how far a job is lies in its folder (`folder.py`); nothing else remembers.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from elmo.child_processes import threads_each
from elmo.config import EmbedConfig
from elmo.embed.compute_dtype import resolve_compute_dtype
from elmo.embed.disk_space import check_room, estimated_bytes
from elmo.embed.embed_result import JobResult, count, size
from elmo.embed.embedder import ELMo
from elmo.embed.job_folder import (
    VERSION,
    JobFolder,
    JobPlan,
    JobSettings,
    ShardRecord,
    check_same_job,
    check_same_texts,
)
from elmo.embed.job_texts import InputText, ShardTask, cut, list_texts
from elmo.embed.local_workers import work_locally
from elmo.embed.ray_workers import find_ray, work_on_ray
from elmo.embed.shard_worker import ShardJob, load_model, with_whole_paths
from elmo.errors import ConfigError
from elmo.kernels.device import check_device, default_device
from elmo.progress import Progress

SHARD_WORDS = 2**18

Engine = Callable[
    [ShardJob, Sequence[ShardTask], int, Callable[[float], None]], Iterator[ShardRecord]
]
ENGINES: dict[str, Engine] = {"local": work_locally, "ray": work_on_ray}


def embed_texts(config: EmbedConfig) -> JobResult:
    """Embed texts into a folder of shards; go on where that was begun before."""
    _check(config)
    path = Path(config.out)
    texts = list_texts(config.input, path)
    model, fingerprint = load_model(config)
    device = config.device or default_device()
    if config.engine != "ray":  # whose workers may have what this machine has not
        check_device(device)
    own = next(model.parameters()).dtype
    settings = JobSettings(
        model=fingerprint,
        layers=str(config.layers),
        # What it came to here: another machine is not to take another one.
        precision=resolve_compute_dtype(config.precision, own, torch.device(device)).name,
        device=torch.device(device).type,
        batch_size=config.batch_size,
        raw=config.raw,
        format=config.format or "parquet",
        storage=config.storage or "float16",
        shard_words=config.shard_words or SHARD_WORDS,
    )
    # What no run can be made of is refused now, not by the first worker.
    model.encoding_run(
        layers=config.layers, batch_size=config.batch_size, precision=config.precision
    )
    folder = JobFolder(path)
    with folder.held():
        plan = _plan(folder, settings, texts, model, config)
        del model
        records = folder.records(plan)
        left = [task for task in plan.tasks if task.number not in records]
        n_new_words = 0
        started = time.monotonic()
        if left:
            _tell(plan, left, check_room(path, estimated_bytes(plan, left)))
            names = tuple(text.name for text in texts)
            whole = replace(with_whole_paths(config), precision=settings.precision)
            job = ShardJob(path.absolute(), names, whole, device, plan.n_threads, settings)
            new = _work(job, plan, left)
            records |= new
            n_new_words = sum(record.n_words for record in new.values())
        if left or not folder.is_finished():
            folder.write_manifest(plan, records)
    return JobResult(
        output=config.out,
        n_sentences=sum(record.n_sentences for record in records.values()),
        n_words=sum(record.n_words for record in records.values()),
        seconds=time.monotonic() - started,
        n_shards=len(records),
        n_bytes=sum(record.n_bytes for record in records.values()),
        estimated_bytes=estimated_bytes(plan, plan.tasks),
        n_new_shards=len(left),
        n_new_words=n_new_words,
    )


def _check(config: EmbedConfig) -> None:
    if config.state != "reset":
        raise ConfigError(
            "a folder of shards cannot carry the state, since each shard stands alone: leave out "
            "--state carry, or write one file"
        )
    if config.forget_sentences:
        raise ConfigError("--forget-sentences is for one HDF5 file; shards hold no such index")
    if config.engine == "ray":
        find_ray()


def _plan(
    folder: JobFolder,
    settings: JobSettings,
    texts: Sequence[InputText],
    model: ELMo,
    config: EmbedConfig,
) -> JobPlan:
    """Give the plan of the folder where it is of the same job, or make one."""
    plan = folder.plan()
    if plan is not None:
        check_same_job(folder.path, plan.settings, settings)
        if _stamps(plan.texts) != _stamps(texts):
            check_same_texts(folder.path, plan, texts, _tasks(texts, settings, model))
        return plan
    plan = JobPlan(
        version=VERSION,
        settings=settings,
        source=config.model,
        n_layers=model.config.n_layers if settings.layers == "all" else 0,
        dim=model.config.dim,
        n_threads=threads_each(config.workers or 1),
        texts=tuple(texts),
        tasks=tuple(_tasks(texts, settings, model)),
    )
    # Refused before anything is written.
    check_room(folder.path, estimated_bytes(plan, plan.tasks))
    folder.write_plan(plan)
    return plan


def _stamps(texts: Sequence[InputText]) -> list[tuple[str, int, int]]:
    return [(text.name, text.n_bytes, text.modified) for text in texts]


def _tasks(texts: Sequence[InputText], settings: JobSettings, model: ELMo) -> list[ShardTask]:
    split = model.tokenizer.words if settings.raw else None
    total = sum(text.n_bytes for text in texts)
    with Progress("plan", total, "bytes") as progress:
        return list(cut(texts, settings.shard_words, split, progress.advance))


def _tell(plan: JobPlan, left: Sequence[ShardTask], free: int) -> None:
    """Say what is coming, on standard error."""
    n_words = sum(task.n_words for task in left)
    done = len(plan.tasks) - len(left)
    before = f" ({count(done, 'shard')} done before)" if done else ""
    about = "about" if plan.settings.raw else "at most"
    sys.stderr.write(
        f"embed: {count(n_words, 'word')} into {count(len(left), 'shard')}{before}, {about} "
        f"{size(estimated_bytes(plan, left))}; {size(free)} free\n"
    )


def _work(job: ShardJob, plan: JobPlan, left: Sequence[ShardTask]) -> dict[int, ShardRecord]:
    total = sum(task.n_words for task in plan.tasks)
    done = total - sum(task.n_words for task in left)
    engine = ENGINES[job.config.engine or "local"]
    with Progress("embed", total, "words", done=done) as progress:
        found = engine(job, left, job.config.workers or 1, progress.advance)
        return {record.number: record for record in found}
