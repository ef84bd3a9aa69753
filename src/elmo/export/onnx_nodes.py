"""Builder for ONNX graphs. The same calls in the same order produce identical files."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from elmo.errors import MissingExtra

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

# The oldest version with all operators used here; onnxruntime 1.14 and newer support it.
OPSET = 18
IR_VERSION = 8

# Element types of the ONNX format.
FLOAT, UINT8, INT64 = 1, 2, 7

Array = NDArray[np.generic]
TensorType = tuple[int, Sequence[int | str]]
"""Element type and shape of an input or output; a string is a dynamic dimension."""


def onnx_package() -> ModuleType:
    """Import and return the `onnx` package."""
    try:
        import onnx
    except ImportError:
        raise MissingExtra("export to ONNX", "export") from None
    return onnx


class Nodes:
    """Nodes of a graph, or of a scan body, which can use any value of the outer graph."""

    def __init__(self, prefix: str = "", outer: "Nodes | None" = None) -> None:
        """Create an empty graph; `outer` contains it as a scan body and stores the weights."""
        self.prefix = prefix
        self.outer = outer or self
        self.weights: dict[str, TensorProto] = {}
        self._nodes: list[NodeProto] = []
        self._onnx = onnx_package()

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: object) -> str:
        """Add a node with one output and return the name of the output."""
        return self._append(operator, inputs, [name or self._new_name(operator)], attributes)[0]

    def add_with_outputs(
        self, operator: str, n_outputs: int, *inputs: str, **attributes: object
    ) -> list[str]:
        """Add a node with several outputs and return their names."""
        names = [f"{self._new_name(operator)}.{number}" for number in range(n_outputs)]
        return self._append(operator, inputs, names, attributes)

    def weight(self, name: str, array: Array) -> str:
        """Add an array, unless one with this name already exists, and return the name."""
        if name not in self.outer.weights:
            values = np.asarray(array, order="C")
            self.outer.weights[name] = self._onnx.numpy_helper.from_array(values, name)
        return name

    def number(self, value: float) -> str:
        """Add a float32 constant and return its name."""
        return self.weight(f"number.{value!r}", np.array(value, dtype=np.float32))

    def integers(self, *values: int) -> str:
        """Add an int64 constant, such as axes or a shape, and return its name."""
        name = ".".join(["integers", *map(str, values)])
        return self.weight(name, np.array(values, dtype=np.int64))

    def as_body(self, inputs: Sequence[str], outputs: Sequence[str]) -> "GraphProto":
        """Return the nodes as a scan body without declared input and output shapes."""
        value = self._onnx.helper.make_tensor_value_info
        body: GraphProto = self._onnx.helper.make_graph(
            self._nodes,
            self.prefix.rstrip("."),
            [value(name, FLOAT, None) for name in inputs],
            [value(name, FLOAT, None) for name in outputs],
        )
        return body

    def as_model(
        self,
        inputs: Mapping[str, TensorType],
        outputs: Mapping[str, TensorType],
        metadata: Mapping[str, str],
    ) -> "ModelProto":
        """Return the nodes as a complete ONNX model, with its inputs, outputs and metadata."""
        helper = self._onnx.helper
        graph = helper.make_graph(
            self._nodes,
            "elmo",
            [helper.make_tensor_value_info(name, *value) for name, value in inputs.items()],
            [helper.make_tensor_value_info(name, *value) for name, value in outputs.items()],
            initializer=list(self.weights.values()),
        )
        model: ModelProto = helper.make_model(
            graph,
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET)],
            producer_name="elmo-torch",
        )
        helper.set_model_props(model, dict(metadata))
        return model

    def _new_name(self, operator: str) -> str:
        return f"{self.prefix}{operator}_{len(self._nodes)}"

    def _append(
        self, operator: str, inputs: Sequence[str], names: list[str], attributes: dict[str, object]
    ) -> list[str]:
        node = self._onnx.helper.make_node(operator, inputs, names, name=names[0], **attributes)
        self._nodes.append(node)
        return names
