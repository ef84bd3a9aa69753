"""Drawing of the next symbols from the probabilities of a language model."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmo.config.language_models import SamplingConfig
from elmo.errors import InputError


class SymbolSampler:
    """Draws symbols for several rows, each with random numbers of its own.

    The random numbers of a row depend only on the seed and the number of the row, and all
    computation is in float64 on the CPU. A sample therefore depends neither on the number of rows
    nor on the device, up to the rounding of the log-probabilities.
    """

    def __init__(self, config: SamplingConfig, n_rows: int, excluded: Sequence[int] = ()) -> None:
        """Seed the random numbers.

        Args:
            config: Temperature, limits and seed.
            n_rows: Number of rows.
            excluded: Symbols that are never drawn. The limits apply to the others.
        """
        self.config = config
        self.excluded = list(excluded)
        self.generators = [np.random.default_rng((config.seed, row)) for row in range(n_rows)]

    def draw(self, log_probabilities: Tensor) -> list[int]:
        """Return a symbol for each row.

        Args:
            log_probabilities: Natural log-probabilities, (rows, symbols).

        Raises:
            InputError: No symbol can be drawn.
        """
        rows = log_probabilities.detach().cpu().double().numpy()
        if self.excluded:
            rows = rows.copy()
            rows[:, self.excluded] = -np.inf
        return [
            self._draw(row, generator) for row, generator in zip(rows, self.generators, strict=True)
        ]

    def _draw(self, row: NDArray[np.float64], generator: np.random.Generator) -> int:
        config = self.config
        best = row.max()
        if np.isnan(best):
            raise InputError("The model returned NaN instead of probabilities. It is damaged.")
        if best == -np.inf:
            raise InputError("The model has no symbol but <UNK>, which is never written.")
        if config.temperature == 0.0:
            return int(row.argmax())
        with np.errstate(over="ignore"):  # very low temperatures
            weights = np.exp((row - best) / config.temperature)
        symbols: NDArray[np.int64] | None = None
        if config.top_k is not None or config.top_p is not None:
            # Stable, so that the choice among equal symbols does not depend on the machine.
            symbols = np.argsort(-weights, kind="stable")[: config.top_k]
            weights = weights[symbols]
        cumulative = np.cumsum(weights)
        if config.top_p is not None:
            n_kept = int(np.searchsorted(cumulative, config.top_p * cumulative[-1])) + 1
            cumulative = cumulative[:n_kept]
        total = cumulative[-1]
        place = np.searchsorted(cumulative, generator.random() * total, side="right")
        # The product can be rounded up to the total; symbols of weight 0 must not be drawn then.
        place = min(place, np.searchsorted(cumulative, total))
        return int(place if symbols is None else symbols[place])
