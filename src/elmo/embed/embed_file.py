"""The `embed` command: writes the word vectors of a text to a file, with bounded memory.

If the output is a folder, `sharded_job.py` runs the command as a resumable job instead.
"""

import logging
import os
import time
from pathlib import Path

import numpy as np
import torch

from elmo.config import EmbedConfig
from elmo.corpus.input_records import InputFile
from elmo.corpus.text_sources import resolve, total_bytes
from elmo.embed.buffered_write import WINDOW_WORDS, Line, line_windows, write_in_background
from elmo.embed.embed_result import EmbedResult
from elmo.embed.embedder import ELMo
from elmo.embed.input_rows import RowReader, carried_names, finds_paragraphs
from elmo.embed.layer_selection import pool
from elmo.embed.sentence_groups import Vectors
from elmo.embed.vector_writers import (
    EXTENSIONS,
    INDEX_TOO_LONG,
    MAX_INDEX_CHARACTERS,
    open_vector_file,
)
from elmo.errors import ConfigError, OutputError
from elmo.formats.attribution import LANGUAGE
from elmo.kernels.device import default_device, move
from elmo.progress import Progress, duration, progress_message
from elmo.text.line_splitter import CONVERT_REMEDY, TextCheck, line_splitter

logger = logging.getLogger(__name__)

# Options that are only supported for a folder of shards.
JOB_OPTIONS = ("format", "workers", "engine", "shard_words", "storage")
# Batch rows with a carried state: the default of AllenNLP's command.
CARRIED_ROWS = 64
# Remaining time for which shards are suggested, and seconds until it can be estimated.
LONG_SECONDS, HINT_AFTER = 300, 20


def embed(config: EmbedConfig) -> EmbedResult:
    """Embed text with one sentence per line, and write the vectors of all words."""
    if config.state not in ("reset", "carry"):
        raise ConfigError(f"Unknown state {config.state!r}. Expected one of: reset, carry.")
    if _is_folder(config.out):
        from elmo.embed.sharded_job import embed_texts  # a slow import that one file does not need

        return embed_texts(config)
    _check_options_of_one_file(config)
    output = Path(config.out)
    names = carried_names(config)
    indexed = output.suffix.lower() in (".h5", ".hdf5") and not config.forget_sentences
    source = _single_input(config)
    file = InputFile(source, config.input_format)
    with open_vector_file(
        output,
        all_layers=config.layers == "all",
        index_sentences=indexed,
        pooled=config.pooling is not None,
        names=names,
    ) as writer:
        size = total_bytes([source])
        if indexed and size is not None and size > MAX_INDEX_CHARACTERS:
            raise OutputError(INDEX_TOO_LONG)
        model = ELMo.from_pretrained(config.model, options=config.options, vocab=config.vocab)
        move(model, config.device or default_device())
        # With a carried state, a batch must consist of consecutive lines.
        n_lines = (config.batch_size or CARRIED_ROWS) if config.state == "carry" else None
        run = model.encoding_run(
            layers=config.layers,
            batch_size=n_lines or config.batch_size,
            precision=config.precision,
        )
        run.enable_word_cache()
        window_words = WINDOW_WORDS.get(run.device.type, WINDOW_WORDS["cpu"])
        tokenizer = model.config.text.tokenizer
        split = line_splitter(tokenizer, pretokenized=config.pretokenized)
        check = TextCheck(
            tokenizer,
            pretokenized=config.pretokenized,
            remedy=CONVERT_REMEDY,
            language=model.attribution.get(LANGUAGE),
            finds_paragraphs=finds_paragraphs(config),
        )
        started = time.monotonic()
        n_sentences = n_words = n_empty = 0
        rows = RowReader(config, split).rows(file, check.add)
        windows = line_windows(rows, n_lines, window_words)
        groups = ((window, [line.words for line in window]) for window in windows)

        def write(line: Line, vectors: Vectors) -> None:
            array = np.asarray(vectors)
            if config.pooling is not None:
                array = pool(torch.from_numpy(array), config.pooling).numpy()
            writer.write(line.text, line.words, array, line.values)

        # Shards do not support a carried state.
        can_suggest = config.state == "reset"
        with Progress("embed", size, "bytes" if size else "lines") as progress:

            def report(window: list[Line], count: int) -> None:
                nonlocal can_suggest
                n_bytes = sum(line.n_bytes for line in window)
                progress.advance(count * n_bytes / len(window) if size else count)
                if can_suggest and _suggest_shards(progress):
                    can_suggest = False

            encode = run.carry if config.state == "carry" else run.reset
            for window in write_in_background(encode(groups, report), write):
                n_sentences += len(window)
                n_words += sum(len(line.words) for line in window)
                n_empty += sum(not line.words for line in window)
    check.finish()
    if not n_words:
        logger.warning("%s contains no words, so there are no vectors.", file.label)
    return EmbedResult(str(output), n_sentences, n_words, time.monotonic() - started, n_empty)


def _single_input(config: EmbedConfig) -> str:
    """Return the name of the only input, which a glob can specify, or raise an error."""
    many = "but a single output file has one input. For several files, choose a directory as output"
    many += " (a name without an extension)."
    if os.path.isdir(config.input):
        raise ConfigError(f"{config.input} is a folder, {many}")
    names = resolve([config.input])
    if len(names) > 1:
        raise ConfigError(f"{config.input} matches {len(names):,} files, {many}")
    name = names[0]
    if os.path.exists(name) and os.path.exists(config.out) and os.path.samefile(name, config.out):
        raise ConfigError(f"The output {config.out} is the input. Choose another output.")
    return name


def _suggest_shards(progress: Progress) -> bool:
    """Suggest a folder of shards if much time is left, and return whether this was printed."""
    left = progress.seconds_left
    if left is None or progress.seconds_spent < HINT_AFTER or left < LONG_SECONDS:
        return False
    progress_message(
        f"embed: about {duration(left)} left. If interrupted, a single file starts again from the "
        "beginning; a directory of shards (an output without an extension) is resumed."
    )
    return True


def _is_folder(output: str) -> bool:
    """Whether the output path is a folder: it exists as one, ends with / or has no extension."""
    path = Path(output)
    if path.suffix.lower() in EXTENSIONS:
        return False
    return not path.suffix or output.endswith("/") or path.is_dir()


def _check_options_of_one_file(config: EmbedConfig) -> None:
    # An unknown extension is reported when the file is opened.
    is_known = Path(config.out).suffix.lower() in EXTENSIONS
    for name in JOB_OPTIONS:
        if is_known and getattr(config, name) is not None:
            raise ConfigError(
                f"--{name.replace('_', '-')} is only supported if the output is a folder, but "
                f"{config.out} is a file. Omit the option, or choose a folder as output."
            )
