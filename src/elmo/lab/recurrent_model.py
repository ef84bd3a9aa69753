"""`LanguageModel`: training, evaluation and generation with recurrent language models in Python."""

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from elmo.config.bounds import require_type
from elmo.config.language_model_commands import LMTrainConfig
from elmo.config.language_models import SymbolConfig
from elmo.config.serialization import leaves, load_config, presets
from elmo.errors import ConfigError, did_you_mean
from elmo.kernels.device import default_device
from elmo.lab.evaluate_lm import part_loss
from elmo.lab.generation import TextGenerator
from elmo.lab.lm_info import describe_model
from elmo.lab.network_text import network_text
from elmo.lab.recurrent_folder import RecurrentModel, read_model
from elmo.lab.symbol_text import read_text_files, text_part
from elmo.lab.text_loss import TextLoss, predictions
from elmo.lab.train_lm import train_lm

PRESETS = "language_models"
# Symbols that `score` reads at a time.
SCORE_STEPS = 4096


class LanguageModel(TextGenerator):
    """A recurrent language model over characters, bytes or words.

    `sample`, `stream` and `samples` write text. Use `load` or `train` to create an object.

    Attributes:
        network: The network, in evaluation mode.
        symbols: Its symbols.
        training: Facts about the training run, by name.
    """

    def __init__(self, model: RecurrentModel) -> None:
        """Wrap a model as stored in a folder."""
        if not isinstance(model, RecurrentModel):
            raise ConfigError(
                f"LanguageModel expects a RecurrentModel (got {type(model).__name__}). Use "
                "LanguageModel.load to load a folder."
            )
        super().__init__(model.network, model.symbols)
        self._model = model
        self.network, self.symbols, self.training = model.network, model.symbols, model.training

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], device: str | torch.device | None = None
    ) -> "LanguageModel":
        """Load a model.

        Args:
            path: Training folder of `elmo lm train`, or the model folder in it.
            device: Device of the computation. Default: cuda if available.

        Raises:
            FormatError: The folder does not contain a recurrent language model.
        """
        require_type("path", path, "a path")
        return cls(read_model(Path(path), device or default_device()))

    @classmethod
    def train(
        cls,
        text: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        out: str | os.PathLike[str],
        preset: str | os.PathLike[str] | None = None,
        **options: object,
    ) -> "LanguageModel":
        """Train a model, or resume its training, and return the best one.

        Args:
            text: Text file, or several ones, which are joined.
            out: Training folder.
            preset: Name of a preset or path of a YAML config file.
            **options: Options of `elmo lm train` by name, such as `cell="gru"` or `epochs=3`. Like
                `text`, `valid` and `test` are one file or several.

        Raises:
            ConfigError: An option is unknown or invalid.
        """
        require_type("out", out, "a path")
        require_type("preset", preset, "a path", optional=True)
        for name in ("valid", "test"):
            # An empty list is the default: no files.
            if options.get(name):
                options[name] = _paths(options[name])
        source = None if preset is None else os.fspath(preset)
        config = _training_config(_paths(text), os.fspath(out), source, options)
        if config.run.dry_run:
            raise ConfigError("dry_run is only supported by the command elmo lm train.")
        train_lm(config)
        return cls.load(out)

    def evaluate(
        self,
        text: str | os.PathLike[str] | Sequence[os.PathLike[str]],
        *,
        batch_size: int = 1,
        unroll: int = 256,
        state: str = "carry",
    ) -> TextLoss:
        """Return the loss on a text.

        Args:
            text: The text as a string, or a `Path` of a text file, or a list of them.
            batch_size: Number of parts of the text that are read at the same time, which is faster
                and changes the loss very little.
            unroll: Number of time steps per segment.
            state: "carry" the state through the whole text, or "reset" it to zero every `unroll`
                symbols.

        Raises:
            InputError: A file cannot be read, or the text is too short.
            ConfigError: An option is invalid, or a file name was passed as a string.
        """
        if state not in ("carry", "reset"):
            raise ConfigError(f"state must be carry or reset (got {state!r}).")
        for name, value in (("batch_size", batch_size), ("unroll", unroll)):
            require_type(name, value, "an integer")
            if value < 1:
                raise ConfigError(f"{name} must be at least 1 (got {value}).")
        part = text_part(self._text(text), self.symbols)
        return part_loss(
            self._model, part, batch_size=batch_size, unroll=unroll, carry=state == "carry"
        )

    @torch.no_grad()
    def score(self, text: str) -> list[tuple[str, float]]:
        """Return each symbol of a text with its loss in nats (-ln p), given the text before it.

        The first symbol is predicted after a line break, or not at all by a model without line
        breaks. A symbol that the model does not know is `<UNK>`; with input from characters, its
        characters are read before the next symbols are predicted.

        Args:
            text: The text.
        """
        ids = self.codec.input_ids(self._text(text))
        if len(ids) <= (self.symbols.end is None):
            return []
        inputs, targets = (
            torch.from_numpy(array).long() for array in predictions(ids, self.symbols)
        )
        vectors = self.stepper.vectors
        state, losses = self.network.zero_state(1), []
        for x, y in zip(
            torch.split(inputs, SCORE_STEPS), torch.split(targets, SCORE_STEPS), strict=True
        ):
            output = self.network(vectors, x.to(vectors.device).unsqueeze(1), state)
            state = output.state
            hidden = output.hidden.flatten(0, 1)
            losses += self.network.losses(hidden, y.to(vectors.device), vectors).tolist()
        return list(zip(map(self.symbols.name, targets.tolist()), losses, strict=True))

    def info(self) -> dict[str, str | int]:
        """Return facts about the model by name: symbols, network, training and held-out loss."""
        return describe_model(self._model)

    def __repr__(self) -> str:
        """Return unit, number of symbols, network and device."""
        config = self.network.config
        return (
            f"LanguageModel({config.unit}, {len(self.symbols):,} symbols; "
            f"{network_text(config.network)}; {self.stepper.vectors.device})"
        )

    def _text(self, text: object) -> str:
        """Return a text that was passed as a string or as paths of files."""
        if isinstance(text, str):
            if 0 < len(text) < 256 and "\n" not in text and Path(text).is_file():
                raise ConfigError(
                    f"{text!r} is the name of a file. Pass Path({text!r}) to read the file."
                )
            return text
        config = self.network.config
        options = SymbolConfig(
            unit=config.unit, tokenizer=config.tokenizer, strip_lines=config.strip_lines
        )
        return read_text_files(_paths(text), options)


def _paths(text: object) -> tuple[str, ...]:
    """Return the names of one or several files."""
    if isinstance(text, Sequence) and not len(text):
        raise ConfigError("No text file was given.")
    if isinstance(text, str | os.PathLike):
        return (os.fspath(text),)
    if isinstance(text, Sequence) and all(isinstance(name, str | os.PathLike) for name in text):
        return tuple(os.fspath(name) for name in text)
    raise ConfigError(f"Expected a text file or a list of text files (got {type(text).__name__}).")


def _training_config(
    text: tuple[str, ...], out: str, preset: str | None, options: dict[str, object]
) -> LMTrainConfig:
    names = [leaf.name for leaf in leaves(LMTrainConfig)]
    for name in options:
        if name not in names:
            raise ConfigError(f"Unknown option {name!r}.{did_you_mean(name, names)}")
    overrides = {**options, "text": text, "out": out}
    return load_config(LMTrainConfig, preset, overrides, presets(PRESETS))
