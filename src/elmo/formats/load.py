"""Find out what a path or name holds by looking inside, and hand it to its reader."""

import dataclasses
import logging
import os
import re
from pathlib import Path
from typing import Any, BinaryIO

from torch import Tensor

from elmo.errors import FormatError
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
from elmo.formats.pickles import read_state_dict
from elmo.formats.pretrained import Pretrained
from elmo.formats.tf_checkpoint import find_checkpoint
from elmo.formats.weight_names import Array
from elmo.text.vocabulary import Vocabulary

HDF5_ORIGIN = "bilm-tf / AllenNLP HDF5"
READABLE = (
    "our own folder, options.json with weights.hdf5, an NLPL folder or zip, a bilm-tf checkpoint, "
    "an AllenNLP model.tar.gz or best.th, an ELMoForManyLangs folder or zip"
)
logger = logging.getLogger(__name__)
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def read(
    source: str | Path | None = None,
    *,
    options: str | Path | None = None,
    weights: str | Path | None = None,
    vocab: str | Path | None = None,
    softmax: str | Path | None = None,
    token_embeddings: str | Path | None = None,
) -> Pretrained:
    """Read a model of any known format.

    Args:
        source: a folder, an archive, a weight file, a checkpoint, a bundled name or a hub id; what
            lies on the disk comes first.
        options: options.json; with `weights`, the classic pair.
        weights: weights.hdf5; the same as `source`.
        vocab: vocabulary file, plain or gzipped.
        softmax: HDF5 file with `softmax/W` and `softmax/b`.
        token_embeddings: HDF5 file with the vectors of the vocabulary (bilm-tf's token input).
    """
    if source is not None and weights is not None:
        raise FormatError("both a source and weights were given: name the model once")
    found = source if source is not None else weights
    if found is None or found == "":
        raise FormatError("no model was named: give a source, or options with weights")
    parsed = None if options is None else _json_file(_existing(options, "options"))
    vocabulary = None
    if vocab is not None:
        vocabulary = _with_words(Vocabulary.load(_existing(vocab, "vocab")), str(vocab))
    model = _read_path(_find(str(found)), parsed, vocabulary)
    if vocabulary is not None:
        model = dataclasses.replace(model, vocabulary=vocabulary)
    for note in model.notes:
        logger.warning("%s: %s", found, note)
    if softmax is not None:
        path = _existing(softmax, "softmax")
        model = bilm_hdf5.with_softmax(model, _hdf5_file(path), str(path))
    if token_embeddings is not None:
        path = _existing(token_embeddings, "token_embeddings")
        model = bilm_hdf5.with_token_embeddings(
            model, _hdf5_file(path), vocabulary or model.vocabulary, str(path)
        )
    return model


def _existing(path: str | Path, argument: str) -> Path:
    found = _local(path)
    if not os.path.exists(found):
        raise FormatError(f"{argument}: there is no file {path}")
    return found


def _find(source: str) -> Path:
    path = _local(source)
    if os.path.exists(path) or os.path.exists(f"{path}.index"):
        return path
    models = bundled.installed()
    if source in models:
        return models[source]
    if source in bundled.NAMES:
        raise FormatError(
            f"{source} is the name of a bundled model, but it is not in this installation "
            f"(bundled: {bundled.listing()}): install elmo-torch again, or name another model, "
            "such as a folder or a hub id"
        )
    if "://" in source:
        raise FormatError(f"{source} is an address: download the file first and name it here")
    if _HUB_ID.fullmatch(source):
        return hub.download(source)
    raise FormatError(
        f"there is no file or folder {source}, and no model of that name is bundled (bundled: "
        f"{bundled.listing()}); readable are {READABLE}, and hub ids such as owner/name"
    )


def _local(path: str | Path) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise FormatError(f"there is no file {path}: {error}") from None


def _read_path(path: Path, options: Any, vocabulary: Vocabulary | None) -> Pretrained:
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
    if start[:4] in (b"PK\x03\x04", b"PK\x05\x06"):  # the second where nothing is inside
        archive = open_zip(path)
        if "data.pkl" not in archive.names:  # PyTorch's own files are zips too
            return _read_container(archive, options, vocabulary, path)
    if start[:2] == b"\x1f\x8b" or path.name.endswith((".tar", ".tgz")):
        return allennlp_archive.read_archive(open_tar(path), options)
    if start[:1] == b"{" and "options" in path.name:
        return _read_container(_beside(path), _json_file(path), vocabulary, path.parent)
    if start[:2] in (b"PK", b"\x80\x02") or path.suffix in (".th", ".pt", ".pth", ".bin"):
        with open_file(path) as file:
            state = read_state_dict(file, str(path))
        return allennlp_archive.read_state(state, str(path), options)
    what = f"no model file (it begins with {start!r})" if start else "empty"
    raise FormatError(f"{path} is {what}; readable are {READABLE}")


def _is_checkpoint(path: Path) -> bool:
    """Whether a path is a file of a TensorFlow checkpoint, or what such files begin with."""
    is_part = path.suffix in (".index", ".meta") or ".data-" in path.name
    return not path.exists() or is_part or path.name == "checkpoint"


def is_training_folder(path: Path) -> bool:
    """Whether a folder is that of a training run of ours."""
    return (path / "config.yaml").is_file() and (path / "log.jsonl").is_file()


def _trained_model(path: Path) -> Path:
    model = path / "model"
    if not model.is_dir():
        raise FormatError(
            f"{path} is a training folder without a model yet: one is written at the first "
            "evaluation and at the end"
        )
    return model


def _read_container(
    files: Container,
    options: Any,
    vocabulary: Vocabulary | None,
    path: Path,
) -> Pretrained:
    """Read a folder or zip by the names of what is in it, ours first."""
    is_native = model_folder.is_folder(files)
    if is_native or many_langs.is_folder(files.names):
        if options is not None:
            raise FormatError(f"{files.label} says its geometry itself: leave the options out")
        return model_folder.read(files) if is_native else many_langs.read(files)
    if model_folder.is_folder(files, onnx_folder.FORMAT):
        raise FormatError(
            f"{files.label} is an export to ONNX, for other programs; this one does not read it: "
            "name the model it was made from"
        )
    has_checkpoint = any(name == "checkpoint" or name.endswith(".index") for name in files.names)
    if has_checkpoint and path.is_dir():
        return _read_checkpoint(path, options, vocabulary)
    weights = _only(files, (".hdf5", ".h5"), prefer=("model.hdf5", "weights.hdf5"))
    if weights is not None:
        label = f"{files.label}: {weights}"
        with files.open(weights) as file:
            arrays = _model_arrays(file, label)
        if options is None:
            options = _options_in(files, weights)
        vocabulary = vocabulary or _vocabulary_in(files)
        return bilm_hdf5.read(
            options, arrays, label=label, origin=HDF5_ORIGIN, vocabulary=vocabulary
        )
    if "model.tar.gz" in files.names and path.is_dir():
        return _read_path(path / "model.tar.gz", options, vocabulary)
    if "best.th" in files.names or "weights.th" in files.names:
        return allennlp_archive.read_archive(files, options)
    if has_checkpoint or "model.tar.gz" in files.names:
        raise FormatError(f"{files.label} holds {files.listing()}: unpack it and name the folder")
    raise FormatError(
        f"{files.label} holds no model: found {files.listing()}; readable are {READABLE}"
    )


def _read_hdf5(path: Path, options: Any, vocabulary: Vocabulary | None) -> Pretrained:
    with open_file(path) as file:
        arrays = _model_arrays(file, str(path))
    if options is None:
        options = _options_in(_beside(path), path.name)
    vocabulary = vocabulary or _vocabulary_in(_beside(path))
    return bilm_hdf5.read(
        options, arrays, label=str(path), origin=HDF5_ORIGIN, vocabulary=vocabulary
    )


def _model_arrays(file: BinaryIO, label: str) -> dict[str, Array]:
    """Read the arrays of a model; a file that only goes with one is refused by what it is."""
    arrays = read_arrays(file, label)
    if set(arrays) == {"embedding"}:
        size = " x ".join(f"{count:,}" for count in arrays["embedding"].shape)
        raise FormatError(
            f"{label} is a token-embedding file ({size}: words x dim), no model: name the model it "
            "was made with, and this file as token_embeddings= with its vocabulary as vocab="
        )
    return arrays


def _read_checkpoint(path: Path, options: Any, vocabulary: Vocabulary | None) -> Pretrained:
    prefix = find_checkpoint(path)
    beside = open_folder(prefix.parent)
    if options is None:
        options = _options_in(beside)
    return bilm_tf.read(prefix, options, vocabulary or _vocabulary_in(beside))


def read_accumulators(
    source: str | Path, options: str | Path | None = None
) -> dict[str, Tensor] | None:
    """Read Adagrad's sums of squares from a bilm-tf checkpoint; None where a source has none.

    Args:
        source: anything `read` takes.
        options: options.json, where it does not lie beside the weights.
    """
    path = _local(source)
    in_folder = path.is_dir() and any(path.glob("*.index"))
    if not in_folder and not (_is_checkpoint(path) and os.path.exists(f"{path}.index")):
        return None
    prefix = find_checkpoint(path)
    if options is not None:
        parsed = _json_file(_existing(options, "options"))
    else:
        parsed = _options_in(open_folder(prefix.parent))
    return bilm_tf.read_accumulators(prefix, parsed)


def _beside(path: Path) -> Container:
    return open_folder(path.parent)


def _options_in(files: Container, weights: str = "") -> Any:
    """Find the options file of a weight file: the one of its own stem, or the only one."""
    if "weights" in weights:
        twin = weights.replace("weights", "options").rsplit(".", 1)[0] + ".json"
        if twin in files.names:
            return files.read_json(twin)
    names = [name for name in files.names if name.endswith(".json") and "options" in name]
    if len(names) != 1 and "options.json" in names:
        names = ["options.json"]
    if len(names) != 1:
        found = f"found {', '.join(names)}" if names else "found none"
        raise FormatError(
            f"{files.label}: one options.json is needed beside the weights, {found}: pass options="
        )
    return files.read_json(names[0])


def _vocabulary_in(files: Container) -> Vocabulary | None:
    for name in ("vocab.txt.gz", "vocab.txt"):
        if name in files.names:
            vocabulary = Vocabulary.parse(files.read(name), name)
            return _with_words(vocabulary, f"{files.label}: {name}")
    return None


def _with_words(vocabulary: Vocabulary, label: str) -> Vocabulary:
    if not len(vocabulary):
        raise FormatError(f"{label} holds no words; expected one on each line")
    return vocabulary


def _only(files: Container, endings: tuple[str, ...], prefer: tuple[str, ...]) -> str | None:
    names = [name for name in files.names if name.lower().endswith(endings)]
    for name in prefer:
        if name in names:
            return name
    if len(names) > 1:
        likely = [name for name in names if "weights" in name or "model" in name]
        if len(likely) != 1:
            raise FormatError(
                f"{files.label} holds several weight files ({', '.join(names)}): name one"
            )
        names = likely
    return names[0] if names else None


def _json_file(path: Path) -> Any:
    return parse_json(read_file(path), str(path))


def _hdf5_file(path: Path) -> dict[str, Array]:
    with open_file(path) as file:
        return read_arrays(file, str(path))
