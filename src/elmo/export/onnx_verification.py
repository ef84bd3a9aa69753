"""Verification of an exported ONNX file against the original network, on random sentences."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from elmo.config import ModelConfig, Storage
from elmo.errors import MissingExtra, OutputError
from elmo.export.onnx_graph import INPUT
from elmo.model.bilm import BiLM, distinct_rows
from elmo.text.characters import Ids

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

# Maximum absolute error, relative to the largest value.
MAX_ERROR = 1e-4
# Minimum of the mean cosine over words, for each layer.
MIN_COSINE = {"float16": 0.999, "int8": 0.99}
# Number of tokens of each sentence: different, and not sorted.
LENGTHS = (5, 12, 2, 9)


def verify_file(path: Path, bilm: BiLM, storage: Storage) -> str:
    """Compare the vectors of an ONNX file with those of the original network.

    The network is in float32 on the CPU. Returns a sentence that reports how closely the vectors
    match; it is an error if they differ too much.
    """
    ids = random_ids(bilm.config)
    with torch.no_grad():
        rows, index = distinct_rows(ids)
        mask = (ids != 0).any(dim=2)
        expected = bilm(rows, index, mask).layers
    vectors = torch.from_numpy(open_session(path).run(None, {INPUT: ids.numpy()})[0])
    if storage == "float32":
        return _verify_values(vectors, expected)
    return _verify_cosines(vectors[:, mask], expected[:, mask], storage)


def open_session(path: Path) -> "InferenceSession":
    """Open an ONNX file in onnxruntime with the same number of threads as PyTorch."""
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtra("verifying an ONNX graph", "export") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def random_ids(config: ModelConfig) -> Tensor:
    """Return the ids of a batch of random sentences, (batch, time, columns), 0 at padding."""
    rng = np.random.default_rng(0)
    encoder, width = config.encoder, config.text.max_characters
    columns: list[Ids] = []
    shape = (len(LENGTHS), max(LENGTHS))
    if encoder.n_characters:
        ids = rng.integers(1, encoder.n_characters, (*shape, width))
        lengths = rng.integers(3, min(width, 12) + 1, (*shape, 1))
        columns.append(np.where(np.arange(width) < lengths, ids, encoder.n_characters - 1))
    if encoder.n_words:
        # With "cache", 0 is a word that is computed from its characters.
        first = 0 if encoder.word_role == "cache" else 1
        columns.append(rng.integers(first, encoder.n_words, (*shape, 1)))
    batch = np.concatenate(columns, axis=2)
    batch[np.arange(shape[1]) >= np.array(LENGTHS)[:, None]] = 0
    return torch.from_numpy(batch)


def _verify_values(vectors: Tensor, expected: Tensor) -> str:
    # The clamp avoids 0 / 0 if all weights of the model are 0.
    error = float((vectors - expected).abs().max() / expected.abs().max().clamp(min=1e-30))
    if not error < MAX_ERROR:
        raise OutputError(
            "The vectors of the ONNX graph in onnxruntime differ from those of the model by "
            f"{error:.1e}, relative to the largest value (at most {MAX_ERROR:g} is allowed). "
            "Nothing was written."
        )
    return (
        f"In onnxruntime, the vectors differ from those of the model by at most {error:.1e}, "
        "relative to the largest value."
    )


def _verify_cosines(vectors: Tensor, expected: Tensor, storage: Storage) -> str:
    cosines = cosine_similarity(vectors.double(), expected.double(), dim=2)
    # Words with a zero vector have no direction to compare.
    is_zero = (vectors == 0).all(dim=2) & (expected == 0).all(dim=2)
    means = cosines.masked_fill(is_zero, 1.0).mean(dim=1)
    worst_layer = int(means.argmin())
    lowest = float(means[worst_layer])
    if not lowest >= MIN_COSINE[storage]:
        raise OutputError(
            f"This model loses too much precision with {storage}: the vectors of layer "
            f"{worst_layer} have a mean cosine similarity of {lowest:.4f} to those of the model "
            f"(at least {MIN_COSINE[storage]} is required). Nothing was written. Use float32."
        )
    return (
        "In onnxruntime, the mean cosine to the vectors of the model is at least "
        f"{lowest:.5f} in every layer."
    )
