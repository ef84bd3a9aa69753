"""The `lm sample` command: writes text with a recurrent language model or an ELMo."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elmo.config.language_model_commands import LMSampleConfig
from elmo.errors import ConfigError
from elmo.formats.load import read
from elmo.kernels.device import default_device
from elmo.lab.elmo_generation import ElmoTextGenerator
from elmo.lab.generation import StepwiseGenerator, TextGenerator
from elmo.lab.recurrent_folder import is_model_folder, read_model
from elmo.lab.recurrent_layer import RecurrentState
from elmo.lab.units.clamp import parse_clamps
from elmo.lab.units.clamped_elmo import clamped_elmo_generator
from elmo.lab.units.clamped_recurrent import clamped_generator
from elmo.model.lstm import LSTMState


@dataclass(frozen=True)
class SampleResult:
    """Text of a language model, which is written when it is read.

    Attributes:
        config: Options of the command.
        generator: Generator of the text.
    """

    config: LMSampleConfig
    generator: StepwiseGenerator[RecurrentState] | StepwiseGenerator[LSTMState]

    def texts(self) -> list[str]:
        """Return all texts, written as one batch."""
        options = self.config.sampling
        return self.generator.samples(
            self.config.prompt,
            options.length,
            self.config.n,
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            seed=options.seed,
            stop=options.stop,
        )

    def parts(self) -> Iterator[str]:
        """Yield the text in parts while it is written; several texts are written together."""
        if self.config.n > 1:
            for number, text in enumerate(self.texts(), start=1):
                yield f"--- {number} of {self.config.n} ---\n{_line(text)}"
            return
        options, last = self.config.sampling, ""
        for part in self.generator.stream(
            self.config.prompt,
            options.length,
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            seed=options.seed,
            stop=options.stop,
        ):
            last = part
            yield part
        if not last.endswith("\n"):
            yield "\n"

    def to_dict(self) -> dict[str, object]:
        """Return the texts as plain data."""
        return {"model": self.config.model, "prompt": self.config.prompt, "texts": self.texts()}

    def __str__(self) -> str:
        """Return all texts."""
        return "".join(self.parts()).removesuffix("\n")


def _line(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"


def sample_lm(config: LMSampleConfig) -> SampleResult:
    """Load the model of the command; its text is written when the result is read."""
    device = config.device or default_device()
    clamps = parse_clamps(config.clamp)
    if not is_model_folder(Path(config.model)):
        elmo = read(
            config.model, options=config.options, vocab=config.vocab, softmax=config.softmax
        )
        if clamps:
            return SampleResult(
                config, clamped_elmo_generator(elmo, clamps, config.direction, device)
            )
        return SampleResult(config, ElmoTextGenerator(elmo, config.direction, device))
    for name in ("options", "vocab", "softmax"):
        if getattr(config, name) is not None:
            raise ConfigError(f"--{name} is only supported for ELMo models. Omit it.")
    if config.direction != "forward":
        raise ConfigError(
            f"{config.model} only writes forward. --direction backward is only supported for ELMo "
            "models."
        )
    model = read_model(config.model, device)
    if clamps:
        return SampleResult(config, clamped_generator(model.network, model.symbols, clamps))
    return SampleResult(config, TextGenerator(model.network, model.symbols))
