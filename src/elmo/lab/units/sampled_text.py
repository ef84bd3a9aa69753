"""Evenly spaced windows of a text that is too long to be read whole.

A network needs the text before a window to have the state that it would have there. It therefore
reads a warm-up before each window, and the values of the warm-up are dropped.
"""

from collections.abc import Sequence

# A short limit is spent on few windows, so that each is long enough to be read by people.
MAX_WINDOWS, MIN_WINDOW = 10, 200
# Positions that are read before a window. Only cells that forget nothing remember more.
WARM_UP = 1000


def n_windows(max_positions: int) -> int:
    """Return the number of windows for a limit of positions."""
    return max(1, min(MAX_WINDOWS, max_positions // MIN_WINDOW))


def sample_windows(n_positions: int, max_positions: int) -> tuple[range, ...]:
    """Return windows of equal length, from the beginning to the end of a text.

    Args:
        n_positions: Number of positions of the text.
        max_positions: Number of positions of all windows together. With a small number there is one
            window, at the beginning. A text that is not longer is one window.
    """
    if n_positions <= max_positions:
        return (range(n_positions),)
    count = n_windows(max_positions)
    n_skipped = n_positions - max_positions
    windows: list[range] = []
    for number in range(count):
        skipped = n_skipped * number // max(1, count - 1)
        begin, end = (max_positions * k // count for k in (number, number + 1))
        windows.append(range(begin + skipped, end + skipped))
    return tuple(windows)


def sample_sentences(lengths: Sequence[int], max_positions: int) -> list[range]:
    """Return ranges of whole sentences, from the beginning to the end of a text.

    Args:
        lengths: Number of positions of each sentence.
        max_positions: Number of positions of all ranges together. They have at least one sentence,
            which can be longer.
    """
    n_positions = sum(lengths)
    windows = sample_windows(n_positions, max_positions)
    ranges: list[range] = []
    number = position = n_chosen = n_allowed = 0
    for window in windows:
        n_allowed += len(window)
        while number < len(lengths) and position < window.start:
            position += lengths[number]
            number += 1
        first = number
        # Room that an earlier window left is used by the later ones.
        while number < len(lengths) and n_chosen + lengths[number] <= n_allowed:
            n_chosen += lengths[number]
            position += lengths[number]
            number += 1
        if number > first:
            ranges.append(range(first, number))
    return ranges or [range(1)]


def reading_runs(windows: Sequence[range]) -> list[range]:
    """Return the parts of a text to read: the windows with the warm-up before each of them.

    A window that begins less than a warm-up after the previous one is read in the same run.
    """
    runs: list[range] = []
    for window in windows:
        first = max(0, window.start - WARM_UP)
        if runs and first <= runs[-1].stop:
            runs[-1] = range(runs[-1].start, window.stop)
        else:
            runs.append(range(first, window.stop))
    return runs


def sample_note(windows: Sequence[range], n_positions: int, unit: str) -> str:
    """Return how much of a text was read; empty if all of it was.

    Args:
        windows: The windows that were read.
        n_positions: Number of positions of the text.
        unit: What a position is, in the plural.
    """
    n_read = sum(map(len, windows))
    if n_read == n_positions:
        return ""
    where = "from its beginning"
    if len(windows) > 1:
        where = f"in {len(windows)} parts, evenly spaced"
    return f"Read {n_read:,} of the {n_positions:,} {unit} of the text, {where}."
