"""Our own model folder: config.json, model.safetensors, vocabulary, dictionaries, a model card."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import load, save_file
from torch import Tensor

from elmo.config import ModelConfig, Storage
from elmo.config.serialization import from_dict, to_dict
from elmo.errors import ConfigError, FormatError, OutputError
from elmo.files import write_folder
from elmo.formats.container import Container, one_line, open_folder
from elmo.formats.model_card import model_card
from elmo.formats.pretrained import Pretrained
from elmo.formats.quantization import pack, storage_of, unpack
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


def is_folder(folder: Container, kind: str = FORMAT) -> bool:
    """Whether a folder is ours, of that kind: its config.json says so."""
    if CONFIG not in folder.names:
        return False
    config = folder.read_json(CONFIG)
    return isinstance(config, dict) and config.get("format") == kind


def read(folder: Container) -> Pretrained:
    """Read a model folder."""
    head = folder.read_json(CONFIG)
    if head.get("version") != VERSION:
        raise FormatError(
            f"{folder.label}: its format has version {head.get('version')!r}, this program reads "
            f"version {VERSION}: install a newer elmo-torch"
        )
    try:
        config = from_dict(ModelConfig, head.get("model"), f"{folder.label}: {CONFIG}: model")
    except ConfigError as error:
        raise FormatError(str(error)) from None
    try:
        stored = load(folder.read(WEIGHTS))
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise FormatError(f"{folder.label}: {WEIGHTS} is not whole: {one_line(error)}") from None
    source = f"{folder.label}: {WEIGHTS}"
    notes = head.get("notes", [])
    if not isinstance(notes, list):
        raise FormatError(f"{folder.label}: {CONFIG}: notes is {notes!r}, expected a list")
    vocabulary = None
    if VOCABULARY in folder.names:
        vocabulary = Vocabulary.parse(folder.read(VOCABULARY), VOCABULARY)
    return Pretrained(
        config,
        unpack(stored, source),
        str(head.get("origin", ORIGIN)),
        vocabulary,
        characters=_dictionary(folder, CHARACTERS)
        if config.text.characters in SYMBOL_SCHEMES
        else None,
        words=_dictionary(folder, WORDS) if config.encoder.n_words else None,
        notes=tuple(map(str, notes)),
        options=head.get("options"),
        training=with_current_keys(head.get("training")),
        source=source,
        storage=storage_of(stored),
    )


def _dictionary(folder: Container, name: str) -> dict[str, int]:
    entries = folder.read_json(name)
    if isinstance(entries, list) and all(isinstance(entry, str) for entry in entries):
        found: dict[str, int] = {}
        for number, entry in enumerate(entries):
            if found.setdefault(entry, number) != number:
                raise FormatError(
                    f"{folder.label}: {name} has {entry!r} twice, at {found[entry]} and {number}"
                )
        return found
    if not isinstance(entries, dict) or not all(type(value) is int for value in entries.values()):
        raise FormatError(
            f"{folder.label}: {name} is no list of strings and no dictionary of whole numbers"
        )
    return entries


def write(model: Pretrained, folder: Path, dtype: Storage = "float32") -> None:
    """Write a model folder, all of it or nothing; files of an older model in it are replaced.

    A folder that holds files of these names which are not a model of ours is refused.

    Args:
        model: what is written.
        folder: made where it does not exist.
        dtype: how the weights are stored; read, they are float32 again.
    """
    names = (CONFIG, WEIGHTS, VOCABULARY, CHARACTERS, WORDS, CARD)
    check_target(folder, names, FORMAT)
    stored = pack(model.weights, dtype)
    head = {
        "format": FORMAT,
        "version": VERSION,
        "origin": model.origin,
        "notes": list(model.notes),
        "options": model.options,
        "training": model.training,
        "model": to_dict(model.config),
    }
    files: dict[str, Callable[[Path], Any] | None] = {WEIGHTS: partial(save_tensors, stored)}
    optional = {
        VOCABULARY: None if model.vocabulary is None else model.vocabulary.to_bytes(),
        CHARACTERS: dictionary_json(model.characters),
        WORDS: dictionary_json(model.words),
        CARD: model_card(model, dtype).encode("utf-8", "replace"),
        CONFIG: as_json(head),
    }
    for name, content in optional.items():
        files[name] = None if content is None else partial(Path.write_bytes, data=content)
    write_folder(folder, files)


def check_target(folder: Path, names: Sequence[str], kind: str) -> None:
    """Refuse a folder in which files would be lost that are not those of such a model.

    Args:
        folder: where one is to be written.
        names: files that would be replaced.
        kind: what the config.json of an older one says.
    """
    found = [name for name in names if (folder / name).is_file()]
    if not found or (folder / CONFIG).is_dir():
        return
    try:
        is_ours = is_folder(open_folder(folder), kind)
    except FormatError:
        is_ours = False
    if not is_ours:
        raise OutputError(
            f"cannot write a model into {folder}: {', '.join(found)} there would be lost, and they "
            "belong to no model of ours in this format; name another folder"
        )


def as_json(value: Mapping[str, Any] | None) -> bytes | None:
    """Give what a JSON file of ours holds; None for none."""
    if value is None:
        return None
    return (json.dumps(value, indent=1) + "\n").encode("ascii")


def dictionary_json(entries: Mapping[str, int] | None) -> bytes | None:
    """Give the JSON of a dictionary: a list where its numbers count from 0, as they mostly do."""
    if entries is None:
        return None
    is_list = list(entries.values()) == list(range(len(entries)))
    text = json.dumps(list(entries) if is_list else dict(entries), ensure_ascii=False, indent=0)
    # Half a surrogate pair, which UTF-8 cannot spell, is written as JSON's escape.
    return (text + "\n").encode("utf-8", "backslashreplace")


def save_tensors(stored: dict[str, Tensor], path: Path) -> None:
    """Write a file of tensors."""
    try:
        save_file(stored, path, metadata={"format": "pt"})
        # Left to itself it is for its owner alone: others may read it where they may the folder.
        path.chmod(path.parent.stat().st_mode & 0o666)
    except safetensors.SafetensorError as error:
        raise OutputError(f"cannot write {path.name}: {error}; nothing was left behind") from None
