"""One direction of the language model of an ELMo as a `StepwiseModel`."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.errors import ConfigError
from elmo.formats.pretrained import Pretrained
from elmo.formats.training_record import RESET_SHARE
from elmo.inference.engine import compile_kernels
from elmo.kernels.device import move
from elmo.model.lstm import LSTMState, StackCall, StepMask, run_stacks
from elmo.model.network import ELMoNetwork
from elmo.text.characters import BEGIN_TOKEN, END_TOKEN
from elmo.text.token_batches import token_mapper
from elmo.text.vocabulary import UNKNOWN

Direction = Literal["forward", "backward"]


class ElmoStepper:
    """Reads words with one direction of an ELMo and predicts the next ones.

    The symbols are the words of the softmax. The forward direction predicts `</S>` at the end of a
    sentence and the backward direction `<S>`: this symbol is the border of two sentences. If it is
    read, the next sentence begins as in training, with the other boundary token and, if the model
    was trained with sentences that start from zero, with a zero state.

    Words are read by their characters, so the prompt can contain words that are not in the softmax:
    `add_words` assigns ids above those of the softmax to them.
    """

    def __init__(
        self, model: Pretrained, direction: Direction, device: str | torch.device = "cpu"
    ) -> None:
        """Load the network.

        Args:
            model: Model with a softmax and a vocabulary.
            direction: "forward" predicts the word after, "backward" the word before.
            device: Device of the computation.

        Raises:
            ConfigError: The model has no softmax or no vocabulary, or the device does not exist.
        """
        if direction not in ("forward", "backward"):
            raise ConfigError(f"direction must be forward or backward (got {direction!r}).")
        if not model.config.n_softmax_words:
            raise ConfigError(
                f"This {model.origin} has no softmax and cannot write text. Specify its softmax "
                "file with --softmax, or train a softmax with elmo finetune."
            )
        if model.vocabulary is None:
            raise ConfigError(
                f"This {model.origin} has a softmax but no vocabulary. Specify the vocabulary file "
                "with --vocab."
            )
        model.vocabulary.require_special_tokens()
        network = ELMoNetwork(config=model.config)
        network.load_state_dict(dict(model.weights))
        move(network.eval().requires_grad_(False), device)
        assert network.softmax is not None
        self.encoder, self.softmax = network.bilm.encoder, network.softmax
        is_forward = direction == "forward"
        self.stack = network.bilm.forward_lstm if is_forward else network.bilm.backward_lstm
        self.config, self.device = model.config, torch.device(device)
        share = (model.training or {}).get(RESET_SHARE)
        self.resets = isinstance(share, float | int) and share >= 0.5
        self.vocabulary = model.vocabulary
        ids = model.vocabulary.ids
        self.border = ids[END_TOKEN if is_forward else BEGIN_TOKEN]
        self.excluded = (ids[UNKNOWN], ids[BEGIN_TOKEN if is_forward else END_TOKEN])
        self.kernels = compile_kernels(network.bilm.named_parameters())
        self._mapper = token_mapper(model.config, model.characters, model.words)
        self._ids = dict(ids)
        self._words = list(model.vocabulary.words)
        self._first_row = self._mapper.boundaries()[0 if is_forward else 1]
        self._vectors: dict[int, Tensor] = {}

    @property
    def n_symbols(self) -> int:
        """Number of words of the softmax."""
        return self.config.n_softmax_words

    def add_words(self, words: Sequence[str]) -> list[int]:
        """Return the ids of words, which are new ones for words that are not in the softmax."""
        for word in words:
            if word not in self._ids:
                self._ids[word] = len(self._words)
                self._words.append(word)
        return [self._ids[word] for word in words]

    def start(self, n: int) -> LSTMState:
        """Return a state of zeros, of one direction."""
        zeros = LSTMState.zeros(self.config.lstm, n, device=self.device)
        return LSTMState(zeros.h[:, :1], zeros.c[:, :1])

    def repeat(self, state: LSTMState, n: int) -> LSTMState:
        """Return the state of one row for `n` rows."""
        return state.select(torch.zeros(n, dtype=torch.long, device=self.device))

    @torch.no_grad()
    def read(self, ids: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """Read words, (time, n), in the order of the direction; see `StepwiseModel.read`."""
        outputs, state = self.hidden(ids, state)
        if isinstance(self.softmax, nn.AdaptiveLogSoftmaxWithLoss):
            return self.softmax.log_prob(outputs[-1]), state
        return functional.log_softmax(self.softmax(outputs[-1]), dim=-1), state

    @torch.no_grad()
    def hidden(self, ids: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """Read words, (time, n), and return the input of the softmax, (time, n, dim)."""
        distinct, index = torch.unique(ids, return_inverse=True)
        table = self._token_vectors(distinct.tolist())
        resets = (ids == self.border).to(self.device) if self.resets else None
        return self.run(functional.embedding(index.to(self.device), table), resets, state)

    def run(self, x: Tensor, resets: Tensor | None, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """Run all layers.

        Args:
            x: Token vectors, (time, n, dim).
            resets: Whether a sentence begins with a zero state at each position, (time, n).
            state: State before the first position.

        Returns:
            Output of the last layer, (time, n, dim), and the state after the last position.
        """
        n_steps, n_rows = x.shape[:2]
        mask = torch.ones(n_steps, n_rows, dtype=torch.bool, device=self.device)
        call = StackCall(self.stack, x, StepMask(mask, [n_rows] * n_steps, resets), reverse=False)
        (outputs,), state = run_stacks([call], state, kernels=self.kernels)
        return outputs[-1], state

    def step(self, ids: Tensor, state: LSTMState) -> tuple[Tensor, LSTMState]:
        """Read one word of each row, (n,)."""
        return self.read(ids.unsqueeze(0), state)

    def _token_vectors(self, ids: Sequence[int]) -> Tensor:
        """Return the vectors of words, (words, dim). Each word is encoded once.

        Encoding all words of the softmax in advance would take minutes for a large vocabulary.
        """
        new = [number for number in ids if number not in self._vectors]
        if new:
            rows = self._mapper.rows([self._words[number] for number in new])
            if self.border in new:
                rows[new.index(self.border)] = self._first_row
            tensor = torch.from_numpy(rows).to(self.device)
            vectors = self.encoder(tensor, kernels=self.kernels)
            self._vectors.update(zip(new, vectors.unbind(), strict=True))
        return torch.stack([self._vectors[number] for number in ids])
