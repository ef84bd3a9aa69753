"""Dynamic evaluation: the weights adapt to the text that has been read (Krause et al., 2018).

Once the predictions of a segment have been counted, the weights take a step of gradient descent on
it and return towards the trained weights by a fraction. A loss from dynamic evaluation must not be
compared with one of fixed weights.
"""

import copy

import torch
from torch import Tensor

from elmo.errors import ConfigError
from elmo.lab.recurrent_network import RecurrentNetwork
from elmo.lab.symbol_text import TextPart
from elmo.lab.symbols import Symbols
from elmo.lab.text_loss import TextLoss, predictions
from elmo.train.optim import clip_gradients

# Largest gradient norm of a step; a single unusual segment must not destroy the weights.
CLIP_NORM = 1.0


def dynamic_loss(
    network: RecurrentNetwork,
    symbols: Symbols,
    part: TextPart,
    *,
    rate: float,
    decay: float = 0.0,
    unroll: int = 20,
) -> TextLoss:
    """Return the loss of a network that adapts to a text while it reads it.

    Args:
        network: The network. It is not changed; a copy of it adapts.
        symbols: Its symbols.
        part: The text, which is read as one stream.
        rate: Learning rate.
        decay: Fraction by which the weights return to the trained ones after each segment.
        unroll: Number of symbols between two updates.

    Raises:
        ConfigError: An option is out of range.
    """
    if not 0.0 < rate <= 1e3:
        raise ConfigError(f"The rate of dynamic evaluation must be above 0 (got {rate}).")
    if not 0.0 <= decay <= 1.0:
        raise ConfigError(
            f"The decay of dynamic evaluation must be a fraction from 0 to 1 (got {decay})."
        )
    if unroll < 1:
        raise ConfigError(f"unroll must be at least 1 (got {unroll}).")
    adapted = copy.deepcopy(network).eval().requires_grad_(True)
    trained = [value.detach() for value in network.parameters()]
    weights: list[Tensor] = list(adapted.parameters())
    inputs, targets = (
        torch.from_numpy(ids).long() for ids in predictions(part.inputs.ids, symbols)
    )
    device = weights[0].device
    state = adapted.zero_state(1)
    total = torch.zeros((), dtype=torch.float64, device=device)
    for x, y in zip(torch.split(inputs, unroll), torch.split(targets, unroll), strict=True):
        vectors = adapted.vectors_with(part.inputs.new_words)
        output = adapted(vectors, x.to(device).unsqueeze(1), state)
        losses = adapted.losses(output.hidden.flatten(0, 1), y.to(device), vectors)
        total += losses.detach().double().sum()
        state = output.state.detach()
        losses.mean().backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            used = [value for value in weights if value.grad is not None]
            gradients = [value.grad for value in used if value.grad is not None]
            clip_gradients(gradients, CLIP_NORM)
            torch._foreach_add_(used, gradients, alpha=-rate)
            if decay:
                torch._foreach_lerp_(weights, trained, decay)
        adapted.zero_grad(set_to_none=True)
    return TextLoss.of_part(float(total) / len(targets), part, symbols)
