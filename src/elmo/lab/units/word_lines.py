"""Lines of words, for networks that start each line from a zero state."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from elmo.errors import InputError
from elmo.lab.units.sampled_text import sample_sentences
from elmo.lab.units.traces import Sentences
from elmo.text.tokenizer import replace_surrogates

# Positions of a batch, including padding.
BATCH_POSITIONS = 2048


def split_lines(
    text: str | Sentences, split: Callable[[str], Sequence[str]]
) -> list[Sequence[str]]:
    """Return the words of the lines that have words.

    Args:
        text: The text, or the words of each line.
        split: Function that returns the words of a line.

    Raises:
        InputError: There are no words.
    """
    lines = replace_surrogates(text).split("\n") if isinstance(text, str) else text
    words = (split(line) if isinstance(line, str) else list(line) for line in lines)
    kept = [line for line in words if line]
    if not kept:
        raise InputError("The text has no words.")
    return kept


def sample_lines(
    lines: Sequence[Sequence[str]], max_positions: int, *, n_ends: int
) -> tuple[list[Sequence[str]], tuple[range, ...]]:
    """Return the lines to read, and their positions in the text.

    Lines are kept whole, because the backward direction begins at the end; except the first line,
    if it alone is too long.

    Args:
        lines: The words of each line.
        max_positions: Maximum number of positions.
        n_ends: Number of positions of the end of a line, 1 or 0.
    """
    lengths = [len(words) + n_ends for words in lines]
    ranges = sample_sentences(lengths, max_positions)
    begins = [0, *accumulate(lengths)]
    windows = tuple(range(begins[part.start], begins[part.stop]) for part in ranges)
    sentences = [lines[number] for part in ranges for number in part]
    if len(windows[0]) > max_positions:
        sentences = [sentences[0][: max(1, max_positions - n_ends)]]
        windows = (range(len(sentences[0]) + n_ends),)
    return sentences, windows


def line_batches(sentences: Sequence[Sequence[str]]) -> Iterator[list[Sequence[str]]]:
    """Yield consecutive sentences whose batch, with padding, is not larger than the limit."""
    batch: list[Sequence[str]] = []
    longest = 0
    for words in sentences:
        # Networks can add tokens for the begin and the end of a sentence.
        longest = max(longest, len(words) + 2)
        if batch and longest * (len(batch) + 1) > BATCH_POSITIONS:
            yield batch
            batch, longest = [], len(words) + 2
        batch.append(words)
    yield batch
