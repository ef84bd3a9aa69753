"""A recurrent network as a `StepwiseModel`."""

from collections.abc import Sequence

import torch
from torch import Tensor

from elmo.errors import ConfigError
from elmo.lab.recurrent_layer import RecurrentState
from elmo.lab.recurrent_network import RecurrentNetwork

# Symbols that are read in one pass; longer prompts are read in parts to bound the memory.
MAX_STEPS = 4096


class RecurrentStepper:
    """Reads symbols with a recurrent network and predicts the next ones.

    The input vectors of all symbols are computed once, so the weights must not change. `add_words`
    adds other words, which the network reads by their characters.
    """

    def __init__(self, network: RecurrentNetwork) -> None:
        """Compute the input vectors.

        Args:
            network: The network, in evaluation mode.

        Raises:
            ConfigError: The network is in training mode.
        """
        if network.training:
            raise ConfigError("The network is in training mode. Call network.eval() first.")
        self.network = network
        with torch.no_grad():
            self.vectors = network.input_vectors()
        self._new_words: dict[str, int] = {}

    @property
    def n_symbols(self) -> int:
        """Number of symbols, including `<UNK>`."""
        return self.network.config.n_symbols

    @torch.no_grad()
    def add_words(self, words: Sequence[str]) -> list[int]:
        """Return the ids of words that are not symbols; they continue those of the symbols."""
        added = [word for word in dict.fromkeys(words) if word not in self._new_words]
        if added:
            first = len(self.vectors)
            self.vectors = torch.cat([self.vectors, self.network.new_vectors(added)])
            self._new_words.update(zip(added, range(first, len(self.vectors)), strict=True))
        return [self._new_words[word] for word in words]

    def start(self, n: int) -> RecurrentState:
        """Return a state of zeros."""
        return self.network.zero_state(n)

    def repeat(self, state: RecurrentState, n: int) -> RecurrentState:
        """Return the state of one row for `n` rows."""
        return state.select(torch.zeros(n, dtype=torch.long, device=self.vectors.device))

    @torch.no_grad()
    def read(self, ids: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Read symbols, (time, n); see `StepwiseModel.read`."""
        for part in torch.split(ids.to(self.vectors.device), MAX_STEPS):
            output = self.network(self.vectors, part, state)
            state = output.state
        return self.network.log_probabilities(output.hidden[-1], self.vectors), state

    def step(self, ids: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        """Read one symbol of each row, (n,)."""
        return self.read(ids.unsqueeze(0), state)
