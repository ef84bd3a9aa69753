"""Protocols of language models that predict one symbol after another, and of their text."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from torch import Tensor

State = TypeVar("State")


class StepwiseModel(Protocol[State]):
    """A language model that reads symbols and predicts the next one, for several rows at a time.

    An implementation that changes its hidden state, such as by clamping units, does so within
    `read`, between the time steps.
    """

    @property
    def n_symbols(self) -> int:
        """Number of symbols, whose ids begin at 0."""

    def start(self, n: int) -> State:
        """Return the state of `n` rows before the first symbol."""

    def repeat(self, state: State, n: int) -> State:
        """Return the state of one row for `n` rows."""

    def read(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """Read several symbols of each row in one pass.

        Args:
            ids: Symbol ids, (time, n).
            state: State before the first of them.

        Returns:
            Natural log-probabilities of the symbol after the last one, (n, n_symbols), and the
            state after it.
        """

    def step(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """Read one symbol of each row, (n,); the result is that of `read`."""


class TextWriter(Protocol):
    """Text of one row, which grows symbol by symbol."""

    @property
    def is_stopped(self) -> bool:
        """Whether the stop string was found."""

    def begin(self) -> str:
        """Return the text of the prompt, as far as it can be printed already."""

    def add(self, symbol: int) -> str:
        """Add a symbol, and return the text that is certain to follow the text so far."""

    def end(self) -> str:
        """Return the rest of the text."""


class TextCodec(Protocol):
    """Conversion between text and the symbols of a model."""

    @property
    def excluded(self) -> Sequence[int]:
        """Symbols that are never written."""

    def prompt_ids(self, prompt: str) -> list[int]:
        """Return the symbols to read for a prompt, which are at least one."""

    def writer(self, prompt: str, stop: str | None) -> TextWriter:
        """Return a writer for text that continues a prompt and ends before a stop string."""
