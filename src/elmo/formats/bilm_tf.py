"""bilm-tf's TensorFlow checkpoints: variables renamed to the names its own dump gives them."""

import re
from pathlib import Path
from typing import Any

from elmo.errors import FormatError
from elmo.formats import bilm_hdf5
from elmo.formats.keys import Array
from elmo.formats.pretrained import Pretrained
from elmo.formats.tf_checkpoint import read_checkpoint
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
    variables = read_checkpoint(prefix)
    weights: dict[str, Array] = {
        name: value
        for name, value in variables.items()
        if not name.endswith(_OPTIMISER_SLOT) and name not in _COUNTERS
    }
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
    model = bilm_hdf5.read(options, arrays, label=str(prefix), origin=ORIGIN, vocabulary=vocabulary)
    return model
