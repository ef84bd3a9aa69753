"""Resumable jobs that embed texts into a folder of shards.

The whole state of a job is stored in its folder; see `job_folder.py`.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from elmo.child_processes import threads_each
from elmo.config import EmbedConfig
from elmo.corpus.input_records import TEXT
from elmo.embed.disk_space import check_free_space, estimated_bytes
from elmo.embed.embed_result import JobResult, format_size
from elmo.embed.embedder import ELMo
from elmo.embed.input_rows import finds_paragraphs, has_plain_lines, row_text, write_rows
from elmo.embed.job_folder import (
    PLAN,
    ROWS,
    VERSION,
    JobFolder,
    check_same_job,
    check_same_texts,
)
from elmo.embed.job_records import JobPlan, JobSettings, ShardRecord
from elmo.embed.job_texts import (
    InputText,
    ShardTask,
    ShardTaskReader,
    divide_into_tasks,
    list_texts,
)
from elmo.embed.local_workers import run_locally
from elmo.embed.ray_workers import import_ray, run_on_ray
from elmo.embed.shard_worker import ShardJob, load_model, with_absolute_paths
from elmo.errors import ConfigError, interruption_note
from elmo.formats.attribution import LANGUAGE
from elmo.inference.precision import resolve_precision
from elmo.kernels.device import check_device, default_device
from elmo.progress import Progress, format_count
from elmo.text.line_splitter import (
    CONVERT_REMEDY,
    TextCheck,
    line_splitter,
    splits_at_spaces,
)

MIN_SHARD_WORDS, MAX_SHARD_WORDS = 2**13, 2**18
# Time for a shard on one slow core, and how many multiplications such a core does in a second.
SHARD_SECONDS = 45
MULTIPLICATIONS_PER_SECOND = 5 * 10**9

logger = logging.getLogger(__name__)

Engine = Callable[
    [ShardJob, Sequence[ShardTask], int, Callable[[float], None]], Iterator[ShardRecord]
]
ENGINES: dict[str, Engine] = {"local": run_locally, "ray": run_on_ray}


def embed_texts(config: EmbedConfig) -> JobResult:
    """Embed texts into a folder of shards, or resume the job in the folder."""
    _check_options(config)
    with interruption_note(lambda: _kept_after_interruption(Path(config.out))):
        return _embed_texts(config)


def _kept_after_interruption(folder: Path) -> str | None:
    if not (folder / PLAN).exists():
        return None
    return "Finished shards are kept; run the same command again to resume."


def _embed_texts(config: EmbedConfig) -> JobResult:
    path = Path(config.out)
    texts = list_texts(config.input, path)
    model, fingerprint = load_model(config)
    device = config.device or default_device()
    if config.engine != "ray":  # Ray workers may have devices that this machine lacks
        check_device(device)
    weights_dtype = next(model.parameters()).dtype
    tokenizer = model.config.text.tokenizer
    # Report a tokenizer that is not installed before anything is written.
    line_splitter(tokenizer, pretokenized=config.pretokenized)
    names = tuple(text.name for text in texts)
    has_rows = not has_plain_lines(config, names)
    settings = JobSettings(
        model=fingerprint,
        layers=str(config.layers),
        # Resolved here, so that all machines use the same precision.
        precision=resolve_precision(
            config.precision,
            weights_dtype,
            torch.device(device),
            (model.config.lstm.cell_dim, model.config.lstm.projection_dim),
        ).name,
        device=torch.device(device).type,
        batch_size=config.batch_size,
        pretokenized=config.pretokenized,
        format=config.format or "parquet",
        storage=config.storage or "float16",
        shard_words=config.shard_words or default_shard_words(model, torch.device(device).type),
        pooling=config.pooling,
        sentences=config.sentences or "line",
        input_format=config.input_format,
        text_column=config.text_column or TEXT,
        id_column=config.id_column,
        columns=config.columns,
    )
    # Check the arguments here instead of in the first worker.
    model.encoding_run(
        layers=config.layers, batch_size=config.batch_size, precision=config.precision
    )
    folder = JobFolder(path)
    with folder.lock():
        plan = _load_or_make_plan(folder, settings, texts, model, config, has_rows)
        records = folder.records(plan)
        remaining = [task for task in plan.tasks if task.number not in records]
        n_new_words = 0
        started = time.monotonic()
        if remaining:
            if plan.has_rows:
                if not (path / ROWS).exists():
                    _write_rows(folder, texts, model, config)
                names = (str((path / ROWS).absolute()),)
            free = check_free_space(path, estimated_bytes(plan, remaining))
            is_counted = _has_exact_counts(settings, tokenizer, plan.has_rows)
            _print_estimate(plan, remaining, free, is_counted=is_counted)
            worker_config = replace(with_absolute_paths(config), precision=settings.precision)
            job = ShardJob(path.absolute(), names, worker_config, device, plan.n_threads, settings)
            job = replace(job, has_rows=plan.has_rows, line_is_integer=plan.line_is_integer)
            new = _run_tasks(job, plan, remaining)
            records |= new
            n_new_words = sum(record.n_words for record in new.values())
        if remaining or not folder.is_finished():
            folder.write_manifest(plan, records)
        (path / ROWS).unlink(missing_ok=True)
    if not sum(record.n_words for record in records.values()):
        logger.warning("%s contains no words, so there are no vectors.", config.input)
    counts = [record.n_empty for record in records.values()]
    return JobResult(
        out=config.out,
        n_empty=None if None in counts else sum(count or 0 for count in counts),
        n_sentences=sum(record.n_sentences for record in records.values()),
        n_words=sum(record.n_words for record in records.values()),
        seconds=time.monotonic() - started,
        n_shards=len(records),
        n_bytes=sum(record.n_bytes for record in records.values()),
        estimated_bytes=estimated_bytes(plan, plan.tasks),
        n_new_shards=len(remaining),
        n_new_words=n_new_words,
    )


def _check_options(config: EmbedConfig) -> None:
    if config.state != "reset":
        raise ConfigError(
            "--state carry is not supported for a folder of shards, because shards are computed "
            "independently. Omit it, or write a single file."
        )
    if config.forget_sentences:
        raise ConfigError(
            "--forget-sentences is only supported for a single HDF5 file. Omit it: shards have no "
            "index of sentences."
        )
    if config.engine == "ray":
        import_ray()


def _load_or_make_plan(
    folder: JobFolder,
    settings: JobSettings,
    texts: Sequence[InputText],
    model: ELMo,
    config: EmbedConfig,
    has_rows: bool,
) -> JobPlan:
    """Return the existing plan after checking it, or create and write a new plan."""
    plan = folder.plan()
    if plan is not None:
        if config.shard_words is None:
            settings = replace(settings, shard_words=plan.settings.shard_words)
        if splits_at_spaces(model.config.text.tokenizer):
            # Then both values of the option mean the same.
            settings = replace(settings, pretokenized=plan.settings.pretokenized)
        check_same_job(folder.path, plan.settings, settings)
        if _file_stamps(plan.texts) != _file_stamps(texts):
            tasks = _make_tasks(folder, texts, settings, model, config, plan.has_rows)
            check_same_texts(folder.path, plan, texts, tasks)
        return plan
    plan = JobPlan(
        version=VERSION,
        settings=settings,
        source=config.model,
        n_layers=model.config.n_layers if settings.layers == "all" else 0,
        dim=model.config.dim,
        n_threads=threads_each(config.workers or 1),
        texts=tuple(texts),
        tasks=tuple(_make_tasks(folder, texts, settings, model, config, has_rows)),
        has_rows=has_rows,
        line_is_integer=True,
    )
    # Check before anything is written.
    check_free_space(folder.path, estimated_bytes(plan, plan.tasks))
    check = TextCheck(
        model.config.text.tokenizer,
        pretokenized=config.pretokenized,
        remedy=CONVERT_REMEDY,
        language=model.attribution.get(LANGUAGE),
        finds_paragraphs=finds_paragraphs(config),
    )
    if plan.tasks:
        names = [str(folder.path / ROWS)] if has_rows else [text.name for text in texts]
        lines = ShardTaskReader(names).lines(plan.tasks[0])
        check.check(map(row_text, lines) if has_rows and config.sentences != "split" else lines)
    folder.write_plan(plan)
    return plan


def _file_stamps(texts: Sequence[InputText]) -> list[tuple[str, int, int]]:
    return [(text.name, text.n_bytes, text.modified) for text in texts]


def _make_tasks(
    folder: JobFolder,
    texts: Sequence[InputText],
    settings: JobSettings,
    model: ELMo,
    config: EmbedConfig,
    has_rows: bool,
) -> list[ShardTask]:
    """Divide the texts into tasks, after converting them to rows if necessary."""
    name = model.config.text.tokenizer
    split = None if _has_exact_counts(settings, name, has_rows) else line_splitter(name)
    if has_rows:
        _write_rows(folder, texts, model, config)
        texts = list_texts(str(folder.path / ROWS), folder.path)
    total = sum(text.n_bytes for text in texts)
    text_of = row_text if has_rows else None
    with Progress("plan", total, "bytes") as progress:
        return list(
            divide_into_tasks(texts, settings.shard_words, split, progress.advance, text_of)
        )


def _has_exact_counts(settings: JobSettings, tokenizer: str | None, has_rows: bool) -> bool:
    """Whether the words of the tasks are counted, not estimated from a sample of lines."""
    # Rows of split sentences are already split into words.
    is_split = has_rows and settings.sentences == "split"
    return is_split or settings.pretokenized or splits_at_spaces(tokenizer)


def _write_rows(
    folder: JobFolder, texts: Sequence[InputText], model: ELMo, config: EmbedConfig
) -> None:
    split = line_splitter(model.config.text.tokenizer, pretokenized=config.pretokenized)
    total = sum(text.n_bytes for text in texts)
    with Progress("read", total, "bytes") as progress:
        names = [text.name for text in texts]
        write_rows(folder.path / ROWS, names, config, split, progress.advance)


def default_shard_words(model: ELMo, device: str) -> int:
    """Return the default number of words per shard, which takes less than a minute.

    It depends on the model and the type of device, but not on the speed measured, so that the same
    command always writes the same shards.
    """
    if device != "cpu":
        return MAX_SHARD_WORDS
    n_weights = sum(weight.numel() for weight in model.network.bilm.parameters())
    n_words = max(1, SHARD_SECONDS * MULTIPLICATIONS_PER_SECOND // n_weights)
    return int(min(MAX_SHARD_WORDS, max(MIN_SHARD_WORDS, 2 ** (n_words.bit_length() - 1))))


def _print_estimate(
    plan: JobPlan, remaining: Sequence[ShardTask], free: int, *, is_counted: bool
) -> None:
    """Print the remaining work, its estimated size and the free space to standard error."""
    n_words = sum(task.n_words for task in remaining)
    about = "" if is_counted else "about "
    n_done = len(plan.tasks) - len(remaining)
    done = f" ({format_count(n_done, 'shard')} already done)" if n_done else ""
    bound = "at most" if plan.settings.pretokenized else "about"
    sys.stderr.write(
        f"embed: {about}{format_count(n_words, 'word')} into "
        f"{format_count(len(remaining), 'shard')}{done}, {bound} "
        f"{format_size(estimated_bytes(plan, remaining))}; {format_size(free)} free\n"
    )


def _run_tasks(
    job: ShardJob, plan: JobPlan, remaining: Sequence[ShardTask]
) -> dict[int, ShardRecord]:
    total = sum(task.n_words for task in plan.tasks)
    done = total - sum(task.n_words for task in remaining)
    engine = ENGINES[job.config.engine or "local"]
    with Progress("embed", total, "words", done=done) as progress:
        records = engine(job, remaining, job.config.workers or 1, progress.advance)
        return {record.number: record for record in records}
