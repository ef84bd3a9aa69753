"""ELMo's network: the biLM, its mixes and dropout, and the softmax a trained model came with.

This is the part of the public `elmo.ELMo` which never sees a string.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import ModelConfig
from elmo.errors import ConfigError
from elmo.model.bilm import BiLM, without_boundaries
from elmo.model.layer_mix import LayerMix, layer_norm
from elmo.model.losses import Softmax
from elmo.model.lstm import LSTMState

# Each program's own constant under the root of its layer normalisation.
BILM_TF_EPSILON = 1e-12
ALLENNLP_EPSILON = 1e-13


@dataclass(frozen=True)
class ELMoOutput:
    """What `ELMo.forward` returns; boundaries are gone unless they were asked for.

    Attributes:
        representations: one (batch, words, dim) tensor a mix, zero at padding.
        layers: (layers + 1, batch, words, dim), zero at padding.
        mask: true at real words, (batch, words).
        state: state to pass on to the next call, if it is to be carried.
    """

    representations: list[Tensor]
    layers: Tensor
    mask: Tensor
    state: LSTMState


class ELMoNetwork(nn.Module):
    """BiLM, mixes, dropout; keeps the softmax so that a converted model loses nothing."""

    def __init__(
        self,
        *,
        config: ModelConfig,
        dropout: float = 0.0,
        keep_boundaries: bool = False,
        fixed_mix: list[float] | None = None,
    ) -> None:
        """Make the network with uninitialised weights.

        Args:
            config: the model's dials.
            dropout: applied to each representation.
            keep_boundaries: leave the sentence marks in the output.
            fixed_mix: weights before the softmax, which then are not trained.
        """
        super().__init__()
        is_number: bool = isinstance(dropout, Real)
        if not is_number or not 0 <= dropout <= 1:
            raise ConfigError(f"dropout is {dropout!r}; expected a number from 0 to 1")
        self.config = config
        self.keep_boundaries = keep_boundaries
        self.bilm = BiLM(config=config)
        self.mixes = nn.ModuleList(
            LayerMix(
                n_layers=config.n_layers,
                initial=fixed_mix,
                trainable=fixed_mix is None,
                top_only=config.mix.top_only,
            )
            for _ in range(config.mix.n_mixes)
        )
        self.dropout = nn.Dropout(dropout)
        self.softmax = make_softmax(config)

    def forward(
        self,
        rows: Tensor,
        index: Tensor,
        mask: Tensor | None = None,
        state: LSTMState | None = None,
        lengths: Sequence[int] | None = None,
    ) -> ELMoOutput:
        """Run the biLM and mix its layers; arguments as `BiLM.forward`."""
        output = self.bilm(rows, index, mask, state, lengths)
        layers, mask = output.layers, output.mask
        mixed = self.mix(layers, mask)
        if not self.keep_boundaries:
            mixed = [without_boundaries(item, mask)[0] for item in mixed]
            layers, mask = without_boundaries(layers, mask)
        return ELMoOutput(
            representations=[self.dropout(item) for item in mixed],
            layers=layers,
            mask=mask,
            state=output.state,
        )

    def mix(self, layers: Tensor, mask: Tensor) -> list[Tensor]:
        """Mix layers that have their boundaries, once for each mix.

        Args:
            layers: (layers, batch, time, dim).
            mask: true at real positions, (batch, time).

        Returns:
            For each mix (batch, time, dim), zero at padding, boundaries still in.
        """
        # bilm-tf scales the top layer as it is, whatever its normalisation is set to.
        program = "none" if self.config.mix.top_only else self.config.mix.layer_norm
        if program == "allennlp":
            layers = layer_norm(layers, mask, ALLENNLP_EPSILON)
        elif program == "bilm-tf":
            # bilm-tf drops the boundaries before it takes its statistics.
            words = functional.pad(mask[:, 2:], (1, 1))
            layers = layer_norm(layers, words, BILM_TF_EPSILON)
        padding = ~mask.unsqueeze(2)
        return [mix(layers).masked_fill(padding, 0.0) for mix in self.mixes]

    def mix_penalty(self) -> Tensor:
        """Sum of squared mix weights over all mixes, to be scaled by λ and added to a loss."""
        penalties = [mix.l2() for mix in self.mixes if isinstance(mix, LayerMix)]
        return torch.stack(penalties).sum() if penalties else torch.zeros(())


def make_softmax(config: ModelConfig) -> Softmax | None:
    """Make the softmax of a language model, uninitialised; None where it has none."""
    if not config.n_softmax_words:
        return None
    if config.softmax_cutoffs:
        return nn.AdaptiveLogSoftmaxWithLoss(
            config.lstm.projection_dim, config.n_softmax_words, list(config.softmax_cutoffs)
        )
    return nn.Linear(config.lstm.projection_dim, config.n_softmax_words)
