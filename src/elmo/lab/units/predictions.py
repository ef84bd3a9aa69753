"""Surprisal and most likely symbols at each position, collected from log-probabilities."""

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.lab.units.traces import Guess


class Predictions:
    """Surprisal of the symbols of a text, and the most likely symbols at their positions."""

    def __init__(self, name: Callable[[int], str], n_guesses: int) -> None:
        """Begin without predictions.

        Args:
            name: Function that returns the text of a symbol.
            n_guesses: Number of most likely symbols.
        """
        self._name, self._n_guesses = name, n_guesses
        self._bits: list[NDArray[np.float32]] = []
        self._guesses: list[tuple[Guess, ...]] = []

    def add(self, scores: Tensor, targets: NDArray[np.int32]) -> None:
        """Add the predictions of the next positions.

        Args:
            scores: Natural log-probabilities, (positions, symbols).
            targets: The symbols at these positions.
        """
        index = torch.from_numpy(targets.astype(np.int64)).to(scores.device).unsqueeze(1)
        nats = -scores.gather(1, index).squeeze(1)
        self._bits.append((nats / math.log(2.0)).float().cpu().numpy())
        top = scores.topk(min(self._n_guesses, scores.shape[1]), dim=1)
        for numbers, values in zip(top.indices.tolist(), top.values.exp().tolist(), strict=True):
            self._guesses.append(tuple(zip(map(self._name, numbers), values, strict=True)))

    def skip_first(self) -> None:
        """Insert the first position, which was not predicted."""
        self._bits.insert(0, np.full(1, np.nan, dtype=np.float32))
        self._guesses.insert(0, ())

    @property
    def surprisal(self) -> NDArray[np.float32]:
        """Bits of all symbols."""
        return np.concatenate(self._bits)

    @property
    def guesses(self) -> tuple[tuple[Guess, ...], ...]:
        """Most likely symbols at all positions, with probabilities."""
        return tuple(self._guesses)
