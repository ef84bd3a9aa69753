"""Conversion tables between the weights of other ELMo implementations and `ELMoNetwork`.

Each rule converts a group of foreign arrays to a group of weights and back, bit for bit. Readers
and writers share the tables.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.config import ModelConfig
from elmo.errors import FormatError

Array = NDArray[np.float32]
Arrays = list[Array]
Conversion = Callable[[Arrays], Arrays]


@dataclass(frozen=True)
class Rule:
    """Conversion between foreign arrays and the corresponding weights.

    `foreign` has the name and shape of each array, `names` those of the weights in `ELMoNetwork`.
    `write` is the exact inverse of `read`.
    """

    foreign: Mapping[str, tuple[int, ...]]
    names: tuple[str, ...]
    read: Conversion
    write: Conversion


def import_weights(
    table: Sequence[Rule], arrays: Mapping[str, Array], label: str
) -> dict[str, Tensor]:
    """Convert foreign arrays to weights. Names and shapes must match the table exactly."""
    expected = {name: shape for rule in table for name, shape in rule.foreign.items()}
    missing = [name for name in expected if name not in arrays]
    if missing:
        raise FormatError(
            f"{label}: {missing[0]} is missing ({len(missing)} of {len(expected)} arrays are). The "
            "file is incomplete, or its options describe another model."
        )
    unknown = sorted(arrays.keys() - expected)
    if unknown:
        raise FormatError(
            f"{label}: unexpected array {unknown[0]} ({len(unknown)} in total). The options "
            "describe another model, or this is not a known type of biLM."
        )
    for name, shape in expected.items():
        if arrays[name].shape != shape:
            raise FormatError(
                f"{label}: {name} has shape {arrays[name].shape}, but the options imply {shape}. "
                "The options belong to another model."
            )
    weights: dict[str, Tensor] = {}
    for rule in table:
        converted = rule.read([np.asarray(arrays[name], dtype=np.float32) for name in rule.foreign])
        for name, array in zip(rule.names, converted, strict=True):
            weights[name] = torch.from_numpy(np.ascontiguousarray(array))
    return weights


def export_weights(table: Sequence[Rule], weights: Mapping[str, Tensor]) -> dict[str, Array]:
    """Convert weights to the names and layout of another program; see `import_weights`."""
    arrays: dict[str, Array] = {}
    for rule in table:
        converted = rule.write([weights[name].float().cpu().numpy() for name in rule.names])
        for name, array in zip(rule.foreign, converted, strict=True):
            arrays[name] = np.ascontiguousarray(array)
    return arrays


# -------------------------------------------------------------------------------- conversions


def _identity(arrays: Arrays) -> Arrays:
    return arrays


def _transpose(arrays: Arrays) -> Arrays:
    return [array.T for array in arrays]


def _add_mask_row(arrays: Arrays) -> Arrays:
    return [np.concatenate([np.zeros_like(array[:1]), array]) for array in arrays]


def _drop_mask_row(arrays: Arrays) -> Arrays:
    return [array[1:] for array in arrays]


def _swap_middle_blocks(array: Array) -> Array:
    """Reorder LSTM gate blocks on the last axis from i, j, f, o to i, f, j, o, or back."""
    i, second, third, o = np.split(array, 4, axis=-1)
    return np.concatenate([i, third, second, o], axis=-1)


def _split_kernel(arrays: Arrays) -> Arrays:
    weight_ih, weight_hh = np.split(_swap_middle_blocks(arrays[0]), 2, axis=0)
    return [weight_ih.T, weight_hh.T]


def _join_kernel(arrays: Arrays) -> Arrays:
    return [_swap_middle_blocks(np.concatenate([arrays[0].T, arrays[1].T], axis=0))]


def _join_transposed(arrays: Arrays) -> Arrays:
    return [np.concatenate([array.T for array in arrays])]


def _split_transposed(arrays: Arrays) -> Arrays:
    return [part.T for part in np.split(arrays[0], 2)]


def _join(arrays: Arrays) -> Arrays:
    return [np.concatenate(arrays)]


def _split(arrays: Arrays) -> Arrays:
    return np.split(arrays[0], 2)


def _flip_gate(arrays: Arrays) -> Arrays:
    """Negate the highway gate, which scales the input in AllenNLP but the transform here."""
    transform, gate = np.split(arrays[0], 2)
    return [np.concatenate([transform, -gate])]


# ------------------------------------------------------------------------------------ tables

CHARACTERS = "bilm.encoder.characters"


def bilm_hdf5(config: ModelConfig) -> list[Rule]:
    """Return the rules for the datasets that bilm-tf's `dump_weights` writes."""
    encoder, lstm = config.encoder, config.lstm
    rules: list[Rule] = []
    if encoder.n_characters:
        rows = (encoder.n_characters - 1, encoder.character_dim)
        names = (f"{CHARACTERS}.embedding.weight",)
        rules.append(Rule({"char_embed": rows}, names, _add_mask_row, _drop_mask_row))
        for number, (width, count) in enumerate(encoder.filters):
            foreign: dict[str, tuple[int, ...]] = {
                f"CNN/W_cnn_{number}": (1, width, encoder.character_dim, count)
            }
            names = (f"{CHARACTERS}.convolutions.{number}.weight",)
            rules.append(
                Rule(
                    foreign,
                    names,
                    lambda arrays: [arrays[0][0].transpose(2, 1, 0)],
                    lambda arrays: [arrays[0].transpose(2, 1, 0)[None]],
                )
            )
            names = (f"{CHARACTERS}.convolutions.{number}.bias",)
            rules.append(Rule({f"CNN/b_cnn_{number}": (count,)}, names, _identity, _identity))
        n_filters = encoder.n_filters
        for number in range(encoder.n_highway):
            scope, layer = f"CNN_high_{number}", f"{CHARACTERS}.highway.{number}.linear"
            square = (n_filters, n_filters)
            foreign = {f"{scope}/W_transform": square, f"{scope}/W_carry": square}
            rules.append(Rule(foreign, (f"{layer}.weight",), _join_transposed, _split_transposed))
            foreign = {f"{scope}/b_transform": (n_filters,), f"{scope}/b_carry": (n_filters,)}
            rules.append(Rule(foreign, (f"{layer}.bias",), _join, _split))
    else:
        rows = (encoder.n_words - 1, encoder.word_dim)
        names = ("bilm.encoder.words.weight",)
        rules.append(Rule({"embedding": rows}, names, _add_mask_row, _drop_mask_row))
    if encoder.project:
        shape = (encoder.width, lstm.projection_dim)
        names = ("bilm.encoder.projection.weight",)
        rules.append(Rule({"CNN_proj/W_proj": shape}, names, _transpose, _transpose))
        names = ("bilm.encoder.projection.bias",)
        rules.append(Rule({"CNN_proj/b_proj": (lstm.projection_dim,)}, names, _identity, _identity))
    for number, direction in enumerate(("forward", "backward")):
        for depth in range(lstm.n_layers):
            # TensorFlow omits the scope of the multi-layer cell if there is only one layer.
            level = f"MultiRNNCell/Cell{depth}/" if lstm.n_layers > 1 else ""
            rules += _lstm_layer(config, f"RNN_{number}/RNN/{level}LSTMCell", direction, depth)
    return rules


def _lstm_layer(config: ModelConfig, scope: str, direction: str, depth: int) -> list[Rule]:
    lstm, layer = config.lstm, f"bilm.{direction}_lstm.layers.{depth}"
    n_gates = 4 * lstm.cell_dim
    rules = [
        Rule(
            {f"{scope}/W_0": (2 * lstm.projection_dim, n_gates)},
            (f"{layer}.weight_ih", f"{layer}.weight_hh"),
            _split_kernel,
            _join_kernel,
        ),
        Rule(
            {f"{scope}/B": (n_gates,)},
            (f"{layer}.bias",),
            lambda arrays: [_swap_middle_blocks(arrays[0])],
            lambda arrays: [_swap_middle_blocks(arrays[0])],
        ),
    ]
    if lstm.has_projection:
        shape = (lstm.cell_dim, lstm.projection_dim)
        names = (f"{layer}.weight_hr",)
        rules.append(Rule({f"{scope}/W_P_0": shape}, names, _transpose, _transpose))
    return rules


def torch_lstms(config: ModelConfig, scope: str) -> list[Rule]:
    """Return the rules for AllenNLP and ELMoForManyLangs LSTMs with the name prefix `scope`."""
    lstm = config.lstm
    n_gates = 4 * lstm.cell_dim
    square = (n_gates, lstm.projection_dim)
    rules: list[Rule] = []
    for depth in range(lstm.n_layers):
        for direction in ("forward", "backward"):
            layer = f"bilm.{direction}_lstm.layers.{depth}"
            foreign = f"{scope}{direction}_layer_{depth}"
            for name, weight, shape in (
                ("input_linearity.weight", "weight_ih", square),
                ("state_linearity.weight", "weight_hh", square),
                ("state_linearity.bias", "bias", (n_gates,)),
                ("state_projection.weight", "weight_hr", (lstm.projection_dim, lstm.cell_dim)),
            ):
                rules.append(
                    Rule({f"{foreign}.{name}": shape}, (f"{layer}.{weight}",), _identity, _identity)
                )
    return rules


def torch_encoder(
    config: ModelConfig, *, embedding: str, convolution: str, highway: str, projection: str
) -> list[Rule]:
    """Return the rules of AllenNLP and ELMoForManyLangs encoders; `{}` is the index."""
    encoder, width = config.encoder, config.encoder.width
    rules: list[Rule] = []
    if encoder.n_characters:
        shape: tuple[int, ...] = (encoder.n_characters, encoder.character_dim)
        rules.append(
            Rule({embedding: shape}, (f"{CHARACTERS}.embedding.weight",), _identity, _identity)
        )
        for number, (size, count) in enumerate(encoder.filters):
            foreign, layer = convolution.format(number), f"{CHARACTERS}.convolutions.{number}"
            shape = (count, encoder.character_dim, size)
            rules.append(
                Rule({f"{foreign}.weight": shape}, (f"{layer}.weight",), _identity, _identity)
            )
            rules.append(
                Rule({f"{foreign}.bias": (count,)}, (f"{layer}.bias",), _identity, _identity)
            )
        n_filters = encoder.n_filters
        for number in range(encoder.n_highway):
            foreign, layer = highway.format(number), f"{CHARACTERS}.highway.{number}.linear"
            for name, shape in (("weight", (2 * n_filters, n_filters)), ("bias", (2 * n_filters,))):
                rules.append(
                    Rule({f"{foreign}.{name}": shape}, (f"{layer}.{name}",), _flip_gate, _flip_gate)
                )
    dim = config.lstm.projection_dim
    for name, shape in (("weight", (dim, width)), ("bias", (dim,))):
        weight = f"bilm.encoder.projection.{name}"
        rules.append(Rule({f"{projection}.{name}": shape}, (weight,), _identity, _identity))
    return rules


def allennlp_modules(config: ModelConfig) -> list[Rule]:
    """Return the rules for the state dict of AllenNLP's `Elmo` module, except its layer mixes."""
    scope = "_elmo_lstm._token_embedder."
    return [
        *torch_encoder(
            config,
            embedding=f"{scope}_char_embedding_weights",
            convolution=scope + "char_conv_{}",
            highway=scope + "_highways._layers.{}",
            projection=f"{scope}_projection",
        ),
        *torch_lstms(config, "_elmo_lstm._elmo_lstm."),
    ]


def many_langs(config: ModelConfig) -> list[Rule]:
    """Return the rules for ELMoForManyLangs, whose embeddings have no mask row."""
    encoder = config.encoder
    character_rows = (encoder.n_characters - 1, encoder.character_dim)
    rules = [
        rule
        for rule in torch_encoder(
            config,
            embedding="token_embedder.char_emb_layer.embedding.weight",
            convolution="token_embedder.convolutions.{}",
            highway="token_embedder.highways._layers.{}",
            projection="token_embedder.projection",
        )
        if rule.names != (f"{CHARACTERS}.embedding.weight",)
    ]
    if encoder.n_characters:
        name = "token_embedder.char_emb_layer.embedding.weight"
        names = (f"{CHARACTERS}.embedding.weight",)
        rules.append(Rule({name: character_rows}, names, _add_mask_row, _drop_mask_row))
    if encoder.n_words:
        name = "token_embedder.word_emb_layer.embedding.weight"
        names = ("bilm.encoder.words.weight",)
        shape = (encoder.n_words - 1, encoder.word_dim)
        rules.append(Rule({name: shape}, names, _add_mask_row, _drop_mask_row))
    return [*rules, *torch_lstms(config, "encoder.")]
