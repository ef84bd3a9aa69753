"""Export of the inference network as a `torch.export` program, from character ids to all layers.

The computation is the same as in `elmo.model`, but written so that it can be traced for any batch
size and length: the time steps are a scan, and no branch depends on values or sizes.
"""

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.nn import functional

from elmo.export.exportable import HasNetwork, n_columns
from elmo.export.torch_scan import scan
from elmo.kernels.characters_reference import convolve_and_pool
from elmo.model.bilm import BiLM
from elmo.model.lstm import LSTMLayer, LSTMStack
from elmo.model.token_encoder import CharacterCNN, Highway, TokenEncoder


def exported(model: HasNetwork) -> ExportedProgram:
    """Return a model's network as a `torch.export` program that does not depend on this package.

    `program.module()(character_ids)` takes ids from `ELMo.character_ids`, (batch, time, columns),
    0 at padding, of any batch size and length. It returns (layers + 1, batch, time, dim), zero at
    padding, including the boundary tokens. The program shares its weights with the model
    until it is saved with `torch.export.save`.

    Args:
        model: An `ELMo`. Its layer mixes and softmax are not exported.

    Raises:
        ConfigError: The installed PyTorch cannot export a scan.
    """
    bilm = model.network.bilm
    device = next(bilm.parameters()).device
    # Sizes that occur nowhere else in the model, so that the tracer does not confuse them.
    example = torch.ones(3, 5, n_columns(bilm.config), dtype=torch.int64, device=device)
    sizes = {0: Dim("batch", min=1), 1: Dim("time", min=2)}
    network = InferenceNetwork(bilm).eval()
    with torch.no_grad():
        return torch.export.export(network, (example,), dynamic_shapes=(sizes,))


class InferenceNetwork(nn.Module):
    """The biLM as a module that maps character ids to all layers."""

    def __init__(self, bilm: BiLM) -> None:
        """Wrap a network; the weights are shared, not copied."""
        super().__init__()
        self.bilm = bilm

    def forward(self, character_ids: Tensor) -> Tensor:
        """Map (batch, time, columns) to (layers + 1, batch, time, 2 * projection)."""
        steps = character_ids.transpose(0, 1)
        mask = (steps != 0).any(dim=2, keepdim=True)  # (time, batch, 1)
        rows = steps.reshape(-1, steps.shape[2])
        tokens = _tokens(self.bilm.encoder, rows).view(steps.shape[0], steps.shape[1], -1)
        tokens = tokens * mask
        forward = _stack(self.bilm.forward_lstm, tokens, mask, reverse=False)
        backward = _stack(self.bilm.backward_lstm, tokens, mask, reverse=True)
        pairs = [(tokens, tokens), *zip(forward, backward, strict=True)]
        return torch.stack([torch.cat(pair, dim=2) for pair in pairs]).transpose(1, 2)


def _tokens(encoder: TokenEncoder, rows: Tensor) -> Tensor:
    """Compute `TokenEncoder.forward` without data-dependent indexing."""
    parts: list[Tensor] = []
    words = None if encoder.words is None else encoder.words(rows[:, -1])
    if words is not None and not encoder.cached:
        parts.append(words)
    if encoder.characters is not None:
        parts.append(_characters(encoder.characters, rows if words is None else rows[:, :-1]))
    x = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
    if encoder.projection is not None:
        x = encoder.projection(x)
    return torch.where(rows[:, -1:] == 0, x, words) if encoder.cached and words is not None else x


def _characters(cnn: CharacterCNN, ids: Tensor) -> Tensor:
    """Compute `CharacterCNN.forward` with the reference implementation."""
    convolutions = [layer for layer in cnn.convolutions if isinstance(layer, nn.Conv1d)]
    weights = [layer.weight for layer in convolutions]
    biases = [layer.bias for layer in convolutions if layer.bias is not None]
    x = convolve_and_pool(ids, cnn.embedding.weight, weights, biases)
    x = x.relu() if cnn.activation == "relu" else x.tanh()
    for layer in cnn.highway:
        assert isinstance(layer, Highway)
        transform, gate = layer.linear(x).chunk(2, dim=1)
        x = torch.lerp(x, transform.relu(), gate.sigmoid())
    return x


def _stack(stack: LSTMStack, x: Tensor, mask: Tensor, *, reverse: bool) -> list[Tensor]:
    """Return the outputs of all layers, each (time, batch, projection)."""
    outputs: list[Tensor] = []
    for layer in stack.layers:
        assert isinstance(layer, LSTMLayer)
        out = _scan_layer(layer, x, mask, reverse=reverse)
        x = out + x if stack.residual and outputs else out
        outputs.append(x)
    return outputs


def _scan_layer(layer: LSTMLayer, x: Tensor, mask: Tensor, *, reverse: bool) -> Tensor:
    """Run a layer over all time steps; padding resets the state to zero."""
    config, projection = layer.config, layer.weight_hr

    def step(state: list[Tensor], inputs: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        (h, c), (gates, is_real) = state, inputs
        i, f, g, o = (gates + functional.linear(h, layer.weight_hh)).chunk(4, dim=1)
        c = _clip(f.sigmoid() * c + i.sigmoid() * g.tanh(), config.cell_clip)
        h = o.sigmoid() * c.tanh()
        if projection is not None:
            h = _clip(functional.linear(h, projection), config.projection_clip)
        h, c = h * is_real, c * is_real
        return [h, c], [h.clone()]

    gates = functional.linear(x, layer.weight_ih, layer.bias_with_forget())
    initial_state = [x.new_zeros(x.shape[1], n) for n in (config.projection_dim, config.cell_dim)]
    return scan(step, initial_state, [gates, mask], reverse=reverse)[0]


def _clip(x: Tensor, clip: float | None) -> Tensor:
    return x if clip is None else x.clamp(-clip, clip)
