"""Lines gathered until their vectors fill what may be held, and written while others come."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

# Words whose vectors are held at once; sentences are sorted by length inside such a window. One is
# written while the next is computed, so a shard, some 2**18 words, takes several on a GPU too.
WINDOW_WORDS = {"cpu": 2**14, "cuda": 2**16}


Found = TypeVar("Found")


@dataclass(frozen=True)
class Line:
    """One line of the input: as read, split, and its size in the file."""

    text: str
    words: list[str]
    n_bytes: int


def windows(lines: Iterable[Line], n_lines: int | None, full: int) -> Iterator[list[Line]]:
    """Gather lines until there are `n_lines`, or until their words fill a window.

    Args:
        lines: in order.
        n_lines: lines of a window; None where their words decide.
        full: words of a window.
    """
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


def written_aside(
    encoded: Iterable[tuple[list[Line], Sequence[Found]]],
    write: Callable[[Line, Found], None],
) -> Iterator[list[Line]]:
    """Write windows in a thread, one while the next is computed.

    Args:
        encoded: windows and the vectors of their lines.
        write: adds a line to the file.

    Yields:
        Each window, once it is computed.
    """

    def write_all(window: list[Line], vectors: Sequence[Found]) -> None:
        for line, found in zip(window, vectors, strict=True):
            write(line, found)

    with ThreadPoolExecutor(1, "write") as pool:
        written: Future[None] | None = None
        for window, vectors in encoded:
            if written is not None:
                written.result()
            written = pool.submit(write_all, window, vectors)
            yield window
        if written is not None:
            written.result()
