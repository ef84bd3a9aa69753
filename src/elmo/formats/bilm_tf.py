"""Reader for bilm-tf's TensorFlow checkpoints.

Variables are renamed to the dataset names in bilm-tf's HDF5 dump and then read like such a dump.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from elmo.errors import FormatError, listing
from elmo.formats import bilm_hdf5
from elmo.formats.pretrained import Pretrained
from elmo.formats.tf_checkpoint import read_checkpoint
from elmo.text.vocabulary import Vocabulary

ORIGIN = "bilm-tf TensorFlow checkpoint"
SCOPE = "lm/"
_OPTIMIZER_SLOT = "/Adagrad"
_COUNTERS = ("global_step", "train_perplexity")
# Applied in this order to the LSTM variables: /projection/kernel must come before /kernel.
_RENAMES = (
    ("/rnn/", "/RNN/"),
    ("/multi_rnn_cell/", "/MultiRNNCell/"),
    ("/cell_", "/Cell"),
    ("/lstm_cell/", "/LSTMCell/"),
    ("/projection/kernel", "/W_P_0"),
    ("/kernel", "/W_0"),
    ("/bias", "/B"),
)


def hdf5_name(variable: str) -> str:
    """Return the dataset name that bilm-tf's `dump_weights` uses for a variable."""
    name = variable.removeprefix(SCOPE)
    if not name.startswith("RNN_"):
        return name
    for old, new in _RENAMES:
        name = name.replace(old, new)
    return name


def read(prefix: Path, options: object, vocabulary: Vocabulary | None) -> Pretrained:
    """Read the model in a checkpoint, whose prefix is without `.index`, and its softmax."""
    weights = {
        name: value
        for name, value in read_checkpoint(prefix).items()
        if not name.endswith(_OPTIMIZER_SLOT) and name not in _COUNTERS
    }
    return _read(prefix, options, weights, vocabulary)


def read_accumulators(prefix: Path, options: object) -> dict[str, Tensor] | None:
    """Read Adagrad's sums of squared gradients by name; None if there is no optimizer state.

    The sums have the same names and shapes as the weights, so they are read like a model.
    """
    sums = {
        name.removesuffix(_OPTIMIZER_SLOT): value
        for name, value in read_checkpoint(prefix).items()
        if name.endswith(_OPTIMIZER_SLOT)
    }
    if not sums:
        return None
    model = _read(prefix, options, sums, None)
    return {name: value for name, value in model.weights.items() if not name.startswith("mixes.")}


def _read(
    prefix: Path,
    options: object,
    weights: Mapping[str, NDArray[np.generic]],
    vocabulary: Vocabulary | None,
) -> Pretrained:
    foreign = sorted(name for name in weights if not name.startswith(SCOPE))
    if foreign or not weights:
        raise FormatError(
            f"{prefix}: not a bilm-tf checkpoint: expected variable names that start with {SCOPE}, "
            f"found {listing(foreign, 3) if foreign else 'no variables'}."
        )
    if not any(re.match(r"lm/RNN_1/", name) for name in weights):
        raise FormatError(
            f"{prefix}: no backward LSTM found. A unidirectional language model cannot be read as "
            "a biLM."
        )
    arrays = {
        hdf5_name(name): np.asarray(value, dtype=np.float32) for name, value in weights.items()
    }
    return bilm_hdf5.read(options, arrays, label=str(prefix), origin=ORIGIN, vocabulary=vocabulary)
