"""A network for other programs: ONNX graphs, programs of `torch.export`. Never sees a string."""

from typing import Any

from elmo.lazy import fetch

__all__ = ["exported", "to_onnx"]

_HOMES = {
    "exported": "elmo.export.torch_program",
    "to_onnx": "elmo.export.onnx_file",
}


def __getattr__(name: str) -> Any:
    return fetch(name, _HOMES, __name__)
