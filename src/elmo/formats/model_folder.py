"""Reader and writer for elmo-torch model folders (config.json with model.safetensors)."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import safetensors
from safetensors.torch import load, save_file
from torch import Tensor

from elmo.config import ModelConfig, Storage
from elmo.config.serialization import from_dict, to_dict
from elmo.errors import ConfigError, FormatError, OutputError
from elmo.files import write_folder
from elmo.formats.attribution import card_attribution, stored_attribution
from elmo.formats.container import Container, one_line, open_folder
from elmo.formats.model_card import model_card
from elmo.formats.pretrained import Pretrained
from elmo.formats.quantization import describe_storage, pack, unpack
from elmo.formats.training_record import with_current_keys
from elmo.text.characters import SYMBOL_SCHEMES
from elmo.text.vocabulary import Vocabulary

FORMAT = "elmo-torch"
VERSION = 1
ORIGIN = "elmo-torch folder"
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
VOCABULARY = "vocab.txt"
CHARACTERS = "characters.json"
WORDS = "words.json"
CARD = "README.md"


def is_folder(folder: Container, format_name: str = FORMAT) -> bool:
    """Whether the config.json in a folder declares the given format."""
    if CONFIG not in folder.names:
        return False
    config = folder.read_json(CONFIG)
    return isinstance(config, dict) and config.get("format") == format_name


def read(folder: Container) -> Pretrained:
    """Read a model folder."""
    header = _json_object(folder.read_json(CONFIG), f"{folder.label}: {CONFIG}")
    if header.get("version") != VERSION:
        raise FormatError(
            f"{folder.label}: format version {header.get('version')!r} is not supported; this "
            f"version of elmo-torch reads version {VERSION}. Install a newer elmo-torch."
        )
    try:
        config = from_dict(ModelConfig, header.get("model"), f"{folder.label}: {CONFIG}: model")
    except ConfigError as error:
        raise FormatError(str(error)) from None
    try:
        stored = load(folder.read(WEIGHTS))
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise FormatError(
            f"{folder.label}: {WEIGHTS} is incomplete or damaged: {one_line(error)}"
        ) from None
    source = f"{folder.label}: {WEIGHTS}"
    notes = header.get("notes", [])
    if not isinstance(notes, list):
        raise FormatError(f"{folder.label}: {CONFIG}: notes is {notes!r}, expected a list.")
    options = header.get("options")
    if options is not None:
        options = _json_object(options, f"{folder.label}: {CONFIG}: options")
    vocabulary = None
    if VOCABULARY in folder.names:
        vocabulary = Vocabulary.parse(folder.read(VOCABULARY), VOCABULARY)
    attribution = stored_attribution(header.get("attribution"))
    if CARD in folder.names:  # it may have been edited, so that its values take precedence
        attribution |= card_attribution(folder.read(CARD).decode("utf-8", "replace"))
    return Pretrained(
        config,
        unpack(stored, source),
        str(header.get("origin", ORIGIN)),
        vocabulary,
        characters=_dictionary(folder, CHARACTERS)
        if config.text.characters in SYMBOL_SCHEMES
        else None,
        words=_dictionary(folder, WORDS) if config.encoder.n_words else None,
        notes=tuple(map(str, notes)),
        options=options,
        training=with_current_keys(header.get("training")),
        source=source,
        storage=describe_storage(stored),
        attribution=attribution,
    )


def _json_object(value: object, label: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise FormatError(f"{label} is of type {type(value).__name__}, expected a JSON object.")
    return value


def _dictionary(folder: Container, name: str) -> dict[str, int]:
    entries = folder.read_json(name)
    if isinstance(entries, list) and all(isinstance(entry, str) for entry in entries):
        entry_ids: dict[str, int] = {}
        for number, entry in enumerate(entries):
            if entry_ids.setdefault(entry, number) != number:
                raise FormatError(
                    f"{folder.label}: {name} contains {entry!r} twice, with ids {entry_ids[entry]} "
                    f"and {number}."
                )
        return entry_ids
    if not isinstance(entries, dict) or not all(type(value) is int for value in entries.values()):
        raise FormatError(
            f"{folder.label}: {name} is neither a list of strings nor a dictionary with integer "
            "values."
        )
    return entries


def write(model: Pretrained, folder: Path, storage: Storage = "float32") -> None:
    """Write a model folder atomically, replacing the files of a previous model.

    Weights are stored in the dtype `storage` and always loaded as float32. Files of other programs
    with the names of model files are an error.
    """
    names = (CONFIG, WEIGHTS, VOCABULARY, CHARACTERS, WORDS, CARD)
    check_target(folder, names, FORMAT)
    stored = pack(model.weights, storage)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "origin": model.origin,
        "notes": list(model.notes),
        "options": model.options,
        "training": model.training,
        "attribution": dict(model.attribution),
        "model": to_dict(model.config),
    }
    files: dict[str, Callable[[Path], object] | None] = {WEIGHTS: partial(save_tensors, stored)}
    optional = {
        VOCABULARY: None if model.vocabulary is None else model.vocabulary.to_bytes(),
        CHARACTERS: dictionary_json(model.characters),
        WORDS: dictionary_json(model.words),
        CARD: model_card(model, storage).encode("utf-8", "replace"),
        CONFIG: as_json(header),
    }
    for name, content in optional.items():
        files[name] = None if content is None else partial(Path.write_bytes, data=content)
    write_folder(folder, files)


def check_target(folder: Path, names: Sequence[str], format_name: str) -> None:
    """Raise `OutputError` if writing would replace files of another program or format.

    Files may be replaced if the config.json in the folder declares the given format.
    """
    existing = [name for name in names if (folder / name).is_file()]
    if not existing or (folder / CONFIG).is_dir():
        return
    try:
        is_same_format = is_folder(open_folder(folder), format_name)
    except FormatError:
        is_same_format = False
    if not is_same_format:
        raise OutputError(
            f"Cannot write a model into {folder}: it contains {', '.join(existing)}, which would "
            "be overwritten but do not belong to an elmo-torch model in this format. Choose "
            "another output folder."
        )


def as_json(value: Mapping[str, object] | None) -> bytes | None:
    """Return a value as encoded JSON, or None if the value is None."""
    if value is None:
        return None
    return (json.dumps(value, indent=1) + "\n").encode("ascii")


def dictionary_json(entries: Mapping[str, int] | None) -> bytes | None:
    """Return a dictionary as encoded JSON, or None if there is no dictionary.

    If its ids are 0, 1, 2, ... in this order, as is usual, it is written as a list of symbols.
    """
    if entries is None:
        return None
    is_list = list(entries.values()) == list(range(len(entries)))
    text = json.dumps(list(entries) if is_list else dict(entries), ensure_ascii=False, indent=0)
    # UTF-8 cannot encode a lone surrogate: it is written as a JSON escape.
    return (text + "\n").encode("utf-8", "backslashreplace")


def save_tensors(stored: dict[str, Tensor], path: Path) -> None:
    """Write tensors to a safetensors file."""
    try:
        save_file(stored, path, metadata={"format": "pt"})
        # save_file makes the file readable by its owner only: use the permissions of the folder.
        path.chmod(path.parent.stat().st_mode & 0o666)
    except safetensors.SafetensorError as error:
        raise OutputError(
            f"Cannot write {path.name}: {error}. No partial files were left."
        ) from None
