"""Renaming weights: ordered, reversible tables between other programs' names and ours.

A rule moves a group of their arrays to a group of ours and back without changing a bit. Readers
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
Move = Callable[[Arrays], Arrays]


@dataclass(frozen=True)
class Rule:
    """One group of arrays under both names.

    Attributes:
        theirs: name and shape of each array in the foreign file.
        ours: names in `ELMoNetwork`.
        read: their arrays to ours.
        write: ours to theirs, the exact inverse.
    """

    theirs: Mapping[str, tuple[int, ...]]
    ours: tuple[str, ...]
    read: Move
    write: Move


def to_ours(table: Sequence[Rule], arrays: Mapping[str, Array], label: str) -> dict[str, Tensor]:
    """Rename and turn foreign arrays; names and shapes must be exactly those of the table.

    Args:
        table: the rules.
        arrays: their arrays by name.
        label: the file, for messages.
    """
    expected = {name: shape for rule in table for name, shape in rule.theirs.items()}
    missing = [name for name in expected if name not in arrays]
    if missing:
        raise FormatError(
            f"{label}: {missing[0]} is missing ({len(missing)} of {len(expected)} arrays are): the "
            "file is not whole, or its options describe another model"
        )
    unknown = sorted(arrays.keys() - expected)
    if unknown:
        raise FormatError(
            f"{label}: {unknown[0]} is not expected ({len(unknown)} such): its options describe "
            "another model, or this is no biLM of a known kind"
        )
    for name, shape in expected.items():
        if arrays[name].shape != shape:
            raise FormatError(
                f"{label}: {name} has shape {arrays[name].shape}, but the options imply {shape}: "
                "the options belong to another model"
            )
    weights: dict[str, Tensor] = {}
    for rule in table:
        turned = rule.read([np.asarray(arrays[name], dtype=np.float32) for name in rule.theirs])
        for name, array in zip(rule.ours, turned, strict=True):
            weights[name] = torch.from_numpy(np.ascontiguousarray(array))
    return weights


def to_theirs(table: Sequence[Rule], weights: Mapping[str, Tensor]) -> dict[str, Array]:
    """Turn our weights into foreign arrays by the same table."""
    arrays: dict[str, Array] = {}
    for rule in table:
        turned = rule.write([weights[name].float().cpu().numpy() for name in rule.ours])
        for name, array in zip(rule.theirs, turned, strict=True):
            arrays[name] = np.ascontiguousarray(array)
    return arrays


# ------------------------------------------------------------------------------------ moves


def _same(arrays: Arrays) -> Arrays:
    return arrays


def _transpose(arrays: Arrays) -> Arrays:
    return [array.T for array in arrays]


def _add_mask_row(arrays: Arrays) -> Arrays:
    return [np.concatenate([np.zeros_like(array[:1]), array]) for array in arrays]


def _drop_mask_row(arrays: Arrays) -> Arrays:
    return [array[1:] for array in arrays]


def _swap_middle_blocks(array: Array) -> Array:
    """Turn gate blocks i, j, f, o of the last axis into i, f, j, o, or back."""
    i, second, third, o = np.split(array, 4, axis=-1)
    return np.concatenate([i, third, second, o], axis=-1)


def _split_kernel(arrays: Arrays) -> Arrays:
    of_input, of_state = np.split(_swap_middle_blocks(arrays[0]), 2, axis=0)
    return [of_input.T, of_state.T]


def _join_kernel(arrays: Arrays) -> Arrays:
    return [_swap_middle_blocks(np.concatenate([arrays[0].T, arrays[1].T], axis=0))]


def _join_transposed(arrays: Arrays) -> Arrays:
    return [np.concatenate([array.T for array in arrays])]


def _split_transposed(arrays: Arrays) -> Arrays:
    return [half.T for half in np.split(arrays[0], 2)]


def _join(arrays: Arrays) -> Arrays:
    return [np.concatenate(arrays)]


def _split(arrays: Arrays) -> Arrays:
    return np.split(arrays[0], 2)


def _flip_gate(arrays: Arrays) -> Arrays:
    """Change the sign of the gate: AllenNLP's opens for the input, ours for the transform."""
    transform, gate = np.split(arrays[0], 2)
    return [np.concatenate([transform, -gate])]


# ------------------------------------------------------------------------------------ tables

CHARACTERS = "bilm.encoder.characters"


def bilm_hdf5(config: ModelConfig) -> list[Rule]:
    """Rules for the arrays `dump_weights` of bilm-tf writes, which AllenNLP reads."""
    encoder, lstm = config.encoder, config.lstm
    rules: list[Rule] = []
    if encoder.n_characters:
        rows = (encoder.n_characters - 1, encoder.character_dim)
        ours = (f"{CHARACTERS}.embedding.weight",)
        rules.append(Rule({"char_embed": rows}, ours, _add_mask_row, _drop_mask_row))
        for number, (width, count) in enumerate(encoder.filters):
            theirs: dict[str, tuple[int, ...]] = {
                f"CNN/W_cnn_{number}": (1, width, encoder.character_dim, count)
            }
            ours = (f"{CHARACTERS}.convolutions.{number}.weight",)
            rules.append(
                Rule(
                    theirs,
                    ours,
                    lambda arrays: [arrays[0][0].transpose(2, 1, 0)],
                    lambda arrays: [arrays[0].transpose(2, 1, 0)[None]],
                )
            )
            ours = (f"{CHARACTERS}.convolutions.{number}.bias",)
            rules.append(Rule({f"CNN/b_cnn_{number}": (count,)}, ours, _same, _same))
        n_filters = encoder.n_filters
        for number in range(encoder.n_highway):
            scope, layer = f"CNN_high_{number}", f"{CHARACTERS}.highway.{number}.linear"
            square = (n_filters, n_filters)
            theirs = {f"{scope}/W_transform": square, f"{scope}/W_carry": square}
            rules.append(Rule(theirs, (f"{layer}.weight",), _join_transposed, _split_transposed))
            theirs = {f"{scope}/b_transform": (n_filters,), f"{scope}/b_carry": (n_filters,)}
            rules.append(Rule(theirs, (f"{layer}.bias",), _join, _split))
    else:
        rows = (encoder.n_words - 1, encoder.word_dim)
        ours = ("bilm.encoder.words.weight",)
        rules.append(Rule({"embedding": rows}, ours, _add_mask_row, _drop_mask_row))
    if encoder.project:
        shape = (encoder.width, lstm.projection_dim)
        ours = ("bilm.encoder.projection.weight",)
        rules.append(Rule({"CNN_proj/W_proj": shape}, ours, _transpose, _transpose))
        ours = ("bilm.encoder.projection.bias",)
        rules.append(Rule({"CNN_proj/b_proj": (lstm.projection_dim,)}, ours, _same, _same))
    for number, direction in enumerate(("forward", "backward")):
        for depth in range(lstm.n_layers):
            # TensorFlow leaves out the level of the multi-layer cell where there is one layer.
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
        ours = (f"{layer}.weight_hr",)
        rules.append(Rule({f"{scope}/W_P_0": shape}, ours, _transpose, _transpose))
    return rules


def torch_lstms(config: ModelConfig, scope: str) -> list[Rule]:
    """Rules for the LSTM modules of AllenNLP and ELMoForManyLangs below `scope`."""
    lstm = config.lstm
    n_gates = 4 * lstm.cell_dim
    square = (n_gates, lstm.projection_dim)
    rules: list[Rule] = []
    for depth in range(lstm.n_layers):
        for direction in ("forward", "backward"):
            layer = f"bilm.{direction}_lstm.layers.{depth}"
            theirs = f"{scope}{direction}_layer_{depth}"
            for name, ours, shape in (
                ("input_linearity.weight", "weight_ih", square),
                ("state_linearity.weight", "weight_hh", square),
                ("state_linearity.bias", "bias", (n_gates,)),
                ("state_projection.weight", "weight_hr", (lstm.projection_dim, lstm.cell_dim)),
            ):
                rules.append(Rule({f"{theirs}.{name}": shape}, (f"{layer}.{ours}",), _same, _same))
    return rules


def torch_encoder(
    config: ModelConfig, *, embedding: str, convolution: str, highway: str, projection: str
) -> list[Rule]:
    """Rules for the character part of AllenNLP's and ELMoForManyLangs' token encoders.

    Args:
        config: the model.
        embedding: name of the character table.
        convolution: name of a convolution, with `{}` for its number.
        highway: name of a highway layer, with `{}` for its number.
        projection: name of the projection.
    """
    encoder, width = config.encoder, config.encoder.width
    rules: list[Rule] = []
    if encoder.n_characters:
        shape: tuple[int, ...] = (encoder.n_characters, encoder.character_dim)
        rules.append(Rule({embedding: shape}, (f"{CHARACTERS}.embedding.weight",), _same, _same))
        for number, (size, count) in enumerate(encoder.filters):
            theirs, ours = convolution.format(number), f"{CHARACTERS}.convolutions.{number}"
            shape = (count, encoder.character_dim, size)
            rules.append(Rule({f"{theirs}.weight": shape}, (f"{ours}.weight",), _same, _same))
            rules.append(Rule({f"{theirs}.bias": (count,)}, (f"{ours}.bias",), _same, _same))
        n_filters = encoder.n_filters
        for number in range(encoder.n_highway):
            theirs, ours = highway.format(number), f"{CHARACTERS}.highway.{number}.linear"
            for name, shape in (("weight", (2 * n_filters, n_filters)), ("bias", (2 * n_filters,))):
                rules.append(
                    Rule({f"{theirs}.{name}": shape}, (f"{ours}.{name}",), _flip_gate, _flip_gate)
                )
    dim = config.lstm.projection_dim
    for name, shape in (("weight", (dim, width)), ("bias", (dim,))):
        ours = f"bilm.encoder.projection.{name}"
        rules.append(Rule({f"{projection}.{name}": shape}, (ours,), _same, _same))
    return rules


def allennlp_modules(config: ModelConfig) -> list[Rule]:
    """Rules for the state dict of AllenNLP's `Elmo` module, without its mixes."""
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
    """Rules for ELMoForManyLangs: its token embedder and its encoder, tables with a mask row."""
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
        if rule.ours != (f"{CHARACTERS}.embedding.weight",)
    ]
    if encoder.n_characters:
        name = "token_embedder.char_emb_layer.embedding.weight"
        ours = (f"{CHARACTERS}.embedding.weight",)
        rules.append(Rule({name: character_rows}, ours, _add_mask_row, _drop_mask_row))
    if encoder.n_words:
        name = "token_embedder.word_emb_layer.embedding.weight"
        ours = ("bilm.encoder.words.weight",)
        shape = (encoder.n_words - 1, encoder.word_dim)
        rules.append(Rule({name: shape}, ours, _add_mask_row, _drop_mask_row))
    return [*rules, *torch_lstms(config, "encoder.")]
