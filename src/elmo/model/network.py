"""The ELMo network: biLM, layer mixes, dropout, and the softmax of the language model.

The public class `elmo.ELMo` wraps this network, which works on tensors only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import ModelConfig
from elmo.errors import ConfigError
from elmo.kernels.torch_kernels import AUTO_KERNELS, Kernels
from elmo.model.bilm import BiLM, without_boundaries
from elmo.model.layer_mix import LayerMix, layer_norm
from elmo.model.losses import Softmax
from elmo.model.lstm import LSTMState

# Epsilon of the layer normalization in bilm-tf and in AllenNLP.
BILM_TF_EPSILON = 1e-12
ALLENNLP_EPSILON = 1e-13


@dataclass(frozen=True)
class ELMoOutput:
    """Result of `ELMo.forward`, without boundary tokens unless `keep_boundaries` is set.

    Attributes:
        representations: One tensor (batch, words, dim) per layer mix, zero at padding.
        layers: All layers, (layers + 1, batch, words, dim), zero at padding.
        mask: True at real words, (batch, words).
        state: Final LSTM state. Pass it to the next call to carry the state over.
    """

    representations: list[Tensor]
    layers: Tensor
    mask: Tensor
    state: LSTMState


class ELMoNetwork(nn.Module):
    """BiLM with layer mixes, dropout and softmax.

    The softmax is not used to compute vectors. It is included to make converted models complete.
    """

    def __init__(
        self,
        *,
        config: ModelConfig,
        dropout: float = 0.0,
        keep_boundaries: bool = False,
        fixed_mix: list[float] | None = None,
    ) -> None:
        """Create the network with uninitialized weights.

        The dropout rate applies to the representations. With a fixed mix, whose weights are those
        before the softmax, the mixes are not trained.
        """
        super().__init__()
        is_number: bool = isinstance(dropout, Real)
        if not is_number or not 0 <= dropout <= 1:
            raise ConfigError(f"dropout must be a number from 0 to 1 (got {dropout!r}).")
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
        *,
        kernels: Kernels = AUTO_KERNELS,
    ) -> ELMoOutput:
        """Run the biLM and mix its layers. The arguments are described in `BiLM.forward`."""
        output = self.bilm(rows, index, mask, state, lengths, kernels=kernels)
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
        """Apply every layer mix to layers (layers, batch, time, dim) with boundary tokens.

        Returns one tensor per mix, (batch, time, dim), zero at padding, including the boundary
        tokens.
        """
        # bilm-tf does not normalize if only the top layer is used.
        program = "none" if self.config.mix.top_only else self.config.mix.layer_norm
        if program == "allennlp":
            layers = layer_norm(layers, mask, ALLENNLP_EPSILON)
        elif program == "bilm-tf":
            # bilm-tf excludes the boundary tokens from the statistics.
            words = functional.pad(mask[:, 2:], (1, 1))
            layers = layer_norm(layers, words, BILM_TF_EPSILON)
        padding = ~mask.unsqueeze(2)
        return [mix(layers).masked_fill(padding, 0.0) for mix in self.mixes]

    def mix_penalty(self) -> Tensor:
        """Return the sum of squared mix weights, to be scaled by λ and added to the loss."""
        penalties = [mix.l2() for mix in self.mixes if isinstance(mix, LayerMix)]
        return torch.stack(penalties).sum() if penalties else torch.zeros(())


def make_softmax(config: ModelConfig) -> Softmax | None:
    """Return an uninitialized softmax for a model, or None if the model has no softmax."""
    if not config.n_softmax_words:
        return None
    if config.softmax_cutoffs:
        return nn.AdaptiveLogSoftmaxWithLoss(
            config.lstm.projection_dim, config.n_softmax_words, list(config.softmax_cutoffs)
        )
    return nn.Linear(config.lstm.projection_dim, config.n_softmax_words)
