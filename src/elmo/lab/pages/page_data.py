"""Data of a page: arrays as base64, and JSON that is safe inside `<script>`."""

import base64
import json
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

# Number types that `common.js` can decode.
DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float32")

Scalar = TypeVar("Scalar", bound=np.generic)


def encode_array(array: NDArray[Scalar]) -> dict[str, object]:
    """Return an array as plain data, which `decodeArray` of `common.js` reads.

    Args:
        array: Array of one of the types in `DTYPES`, of any shape.
    """
    if array.dtype.name not in DTYPES:
        raise TypeError(f"A page cannot contain {array.dtype.name} arrays, only {DTYPES}.")
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "base64": base64.b64encode(little.tobytes()).decode("ascii"),
    }


def script_json(data: object) -> str:
    """Return data as ASCII JSON that cannot end a `<script>` or begin a comment.

    The characters `<`, `>` and `&` can only occur in strings, where they are escaped.
    """
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")
