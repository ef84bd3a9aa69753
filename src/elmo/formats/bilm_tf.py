"""bilm-tf's TensorFlow checkpoints: variables renamed to the names its own dump gives them."""

import re
from pathlib import Path
from typing import Any

from torch import Tensor

from elmo.errors import FormatError
from elmo.formats import bilm_hdf5
from elmo.formats.pretrained import Pretrained
from elmo.formats.tf_checkpoint import read_checkpoint
from elmo.formats.weight_names import Array
from elmo.text.vocabulary import Vocabulary

ORIGIN = "bilm-tf TensorFlow checkpoint"
SCOPE = "lm/"
_OPTIMISER_SLOT = "/Adagrad"
_COUNTERS = ("global_step", "train_perplexity")
# Applied in this order, to recurrent variables only; the projection before the plain kernel.
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
    """Give the name `dump_weights` writes for a variable below the scope `lm`."""
    name = variable.removeprefix(SCOPE)
    if not name.startswith("RNN_"):
        return name
    for old, new in _RENAMES:
        name = name.replace(old, new)
    return name


def read(prefix: Path, options: Any, vocabulary: Vocabulary | None) -> Pretrained:
    """Read a checkpoint with its softmax.

    Args:
        prefix: path of the checkpoint without `.index`.
        options: the parsed options.json of its training.
        vocabulary: words of the softmax, where the file is at hand.
    """
    weights = {
        name: value
        for name, value in read_checkpoint(prefix).items()
        if not name.endswith(_OPTIMISER_SLOT) and name not in _COUNTERS
    }
    return _read(prefix, options, weights, vocabulary)


def read_accumulators(prefix: Path, options: Any) -> dict[str, Tensor] | None:
    """Read the sums of squares Adagrad keeps of each weight, by our names; None without any.

    They are laid out as the weights are, so they are read as a model is.
    """
    sums = {
        name.removesuffix(_OPTIMISER_SLOT): value
        for name, value in read_checkpoint(prefix).items()
        if name.endswith(_OPTIMISER_SLOT)
    }
    if not sums:
        return None
    model = _read(prefix, options, sums, None)
    return {name: value for name, value in model.weights.items() if not name.startswith("mixes.")}


def _read(
    prefix: Path, options: Any, weights: dict[str, Array], vocabulary: Vocabulary | None
) -> Pretrained:
    foreign = sorted(name for name in weights if not name.startswith(SCOPE))
    if foreign or not weights:
        raise FormatError(
            f"{prefix}: variables of a biLM begin with {SCOPE}, found "
            f"{', '.join(foreign[:3]) or 'none'}: this checkpoint is of another program"
        )
    if not any(re.match(r"lm/RNN_1/", name) for name in weights):
        raise FormatError(
            f"{prefix}: no backward LSTM in it; a unidirectional language model is no biLM"
        )
    arrays = {hdf5_name(name): value for name, value in weights.items()}
    return bilm_hdf5.read(options, arrays, label=str(prefix), origin=ORIGIN, vocabulary=vocabulary)
