"""What the older programs compute for a batch, written anew as a yardstick of speed.

The character CNN runs on every token, and each step of an LSTM is two linear layers on the rows
still running, in a Python loop over sentences sorted by length. Same weights, same results as ours.
"""

import torch
from torch import Tensor
from torch.nn import functional

from elmo.model.lstm import LSTMLayer, LSTMStack
from elmo.model.network import ELMoNetwork
from elmo.model.token_encoder import TokenEncoder


@torch.inference_mode()
def older_layers(network: ELMoNetwork, ids: Tensor) -> Tensor:
    """Give all layers of a batch of ids, (layers + 1, batch, time, 2 * projection)."""
    mask = (ids != 0).any(dim=2)
    lengths = mask.sum(dim=1)
    order = lengths.argsort(descending=True)
    back = order.argsort()
    ids, mask, lengths = ids[order], mask[order], lengths[order]
    tokens = _tokens(network.bilm.encoder, ids.flatten(0, 1)).view(*ids.shape[:2], -1)
    tokens = tokens * mask.unsqueeze(2)
    sizes = lengths.tolist()
    ahead = _stack(network.bilm.forward_lstm, tokens, sizes, reverse=False)
    behind = _stack(network.bilm.backward_lstm, tokens, sizes, reverse=True)
    pairs = [(tokens, tokens), *zip(ahead, behind, strict=True)]
    return torch.stack([torch.cat(pair, dim=2)[back] for pair in pairs])


def _tokens(encoder: TokenEncoder, characters: Tensor) -> Tensor:
    """Encode every token, each with all its columns of padding."""
    cnn = encoder.characters
    assert cnn is not None and encoder.projection is not None  # noqa: PT018
    vectors = cnn.embedding(characters).transpose(1, 2)
    pooled = [convolution(vectors).max(dim=2).values.relu() for convolution in cnn.convolutions]
    x = torch.cat(pooled, dim=1)
    for layer in cnn.highway:
        x = layer(x)
    return encoder.projection(x)


def _stack(stack: LSTMStack, x: Tensor, lengths: list[int], reverse: bool) -> list[Tensor]:
    outputs = []
    for depth, layer in enumerate(stack.layers):
        assert isinstance(layer, LSTMLayer)
        out = _layer(layer, x, lengths, reverse)
        x = out + x if stack.residual and depth > 0 else out
        outputs.append(x)
    return outputs


def _layer(layer: LSTMLayer, x: Tensor, lengths: list[int], reverse: bool) -> Tensor:
    config = layer.config
    batch, time, _ = x.shape
    bias = layer.bias_with_forget()
    h = x.new_zeros(batch, config.projection_dim)
    c = x.new_zeros(batch, config.cell_dim)
    out = x.new_zeros(batch, time, config.projection_dim)
    for step in reversed(range(time)) if reverse else range(time):
        n = sum(length > step for length in lengths)
        gates = functional.linear(x[:n, step], layer.weight_ih) + functional.linear(
            h[:n], layer.weight_hh, bias
        )
        i, f, g, o = gates.chunk(4, dim=1)
        memory = i.sigmoid() * g.tanh() + f.sigmoid() * c[:n]
        if config.cell_clip is not None:
            memory = memory.clamp(-config.cell_clip, config.cell_clip)
        value = o.sigmoid() * memory.tanh()
        if layer.weight_hr is not None:
            value = functional.linear(value, layer.weight_hr)
            if config.projection_clip is not None:
                value = value.clamp(-config.projection_clip, config.projection_clip)
        h, c = h.clone(), c.clone()
        h[:n], c[:n] = value, memory
        out[:n, step] = value
    return out
