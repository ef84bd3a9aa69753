"""Generation of text with language models."""

from collections.abc import Iterator
from typing import Generic

import torch

from elmo.config.bounds import require_type
from elmo.config.language_models import SamplingConfig
from elmo.errors import ConfigError
from elmo.lab.recurrent_layer import RecurrentState
from elmo.lab.recurrent_network import RecurrentNetwork
from elmo.lab.recurrent_stepper import RecurrentStepper
from elmo.lab.stepwise_model import State, StepwiseModel, TextCodec
from elmo.lab.symbol_codec import SymbolCodec
from elmo.lab.symbol_sampler import SymbolSampler
from elmo.lab.symbols import Symbols

DEFAULT = SamplingConfig()


class StepwiseGenerator(Generic[State]):
    """Writes text with any `StepwiseModel`.

    All methods return the prompt followed by its continuation, as the prompt is the beginning of
    the text.
    """

    def __init__(self, stepper: StepwiseModel[State], codec: TextCodec) -> None:
        """Set the model and the conversion of its symbols."""
        self.stepper, self.codec = stepper, codec

    def sample(
        self,
        prompt: str = "",
        length: int = DEFAULT.length,
        *,
        temperature: float = DEFAULT.temperature,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = DEFAULT.seed,
        stop: str | None = None,
    ) -> str:
        """Return a prompt and its continuation.

        Args:
            prompt: Beginning of the text, of any length.
            length: Number of symbols to write after the prompt.
            temperature: Divisor of the logits; below 1 makes likely symbols more likely, 0 always
                writes the most likely one.
            top_k: Only draw from this number of most likely symbols.
            top_p: Only draw from the most likely symbols that together have this probability, after
                `top_k`.
            seed: Seed of the random numbers. The same seed returns the same text.
            stop: String before which the text ends. It is searched for after the prompt.

        Raises:
            ConfigError: An option is out of range.
        """
        config = SamplingConfig(length, temperature, top_k, top_p, seed, stop)
        return "".join(self._stream(_checked(prompt), config))

    def stream(
        self,
        prompt: str = "",
        length: int = DEFAULT.length,
        *,
        temperature: float = DEFAULT.temperature,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = DEFAULT.seed,
        stop: str | None = None,
    ) -> Iterator[str]:
        """Yield the text of `sample` in parts, as soon as each is certain."""
        config = SamplingConfig(length, temperature, top_k, top_p, seed, stop)
        return self._stream(_checked(prompt), config)

    def samples(
        self,
        prompt: str = "",
        length: int = DEFAULT.length,
        n: int = 1,
        *,
        temperature: float = DEFAULT.temperature,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = DEFAULT.seed,
        stop: str | None = None,
    ) -> list[str]:
        """Return `n` continuations of a prompt, computed as one batch; the first is `sample`."""
        config = SamplingConfig(length, temperature, top_k, top_p, seed, stop)
        require_type("n", n, "an integer")
        if n < 1:
            raise ConfigError(f"n must be at least 1 (got {n}).")
        texts: list[list[str]] = [[] for _ in range(n)]
        for parts in self._parts(_checked(prompt), config, n):
            for text, part in zip(texts, parts, strict=True):
                text.append(part)
        return ["".join(text) for text in texts]

    def _stream(self, prompt: str, config: SamplingConfig) -> Iterator[str]:
        for (part,) in self._parts(prompt, config, 1):
            if part:
                yield part

    def _parts(self, prompt: str, config: SamplingConfig, n: int) -> Iterator[list[str]]:
        """Yield the next part of the text of each row, which can be empty."""
        writers = [self.codec.writer(prompt, config.stop) for _ in range(n)]
        sampler = SymbolSampler(config, n, self.codec.excluded)
        ids = self.codec.prompt_ids(prompt)
        yield [writer.begin() for writer in writers]
        # All rows read the same prompt: it is read once, as a single row.
        scores, state = self.stepper.read(torch.tensor(ids).unsqueeze(1), self.stepper.start(1))
        scores, state = scores.expand(n, -1), self.stepper.repeat(state, n)
        for number in range(config.length):
            drawn = sampler.draw(scores)
            yield [
                "" if writer.is_stopped else writer.add(symbol)
                for writer, symbol in zip(writers, drawn, strict=True)
            ]
            if number == config.length - 1 or all(writer.is_stopped for writer in writers):
                break
            scores, state = self.stepper.step(torch.tensor(drawn), state)
        yield [writer.end() for writer in writers]


class TextGenerator(StepwiseGenerator[RecurrentState]):
    """Writes text with a recurrent network."""

    stepper: RecurrentStepper
    codec: SymbolCodec

    def __init__(self, network: RecurrentNetwork, symbols: Symbols) -> None:
        """Prepare a network, which must be in evaluation mode, for generation."""
        stepper = RecurrentStepper(network)
        super().__init__(stepper, stepper_codec(stepper, symbols))


def stepper_codec(stepper: RecurrentStepper, symbols: Symbols) -> SymbolCodec:
    """Return the conversion of symbols for a network, which can read words by their characters."""
    has_characters = stepper.network.encoder is not None
    return SymbolCodec(symbols, stepper.add_words if has_characters else None)


def _checked(prompt: str) -> str:
    if not isinstance(prompt, str):
        raise ConfigError(f"The prompt must be a string, not {type(prompt).__name__}.")
    return prompt
