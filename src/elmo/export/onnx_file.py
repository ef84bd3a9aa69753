"""Export to ONNX files, which are verified with onnxruntime before they are written."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor

from elmo.config import ModelConfig, Storage
from elmo.errors import ConfigError
from elmo.export.exportable import HasNetwork
from elmo.export.onnx_graph import graph
from elmo.export.onnx_nodes import onnx_package
from elmo.export.onnx_verification import verify_file
from elmo.files import write_folder
from elmo.model.bilm import BiLM

# Protobuf limits files to 2 GiB. The difference is left for the nodes.
MAX_FILE_BYTES = 2**31 - 2**24


def to_onnx(model: HasNetwork, path: str | Path, storage: Storage = "float32") -> str:
    """Write a model's network as an ONNX graph with input `character_ids` and output `layers`.

    This writes the graph only. `elmo convert --to onnx` writes a folder that also contains
    everything needed to map words to ids. Weights of more than 2 GiB are written to a second file,
    whose name is `path` with `.data` appended.

    Args:
        model: An `ELMo`. Its layer mixes and softmax are not exported.
        path: File to write. It is written atomically.
        storage: Data type of the stored weights. "float16" reduces the file size by 50% and
        computes in float32; "int8" reduces it by 75% and multiplies matrices in int8.

    Returns:
        A sentence that reports how closely the vectors of the ONNX graph match the model.

    Raises:
        ConfigError: The value of `storage` is unknown.
        OutputError: The vectors of the ONNX graph differ too much from those of the model.
    """
    path, bilm = Path(path), model.network.bilm
    file = OnnxFile(bilm.config, bilm.state_dict(), storage)
    write_folder(path.parent, file.writers(path.name))
    return file.fidelity


class OnnxFile:
    """ONNX graph of a model, ready to be written to a file."""

    def __init__(
        self, config: ModelConfig, weights: Mapping[str, Tensor], storage: Storage
    ) -> None:
        """Create the graph; the weights have their names in `BiLM`."""
        if storage not in get_args(Storage):
            raise ConfigError(
                f"Unknown storage {storage!r}. Expected one of: {', '.join(get_args(Storage))}."
            )
        self.storage = storage
        self.fidelity = ""
        """Sentence on how closely the file matches the model; empty until it is written."""
        with torch.device("meta"):
            self._bilm = BiLM(config=config)
        cpu_weights = {name: value.detach().float().cpu() for name, value in weights.items()}
        self._bilm.load_state_dict(cpu_weights, assign=True)
        self._model = graph(self._bilm, storage)

    def writers(self, name: str) -> dict[str, Callable[[Path], object] | None]:
        """Return a function for each file name that writes the file, as `write_folder` expects."""
        tensors = self._model.graph.initializer
        is_split = sum(len(tensor.raw_data) for tensor in tensors) > MAX_FILE_BYTES

        def write(path: Path) -> None:
            options = (
                {"save_as_external_data": True, "location": f"{name}.data"} if is_split else {}
            )
            onnx_package().save_model(self._model, path, **options)
            self.fidelity = verify_file(path, self._bilm, self.storage)

        # `write` writes both files. The second one is listed so that `write_folder` moves it, or
        # removes one of an earlier export.
        return {name: write, f"{name}.data": (lambda path: None) if is_split else None}
