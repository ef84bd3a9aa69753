"""Builds the inference network as an ONNX graph, from character ids to the vectors of every layer.

The graph is built node by node instead of being traced. A tracer would require a PyTorch release
that can export scans, would write source file paths into the graph, and could not encode each
distinct word only once. Every exported graph is compared with the network.
"""

from typing import TYPE_CHECKING

import numpy as np

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig, Storage
from elmo.export.exportable import n_character_columns, n_columns
from elmo.export.onnx_matmul import WeightNodes
from elmo.export.onnx_nodes import FLOAT, INT64, Nodes
from elmo.model.bilm import BiLM

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto

INPUT = "character_ids"
OUTPUT = "layers"


def graph(bilm: BiLM, storage: Storage = "float32") -> "ModelProto":
    """Return an ONNX model of the network; with "int8", matrices are multiplied in int8 too."""
    config = bilm.config
    nodes = Nodes()
    weight_nodes = WeightNodes(bilm, storage)
    steps = nodes.add("Transpose", INPUT, perm=[1, 0, 2])  # (time, batch, columns)
    mask = _mask(nodes, steps)
    rows, index = _distinct(nodes, steps, n_columns(config))
    table = _tokens(nodes, weight_nodes, config, rows)
    tokens = nodes.add("Mul", nodes.add("Gather", table, index), mask)
    directions = [
        _stack(nodes, weight_nodes, config.lstm, name, table, index, mask)
        for name in ("forward_lstm", "backward_lstm")
    ]
    depths = [
        nodes.add("Unsqueeze", nodes.add("Concat", *pair, axis=2), nodes.integers(0))
        for pair in [(tokens, tokens), *zip(*directions, strict=True)]
    ]
    stacked = nodes.add("Concat", *depths, axis=0)  # (layers, time, batch, dim)
    nodes.add("Transpose", stacked, perm=[0, 2, 1, 3], name=OUTPUT)
    return nodes.as_model(
        {INPUT: (INT64, ["batch", "time", n_columns(config)])},
        {OUTPUT: (FLOAT, [config.n_layers, "batch", "time", config.dim])},
        {"dtype": storage},
    )


def _mask(nodes: Nodes, steps: str) -> str:
    """Return the mask, (time, batch, 1): 1 at tokens and 0 at padding, where all ids are 0."""
    largest = nodes.add("ReduceMax", steps, nodes.integers(2), keepdims=1)
    is_real = nodes.add("Greater", largest, nodes.weight("zero", np.array(0)))
    return nodes.add("Cast", is_real, to=FLOAT)


def _distinct(nodes: Nodes, steps: str, columns: int) -> tuple[str, str]:
    """Return the distinct token rows, and the row index of each position, (time, batch)."""
    flat = nodes.add("Reshape", steps, nodes.integers(-1, columns))
    rows, _, inverse = nodes.add_with_outputs("Unique", 3, flat, axis=0)
    shape = nodes.add("Shape", steps, end=2)
    return rows, nodes.add("Reshape", inverse, shape)


def _tokens(nodes: Nodes, weight_nodes: WeightNodes, model: ModelConfig, rows: str) -> str:
    """Return the vectors of token rows, (distinct, projection); see `TokenEncoder`."""
    config, n_characters = model.encoder, n_character_columns(model)
    parts: list[str] = []
    words = word_ids = ""
    if config.n_words:
        column = nodes.weight("word_column", np.array(n_characters))
        word_ids = nodes.add("Gather", rows, column, axis=1)  # (distinct,)
        words = weight_nodes.gather(nodes, "encoder.words.weight", word_ids)
        if config.word_role == "join":
            parts.append(words)
    if config.n_characters:
        characters = rows
        if config.n_words:
            bounds = [nodes.integers(0), nodes.integers(n_characters), nodes.integers(1)]
            characters = nodes.add("Slice", rows, *bounds)
        parts.append(_characters(nodes, weight_nodes, config, characters, n_characters))
    x = parts[0] if len(parts) == 1 else nodes.add("Concat", *parts, axis=1)
    if config.project:
        x = _linear(nodes, weight_nodes, x, "encoder.projection")
    if config.n_words and config.word_role == "cache":
        is_unknown = nodes.add("Equal", word_ids, nodes.weight("zero", np.array(0)))
        x = nodes.add("Where", nodes.add("Unsqueeze", is_unknown, nodes.integers(1)), x, words)
    return x


def _characters(
    nodes: Nodes, weight_nodes: WeightNodes, config: EncoderConfig, ids: str, n_columns: int
) -> str:
    """Return the character vectors of token rows, (distinct, filters); see `CharacterCNN`."""
    name = "encoder.characters"
    ids = _without_padding_columns(nodes, config, ids, n_columns)
    vectors = nodes.add("Gather", weight_nodes.value(nodes, f"{name}.embedding.weight"), ids)
    vectors = nodes.add("Transpose", vectors, perm=[0, 2, 1])  # (distinct, dim, characters)
    maxima: list[str] = []
    for number in range(len(config.filters)):
        weight, bias = (
            weight_nodes.value(nodes, f"{name}.convolutions.{number}.{part}")
            for part in ("weight", "bias")
        )
        convolved = nodes.add("Conv", vectors, weight, bias)
        maxima.append(nodes.add("ReduceMax", convolved, nodes.integers(2), keepdims=0))
    x = nodes.add("Concat", *maxima, axis=1)
    x = nodes.add({"relu": "Relu", "tanh": "Tanh"}[config.activation], x)
    for number in range(config.n_highway):
        transform_and_gate = _linear(nodes, weight_nodes, x, f"{name}.highway.{number}.linear")
        transform, gate = nodes.add_with_outputs(
            "Split", 2, transform_and_gate, axis=1, num_outputs=2
        )
        difference = nodes.add("Sub", nodes.add("Relu", transform), x)
        x = nodes.add("Add", x, nodes.add("Mul", nodes.add("Sigmoid", gate), difference))
    return x


def _without_padding_columns(nodes: Nodes, config: EncoderConfig, ids: str, n_columns: int) -> str:
    """Drop columns of padding as in `kernels.characters_reference`."""
    last = nodes.add("Gather", ids, nodes.integers(n_columns - 1), axis=1)  # (distinct, 1)
    differs = nodes.add("Cast", nodes.add("Not", nodes.add("Equal", ids, last)), to=INT64)
    position = nodes.add("Mul", differs, nodes.integers(*range(1, n_columns + 1)))
    n_used = nodes.add("Reshape", nodes.add("ReduceMax", position, keepdims=0), nodes.integers(1))
    max_width = max(width for width, _ in config.filters)
    end = nodes.add("Add", n_used, nodes.integers(max_width))
    return nodes.add("Slice", ids, nodes.integers(0), end, nodes.integers(1))


def _linear(
    nodes: Nodes, weight_nodes: WeightNodes, x: str, name: str, weight: str = "weight"
) -> str:
    bias = weight_nodes.value(nodes, f"{name}.bias")
    return weight_nodes.matmul(nodes, x, f"{name}.{weight}", bias)


def _stack(
    nodes: Nodes,
    weight_nodes: WeightNodes,
    config: LSTMConfig,
    name: str,
    table: str,
    index: str,
    mask: str,
) -> list[str]:
    """Return the outputs of all layers of one direction, each (time, batch, projection)."""
    x = ""
    outputs: list[str] = []
    for depth in range(config.n_layers):
        layer = f"{name}.layers.{depth}"
        # The input part of the gates is computed in one product, in layer 0 for the distinct words
        # only.
        if depth == 0:
            input_gates = _linear(nodes, weight_nodes, table, layer, weight="weight_ih")
            gates = nodes.add("Gather", input_gates, index)
        else:
            rows = nodes.add("Reshape", x, nodes.integers(-1, config.projection_dim))
            input_gates = _linear(nodes, weight_nodes, rows, layer, weight="weight_ih")
            time_and_batch = nodes.add("Shape", mask, end=2)
            shape = nodes.add("Concat", time_and_batch, nodes.integers(-1), axis=0)
            gates = nodes.add("Reshape", input_gates, shape)
        out = _scan(nodes, weight_nodes, config, layer, gates, mask)
        x = nodes.add("Add", out, x) if config.residual and depth else out
        outputs.append(x)
    return outputs


def _scan(
    nodes: Nodes, weight_nodes: WeightNodes, config: LSTMConfig, name: str, gates: str, mask: str
) -> str:
    """Run a layer over all time steps.

    The state is multiplied by the mask, so outputs at padding are 0 and the backward direction
    starts each sentence from a zero state.
    """
    batch = nodes.add("Shape", mask, start=1, end=2)
    shapes = [
        nodes.add("Concat", batch, nodes.integers(width), axis=0)
        for width in (config.projection_dim, config.cell_dim)
    ]
    initial_state = [nodes.add("Expand", nodes.number(0.0), shape) for shape in shapes]
    reverse = int(name.startswith("backward"))
    return nodes.add_with_outputs(
        "Scan",
        3,
        *initial_state,
        gates,
        mask,
        body=_scan_body(nodes, weight_nodes, config, name),
        num_scan_inputs=2,
        scan_input_directions=[reverse, reverse],
        scan_output_directions=[reverse],
    )[2]


def _scan_body(
    outer: Nodes, weight_nodes: WeightNodes, config: LSTMConfig, name: str
) -> "GraphProto":
    """Build one step: `c' = clip(σ(f)·c + σ(i)·tanh(g))`, `h' = clip(W_hr (σ(o)·tanh(c')))`."""
    nodes = Nodes(f"{name}.", outer)
    h, c, gates, mask = inputs = [nodes.prefix + item for item in ("h", "c", "gates", "mask")]
    gates = weight_nodes.matmul(nodes, h, f"{name}.weight_hh", gates)
    i, f, g, o = nodes.add_with_outputs("Split", 4, gates, axis=1, num_outputs=4)
    kept = nodes.add("Mul", nodes.add("Sigmoid", f), c)
    new = nodes.add("Mul", nodes.add("Sigmoid", i), nodes.add("Tanh", g))
    c = _clip(nodes, nodes.add("Add", kept, new), config.cell_clip)
    h = nodes.add("Mul", nodes.add("Sigmoid", o), nodes.add("Tanh", c))
    if config.has_projection:
        h = _clip(nodes, weight_nodes.matmul(nodes, h, f"{name}.weight_hr"), config.projection_clip)
    h, c = nodes.add("Mul", h, mask), nodes.add("Mul", c, mask)
    out = nodes.add("Identity", h)
    return nodes.as_body(inputs, [h, c, out])


def _clip(nodes: Nodes, x: str, clip: float | None) -> str:
    if clip is None:
        return x
    return nodes.add("Clip", x, nodes.number(-clip), nodes.number(clip))
