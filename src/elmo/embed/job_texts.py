"""The texts of a job, cut into tasks that stand alone.

A task is some whole lines of one text or of several, found by their place in the unpacked bytes and
known by their SHA-256: whoever reads it later reads what was planned, or says that it is not.
"""

import hashlib
import io
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from elmo.corpus.compressed_files import DAMAGE, decompressed, plain_name
from elmo.corpus.text_sources import JSON_LINES, PARQUET, STDIN, resolve, whole_lines
from elmo.errors import ConfigError, InputError
from elmo.text.input_lines import decoded_line

# The mark some editors begin a file with; it is no text.
MARK = b"\xef\xbb\xbf"
# Lines of a block, about, that tell how many words a tokeniser makes of one between spaces.
SAMPLE_LINES = 1000
SKIP_BYTES = 2**22


@dataclass(frozen=True)
class InputText:
    """A file of the input, and what tells whether it has changed.

    Attributes:
        name: path of the file.
        n_bytes: its size.
        modified: when it was, in nanoseconds.
    """

    name: str
    n_bytes: int
    modified: int


@dataclass(frozen=True)
class TextSegment:
    """Whole lines of one text.

    Attributes:
        text: number of the text.
        first_byte: where it begins in the text, unpacked.
        n_bytes: its size, unpacked.
        first_line: number of its first line in the text, from 1.
        sha256: of these bytes.
    """

    text: int
    first_byte: int
    n_bytes: int
    first_line: int
    sha256: str


@dataclass(frozen=True)
class ShardTask:
    """What becomes one shard.

    Attributes:
        number: from 0, in the order of the texts.
        first_sentence: number of its first line among those of all texts, from 0.
        n_sentences: its lines.
        n_words: its words; an estimate where a tokeniser makes them.
        segments: where it stands.
    """

    number: int
    first_sentence: int
    n_sentences: int
    n_words: int
    segments: tuple[TextSegment, ...]

    @property
    def n_bytes(self) -> int:
        """Size of its text."""
        return sum(segment.n_bytes for segment in self.segments)


def list_texts(source: str, output: Path) -> list[InputText]:
    """Find the files that a name, a folder or a glob means, in sorted order.

    Args:
        source: as it was typed.
        output: the folder of the job, which must not be among the texts.
    """
    if source == STDIN:
        raise ConfigError(
            "a folder of shards cannot be made from standard input, which cannot be read again "
            "where a job goes on: name a file, a folder or a glob"
        )
    if os.path.isdir(source):
        inside = Path(source).resolve()
        if output.resolve().is_relative_to(inside):
            raise ConfigError(f"{output} lies inside {source}, whose files are the texts")
        names = sorted(str(path) for path in _files(Path(source)))
        if not names:
            raise InputError(f"there is no file in {source}")
    else:
        names = resolve([source])
    texts = []
    for name in names:
        if plain_name(name).lower().endswith((*JSON_LINES, PARQUET)):
            raise InputError(
                f"{name} is no plain text: a job takes files with a sentence on each line, also "
                "packed as .gz .bz2 .xz .zst"
            )
        try:
            status = os.stat(name)
        except OSError as error:
            raise InputError(f"cannot read {name}: {error.strerror}") from None
        texts.append(InputText(os.path.abspath(name), status.st_size, status.st_mtime_ns))
    return texts


def _files(folder: Path) -> Iterator[Path]:
    """Give the files below a folder, linked folders included; what is hidden is not meant."""
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:  # a link to where it lies would have no end
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if name[0] != ".")
        for path in (Path(place, name) for name in names if name[0] != "."):
            # A link to nothing is for the one who opens it to tell.
            if path.is_file() or not path.exists():
                yield path


@dataclass
class _Draft:
    """A task that is being filled."""

    number: int
    first_sentence: int
    n_sentences: int = 0
    n_words: float = 0
    segments: list[TextSegment] = field(default_factory=list)

    def finished(self) -> ShardTask:
        n_words, segments = round(self.n_words), tuple(self.segments)
        return ShardTask(self.number, self.first_sentence, self.n_sentences, n_words, segments)

    def following(self) -> "_Draft":
        return _Draft(self.number + 1, self.first_sentence + self.n_sentences)


def cut(
    texts: Sequence[InputText],
    shard_words: int,
    split: Callable[[str], list[str]] | None = None,
    report: Callable[[float], None] = lambda n_bytes: None,
) -> Iterator[ShardTask]:
    """Read all texts once and cut them into tasks.

    Args:
        texts: in order.
        shard_words: words after which a task ends, at the end of the line.
        split: makes words of a line, of which some lines are asked for; None for words between
            spaces.
        report: told how many bytes of the files have been read.
    """
    draft = _Draft(0, 0)
    for number, text in enumerate(texts):
        first_byte = n_bytes = before = 0
        line = first_line = 1
        digest = hashlib.sha256()
        with _opened(text.name) as (raw, file):
            for block in whole_lines(file, text.name):
                start = end = 0
                counts = _word_counts(_decoded(block, text.name, line), split)
                for data, n_words in zip(io.BytesIO(block), counts, strict=True):
                    end += len(data)
                    draft.n_words += n_words
                    draft.n_sentences += 1
                    line += 1
                    # Lines count too: blank ones would have no end.
                    if max(draft.n_words, draft.n_sentences) < shard_words:
                        continue
                    digest.update(block[start:end])
                    n_bytes += end - start
                    start = end
                    draft.segments.append(
                        TextSegment(number, first_byte, n_bytes, first_line, digest.hexdigest())
                    )
                    yield draft.finished()
                    draft = draft.following()
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
    if draft.n_sentences:
        yield draft.finished()


def _decoded(block: bytes, name: str, first_line: int) -> Iterator[str]:
    for number, data in enumerate(io.BytesIO(block), start=first_line):
        yield decoded_line(data, name, number)


def _word_counts(lines: Iterable[str], split: Callable[[str], list[str]] | None) -> Iterable[float]:
    """Count the words of each line of a block; from some lines for all where they must be made."""
    if split is None:
        return (len(line.split()) for line in lines)
    lines = list(lines)
    filled = [line for line in lines if line.strip()]
    some = filled[:: 1 + len(filled) // SAMPLE_LINES]
    n_pieces = sum(len(line.split()) for line in some)
    each = sum(len(split(line)) for line in some) / max(1, n_pieces)
    return (each * len(line.split()) for line in lines)


@contextmanager
def _opened(name: str) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Open a text: the file, and the bytes inside."""
    try:
        with Path(name).open("rb") as raw, decompressed(name, raw) as file:
            yield raw, file
    except DAMAGE as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {name}: {reason}") from None


class ShardTaskReader:
    """Reads tasks; cheaply where each stands behind the last.

    What is packed has to be unpacked from the beginning to get anywhere, so the place reached in a
    file is kept.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Begin with no file open.

        Args:
            names: of the texts, in the order of the plan.
        """
        self._names = names
        self._stack = ExitStack()
        self._text: int | None = None
        self._file: BinaryIO | None = None
        self._place = 0

    def lines(self, task: ShardTask) -> list[str]:
        """Give the lines of a task, without their ends."""
        found: list[str] = []
        for segment in task.segments:
            data = self._read(segment)
            if hashlib.sha256(data).hexdigest() != segment.sha256:
                raise InputError(
                    f"{self._names[segment.text]} has changed since the job was planned: bring it "
                    "back as it was, or begin another job in another folder"
                )
            if segment.first_byte == 0:
                data = data.removeprefix(MARK)
            lines = data.decode("utf-8").removesuffix("\n").split("\n")
            found += [line.removesuffix("\r") for line in lines]
        return found

    def _read(self, segment: TextSegment) -> bytes:
        name = self._names[segment.text]
        if self._text != segment.text or self._place > segment.first_byte:
            self.close()
            _, self._file = self._stack.enter_context(_opened(name))
            self._text, self._place = segment.text, 0
        assert self._file is not None
        try:
            if plain_name(name) == name:
                self._file.seek(segment.first_byte)
            else:
                self._skip(segment.first_byte - self._place)
            data = self._file.read(segment.n_bytes)
        except DAMAGE as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"cannot read {name}: {reason}") from None
        self._place = segment.first_byte + len(data)
        return data

    def _skip(self, n_bytes: int) -> None:
        assert self._file is not None
        while n_bytes and (part := self._file.read(min(n_bytes, SKIP_BYTES))):
            n_bytes -= len(part)

    def close(self) -> None:
        """Let go of the file."""
        self._stack.close()
        self._text = None
