"""Export of the network to ONNX graphs and `torch.export` programs."""

from elmo.lazy import fetch

__all__ = ["exported", "to_onnx"]

_MODULES = {
    "exported": "elmo.export.torch_program",
    "to_onnx": "elmo.export.onnx_file",
}


def __getattr__(name: str) -> object:
    return fetch(name, _MODULES, __name__)
