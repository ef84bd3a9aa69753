"""The verb `embed`: a text file to a file of vectors, in bounded memory and in the same order."""

import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from elmo.config import EmbedConfig
from elmo.embed.embedder import ELMo
from elmo.embed.store import MAX_INDEX_CHARACTERS, TOO_LONG, open_store
from elmo.errors import ConfigError, InputError, OutputError
from elmo.kernels.device import move
from elmo.model.lstm import LSTMState
from elmo.progress import Progress

# Words whose vectors are held at once; sentences are sorted by length inside such a window.
WINDOW_WORDS = {"cpu": 2**14, "cuda": 2**18}
# Rows of a carried state, as AllenNLP's command has them.
CARRIED_ROWS = 64


@dataclass(frozen=True)
class EmbedResult:
    """What `embed` did.

    Attributes:
        output: the file written.
        n_sentences: lines read, blank ones included.
        n_words: words embedded.
        seconds: time it took, without loading the model.
    """

    output: str
    n_sentences: int
    n_words: int
    seconds: float

    def __str__(self) -> str:
        """Say it in one line."""
        rate = self.n_words / max(self.seconds, 1e-9)
        counts = f"{_count(self.n_sentences, 'sentence')}, {_count(self.n_words, 'word')}"
        return f"{self.output}: {counts} in {self.seconds:.1f} s ({rate:,.0f} words/s)"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


@dataclass(frozen=True)
class Line:
    """One line of the input: as read, split, and its size in the file."""

    text: str
    words: list[str]
    n_bytes: int


def embed(config: EmbedConfig) -> EmbedResult:
    """Embed a text file, one sentence a line, and write every word's vector."""
    if config.state not in ("reset", "carry"):
        raise ConfigError(f"state is {config.state!r}; expected reset or carry")
    output = Path(config.output)
    indexed = output.suffix.lower() in (".h5", ".hdf5") and not config.forget_sentences
    with (
        _opened(config.input) as (file, size),
        open_store(
            output,
            all_layers=config.layers == "all",
            index_sentences=indexed,
            store_words=config.raw,
        ) as writer,
    ):
        if indexed and size is not None and size > MAX_INDEX_CHARACTERS:
            raise OutputError(TOO_LONG)
        model = ELMo.from_pretrained(config.model, options=config.options, vocab=config.vocab)
        move(model, config.device or ("cuda" if torch.cuda.is_available() else "cpu"))
        # A carried state asks for batches exactly as the file has them.
        n_lines = (config.batch_size or CARRIED_ROWS) if config.state == "carry" else None
        run = model.encoding_run(
            layers=config.layers, batch_size=n_lines or config.batch_size, dtype=config.dtype
        )
        window_words = WINDOW_WORDS.get(run.device.type, WINDOW_WORDS["cpu"])
        split = model.tokenizer.words if config.raw else str.split
        started = time.monotonic()
        n_sentences = n_words = 0
        table: LSTMState | None = None

        def write(window: list[Line], vectors: list[Tensor]) -> None:
            for line, found in zip(window, vectors, strict=True):
                writer.write(line.text, line.words, found.numpy())

        with (
            Progress("embed", size, "bytes" if size else "lines") as progress,
            ThreadPoolExecutor(1, "write") as pool,
        ):
            # A window is written while the next one is computed.
            written: Future[None] | None = None
            lines = _lines(file, config.input, split)
            for window in _windows(lines, n_lines, window_words):
                sentences = [line.words for line in window]
                share = sum(line.n_bytes for line in window) / len(window) if size else 1

                def report(count: int, share: float = share) -> None:
                    progress.advance(count * share)

                if config.state == "carry":
                    vectors, table = run.carry(sentences, table, report)
                else:
                    vectors = run.reset(sentences, report)
                if written is not None:
                    written.result()
                written = pool.submit(write, window, vectors)
                n_sentences += len(window)
                n_words += sum(map(len, sentences))
            if written is not None:
                written.result()
    return EmbedResult(str(output), n_sentences, n_words, time.monotonic() - started)


@contextmanager
def _opened(name: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """Open the input, and say how many bytes it has where that is known."""
    if name == "-":
        if sys.stdin is None:  # so Python tells of one that was closed before it began
            raise InputError("cannot read standard input: it is closed")
        yield sys.stdin.buffer, None
        return
    try:
        file = Path(name).open("rb")
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from None
    with file:
        status = os.fstat(file.fileno())
        yield file, status.st_size if stat.S_ISREG(status.st_mode) else None


def _lines(file: BinaryIO, name: str, split: Callable[[str], list[str]]) -> Iterator[Line]:
    """Read lines, broken at newlines only; what is not UTF-8 is refused with its place."""
    label = "standard input" if name == "-" else name
    for number, data in enumerate(file, start=1):
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{label} is not UTF-8: line {number}, byte {error.start + 1} of the line; convert "
                "it first (iconv -t UTF-8)"
            ) from None
        if number == 1:
            text = text.removeprefix("\ufeff")  # the mark some editors begin a file with
        text = text.removesuffix("\n").removesuffix("\r")
        yield Line(text, split(text), len(data))


def _windows(lines: Iterable[Line], n_lines: int | None, full: int) -> Iterator[list[Line]]:
    """Gather lines until there are `n_lines`, or until their words fill a window."""
    window: list[Line] = []
    n_words = 0
    for line in lines:
        window.append(line)
        # A mark opens and closes every sentence, so blank lines fill a window too.
        n_words += len(line.words) + 2
        if len(window) == n_lines if n_lines else n_words >= full:
            yield window
            window, n_words = [], 0
    if window:
        yield window
