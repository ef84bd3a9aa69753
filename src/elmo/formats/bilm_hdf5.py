"""options.json and weights.hdf5, as bilm-tf dumps them, AllenNLP reads them and NLPL packs them.

Also the two files that may go with them: a softmax, and vectors of a whole vocabulary computed
beforehand (bilm-tf's token input).
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo.errors import FormatError, OutputError
from elmo.files import write_folder
from elmo.formats import weight_names
from elmo.formats.bilm_options import config_from_options, options_from_config
from elmo.formats.hdf5 import write_arrays
from elmo.formats.mixes import has_trained_mixes, initial_mixes
from elmo.formats.pretrained import Pretrained, check_finite
from elmo.formats.weight_names import Array
from elmo.text.characters import N_BYTE_CHARACTERS, SHIFT
from elmo.text.vocabulary import Vocabulary

# The optional datasets of a softmax, and our names for them.
SOFTMAX = {"softmax/W": "softmax.weight", "softmax/b": "softmax.bias"}


def read(
    options: Any,
    arrays: Mapping[str, Array],
    *,
    label: str,
    origin: str,
    vocabulary: Vocabulary | None = None,
) -> Pretrained:
    """Turn parsed options and the arrays of a weight file into a model.

    Args:
        options: the parsed options.json.
        arrays: the datasets by name, a softmax perhaps among them.
        label: the weight file, for messages.
        origin: the kind of file, in words.
        vocabulary: words of the softmax, and of the input where that is word ids.
    """
    arrays = dict(arrays)
    softmax = {name: arrays.pop(name) for name in SOFTMAX if name in arrays}
    n_words = len(np.atleast_1d(arrays["embedding"])) if "embedding" in arrays else 0
    config, notes = config_from_options(options, f"the options of {label}", n_words)
    if "CNN_proj/W_proj" in arrays and not config.encoder.project:
        # AllenNLP projects also where the width is the same already.
        encoder = dataclasses.replace(config.encoder, project=True)
        config = dataclasses.replace(config, encoder=encoder)
    if "char_embed" in arrays:
        arrays["char_embed"], more = _without_mask_row(arrays["char_embed"])
        notes += more
    weights = weight_names.to_ours(weight_names.bilm_hdf5(config), arrays, label)
    weights |= initial_mixes(config.n_layers)
    words = None
    if config.encoder.n_words:
        if vocabulary is None:
            raise FormatError(
                f"{label}: this model reads word ids, so its vocabulary is needed: pass vocab=, or "
                "put vocab.txt beside the weights"
            )
        words = _ids_of_rows(vocabulary, n_words, label)
    if vocabulary is not None:
        notes += vocabulary.problems()
    model = Pretrained(
        config,
        weights,
        origin,
        vocabulary,
        words=words,
        notes=tuple(notes),
        options=options,
        source=label,
    )
    return with_softmax(model, softmax, label) if softmax else model


def _without_mask_row(table: Array) -> tuple[Array, list[str]]:
    if table.shape[:1] == (N_BYTE_CHARACTERS + SHIFT,) and not table[0].any():
        return table[1:], ["char_embed has 262 rows, the first of them zero: read as 261"]
    return table, []


def with_softmax(model: Pretrained, arrays: Mapping[str, Array], label: str) -> Pretrained:
    """Add a softmax, whose datasets are `softmax/W` (words, projection) and `softmax/b`."""
    missing = [name for name in SOFTMAX if name not in arrays]
    if missing:
        raise FormatError(
            f"{label}: {missing[0]} is missing; a softmax has softmax/W and softmax/b"
        )
    table = arrays["softmax/W"]
    dim = model.config.lstm.projection_dim
    if table.ndim != 2 or table.shape[1] != dim or arrays["softmax/b"].shape != table.shape[:1]:
        raise FormatError(
            f"{label}: softmax/W has shape {table.shape}, softmax/b {arrays['softmax/b'].shape}; "
            f"expected (words, {dim}) and (words,)"
        )
    added = {
        ours: torch.from_numpy(np.asarray(arrays[name], dtype=np.float32))
        for name, ours in SOFTMAX.items()
    }
    check_finite(added, label)
    config = dataclasses.replace(model.config, n_softmax_words=table.shape[0])
    return dataclasses.replace(model, config=config, weights={**model.weights, **added})


def with_token_embeddings(
    model: Pretrained, arrays: Mapping[str, Array], vocabulary: Vocabulary | None, label: str
) -> Pretrained:
    """Add the vectors of a vocabulary; words outside it go on being spelled."""
    if set(arrays) != {"embedding"}:
        raise FormatError(
            f"{label}: found {', '.join(sorted(arrays)) or 'nothing'}, expected one dataset, "
            "embedding: this is no token-embedding file"
        )
    if vocabulary is None:
        raise FormatError(
            f"{label}: a token-embedding file needs the vocabulary it was made from: pass vocab="
        )
    if not model.config.encoder.n_characters:
        raise FormatError(
            f"{label}: the model reads word ids already; it takes no token embeddings"
        )
    table = arrays["embedding"]
    dim = model.config.lstm.projection_dim
    if table.ndim != 2 or table.shape[1] != dim:
        raise FormatError(f"{label}: embedding has shape {table.shape}, expected (words, {dim})")
    words = _ids_of_rows(vocabulary, table.shape[0], label)
    encoder = dataclasses.replace(
        model.config.encoder, n_words=table.shape[0] + SHIFT, word_dim=dim, word_role="cache"
    )
    padded = np.concatenate([np.zeros_like(table[:1]), table])
    added = {"bilm.encoder.words.weight": torch.from_numpy(padded)}
    check_finite(added, label)
    return dataclasses.replace(
        model,
        config=dataclasses.replace(model.config, encoder=encoder),
        weights={**model.weights, **added},
        words=words,
    )


def _ids_of_rows(vocabulary: Vocabulary, n_rows: int, label: str) -> dict[str, int]:
    if len(vocabulary) != n_rows:
        raise FormatError(
            f"{label}: the word table has {n_rows} rows, the vocabulary {len(vocabulary)} lines: "
            "they belong to two models"
        )
    return vocabulary.ids


def write(model: Pretrained, folder: Path) -> None:
    """Write options.json and weights.hdf5, which AllenNLP and bilm-tf read.

    A model that came from such files gives the same datasets again, bit for bit. Other models are
    refused by name where the format cannot hold them.
    """
    config = model.config
    if config.text.characters != "bytes":
        kinds = {"none": "word ids", "dictionary": "a character dictionary"}
        kind = kinds.get(config.text.characters, f"{config.text.characters} as characters")
        raise FormatError(
            f"a model with {kind} ({model.origin}) cannot be written in AllenNLP's format, which "
            "spells words in bytes: write our own folder"
        )
    if config.encoder.n_words:
        raise FormatError(
            "a model with a cached token table cannot be written in AllenNLP's format: load it "
            "without the token-embedding file"
        )
    if (folder / "config.json").exists():
        raise OutputError(
            f"cannot write AllenNLP's files into {folder}: the config.json in it belongs to a "
            "model of another format; name another folder"
        )
    # Readers of this format add 1 to the forget gate.
    arrays = weight_names.to_theirs(
        weight_names.bilm_hdf5(config), model.with_forget_bias(1.0).weights
    )
    for theirs, ours in SOFTMAX.items():
        if ours in model.weights:
            arrays[theirs] = model.weights[ours].float().numpy()
    options = json.dumps(options_from_config(config, model.options)).encode("ascii")
    lines = None if model.vocabulary is None else model.vocabulary.to_bytes()
    write_folder(
        folder,
        {
            "weights.hdf5": lambda path: write_arrays(path, arrays),
            "options.json": lambda path: path.write_bytes(options),
            "vocab.txt": None if lines is None else lambda path: path.write_bytes(lines),
        },
    )


def left_out(model: Pretrained) -> list[str]:
    """Say what of a model AllenNLP's files have no place for, in sentences."""
    notes = []
    if has_trained_mixes(model):
        notes.append("the trained mixes are not written: the format has no place for them")
    if model.config.text.tokenizer is not None:
        notes.append(f"the tokeniser, {model.config.text.tokenizer}, is not written")
    return notes
