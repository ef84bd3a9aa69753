"""The input texts of a job, divided into tasks that can be processed independently.

A task consists of complete lines of one or several texts. Each range of lines is recorded with its
byte offset in the uncompressed text and its SHA-256, so that workers can detect input that has
changed since the job was planned.
"""

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from elmo.corpus.compressed_files import READ_ERRORS, decompressed, plain_name
from elmo.corpus.line_blocks import BYTE_ORDER_MARK, whole_lines
from elmo.corpus.text_sources import resolve
from elmo.errors import ConfigError, InputError
from elmo.text.input_lines import STDIN, decoded_line

# Approximate number of lines per block that are tokenized to estimate how many words the tokenizer
# makes of one whitespace-separated word.
SAMPLE_LINES = 1000
SKIP_BYTES = 2**22


@dataclass(frozen=True)
class InputText:
    """An input file with its size and modification time in ns, which are used to detect changes."""

    name: str
    n_bytes: int
    modified: int


@dataclass(frozen=True)
class TextSegment:
    """A range of complete lines in one text, whose index in the plan is `text`.

    Sizes, offsets and the checksum are those of uncompressed bytes; lines are counted from 1.
    """

    text: int
    first_byte: int
    n_bytes: int
    first_line: int
    sha256: str


@dataclass(frozen=True)
class ShardTask:
    """The input lines of one shard, numbered from 0 in the order of the texts.

    Sentences are counted across all texts. The number of words is estimated if the lines are split
    by a tokenizer.
    """

    number: int
    first_sentence: int
    n_sentences: int
    n_words: int
    segments: tuple[TextSegment, ...]

    @property
    def n_bytes(self) -> int:
        """Uncompressed size of the input lines in bytes."""
        return sum(segment.n_bytes for segment in self.segments)


def list_texts(source: str, output: Path) -> list[InputText]:
    """Return the input files for a path, folder or glob pattern, in sorted order.

    The output folder must not be inside the input folder.
    """
    if source == STDIN:
        raise ConfigError(
            "A folder of shards cannot be written from standard input, because a resumed job reads "
            "its input again. Use a file, a folder or a glob pattern as input."
        )
    if os.path.isdir(source):
        inside = Path(source).resolve()
        if output.resolve().is_relative_to(inside):
            raise ConfigError(
                f"The output folder {output} is inside the input folder {source}. Choose an output "
                "folder outside of it."
            )
        names = sorted(str(path) for path in _files(Path(source)))
        if not names:
            raise InputError(f"The input folder {source} has no files.")
    else:
        names = resolve([source])
    texts = []
    for name in names:
        try:
            status = os.stat(name)
        except OSError as error:
            raise InputError(f"Cannot read {name}: {error.strerror}.") from None
        texts.append(InputText(os.path.abspath(name), status.st_size, status.st_mtime_ns))
    return texts


def _files(folder: Path) -> Iterator[Path]:
    """Yield all files under a folder, following symbolic links and skipping hidden files."""
    seen: set[str] = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(parent)
        if real in seen:  # a link to one of its own parents
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if name[0] != ".")
        for path in (Path(parent, name) for name in names if name[0] != "."):
            # A broken link is included, so that opening it reports the error.
            if path.is_file() or not path.exists():
                yield path


@dataclass
class _Draft:
    """A task under construction, to which lines are still being added."""

    number: int
    first_sentence: int
    n_sentences: int = 0
    n_words: float = 0
    segments: list[TextSegment] = field(default_factory=list)

    def task(self) -> ShardTask:
        n_words, segments = round(self.n_words), tuple(self.segments)
        return ShardTask(self.number, self.first_sentence, self.n_sentences, n_words, segments)

    def next_draft(self) -> "_Draft":
        return _Draft(self.number + 1, self.first_sentence + self.n_sentences)


def divide_into_tasks(
    texts: Sequence[InputText],
    shard_words: int,
    split: Callable[[str], list[str]] | None = None,
    report: Callable[[float], None] = lambda n_bytes: None,
    text_of: Callable[[str], str] | None = None,
) -> Iterator[ShardTask]:
    """Read all texts once and divide them into tasks.

    A task ends with the line that reaches `shard_words`. The tokenizer is applied to a sample of
    lines to estimate the number of words; if None, whitespace-separated words are counted.
    `text_of` returns the text of a line, by default the line itself. `report` receives the number
    of file bytes read since the last call.
    """
    draft = _Draft(0, 0)
    for number, text in enumerate(texts):
        first_byte = n_bytes = before = 0
        line = first_line = 1
        digest = hashlib.sha256()
        with _opened(text.name) as (raw, file):
            for block in whole_lines(file, text.name):
                start = end = 0
                lines: Iterable[str] = _decoded(block, text.name, line)
                counts = _word_counts(map(text_of, lines) if text_of else lines, split)
                for data, n_words in zip(io.BytesIO(block), counts, strict=True):
                    end += len(data)
                    draft.n_words += n_words
                    draft.n_sentences += 1
                    line += 1
                    # Lines count too, because a task of blank lines would never end.
                    if max(draft.n_words, draft.n_sentences) < shard_words:
                        continue
                    digest.update(block[start:end])
                    n_bytes += end - start
                    start = end
                    draft.segments.append(
                        TextSegment(number, first_byte, n_bytes, first_line, digest.hexdigest())
                    )
                    yield draft.task()
                    draft = draft.next_draft()
                    first_byte, first_line, n_bytes = first_byte + n_bytes, line, 0
                    digest = hashlib.sha256()
                digest.update(block[start:end])
                n_bytes += end - start
                report(raw.tell() - before)
                before = raw.tell()
        if n_bytes:
            draft.segments.append(
                TextSegment(number, first_byte, n_bytes, first_line, digest.hexdigest())
            )
    # An empty input is one task, so that readers find a shard with the schema.
    if draft.n_sentences or not draft.number:
        yield draft.task()


def _decoded(block: bytes, name: str, first_line: int) -> Iterator[str]:
    for number, data in enumerate(io.BytesIO(block), start=first_line):
        yield decoded_line(data, name, number)


def _word_counts(lines: Iterable[str], split: Callable[[str], list[str]] | None) -> Iterable[float]:
    """Return the number of words per line; with a tokenizer, estimated from a sample of lines."""
    if split is None:
        return (len(line.split()) for line in lines)
    lines = list(lines)
    filled = [line for line in lines if line.strip()]
    sample = filled[:: 1 + len(filled) // SAMPLE_LINES]
    n_spaced = sum(len(line.split()) for line in sample)
    ratio = sum(len(split(line)) for line in sample) / max(1, n_spaced)
    return (ratio * len(line.split()) for line in lines)


@contextmanager
def _opened(name: str) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a text and yield the raw file and the uncompressed stream."""
    try:
        with Path(name).open("rb") as raw, decompressed(name, raw) as file:
            yield raw, file
    except READ_ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"Cannot read {name}: {reason}") from None


class ShardTaskReader:
    """Reads the lines of tasks; fastest if the tasks are read in order.

    A compressed file can only be read from its beginning, so the reader leaves the file open at its
    current position between tasks.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Store the file names in the order of the plan; no file is opened yet."""
        self._names = names
        self._stack = ExitStack()
        self._text: int | None = None
        self._file: BinaryIO | None = None
        self._position = 0

    def lines(self, task: ShardTask) -> list[str]:
        """Return the lines of a task without line breaks; a changed text is an error."""
        task_lines: list[str] = []
        for segment in task.segments:
            data = self._read(segment)
            if hashlib.sha256(data).hexdigest() != segment.sha256:
                raise InputError(
                    f"{self._names[segment.text]} has changed since this job was planned. Restore "
                    "the file, or use a new output folder."
                )
            if segment.first_byte == 0:
                data = data.removeprefix(BYTE_ORDER_MARK)
            lines = data.decode("utf-8").removesuffix("\n").split("\n")
            task_lines += [line.removesuffix("\r") for line in lines]
        return task_lines

    def _read(self, segment: TextSegment) -> bytes:
        name = self._names[segment.text]
        if self._text != segment.text or self._position > segment.first_byte:
            self.close()
            _, self._file = self._stack.enter_context(_opened(name))
            self._text, self._position = segment.text, 0
        assert self._file is not None
        try:
            if plain_name(name) == name:
                self._file.seek(segment.first_byte)
            else:
                self._skip(segment.first_byte - self._position)
            data = self._file.read(segment.n_bytes)
        except READ_ERRORS as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"Cannot read {name}: {reason}") from None
        self._position = segment.first_byte + len(data)
        return data

    def _skip(self, n_bytes: int) -> None:
        assert self._file is not None
        while n_bytes and (part := self._file.read(min(n_bytes, SKIP_BYTES))):
            n_bytes -= len(part)

    def close(self) -> None:
        """Close the file."""
        self._stack.close()
        self._text = None
