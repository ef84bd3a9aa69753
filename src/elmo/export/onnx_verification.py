"""Whether a graph computes what the network computes: both on the same made-up sentences."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from elmo.config import ModelConfig, Storage
from elmo.errors import MissingExtra, OutputError
from elmo.export.onnx_graph import INPUT
from elmo.model.bilm import BiLM, distinct_rows
from elmo.text.characters import Ids

# Largest error, as a share of the largest value.
LARGEST_ERROR = 1e-4
# Mean over words, in each layer.
LEAST_COSINE = {"float16": 0.999, "int8": 0.99}
# Tokens of each row: unequal, and neither rising nor falling.
LENGTHS = (5, 12, 2, 9)


def checked(path: Path, bilm: BiLM, storage: Storage) -> str:
    """Compare a file with the network it was made of.

    Args:
        path: the file.
        bilm: the network, in float32 on a CPU.
        storage: how the file stores weights.

    Returns:
        How near they are, in words.

    Raises:
        OutputError: If they are too far apart.
    """
    ids = made_up_ids(bilm.config)
    with torch.no_grad():
        rows, index = distinct_rows(ids)
        mask = (ids != 0).any(dim=2)
        ours = bilm(rows, index, mask).layers
    theirs = torch.from_numpy(session(path).run(None, {INPUT: ids.numpy()})[0])
    if storage == "float32":
        return _near(theirs, ours)
    return _alike(theirs[:, mask], ours[:, mask], storage)


def session(path: Path) -> Any:
    """Open a file in onnxruntime, with as many threads as PyTorch has."""
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtra("checking an ONNX graph", "export") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def made_up_ids(config: ModelConfig) -> Tensor:
    """Give a batch of words that mean nothing, (batch, time, columns), 0 at padding."""
    rng = np.random.default_rng(0)
    encoder, width = config.encoder, config.text.max_characters
    columns: list[Ids] = []
    shape = (len(LENGTHS), max(LENGTHS))
    if encoder.n_characters:
        ids = rng.integers(1, encoder.n_characters, (*shape, width))
        lengths = rng.integers(3, min(width, 12) + 1, (*shape, 1))
        columns.append(np.where(np.arange(width) < lengths, ids, encoder.n_characters - 1))
    if encoder.n_words:
        # 0 is a word that is left to its characters.
        first = 0 if encoder.word_role == "cache" else 1
        columns.append(rng.integers(first, encoder.n_words, (*shape, 1)))
    batch = np.concatenate(columns, axis=2)
    batch[np.arange(shape[1]) >= np.array(LENGTHS)[:, None]] = 0
    return torch.from_numpy(batch)


def _near(theirs: Tensor, ours: Tensor) -> str:
    # The vectors of an empty model are all 0.
    error = float((theirs - ours).abs().max() / ours.abs().max().clamp(min=1e-30))
    if not error < LARGEST_ERROR:
        raise OutputError(
            f"onnxruntime computes other vectors with the graph than the model has: they differ by "
            f"{error:.1e} of the largest value, {LARGEST_ERROR:g} at most was expected; nothing "
            "was written"
        )
    return f"in onnxruntime no value is off by more than {error:.1e} of the largest"


def _alike(theirs: Tensor, ours: Tensor, storage: Storage) -> str:
    cosines = cosine_similarity(theirs.double(), ours.double(), dim=2)
    # A table may hold words without a vector, which have no direction to compare.
    means = cosines.masked_fill((theirs == 0).all(dim=2) & (ours == 0).all(dim=2), 1.0).mean(dim=1)
    worst = int(means.argmin())
    least = float(means[worst])
    if not least >= LEAST_COSINE[storage]:
        raise OutputError(
            f"{storage} costs this model too much: the vectors of layer {worst} have a cosine of "
            f"{least:.4f} to ours on average, {LEAST_COSINE[storage]} at least was "
            "expected; nothing was written: take float32"
        )
    return f"in onnxruntime the mean cosine to our vectors is {least:.5f} or more in every layer"
