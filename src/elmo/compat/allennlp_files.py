"""Reads a biLM for the AllenNLP classes, with AllenNLP's names and sign conventions."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmo.config import ModelConfig
from elmo.errors import FormatError
from elmo.formats.load import read, reject_url
from elmo.formats.weight_names import allennlp_modules, export_weights

_SCOPE = "_elmo_lstm."
WEIGHTS_MISSING = (
    "weight_file is required: the path of weights.hdf5, with options_file as the path of "
    'options.json, or the name of a downloaded model, such as weight_file="ai2-original" (names: '
    "elmo download --list)."
)


class LoadedBiLM(NamedTuple):
    """A biLM read from files, whose forget bias is 0.

    `names` maps the names of weights in `BiLM` to those of AllenNLP, which `arrays` has.
    """

    config: ModelConfig
    names: dict[str, str]
    arrays: dict[str, NDArray[np.float32]]

    def part(self, prefix: str) -> "LoadedBiLM":
        """Return the weights whose AllenNLP names start with a prefix, with names without it."""
        names = {
            name: allennlp_name.removeprefix(prefix)
            for name, allennlp_name in self.names.items()
            if allennlp_name.startswith(prefix)
        }
        return LoadedBiLM(
            self.config, names, {short: self.arrays[prefix + short] for short in names.values()}
        )


def load_bilm(options_file: str | Path | None, weight_file: str | Path) -> LoadedBiLM:
    """Read a biLM for the AllenNLP classes; see `Elmo` for the arguments.

    URLs, and models that do not read byte characters, are errors.
    """
    if options_file is None:
        model = read(weight_file)
    else:
        reject_url(str(options_file))
        model = read(options=options_file, weights=weight_file)
    if model.config.text.characters != "bytes" or model.config.encoder.n_words:
        raise FormatError(
            "The AllenNLP classes support only models that read byte characters (got "
            f"{model.origin})."
        )
    # AllenNLP includes the forget bias in the bias.
    model = model.with_forget_bias(0.0)
    rules = [rule for rule in allennlp_modules(model.config) if rule.names[0] in model.weights]
    names = {
        rule.names[0].removeprefix("bilm."): next(iter(rule.foreign)).removeprefix(_SCOPE)
        for rule in rules
    }
    arrays = export_weights(rules, model.weights)
    return LoadedBiLM(
        model.config, names, {name.removeprefix(_SCOPE): array for name, array in arrays.items()}
    )
