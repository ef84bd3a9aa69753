"""How a graph multiplies by weights and looks rows up: in float32, from float16, or in int8.

float16 is how weights are stored, no more: a runtime widens them when it loads the file. In int8
the multiplication itself is one of whole numbers. Weights have one scale for each of their rows;
what they are multiplied with gets one for each of *its* rows, a word at a step, when it is made.
So a sentence does not depend on the sentences beside it, as it would with the scale of a whole
batch, which is what the quantisers of ONNX write. Projections are widened, as in float16: most of
the units that are projected are so small beside the largest that one scale leaves little of them.
"""

import numpy as np

from elmo.config import Storage
from elmo.export.onnx_nodes import FLOAT, UINT8, Array, Nodes
from elmo.model.bilm import BiLM
from elmo.model.lstm import LSTMLayer

# Values are moved into the unsigned bytes, the form in which x86 multiplies them by weights.
LARGEST_VALUE, MIDDLE = 127, 128
# CPUs without VNNI cut the sum of two products off at 2^15; with 255 x 64 they never have to, so
# that all of them give the same.
LARGEST_WEIGHT = 64
# Of weights that are stored alone.
LARGEST_STORED = 127
PROJECTIONS = ("weight_hr", "encoder.projection.weight")


class Products:
    """The weights of a model as a graph uses them."""

    def __init__(self, bilm: BiLM, storage: Storage) -> None:
        """Take the weights of a network.

        Args:
            bilm: the network.
            storage: how weights are stored.
        """
        self.storage = storage
        self._weights = {name: value.float().cpu() for name, value in bilm.state_dict().items()}
        for name, part in bilm.named_modules():
            if isinstance(part, LSTMLayer):
                self._weights[f"{name}.bias"] = part.bias_with_forget().detach().float().cpu()

    def array(self, name: str) -> Array:
        """Give a weight as float32."""
        array: Array = self._weights[name].numpy()
        return array

    def value(self, nodes: Nodes, name: str) -> str:
        """Give a weight to compute with."""
        if self.storage == "int8" and name.endswith(PROJECTIONS):
            return self._widened(nodes, name)
        if self.storage != "float16":
            return nodes.weight(name, self.array(name))
        half = self._weights[name].half()
        if not half.isfinite().all():  # it holds values that float16 does not reach
            return nodes.weight(name, self.array(name))
        wide = f"{name}.wide"
        # Outside of a scan's body, where it is computed once, and by most runtimes beforehand.
        if name not in nodes.outer.weights:
            nodes.outer.add("Cast", nodes.weight(name, half.numpy()), to=FLOAT, name=wide)
        return wide

    def product(self, nodes: Nodes, x: str, name: str, addend: str | None = None) -> str:
        """Give `x W' + addend` for x (rows, inputs) and W (outputs, inputs)."""
        if self.storage == "int8" and not name.endswith(PROJECTIONS):
            return self._whole_numbers(nodes, x, name, addend)
        terms = [] if addend is None else [addend]
        return nodes.add("Gemm", x, self.value(nodes, name), *terms, transB=1)

    def look_up(self, nodes: Nodes, name: str, places: str) -> str:
        """Give the rows of a table at places."""
        if self.storage != "int8":
            return nodes.add("Gather", self.value(nodes, name), places)
        values, scale = _in_int8(self.array(name), LARGEST_STORED)
        rows = nodes.add("Gather", nodes.weight(f"{name}.int8", values), places)
        scales = nodes.add("Gather", nodes.weight(f"{name}.scale", scale[:, None]), places)
        return nodes.add("Mul", nodes.add("Cast", rows, to=FLOAT), scales)

    def _widened(self, nodes: Nodes, name: str) -> str:
        """Give a weight that is stored in int8 as float32, made outside of a scan's body."""
        stored, wide = f"{name}.int8", f"{name}.wide"
        if stored not in nodes.outer.weights:
            values, scale = _in_int8(self.array(name), LARGEST_STORED)
            whole = nodes.outer.add("Cast", nodes.weight(stored, values), to=FLOAT)
            rows = nodes.weight(f"{name}.scale", scale[:, None])
            nodes.outer.add("Mul", whole, rows, name=wide)
        return wide

    def _whole_numbers(self, nodes: Nodes, x: str, name: str, addend: str | None) -> str:
        values, scale = _in_int8(self.array(name), LARGEST_WEIGHT)
        matrix = nodes.weight(f"{name}.int8", values.T)
        columns = nodes.weight(f"{name}.scale", scale)
        largest = nodes.add("ReduceMax", nodes.add("Abs", x), nodes.integers(-1), keepdims=1)
        # A row of zeros, which padding is, has no scale of its own.
        largest = nodes.add("Max", largest, nodes.number(1e-30))
        step = nodes.add("Div", largest, nodes.number(float(LARGEST_VALUE)))
        rounded = nodes.add("Round", nodes.add("Div", x, step))
        moved = nodes.add("Add", rounded, nodes.number(float(MIDDLE)))
        middle = nodes.weight("middle", np.array(MIDDLE, dtype=np.uint8))
        sums = nodes.add("MatMulInteger", nodes.add("Cast", moved, to=UINT8), matrix, middle)
        # One after the other: the product of both scales is a pattern which onnxruntime replaces by
        # an operator that knows one scale for a whole batch.
        scaled = nodes.add(
            "Mul", nodes.add("Mul", nodes.add("Cast", sums, to=FLOAT), columns), step
        )
        return scaled if addend is None else nodes.add("Add", scaled, addend)


def _in_int8(array: Array, largest: int) -> tuple[Array, Array]:
    """Give a matrix as int8, up to the largest, and the scale of each of its rows."""
    scale = np.abs(array).max(axis=1) / np.float32(largest)
    divisor = np.where(scale == 0, np.float32(1), scale)
    return np.round(array / divisor[:, None]).astype(np.int8), scale.astype(np.float32)
