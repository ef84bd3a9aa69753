"""An ONNX graph as a file, which is kept only if onnxruntime computes with it what we compute."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from elmo.config import ModelConfig, Storage
from elmo.errors import ConfigError
from elmo.export.exportable import HasNetwork
from elmo.export.onnx_graph import graph
from elmo.export.onnx_nodes import onnx_package
from elmo.export.onnx_verification import checked
from elmo.files import write_folder
from elmo.model.bilm import BiLM

# The format's files end at 2 GiB; what is left over here is for the nodes.
LARGEST_FILE = 2**31 - 2**24


def to_onnx(model: HasNetwork, path: str | Path, storage: Storage = "float32") -> str:
    """Write the network of a model as an ONNX graph: `character_ids` in, `layers` out.

    The graph alone: `elmo convert --to onnx` writes a folder with all it takes to make ids of
    words. Weights of more than 2 GB lie beside the file, under its name with `.data` at the end.

    Args:
        model: an `ELMo`; its mixes and its softmax are not written.
        path: file to write, all of it or nothing.
        storage: "float32"; "float16" stores weights in half the bytes and computes in float32;
            "int8" stores and multiplies matrices in a quarter.

    Returns:
        How near the vectors of the file are to those of the model, in words.
    """
    path, bilm = Path(path), model.network.bilm
    file = OnnxFile(bilm.config, bilm.state_dict(), storage)
    write_folder(path.parent, file.writers(path.name))
    return file.fidelity


class OnnxFile:
    """A graph that is to be written."""

    def __init__(
        self, config: ModelConfig, weights: Mapping[str, Tensor], storage: Storage
    ) -> None:
        """Make the graph.

        Args:
            config: the model.
            weights: tensors by the names of `BiLM`.
            storage: how the file is to store them.
        """
        if storage not in get_args(Storage):
            raise ConfigError(
                f"Unknown storage {storage!r}. Expected one of: {', '.join(get_args(Storage))}."
            )
        self.storage = storage
        self.fidelity = ""
        """How near it is to the model, in words; known once it is written."""
        with torch.device("meta"):
            self._bilm = BiLM(config=config)
        plain = {name: value.detach().float().cpu() for name, value in weights.items()}
        self._bilm.load_state_dict(plain, assign=True)
        self._bilm.use_kernel("reference")
        self._model = graph(self._bilm, storage)

    def writers(self, name: str) -> dict[str, Callable[[Path], Any] | None]:
        """Give what writes the file and the weights beside it, by name, for `write_folder`."""
        tensors = self._model.graph.initializer
        is_split = sum(len(tensor.raw_data) for tensor in tensors) > LARGEST_FILE

        def write(path: Path) -> None:
            beside = {"save_as_external_data": True, "location": f"{name}.data"} if is_split else {}
            onnx_package().save_model(self._model, path, **beside)
            self.fidelity = checked(path, self._bilm, self.storage)

        # Both are written by the first; the second is named so that it is moved, or removed.
        return {name: write, f"{name}.data": (lambda path: None) if is_split else None}
