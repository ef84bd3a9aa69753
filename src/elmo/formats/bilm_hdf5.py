"""Reader and writer for options.json with weights.hdf5, the format of bilm-tf, AllenNLP and NLPL.

Two optional HDF5 files can accompany them: softmax weights, and token embeddings precomputed for a
vocabulary.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

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

# HDF5 datasets of the optional softmax, and the names of the tensors in `Pretrained.weights`.
SOFTMAX = {"softmax/W": "softmax.weight", "softmax/b": "softmax.bias"}


def read(
    options: object,
    arrays: Mapping[str, Array],
    *,
    label: str,
    origin: str,
    vocabulary: Vocabulary | None = None,
) -> Pretrained:
    """Build a model from parsed options and the arrays of a weight file.

    The vocabulary is that of the softmax and, if the model reads word ids, of its input. `origin`
    describes the file format; `label` is the file name for error messages.
    """
    arrays = dict(arrays)
    softmax = {name: arrays.pop(name) for name in SOFTMAX if name in arrays}
    n_words = len(np.atleast_1d(arrays["embedding"])) if "embedding" in arrays else 0
    config, notes = config_from_options(options, f"{label}: options", n_words)
    if "CNN_proj/W_proj" in arrays and not config.encoder.project:
        # AllenNLP has a projection even if input and output dimension are equal.
        encoder = dataclasses.replace(config.encoder, project=True)
        config = dataclasses.replace(config, encoder=encoder)
    if "char_embed" in arrays:
        arrays["char_embed"], row_notes = _without_mask_row(arrays["char_embed"])
        notes += row_notes
    weights = weight_names.import_weights(weight_names.bilm_hdf5(config), arrays, label)
    weights |= initial_mixes(config.n_layers)
    words = None
    if config.encoder.n_words:
        if vocabulary is None:
            raise FormatError(
                f"{label}: this model reads word ids and needs its vocabulary. Pass vocab= or put "
                "vocab.txt next to the weights."
            )
        words = _ids_of_rows(vocabulary, n_words, label)
    assert isinstance(options, dict)  # else it would not have been converted to a config
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
        return table[1:], ["char_embed has 262 rows and the first is zero: dropped the first row."]
    return table, []


def with_softmax(model: Pretrained, arrays: Mapping[str, Array], label: str) -> Pretrained:
    """Return a copy of the model with softmax weights `softmax/W` and `softmax/b`."""
    missing = [name for name in SOFTMAX if name not in arrays]
    if missing:
        raise FormatError(
            f"{label}: {missing[0]} is missing. A softmax file has the datasets softmax/W and "
            "softmax/b."
        )
    table = arrays["softmax/W"]
    dim = model.config.lstm.projection_dim
    if table.ndim != 2 or table.shape[1] != dim or arrays["softmax/b"].shape != table.shape[:1]:
        raise FormatError(
            f"{label}: softmax/W has shape {table.shape} and softmax/b "
            f"{arrays['softmax/b'].shape}, expected (words, {dim}) and (words,)."
        )
    tensors = {
        name: torch.from_numpy(np.asarray(arrays[dataset], dtype=np.float32))
        for dataset, name in SOFTMAX.items()
    }
    check_finite(tensors, label)
    config = dataclasses.replace(model.config, n_softmax_words=table.shape[0])
    return dataclasses.replace(model, config=config, weights={**model.weights, **tensors})


def with_token_embeddings(
    model: Pretrained, arrays: Mapping[str, Array], vocabulary: Vocabulary | None, label: str
) -> Pretrained:
    """Return a copy of the model with precomputed token embeddings for a vocabulary.

    The dataset `embedding` is (words, projection). The embeddings of all other words are still
    computed from their characters.
    """
    if set(arrays) != {"embedding"}:
        raise FormatError(
            f"{label}: not a token-embedding file: found "
            f"{', '.join(sorted(arrays)) or 'no datasets'}, expected only the dataset embedding."
        )
    if vocabulary is None:
        raise FormatError(
            f"{label}: a token-embedding file needs the vocabulary it was computed for. Pass "
            "vocab=."
        )
    if not model.config.encoder.n_characters:
        raise FormatError(
            f"{label}: token embeddings cannot be added to a model that reads word ids."
        )
    table = arrays["embedding"]
    dim = model.config.lstm.projection_dim
    if table.ndim != 2 or table.shape[1] != dim:
        raise FormatError(f"{label}: embedding has shape {table.shape}, expected (words, {dim}).")
    words = _ids_of_rows(vocabulary, table.shape[0], label)
    encoder = dataclasses.replace(
        model.config.encoder, n_words=table.shape[0] + SHIFT, word_dim=dim, word_role="cache"
    )
    padded = np.concatenate([np.zeros_like(table[:1]), table])
    tensors = {"bilm.encoder.words.weight": torch.from_numpy(padded)}
    check_finite(tensors, label)
    return dataclasses.replace(
        model,
        config=dataclasses.replace(model.config, encoder=encoder),
        weights={**model.weights, **tensors},
        words=words,
    )


def _ids_of_rows(vocabulary: Vocabulary, n_rows: int, label: str) -> dict[str, int]:
    if len(vocabulary) != n_rows:
        raise FormatError(
            f"{label}: the word embedding has {n_rows} rows but the vocabulary has "
            f"{len(vocabulary)} lines. They belong to different models."
        )
    return vocabulary.ids


def write(model: Pretrained, folder: Path) -> None:
    """Write options.json and weights.hdf5, readable by AllenNLP and bilm-tf.

    A model read from such files is written back with bit-identical datasets. Only character-based
    models that represent words as bytes can be stored.
    """
    config = model.config
    if config.text.characters != "bytes":
        schemes = {"none": "word ids", "dictionary": "a character dictionary"}
        scheme = schemes.get(config.text.characters, f"{config.text.characters} as characters")
        raise FormatError(
            f"A model with {scheme} ({model.origin}) cannot be written in AllenNLP's format, which "
            "represents words as bytes. Use --to native."
        )
    if config.encoder.n_words:
        raise FormatError(
            "A model with precomputed token embeddings cannot be written in AllenNLP's format. "
            "Load it without token_embeddings=."
        )
    if (folder / "config.json").exists():
        raise OutputError(
            f"Cannot write AllenNLP's files into {folder}: its config.json belongs to a model in "
            "another format. Choose another output folder."
        )
    # Readers of this format add 1 to the bias of the forget gate.
    arrays = weight_names.export_weights(
        weight_names.bilm_hdf5(config), model.with_forget_bias(1.0).weights
    )
    for dataset, name in SOFTMAX.items():
        if name in model.weights:
            arrays[dataset] = model.weights[name].float().numpy()
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


def omissions(model: Pretrained) -> list[str]:
    """Return one sentence for each part of the model that AllenNLP's format cannot store."""
    notes = []
    if has_trained_mixes(model):
        notes.append("The trained layer mixes are not written: the format cannot store them.")
    if model.config.text.tokenizer is not None:
        notes.append(
            f"The tokenizer ({model.config.text.tokenizer}) is not written: the format cannot "
            "store it."
        )
    if model.attribution:
        facts = [f"{key.replace('_', ' ')} {value}" for key, value in model.attribution.items()]
        notes.append(
            f"The attribution is not written: the format cannot store it. Keep it with the files: "
            f"{', '.join(facts)}."
        )
    return notes
