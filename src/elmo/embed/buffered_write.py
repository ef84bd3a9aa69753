"""Groups input lines into windows and writes their vectors in a background thread."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

# Number of words whose vectors are held in memory at once; sentences are sorted by length within
# such a window. One window is written while the next one is computed, so a shard (about 2**18
# words) spans several windows even on a GPU.
WINDOW_WORDS = {"cpu": 2**14, "cuda": 2**16}


Result = TypeVar("Result")


@dataclass(frozen=True)
class Line:
    """One input line without its line break.

    `n_bytes` is its size in the input file. The values are carried to the output, by name.
    """

    text: str
    words: list[str]
    n_bytes: int
    values: Mapping[str, str | None] = field(default_factory=dict)


def line_windows(
    lines: Iterable[Line], n_lines: int | None, window_words: int
) -> Iterator[list[Line]]:
    """Yield windows of `n_lines` lines or, if None, of at least `window_words` words."""
    window: list[Line] = []
    n_words = 0
    for line in lines:
        window.append(line)
        # Every sentence has two boundary tokens, so blank lines fill a window too.
        n_words += len(line.words) + 2
        if len(window) == n_lines if n_lines else n_words >= window_words:
            yield window
            window, n_words = [], 0
    if window:
        yield window


def write_in_background(
    encoded: Iterable[tuple[list[Line], Sequence[Result]]],
    write: Callable[[Line, Result], None],
) -> Iterator[list[Line]]:
    """Write each window while the next one is computed; yield each when it is computed."""

    def write_window(window: list[Line], results: Sequence[Result]) -> None:
        for line, result in zip(window, results, strict=True):
            write(line, result)

    with ThreadPoolExecutor(1, "write") as pool:
        pending: Future[None] | None = None
        for window, results in encoded:
            if pending is not None:
                pending.result()
            pending = pool.submit(write_window, window, results)
            yield window
        if pending is not None:
            pending.result()
