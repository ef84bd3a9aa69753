"""Matrix products and table lookups in ONNX graphs with float32, float16 or int8 weights.

float16 is only a storage format: the runtime converts the weights to float32 when it loads the
file. int8 matrices are multiplied as integers. Each row of the weights has its own scale. The input
is quantized at run time with one scale per row (one word at one step), so the vectors of a sentence
do not depend on the other sentences in the batch. ONNX's own dynamic quantization has only one
scale per batch.

Projections are computed in float32 even with int8 storage: most of their inputs are so much smaller
than the largest one that quantizing them with a common scale would lose most of their precision.
"""

import numpy as np

from elmo.config import Storage
from elmo.export.onnx_nodes import FLOAT, UINT8, Array, Nodes
from elmo.model.bilm import BiLM
from elmo.model.lstm import LSTMLayer

# Inputs are shifted to unsigned bytes, because x86 multiplies unsigned by signed bytes.
MAX_INPUT, ZERO_POINT = 127, 128
# CPUs without VNNI saturate the sum of two products at 2^15. With weights up to 64 that never
# happens (2 x 255 x 64 < 2^15), so all CPUs compute the same result.
MAX_WEIGHT = 64
# Bound of weights that are only stored as int8.
MAX_STORED_WEIGHT = 127
PROJECTIONS = ("weight_hr", "encoder.projection.weight")


class WeightNodes:
    """Adds weights and the nodes that use them to an ONNX graph."""

    def __init__(self, bilm: BiLM, storage: Storage) -> None:
        self.storage = storage
        self._weights = {name: value.float().cpu() for name, value in bilm.state_dict().items()}
        for name, module in bilm.named_modules():
            if isinstance(module, LSTMLayer):
                self._weights[f"{name}.bias"] = module.bias_with_forget().detach().float().cpu()

    def array(self, name: str) -> Array:
        """Return a weight as a float32 array."""
        array: Array = self._weights[name].numpy()
        return array

    def value(self, nodes: Nodes, name: str) -> str:
        """Add a weight to the graph and return the name of its float32 value."""
        if self.storage == "int8" and name.endswith(PROJECTIONS):
            return self._dequantized(nodes, name)
        if self.storage != "float16":
            return nodes.weight(name, self.array(name))
        half = self._weights[name].half()
        if not half.isfinite().all():  # some values overflow float16
            return nodes.weight(name, self.array(name))
        wide = f"{name}.wide"
        # Outside the scan body the conversion runs once; most runtimes do it when loading.
        if name not in nodes.outer.weights:
            nodes.outer.add("Cast", nodes.weight(name, half.numpy()), to=FLOAT, name=wide)
        return wide

    def matmul(self, nodes: Nodes, x: str, name: str, addend: str | None = None) -> str:
        """Add the product of x (rows, inputs) and Wᵀ (inputs, outputs), plus `addend`, if any."""
        if self.storage == "int8" and not name.endswith(PROJECTIONS):
            return self._int8_matmul(nodes, x, name, addend)
        terms = [] if addend is None else [addend]
        return nodes.add("Gemm", x, self.value(nodes, name), *terms, transB=1)

    def gather(self, nodes: Nodes, name: str, ids: str) -> str:
        """Add a lookup of the table rows with the given ids; return the output name."""
        if self.storage != "int8":
            return nodes.add("Gather", self.value(nodes, name), ids)
        values, scale = _quantize(self.array(name), MAX_STORED_WEIGHT)
        rows = nodes.add("Gather", nodes.weight(f"{name}.int8", values), ids)
        scales = nodes.add("Gather", nodes.weight(f"{name}.scale", scale[:, None]), ids)
        return nodes.add("Mul", nodes.add("Cast", rows, to=FLOAT), scales)

    def _dequantized(self, nodes: Nodes, name: str) -> str:
        """Dequantize an int8 weight to float32, outside the scan body."""
        stored, wide = f"{name}.int8", f"{name}.wide"
        if stored not in nodes.outer.weights:
            values, scale = _quantize(self.array(name), MAX_STORED_WEIGHT)
            integers = nodes.outer.add("Cast", nodes.weight(stored, values), to=FLOAT)
            row_scales = nodes.weight(f"{name}.scale", scale[:, None])
            nodes.outer.add("Mul", integers, row_scales, name=wide)
        return wide

    def _int8_matmul(self, nodes: Nodes, x: str, name: str, addend: str | None) -> str:
        values, scale = _quantize(self.array(name), MAX_WEIGHT)
        matrix = nodes.weight(f"{name}.int8", values.T)
        weight_scales = nodes.weight(f"{name}.scale", scale)
        row_max = nodes.add("ReduceMax", nodes.add("Abs", x), nodes.integers(-1), keepdims=1)
        # Avoids a division by zero for rows of zeros, such as padding.
        row_max = nodes.add("Max", row_max, nodes.number(1e-30))
        row_scale = nodes.add("Div", row_max, nodes.number(float(MAX_INPUT)))
        rounded = nodes.add("Round", nodes.add("Div", x, row_scale))
        shifted = nodes.add("Add", rounded, nodes.number(float(ZERO_POINT)))
        zero_point = nodes.weight("middle", np.array(ZERO_POINT, dtype=np.uint8))
        sums = nodes.add("MatMulInteger", nodes.add("Cast", shifted, to=UINT8), matrix, zero_point)
        # The scales are applied one after the other. onnxruntime would replace their product by a
        # fused operator that supports only one scale per batch.
        scaled = nodes.add(
            "Mul", nodes.add("Mul", nodes.add("Cast", sums, to=FLOAT), weight_scales), row_scale
        )
        return scaled if addend is None else nodes.add("Add", scaled, addend)


def _quantize(array: Array, max_value: int) -> tuple[Array, Array]:
    """Quantize a matrix to int8 values in [-max_value, max_value]; also return each row's scale."""
    scale = np.abs(array).max(axis=1) / np.float32(max_value)
    divisor = np.where(scale == 0, np.float32(1), scale)
    return np.round(array / divisor[:, None]).astype(np.int8), scale.astype(np.float32)
