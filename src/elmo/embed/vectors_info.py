"""Description of the output of `elmo embed` for `elmo info`."""

import zipfile
from pathlib import Path

import h5py
from safetensors import SafetensorError, safe_open

from elmo.config.serialization import to_dict
from elmo.embed.embed_result import format_size
from elmo.embed.embeddings import SentenceVectors, open_embeddings
from elmo.embed.job_folder import MANIFEST, PLAN
from elmo.embed.job_records import JobManifest
from elmo.embed.vector_readers import OTHER_KEYS
from elmo.formats.info_and_convert import InfoResult
from elmo.progress import format_count

_FORMATS = {
    ".parquet": "Parquet",
    ".h5": "HDF5",
    ".hdf5": "HDF5",
    ".safetensors": "safetensors",
    ".npz": "npz",
}


def is_vectors(path: Path) -> bool:
    """Whether a path is a file or job folder of `elmo embed`, not a model."""
    if path.is_dir():
        return (path / PLAN).is_file() or (path / MANIFEST).is_file()
    extension = path.suffix.lower()
    if extension not in _FORMATS or not path.is_file():
        return False
    try:
        if extension in (".h5", ".hdf5"):
            with h5py.File(path, "r") as file:
                first = next(iter(file), "")
            return first.isdigit() or first in OTHER_KEYS
        if extension == ".safetensors":
            with safe_open(path, "numpy") as tensors:
                return {"offsets", "vectors"} <= set(tensors.keys())
        if extension == ".npz":
            with zipfile.ZipFile(path) as arrays:
                return "0.npy" in arrays.namelist()
    except (OSError, ValueError, zipfile.BadZipFile, SafetensorError):
        return False
    return True  # no model is stored as Parquet


def vectors_info(path: Path) -> InfoResult:
    """Describe the output of `elmo embed`, and state how to open it."""
    with open_embeddings(path, dtype=None) as sentences:
        manifest = sentences.manifest
        rows: dict[str, str | int] = {"format": _format(path, manifest)}
        rows["sentences"] = len(sentences)
        if manifest is not None:
            rows["words"] = manifest.n_words
            rows["model"] = manifest.model
        if len(sentences):
            first = sentences[0]
            rows["first_sentence"] = _describe(first)
            if first.values:
                rows["columns"] = ", ".join(first.values)
    size = path.stat().st_size if manifest is None else manifest.n_bytes
    rows["size"] = format_size(size)
    rows["open_with"] = f'elmo.open_embeddings("{path}")'
    settings = {} if manifest is None else to_dict(manifest.settings)
    return InfoResult(rows, (), settings)


def _format(path: Path, manifest: JobManifest | None) -> str:
    if manifest is None:
        return f"vectors of elmo embed, {_FORMATS[path.suffix.lower()]}"
    n_shards = format_count(len(manifest.shards), "shard")
    return f"vectors of elmo embed, {n_shards} ({manifest.settings.format})"


def _describe(sentence: SentenceVectors) -> str:
    vectors = f"{sentence.vectors.dtype} vectors of shape {sentence.vectors.shape}"
    if sentence.words is None:
        return vectors
    return f"{format_count(len(sentence.words), 'word')}, {vectors}"
