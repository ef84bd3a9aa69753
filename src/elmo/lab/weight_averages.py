"""Averages of the weights over training steps, which are evaluated and saved."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from elmo.config.language_models import AveragingConfig
from elmo.train.checkpoint import entry

# The decay of a moving average begins lower than configured, so that it forgets the first weights.
WARM_UP = 10


class WeightAverages:
    """A moving average, or the mean since the held-out loss stopped improving.

    The updates are in place, so that they can be part of a CUDA graph. Before the mean begins, the
    average is equal to the weights.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], config: AveragingConfig) -> None:
        """Begin with the current weights."""
        self.parameters = list(parameters)
        self.config = config
        self.values = [value.detach().clone() for value in self.parameters]
        # Share of the current weights in the next update.
        self._share = torch.ones((), device=self.parameters[0].device)
        self.n_updates = 0
        self.losses: list[float] = []

    @property
    def is_triggered(self) -> bool:
        """Whether the mean has begun."""
        patience = self.config.average_patience
        earlier = self.losses[:-patience]
        return bool(earlier) and min(self.losses[-patience:]) >= min(earlier)

    def before_step(self) -> None:
        """Set the share of the weights after the next step; not part of a CUDA graph."""
        if self.config.average == "ema":
            decay = min(
                self.config.average_decay, (1 + self.n_updates) / (WARM_UP + self.n_updates)
            )
            self._share.fill_(1.0 - decay)
            self.n_updates += 1
        elif self.is_triggered or self.n_updates:
            self.n_updates += 1
            self._share.fill_(1.0 / self.n_updates)

    @torch.no_grad()
    def update(self) -> None:
        """Add the current weights to the average."""
        weights = [value.detach() for value in self.parameters]
        change = torch._foreach_sub(weights, self.values)
        torch._foreach_mul_(change, self._share)
        torch._foreach_add_(self.values, change)

    def add_loss(self, loss: float) -> None:
        """Record a held-out loss, until the mean has begun."""
        if not self.n_updates:
            self.losses.append(loss)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Use the average as weights, in place, and restore the weights afterwards."""
        weights = [value.detach().clone() for value in self.parameters]
        self._copy(self.values)
        try:
            yield
        finally:
            self._copy(weights)

    @torch.no_grad()
    def _copy(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.copy_(value)

    def state_dict(self) -> dict[str, object]:
        """Return the average, the number of updates and the recorded losses."""
        return {"values": self.values, "n_updates": self.n_updates, "losses": list(self.losses)}

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Load a state returned by `state_dict`."""
        for mine, loaded in zip(self.values, entry(state, "values", list), strict=True):
            mine.copy_(loaded)
        self.n_updates = entry(state, "n_updates", int)
        # After a rollback to a step before the mean began, the average is the weights again.
        self._share.fill_(1.0)
        self.losses = list(entry(state, "losses", list))
