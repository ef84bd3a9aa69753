"""AllenNLP-style computation of a batch, the baseline of the speed benchmarks.

The character CNN runs on every token, including repeated words. Each LSTM time step is two linear
layers on the sentences that have not ended, in a Python loop over sentences sorted by length.
Weights and results are the same as those of `encode`.
"""

import torch
from torch import Tensor
from torch.nn import functional

from elmo.model.lstm import LSTMLayer, LSTMStack
from elmo.model.network import ELMoNetwork
from elmo.model.token_encoder import TokenEncoder


@torch.inference_mode()
def allennlp_layers(network: ELMoNetwork, ids: Tensor) -> Tensor:
    """Return all layers of a batch, (layers + 1, batch, time, 2 * projection).

    Args:
        network: The network.
        ids: Character ids, (batch, time, characters); 0 is padding.
    """
    mask = (ids != 0).any(dim=2)
    lengths = mask.sum(dim=1)
    order = lengths.argsort(descending=True)
    original_order = order.argsort()
    ids, mask, lengths = ids[order], mask[order], lengths[order]
    tokens = _tokens(network.bilm.encoder, ids.flatten(0, 1)).view(*ids.shape[:2], -1)
    tokens = tokens * mask.unsqueeze(2)
    sizes = lengths.tolist()
    forward = _stack(network.bilm.forward_lstm, tokens, sizes, reverse=False)
    backward = _stack(network.bilm.backward_lstm, tokens, sizes, reverse=True)
    pairs = [(tokens, tokens), *zip(forward, backward, strict=True)]
    return torch.stack([torch.cat(pair, dim=2)[original_order] for pair in pairs])


def _tokens(encoder: TokenEncoder, characters: Tensor) -> Tensor:
    """Encode every token, padding characters included.

    Args:
        encoder: The token encoder.
        characters: Character ids, (tokens, characters).
    """
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
        cell = i.sigmoid() * g.tanh() + f.sigmoid() * c[:n]
        if config.cell_clip is not None:
            cell = cell.clamp(-config.cell_clip, config.cell_clip)
        value = o.sigmoid() * cell.tanh()
        if layer.weight_hr is not None:
            value = functional.linear(value, layer.weight_hr)
            if config.projection_clip is not None:
                value = value.clamp(-config.projection_clip, config.projection_clip)
        h, c = h.clone(), c.clone()
        h[:n], c[:n] = value, cell
        out[:n, step] = value
    return out
