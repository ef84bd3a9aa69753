"""Layer mix `γ·Σ softmax(w)_k·layer_k`, and layer normalization as in bilm-tf and AllenNLP."""

import torch
from torch import Tensor, nn


def layer_norm(layers: Tensor, mask: Tensor, epsilon: float) -> Tensor:
    """Normalize each layer, (layers, batch, time, dim), over all real positions and features.

    Unlike the usual layer normalization, mean and variance are not computed per token. Both bilm-tf
    and AllenNLP compute them over the whole batch and also normalize the padding.
    """
    real = mask[None, :, :, None]
    # Sums over a batch overflow float16. The clamp avoids 0 / 0 in a batch of empty sentences.
    wide = layers.to(torch.promote_types(layers.dtype, torch.float32))
    n_values = (mask.sum() * layers.shape[3]).clamp(min=1)
    mean = (wide * real).sum(dim=(1, 2, 3), keepdim=True) / n_values
    variance = (((wide - mean) * real) ** 2).sum(dim=(1, 2, 3), keepdim=True) / n_values
    return ((wide - mean) / torch.sqrt(variance + epsilon)).to(layers.dtype)


def mix_layers(layers: Tensor, weights: Tensor, gamma: Tensor) -> Tensor:
    """Return the sum over layers, weighted by softmax(weights) and scaled by gamma."""
    shares = weights.softmax(dim=0).to(layers.dtype)
    return gamma.to(layers.dtype) * torch.einsum("l,l...->...", shares, layers)


class LayerMix(nn.Module):
    """Trainable or fixed weighted sum of the layers (Peters et al., 2018, equation 1)."""

    def __init__(
        self,
        *,
        n_layers: int,
        initial: list[float] | None = None,
        trainable: bool = True,
        top_only: bool = False,
    ) -> None:
        """Create a mix; the initial weights are those before the softmax. Default: zeros.

        With `top_only`, only the top layer is used, scaled by gamma.
        """
        super().__init__()
        values = torch.zeros(n_layers) if initial is None else torch.tensor(initial)
        self.weights = nn.Parameter(values.float(), requires_grad=trainable and not top_only)
        self.gamma = nn.Parameter(torch.ones(1), requires_grad=trainable)
        self.top_only = top_only

    def forward(self, layers: Tensor) -> Tensor:
        """Mix layers (layers, batch, time, dim) to vectors (batch, time, dim)."""
        if self.top_only:
            return self.gamma.to(layers.dtype) * layers[-1]
        return mix_layers(layers, self.weights, self.gamma)

    def l2(self) -> Tensor:
        """Return the sum of squared weights (the paper's penalty without λ), or 0 if `top_only`."""
        return torch.zeros_like(self.gamma).sum() if self.top_only else (self.weights**2).sum()

    def is_trained(self) -> bool:
        """Whether the weights or gamma differ from their initial values."""
        return bool((self.weights != 0).any() or (self.gamma != 1).any())
