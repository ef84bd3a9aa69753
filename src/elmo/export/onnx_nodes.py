"""Nodes and weights of an ONNX graph, in the order they are made: same calls, same bytes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.errors import MissingExtra

# The oldest that has all we use: onnxruntime 1.14 and newer run it.
OPSET = 18
IR_VERSION = 8

# Numbers of element types, as the format fixes them.
FLOAT, UINT8, INT64 = 1, 2, 7

Array = NDArray[Any]
Kind = tuple[int, Sequence[int | str]]
"""Element type and shape of an input or output; a name is a dimension of any size."""


def onnx_package() -> Any:
    """Give the package `onnx`."""
    try:
        import onnx
    except ImportError:
        raise MissingExtra("export to ONNX", "export") from None
    return onnx


class Nodes:
    """A graph, or the body of a scan, which sees everything of the graph around it."""

    def __init__(self, prefix: str = "", around: "Nodes | None" = None) -> None:
        """Begin without nodes.

        Args:
            prefix: put in front of the names of all values made here.
            around: the graph that holds the weights, where this is a body.
        """
        self.prefix = prefix
        self.outer = around or self
        self.weights: dict[str, Any] = {}
        self._nodes: list[Any] = []
        self._onnx = onnx_package()

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Add a node with one output and give the output's name, which is made up where none is."""
        return self._append(operator, inputs, [name or self._made_up(operator)], attributes)[0]

    def several(self, operator: str, n_outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several outputs and give their names."""
        names = [f"{self._made_up(operator)}.{number}" for number in range(n_outputs)]
        return self._append(operator, inputs, names, attributes)

    def weight(self, name: str, array: Array) -> str:
        """Keep an array under a name, once, and give the name."""
        if name not in self.outer.weights:
            values = np.asarray(array, order="C")
            self.outer.weights[name] = self._onnx.numpy_helper.from_array(values, name)
        return name

    def number(self, value: float) -> str:
        """Give a number that stands in a formula."""
        return self.weight(f"number.{value!r}", np.array(value, dtype=np.float32))

    def integers(self, *values: int) -> str:
        """Give a list of whole numbers: axes, shapes, places."""
        name = ".".join(["integers", *map(str, values)])
        return self.weight(name, np.array(values, dtype=np.int64))

    def as_body(self, inputs: Sequence[str], outputs: Sequence[str]) -> Any:
        """Give the body of a scan; shapes are what they turn out to be."""
        value = self._onnx.helper.make_tensor_value_info
        return self._onnx.helper.make_graph(
            self._nodes,
            self.prefix.rstrip("."),
            [value(name, FLOAT, None) for name in inputs],
            [value(name, FLOAT, None) for name in outputs],
        )

    def as_model(
        self, inputs: Mapping[str, Kind], outputs: Mapping[str, Kind], notes: Mapping[str, str]
    ) -> Any:
        """Give the whole model.

        Args:
            inputs: by name.
            outputs: by name.
            notes: what a reader of the file may want to know.
        """
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes,
            "elmo",
            [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()],
            [helper.make_tensor_value_info(name, *kind) for name, kind in outputs.items()],
            initializer=list(self.weights.values()),
        )
        model = helper.make_model(
            graph,
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET)],
            producer_name="elmo-torch",
        )
        helper.set_model_props(model, dict(notes))
        return model

    def _made_up(self, operator: str) -> str:
        return f"{self.prefix}{operator}_{len(self._nodes)}"

    def _append(
        self, operator: str, inputs: Sequence[str], names: list[str], attributes: dict[str, Any]
    ) -> list[str]:
        node = self._onnx.helper.make_node(operator, inputs, names, name=names[0], **attributes)
        self._nodes.append(node)
        return names
