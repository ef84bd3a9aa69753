"""Model loading: detects the format of a file, folder or name and calls the matching reader."""

import dataclasses
import logging
import os
import re
from pathlib import Path
from typing import BinaryIO

from torch import Tensor

from elmo.errors import FormatError, did_you_mean
from elmo.formats import (
    allennlp_archive,
    bilm_hdf5,
    bilm_tf,
    bundled,
    hub,
    many_langs,
    model_folder,
    onnx_folder,
)
from elmo.formats.attribution import DERIVED_FROM, published_attribution
from elmo.formats.container import (
    Container,
    open_file,
    open_folder,
    open_tar,
    open_zip,
    parse_json,
    read_file,
)
from elmo.formats.hdf5 import SIGNATURE, read_arrays
from elmo.formats.model_cache import downloaded, model_folder_of
from elmo.formats.model_packages import (
    PROJECT_MODELS,
    installed_folder,
    missing_package_message,
    package_names,
)
from elmo.formats.pickles import read_state_dict
from elmo.formats.pretrained import Pretrained
from elmo.formats.published_models import MODELS, model_of_url
from elmo.formats.tf_checkpoint import find_checkpoint
from elmo.formats.weight_names import Array
from elmo.text.vocabulary import Vocabulary

HDF5_ORIGIN = "bilm-tf / AllenNLP HDF5"
READABLE = (
    "elmo-torch folders, options.json with weights.hdf5, NLPL folders or zips, bilm-tf "
    "checkpoints, AllenNLP's model.tar.gz or best.th, and ELMoForManyLangs folders or zips"
)
# Formats of models that are not ELMo models: what they are, and their commands.
OTHER_MODELS = {
    "elmo-torch-task": ("a task model", "elmo task"),
    "elmo-torch language model": ("a recurrent language model", "elmo lm"),
}
logger = logging.getLogger(__name__)
# A source of this form is a path: neither a model name nor a hub id.
_PATH = re.compile(r"[.~/\\].*|.*[/\\]")
# So is a source with one of these extensions.
_FILE_SUFFIXES = (".hdf5", ".h5", ".json", ".th", ".pt", ".pth", ".bin", ".zip", ".tar", ".gz")


def read(
    source: str | Path | None = None,
    *,
    options: str | Path | None = None,
    weights: str | Path | None = None,
    vocab: str | Path | None = None,
    softmax: str | Path | None = None,
    token_embeddings: str | Path | None = None,
) -> Pretrained:
    """Read a model in any supported format.

    Args:
        source: Folder, archive, weight file, checkpoint, hub id, or name of a bundled or downloaded
            model. An existing path takes precedence over a model name or hub id.
        options: Path of options.json, if it is not next to the weights.
        weights: Path of weights.hdf5, in place of `source`. It is not looked up as a name.
        vocab: Vocabulary file, plain or gzipped.
        softmax: HDF5 file with `softmax/W` and `softmax/b`.
        token_embeddings: HDF5 file with precomputed token embeddings for the words in `vocab`.
    """
    if source is not None and weights is not None:
        raise FormatError("Both source and weights were given. Pass only one of them.")
    location = source if source is not None else weights
    if location is None or location == "":
        raise FormatError("No model was given. Pass source, or options with weights.")
    parsed = None if options is None else _read_options(options)
    vocabulary = None
    if vocab is not None:
        vocabulary = _check_not_empty(Vocabulary.load(_existing_path(vocab, "vocab")), str(vocab))
    path = locate(str(location)) if weights is None else _weights_path(weights)
    model = _read_path(path, parsed, vocabulary)
    attribution = published_attribution(path)
    if weights is None and path != _expand(location):  # name or hub id
        attribution.setdefault(DERIVED_FROM, str(location))
    if attribution:
        # The record in a model folder takes precedence: it names the first model of several copies.
        model = dataclasses.replace(model, attribution={**attribution, **model.attribution})
    if vocabulary is not None:
        model = dataclasses.replace(model, vocabulary=vocabulary)
    for note in model.notes:
        logger.warning("%s: %s", location, note)
    if softmax is not None:
        path = _existing_path(softmax, "softmax")
        model = bilm_hdf5.with_softmax(model, _read_hdf5_arrays(path), str(path))
    if token_embeddings is not None:
        path = _existing_path(token_embeddings, "token_embeddings")
        model = bilm_hdf5.with_token_embeddings(
            model, _read_hdf5_arrays(path), vocabulary or model.vocabulary, str(path)
        )
    return model


def _existing_path(path: str | Path, argument: str) -> Path:
    local = _expand(path)
    if not os.path.exists(local):
        raise FormatError(f"{argument}: the file {path} does not exist.")
    return local


def _read_options(options: str | Path) -> object:
    """Read options.json; raise `FormatError` if it is a weight file."""
    path = _existing_path(options, "options")
    data = read_file(path)
    if data.startswith(SIGNATURE):
        raise FormatError(
            f"options: {options} is an HDF5 file of weights, expected options.json. Are the "
            "options and the weights swapped?"
        )
    return parse_json(data, str(path))


def _weights_path(weights: str | Path) -> Path:
    """Return the path of a weight file or checkpoint, which must exist."""
    reject_url(str(weights))
    prefix = _expand(weights)
    return prefix if os.path.exists(f"{prefix}.index") else _existing_path(weights, "weights")


def reject_url(source: str) -> None:
    """Raise `FormatError` for a URL; the message names the published model that it belongs to."""
    if "://" not in source:
        return
    model = model_of_url(source)
    remedy = "Download the file first and pass its path."
    if model is not None:
        remedy = (
            f"Download it with: elmo download {model}. Then load the model by its name, {model}, "
            "without an options file."
        )
    raise FormatError(f"{source} is a URL. {remedy}")


def locate(source: str) -> Path:
    """Return the path of a model: a path, the name of a model, or a hub id, which is downloaded."""
    path = _expand(source)
    if os.path.exists(path) or os.path.exists(f"{path}.index"):
        if source in MODELS:
            logger.warning(
                "%s is read from the current folder, not from the downloaded models.", source
            )
        return path
    installed = installed_folder(source)
    if installed is not None:
        return installed
    if source in bundled.NAMES:
        raise FormatError(
            f"{source} is a bundled model that is missing from this installation (installed: "
            f"{bundled.listing()}). Reinstall elmo-torch, or use another model, such as a folder "
            "or a hub id."
        )
    if source in PROJECT_MODELS:
        raise FormatError(missing_package_message(source))
    if source in MODELS:
        path_in_cache = downloaded(source)
        if path_in_cache is None:
            raise FormatError(
                f"{source} is a published model that has not been downloaded to "
                f"{model_folder_of(source)}. Run: elmo download {source}"
            )
        return path_in_cache
    reject_url(source)
    if _PATH.fullmatch(source) or path.suffix.lower() in _FILE_SUFFIXES:
        raise FormatError(f"The file or folder {source} does not exist.")
    if hub.is_hub_id(source):
        return hub.download(source)
    names = [*bundled.installed(), *package_names()]
    suggestion = did_you_mean(source, [*names, *PROJECT_MODELS, *MODELS])
    raise FormatError(
        f"No file or folder {source} exists, and no model of that name is installed (installed: "
        f"{', '.join(names) or 'none'}).{suggestion} Published models are listed by elmo download "
        f"--list. Supported are {READABLE}, as well as hub ids such as owner/name."
    )


def _expand(path: str | Path) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise FormatError(f"The file {path} does not exist: {error}") from None


def _read_path(path: Path, options: object, vocabulary: Vocabulary | None) -> Pretrained:
    if path.is_dir():
        if is_training_folder(path):
            return _read_path(_trained_model(path), options, vocabulary)
        return _read_container(open_folder(path), options, vocabulary, path)
    if _is_checkpoint(path):
        return _read_checkpoint(path, options, vocabulary)
    with open_file(path) as file:
        start = file.read(8)
    if start == SIGNATURE:
        return _read_hdf5(path, options, vocabulary)
    if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):  # the second: an empty zip
        archive = open_zip(path)
        if "data.pkl" not in archive.names:  # files of torch.save are zips too
            return _read_container(archive, options, vocabulary, path)
    if start[:2] == b"\x1f\x8b" or path.name.endswith((".tar", ".tgz")):
        archive = open_tar(path)
        if any(name.endswith((".hdf5", ".h5")) and "/" not in name for name in archive.names):
            return _read_container(archive, options, vocabulary, path)
        return allennlp_archive.read_archive(archive, options)
    if start[:1] == b"{" and "options" in path.name:
        return _read_container(_sibling_files(path), _read_json_file(path), vocabulary, path.parent)
    if start[:2] in (b"PK", b"\x80\x02") or path.suffix in (".th", ".pt", ".pth", ".bin"):
        with open_file(path) as file:
            state = read_state_dict(file, str(path))
        return allennlp_archive.read_state(state, str(path), options)
    problem = f"not a model file (it starts with {start!r})" if start else "empty"
    raise FormatError(f"{path} is {problem}. Supported are {READABLE}.")


def _is_checkpoint(path: Path) -> bool:
    """Whether a path is a TensorFlow checkpoint prefix or one of the checkpoint's files."""
    is_part = path.suffix in (".index", ".meta") or ".data-" in path.name
    return not path.exists() or is_part or path.name == "checkpoint"


def is_training_folder(path: Path) -> bool:
    """Whether a folder is the output folder of an elmo-torch training run."""
    return (path / "config.yaml").is_file() and (path / "log.jsonl").is_file()


def _trained_model(path: Path) -> Path:
    model = path / "model"
    if not model.is_dir():
        raise FormatError(
            f"{path} is the folder of a training run that has not written a model yet. A model is "
            "written at the first evaluation and at the end."
        )
    return model


def _read_container(
    files: Container,
    options: object,
    vocabulary: Vocabulary | None,
    path: Path,
) -> Pretrained:
    """Read a folder or zip, detecting its format from the file names."""
    is_model_folder = model_folder.is_folder(files)
    if is_model_folder or many_langs.is_folder(files.names):
        if options is not None:
            raise FormatError(f"{files.label} contains its own configuration. Omit options=.")
        return model_folder.read(files) if is_model_folder else many_langs.read(files)
    if model_folder.is_folder(files, onnx_folder.FORMAT):
        raise FormatError(
            f"{files.label} is an ONNX export, which cannot be read. Use the model it was exported "
            "from."
        )
    has_checkpoint = any(name == "checkpoint" or name.endswith(".index") for name in files.names)
    if has_checkpoint and path.is_dir():
        return _read_checkpoint(path, options, vocabulary)
    weights = _weight_file(files, (".hdf5", ".h5"), prefer=("model.hdf5", "weights.hdf5"))
    if weights is not None:
        label = f"{files.label}: {weights}"
        with files.open(weights) as file:
            arrays = _model_arrays(file, label)
        if options is None:
            options = _find_options(files, weights)
        vocabulary = vocabulary or _find_vocabulary(files)
        return bilm_hdf5.read(
            options, arrays, label=label, origin=HDF5_ORIGIN, vocabulary=vocabulary
        )
    if "model.tar.gz" in files.names and path.is_dir():
        return _read_path(path / "model.tar.gz", options, vocabulary)
    if "best.th" in files.names or "weights.th" in files.names:
        return allennlp_archive.read_archive(files, options)
    if has_checkpoint or "model.tar.gz" in files.names:
        raise FormatError(
            f"{files.label} cannot be read as an archive (it contains {files.listing()}). Unpack "
            "it and pass the folder."
        )
    if "config.json" in files.names:
        config = files.read_json("config.json")
        declared = config.get("format") if isinstance(config, dict) else None
        if declared in OTHER_MODELS:
            description, commands = OTHER_MODELS[declared]
            raise FormatError(
                f"{files.label} is {description}, not an ELMo model. Use the commands of "
                f"{commands} for it."
            )
    raise FormatError(
        f"{files.label} contains no model (found {files.listing()}). Supported are {READABLE}."
    )


def _read_hdf5(path: Path, options: object, vocabulary: Vocabulary | None) -> Pretrained:
    with open_file(path) as file:
        arrays = _model_arrays(file, str(path))
    if options is None:
        options = _find_options(_sibling_files(path), path.name)
    vocabulary = vocabulary or _find_vocabulary(_sibling_files(path))
    return bilm_hdf5.read(
        options, arrays, label=str(path), origin=HDF5_ORIGIN, vocabulary=vocabulary
    )


def _model_arrays(file: BinaryIO, label: str) -> dict[str, Array]:
    """Read an HDF5 weight file; raise `FormatError` if it contains only token embeddings."""
    arrays = read_arrays(file, label)
    if set(arrays) == {"embedding"}:
        size = " x ".join(f"{count:,}" for count in arrays["embedding"].shape)
        raise FormatError(
            f"{label} contains token embeddings ({size}: words x dim), not a model. Pass the model "
            "they were computed with, and this file as token_embeddings= with its vocabulary as "
            "vocab=."
        )
    return arrays


def _read_checkpoint(path: Path, options: object, vocabulary: Vocabulary | None) -> Pretrained:
    prefix = find_checkpoint(path)
    siblings = open_folder(prefix.parent)
    if options is None:
        options = _find_options(siblings)
    return bilm_tf.read(prefix, options, vocabulary or _find_vocabulary(siblings))


def read_accumulators(
    source: str | Path, options: str | Path | None = None
) -> dict[str, Tensor] | None:
    """Read Adagrad's sums from a bilm-tf checkpoint, by weight name; None for other models."""
    path = _expand(source)
    in_folder = path.is_dir() and any(path.glob("*.index"))
    if not in_folder and not (_is_checkpoint(path) and os.path.exists(f"{path}.index")):
        return None
    prefix = find_checkpoint(path)
    if options is not None:
        parsed = _read_options(options)
    else:
        parsed = _find_options(open_folder(prefix.parent))
    return bilm_tf.read_accumulators(prefix, parsed)


def _sibling_files(path: Path) -> Container:
    return open_folder(path.parent)


def _find_options(files: Container, weights: str = "") -> object:
    """Return the parsed options for a weight file.

    If the name of an options file matches the weight file, that file is used. Otherwise the only
    options file is used, or options.json if there are several.
    """
    if "weights" in weights:
        partner = weights.replace("weights", "options").rsplit(".", 1)[0] + ".json"
        if partner in files.names:
            return files.read_json(partner)
    names = [name for name in files.names if name.endswith(".json") and "options" in name]
    if len(names) != 1 and "options.json" in names:
        names = ["options.json"]
    if len(names) != 1:
        listing = ", ".join(names) or "none"
        raise FormatError(
            f"{files.label}: expected one options.json next to the weights (found {listing}). Pass "
            "options=."
        )
    return files.read_json(names[0])


def _find_vocabulary(files: Container) -> Vocabulary | None:
    for name in ("vocab.txt.gz", "vocab.txt"):
        if name in files.names:
            vocabulary = Vocabulary.parse(files.read(name), name)
            return _check_not_empty(vocabulary, f"{files.label}: {name}")
    return None


def _check_not_empty(vocabulary: Vocabulary, label: str) -> Vocabulary:
    if not len(vocabulary):
        raise FormatError(f"{label} contains no words, expected one word per line.")
    return vocabulary


def _weight_file(files: Container, endings: tuple[str, ...], prefer: tuple[str, ...]) -> str | None:
    names = [name for name in files.names if name.lower().endswith(endings)]
    for name in prefer:
        if name in names:
            return name
    if len(names) > 1:
        candidates = [name for name in names if "weights" in name or "model" in name]
        if len(candidates) != 1:
            raise FormatError(
                f"{files.label} contains several weight files ({', '.join(names)}). Pass the path "
                "of one of them."
            )
        names = candidates
    return names[0] if names else None


def _read_json_file(path: Path) -> object:
    return parse_json(read_file(path), str(path))


def _read_hdf5_arrays(path: Path) -> dict[str, Array]:
    with open_file(path) as file:
        return read_arrays(file, str(path))
