"""Generation of text with the two language models of an ELMo."""

import torch

from elmo.formats.load import read
from elmo.formats.pretrained import Pretrained
from elmo.kernels.device import default_device
from elmo.lab.elmo_stepper import Direction, ElmoStepper
from elmo.lab.generation import StepwiseGenerator
from elmo.lab.stepwise_model import TextWriter
from elmo.lab.word_writers import BackwardWordWriter, WordText, WordWriter, separator_of
from elmo.model.lstm import LSTMState
from elmo.text.tokenizer import WhitespaceTokenizer
from elmo.text.tokenizers_by_name import get_tokenizer


class ElmoCodec:
    """Implementation of `TextCodec` for an ELMo, whose text has one sentence per line.

    The backward direction reads the prompt from right to left, and writes the text before it.
    """

    def __init__(self, stepper: ElmoStepper, direction: Direction, tokenizer: str | None) -> None:
        """Set the model, which assigns ids to the words of the prompt."""
        self.stepper, self.direction = stepper, direction
        self.tokenizer = tokenizer or WhitespaceTokenizer.name

    @property
    def excluded(self) -> tuple[int, ...]:
        """`<UNK>` and the boundary token at which a sentence begins in this direction."""
        return self.stepper.excluded

    def prompt_ids(self, prompt: str) -> list[int]:
        """Return the words of the prompt in reading order, with borders between sentences."""
        tokenize = get_tokenizer(self.tokenizer).words
        is_forward = self.direction == "forward"
        lines = [self.stepper.add_words(tokenize(line)) for line in prompt.split("\n")]
        ids = [self.stepper.border]
        for number, line in enumerate(lines if is_forward else reversed(lines)):
            # Empty lines are no sentences.
            if number and ids[-1] != self.stepper.border:
                ids.append(self.stepper.border)
            ids += line if is_forward else reversed(line)
        return ids

    def writer(self, prompt: str, stop: str | None) -> TextWriter:
        """Return a writer of the text after the prompt, or before it."""
        separator = separator_of(self.tokenizer)
        text = WordText(self.stepper.vocabulary.words, self.stepper.border, separator)
        if self.direction == "forward":
            return WordWriter(text, prompt, stop)
        return BackwardWordWriter(text, prompt, stop)


class ElmoTextGenerator(StepwiseGenerator[LSTMState]):
    """Writes text with the forward or the backward language model of an ELMo.

    In the backward direction the prompt is the end of the text: the result is the text that was
    written before the prompt, followed by the prompt.
    """

    def __init__(
        self,
        model: Pretrained,
        direction: Direction = "forward",
        device: str | torch.device | None = None,
    ) -> None:
        """Prepare a model with a softmax for generation.

        Args:
            model: The model.
            direction: "forward" writes after the prompt, "backward" before it.
            device: Device of the computation. Default: cuda if available.
        """
        stepper = ElmoStepper(model, direction, device or default_device())
        super().__init__(stepper, ElmoCodec(stepper, direction, model.config.text.tokenizer))

    @classmethod
    def load(
        cls,
        model: str,
        direction: Direction = "forward",
        device: str | torch.device | None = None,
    ) -> "ElmoTextGenerator":
        """Load a bundled model, a model folder or any other model that `ELMo` reads."""
        return cls(read(model), direction, device)
