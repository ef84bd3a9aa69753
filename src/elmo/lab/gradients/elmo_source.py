"""The networks of an ELMo whose gradients are measured: both directions, trained and initial."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from elmo.errors import ConfigError
from elmo.formats.pretrained import Pretrained
from elmo.lab.elmo_stepper import Direction
from elmo.lab.gradients.elmo_direction import ElmoDirectionNetwork
from elmo.lab.gradients.text_windows import TextStream
from elmo.lab.units.word_lines import split_lines
from elmo.model.initialization import initialize
from elmo.model.lstm import LSTMLayer
from elmo.model.network import ELMoNetwork
from elmo.text.characters import BEGIN_TOKEN, END_TOKEN
from elmo.text.token_batches import token_mapper
from elmo.text.tokenizer import WhitespaceTokenizer
from elmo.text.tokenizers_by_name import get_tokenizer
from elmo.text.vocabulary import UNKNOWN

DIRECTIONS: tuple[Direction, ...] = ("forward", "backward")
# Rows of the tokens of a text: those of the boundary tokens, then those of the words.
_BEGIN, _END, _N_BOUNDARIES = 0, 1, 2


@dataclass(frozen=True)
class ElmoSource:
    """An ELMo model with a softmax.

    Attributes:
        model: The model.
        name: Name of its folder or file; empty if it was not read from one.
    """

    model: Pretrained
    name: str = ""

    def __post_init__(self) -> None:
        """Check that the model can predict words."""
        if not (self.model.config.n_softmax_words and self.model.vocabulary):
            missing = "vocabulary" if self.model.config.n_softmax_words else "softmax"
            raise ConfigError(
                f"Gradients are those of the loss of the language model, but this "
                f"{self.model.origin} has no {missing}. Use an ELMo model with a softmax and its "
                "vocabulary, or the folder of a language model."
            )
        assert self.model.vocabulary is not None
        self.model.vocabulary.require_special_tokens()

    def read(self, text: str) -> "ElmoText":
        """Return a text as the model reads it.

        Args:
            text: The text, with one sentence per line.

        Raises:
            InputError: The text has no words.
        """
        tokenizer = get_tokenizer(self.model.config.text.tokenizer or WhitespaceTokenizer.name)
        return ElmoText(self.model, split_lines(text, tokenizer.words), self.name)


@dataclass(frozen=True)
class ElmoText:
    """A text as an ELMo model reads it: one stream of sentences, with carried state.

    The forward direction reads `<S>` and the words of each sentence, and predicts its words and
    `</S>`. The backward direction reads `</S>` and the words from the end of the text.

    Attributes:
        model: The model.
        lines: Words of each sentence.
        name: Name of the model.
    """

    model: Pretrained
    lines: Sequence[Sequence[str]]
    name: str = ""

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Row of each distinct word in `token_rows`."""
        words = dict.fromkeys(word for line in self.lines for word in line)
        return {word: number for number, word in enumerate(words, _N_BOUNDARIES)}

    @cached_property
    def token_rows(self) -> torch.Tensor:
        """Input of the token encoder for the boundary tokens and the distinct words."""
        mapper = token_mapper(self.model.config, self.model.characters, self.model.words)
        return torch.from_numpy(mapper.rows_with_boundaries(list(self.numbers)))

    def stream(self, direction: Direction) -> TextStream:
        """Return what a direction reads and predicts."""
        assert self.model.vocabulary is not None
        ids = self.model.vocabulary.ids
        unknown = ids[UNKNOWN]
        is_forward = direction == "forward"
        first, last = (_BEGIN, END_TOKEN) if is_forward else (_END, BEGIN_TOKEN)
        inputs: list[int] = []
        targets: list[int] = []
        for line in self.lines if is_forward else reversed(self.lines):
            words = line if is_forward else line[::-1]
            inputs += [first, *(self.numbers[word] for word in words)]
            targets += [*(ids.get(word, unknown) for word in words), ids[last]]
        return TextStream(
            np.array(inputs, dtype=np.int32),
            np.array(targets, dtype=np.int32),
            "words",
            len(targets),
        )

    def trained(self, direction: Direction) -> ElmoDirectionNetwork:
        """Return a direction with the weights of the model."""
        network = ELMoNetwork(config=self.model.config)
        network.load_state_dict(dict(self.model.weights))
        return self._direction(network, direction)

    def initial(
        self, direction: Direction, seed: int, forget_bias: float | None = None
    ) -> ElmoDirectionNetwork:
        """Return a direction with the weights at the beginning of training.

        Args:
            direction: The direction.
            seed: Seed of the weights.
            forget_bias: Bias of the forget gates. Default: that of the model's configuration.
        """
        network = ELMoNetwork(config=self.model.config)
        with torch.no_grad():
            initialize(network, seed)
        measured = self._direction(network, direction)
        if forget_bias is not None:
            set_forget_bias(measured, forget_bias)
        return measured

    def _direction(self, network: ELMoNetwork, direction: Direction) -> ElmoDirectionNetwork:
        bilm = network.eval().bilm
        assert network.softmax is not None
        stack = bilm.forward_lstm if direction == "forward" else bilm.backward_lstm
        return ElmoDirectionNetwork(bilm.encoder, stack, network.softmax, self.token_rows)


@torch.no_grad()
def set_forget_bias(network: ElmoDirectionNetwork, bias: float) -> None:
    """Set the bias of the forget gates of all layers."""
    for layer in network.stack.layers:
        assert isinstance(layer, LSTMLayer)
        # The configuration can add a constant to the bias parameter.
        layer.bias.chunk(4)[1].fill_(bias - layer.config.forget_bias)
