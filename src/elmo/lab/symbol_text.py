"""Reads the text of a language model, splits it, and converts it to symbol ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from elmo.config.language_model_commands import LMTrainConfig
from elmo.config.language_models import SymbolConfig, Unit
from elmo.corpus.compressed_files import READ_ERRORS, decompressed
from elmo.corpus.text_sources import resolve
from elmo.errors import ConfigError, InputError
from elmo.lab.symbols import Ids, OpenIds, Symbols
from elmo.lab.text_fingerprint import TextFingerprint, text_fingerprint
from elmo.progress import format_count
from elmo.text.input_lines import decoded_line, label_of, opened_input

# A model of fewer symbols than this cannot be trained and evaluated in a meaningful way.
MIN_SYMBOLS = 2


@dataclass(frozen=True)
class TextPart:
    """Symbol ids of a part of a text.

    Attributes:
        ids: Symbol ids.
        inputs: The same as input of a model, which can read the characters of unknown words.
        n_characters: Number of characters, including spaces and line breaks. For bytes the number
            of bytes.
        fingerprint: Fingerprint of the part, by which a known part is recognized.
    """

    ids: Ids
    inputs: OpenIds
    n_characters: int
    fingerprint: TextFingerprint

    @property
    def unknown_rate(self) -> float:
        """Share of `<UNK>`; only meaningful for characters and words."""
        return float((self.ids == 0).mean()) if len(self.ids) else 0.0


@dataclass(frozen=True)
class SymbolText:
    """A text as symbol ids, divided into parts.

    Attributes:
        symbols: The symbols.
        parts: Ids by part: "train", and "valid" and "test" if there is held-out text.
        fingerprint: Fingerprint of all parts together, by which a known text is recognized.
    """

    symbols: Symbols
    parts: Mapping[str, TextPart]
    fingerprint: TextFingerprint


def read_training_text(config: LMTrainConfig) -> SymbolText:
    """Read the text of a training run.

    Args:
        config: Options of the run.

    Raises:
        InputError: A file cannot be read, is not text, or is too short.
        ConfigError: Files and fractions for held-out text are both given.
    """
    options = config.symbols
    texts = {"train": read_text_files(config.text, options)}
    for name, files in (("valid", config.valid), ("test", config.test)):
        if files:
            texts[name] = read_text_files(files, options)
    if config.test and options.test_fraction:
        raise ConfigError("Both --test and --test-fraction are given. Remove one of them.")
    valid_fraction = 0.0 if config.valid else options.valid_fraction
    texts = _split_off(texts, valid_fraction, options)
    known = texts.values() if options.unit == "characters" else [texts["train"]]
    symbols = Symbols.of_text(list(known), options)
    parts = {name: text_part(text, symbols) for name, text in texts.items()}
    check_lengths(parts, config)
    return SymbolText(symbols, parts, text_fingerprint(texts.values(), options.unit))


def text_part(text: str, symbols: Symbols) -> TextPart:
    """Convert a text to symbol ids."""
    inputs = symbols.open_ids(text)
    ids = symbols.close(inputs.ids)
    n_characters = len(ids) if symbols.unit == "bytes" else len(text)
    return TextPart(ids, inputs, n_characters, text_fingerprint([text], symbols.unit))


def read_text_files(files: Sequence[str], options: SymbolConfig) -> str:
    """Read and join text files, which can be compressed.

    Args:
        files: File names, globs, or - for standard input.
        options: What the text is divided into. As bytes, a file need not be UTF-8: its other bytes
            are represented by surrogates.

    Raises:
        InputError: A file cannot be read, is empty, or is not UTF-8 text.
    """
    text = "".join(_read_text(name, options.unit) for name in resolve(files))
    if not options.strip_lines:
        return text
    return "\n".join(line.strip(" \t\r") for line in text.split("\n"))


def _read_text(name: str, unit: Unit) -> str:
    try:
        with opened_input(name) as raw, decompressed(name, raw) as file:
            data = file.read()
    except READ_ERRORS as error:
        raise InputError(f"Cannot read {label_of(name)}: {error}") from None
    if not data:
        raise InputError(f"{label_of(name)} is empty.")
    if unit == "bytes":
        return data.decode("utf-8", "surrogateescape")
    if (position := data.find(b"\0")) >= 0:
        raise InputError(
            f"{label_of(name)} is not text: it contains a NUL character at byte {position:,}. A "
            "model over bytes (--unit bytes) reads any file."
        )
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        begin = data.rfind(b"\n", 0, error.start) + 1
        end = data.find(b"\n", error.start)
        line = data[begin : end if end >= 0 else len(data)]
        try:
            decoded_line(line, name, number)
        except InputError as reason:
            raise InputError(
                f"{reason} A model over bytes (--unit bytes) reads any file."
            ) from None
        raise


def _split_off(
    texts: dict[str, str], valid_fraction: float, options: SymbolConfig
) -> dict[str, str]:
    """Split held-out text off the end of the training text; words are only split between lines."""
    text = texts["train"]
    n_train = int(len(text) * (1.0 - valid_fraction - options.test_fraction))
    n_valid = int(len(text) * (1.0 - options.test_fraction))
    if options.unit == "words":
        n_train, n_valid = text.find("\n", n_train) + 1, text.find("\n", n_valid) + 1 or len(text)
        if (valid_fraction or options.test_fraction) and not n_train:
            raise InputError(
                "The text has too few lines to hold out a part of it. Set --valid, or set "
                "--valid-fraction and --test-fraction to 0."
            )
    split = {"train": text[:n_train] if valid_fraction or options.test_fraction else text}
    if valid_fraction:
        split["valid"] = text[n_train:n_valid]
    if options.test_fraction:
        split["test"] = text[n_valid:]
    return {**texts, **split}


def check_lengths(parts: Mapping[str, TextPart], config: LMTrainConfig) -> None:
    """Raise an error if the text is too short for a run, or has a single symbol."""
    train = parts["train"].ids
    n_distinct = len(np.unique(train))
    unit = config.symbols.unit
    if n_distinct < MIN_SYMBOLS:
        raise InputError(
            f"The training text has {format_count(n_distinct, f'distinct {unit[:-1]}')}, at least "
            f"{MIN_SYMBOLS} are needed."
        )
    needed = 2 * config.segments.batch_size
    if len(train) < needed:
        raise InputError(
            f"The training text has only {format_count(len(train), unit[:-1])}, too few for "
            f"{format_count(needed // 2, 'batch row')}. Use more text, or a smaller --batch-size."
        )
    for name in ("valid", "test"):
        if name in parts and len(parts[name].ids) < MIN_SYMBOLS:
            label = "validation" if name == "valid" else name
            count = format_count(len(parts[name].ids), unit[:-1])
            raise InputError(
                f"The {label} text has only {count}. Use more text, or a larger fraction."
            )
