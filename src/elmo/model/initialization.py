"""Random weight initialization from one seed, with the same distributions as bilm-tf."""

import math

import torch
from torch import Tensor, nn

from elmo.model.losses import Softmax
from elmo.model.lstm import LSTMLayer
from elmo.model.network import ELMoNetwork
from elmo.model.token_encoder import CharacterCNN, Highway, TokenEncoder

# Initial bias of the highway gate. Negative, so that the layer first passes its input through.
HIGHWAY_GATE_BIAS = -2.0


def initialize(network: ELMoNetwork, seed: int) -> None:
    """Initialize the weights of the biLM and the softmax, but not those of the layer mixes."""
    generator = torch.Generator().manual_seed(seed)
    initialize_encoder(network.bilm.encoder, generator)
    if network.softmax is not None:
        initialize_softmax(network.softmax, generator)
    with torch.no_grad():
        for stack in (network.bilm.forward_lstm, network.bilm.backward_lstm):
            for layer in stack.layers:
                assert isinstance(layer, LSTMLayer)
                _lstm_layer(layer, generator)


def initialize_encoder(encoder: TokenEncoder, generator: torch.Generator) -> None:
    """Initialize the weights of a token encoder."""
    with torch.no_grad():
        if encoder.characters is not None:
            _character_cnn(encoder.characters, generator)
        if encoder.words is not None:
            # The word table of bilm-tf has no padding row, so it is not counted.
            _glorot(encoder.words.weight, generator, fan_sum=sum(encoder.words.weight.shape) - 1)
            encoder.words.weight[0] = 0.0
        if encoder.projection is not None:
            _normal_linear(encoder.projection, generator)


def initialize_softmax(softmax: Softmax, generator: torch.Generator) -> None:
    """Initialize the weights and biases of a softmax."""
    with torch.no_grad():
        for part in softmax.modules():
            if isinstance(part, nn.Linear):
                _normal_linear(part, generator)


def bias_from_counts(softmax: Softmax, counts: Tensor) -> None:
    """Set the softmax bias to the log relative frequency of each word.

    With zero biases, words that have not been sampled yet in training would get a higher
    probability than words that have. An adaptive softmax is not changed, because its clusters have
    no bias.
    """
    if isinstance(softmax, nn.Linear):
        with torch.no_grad():
            softmax.bias.copy_(log_frequencies(counts))


def log_frequencies(counts: Tensor) -> Tensor:
    """Return the log relative frequencies, smoothed so that no word has probability 0."""
    smoothed = counts.double() + 0.5
    return (smoothed / smoothed.sum()).log()


def _character_cnn(cnn: CharacterCNN, generator: torch.Generator) -> None:
    cnn.embedding.weight.uniform_(-1.0, 1.0, generator=generator)
    cnn.embedding.weight[0] = 0.0
    for convolution in cnn.convolutions:
        assert isinstance(convolution, nn.Conv1d)
        assert convolution.bias is not None
        if cnn.activation == "relu":
            convolution.weight.uniform_(-0.05, 0.05, generator=generator)
        else:
            fan_in = convolution.weight[0].numel()
            convolution.weight.normal_(0.0, 1.0 / math.sqrt(fan_in), generator=generator)
        convolution.bias.zero_()
    for highway in cnn.highway:
        assert isinstance(highway, Highway)
        _normal_linear(highway.linear, generator)
        highway.linear.bias.chunk(2)[1].fill_(HIGHWAY_GATE_BIAS)


def _lstm_layer(layer: LSTMLayer, generator: torch.Generator) -> None:
    # bilm-tf initializes input and recurrent weights as one matrix, whose shape sets the bound.
    n_inputs = layer.weight_ih.shape[1] + layer.weight_hh.shape[1]
    for weight in (layer.weight_ih, layer.weight_hh):
        _glorot(weight, generator, fan_sum=weight.shape[0] + n_inputs)
    layer.bias.zero_()
    if layer.weight_hr is not None:
        _glorot(layer.weight_hr, generator)


def _normal_linear(linear: nn.Linear, generator: torch.Generator) -> None:
    linear.weight.normal_(0.0, 1.0 / math.sqrt(linear.in_features), generator=generator)
    # The clusters of an adaptive softmax have no bias.
    if linear.bias is not None:
        linear.bias.zero_()


def _glorot(weight: Tensor, generator: torch.Generator, fan_sum: int | None = None) -> None:
    bound = math.sqrt(6.0 / (fan_sum or sum(weight.shape)))
    weight.uniform_(-bound, bound, generator=generator)
