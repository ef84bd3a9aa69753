"""Traces of the two directions of an ELMo, which reads each line as a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo.formats.pretrained import Pretrained
from elmo.inference.engine import compile_kernels
from elmo.kernels.device import move
from elmo.kernels.exact_float32 import exact_float32
from elmo.kernels.torch_kernels import Kernels
from elmo.lab.units.gates import elmo_gates
from elmo.lab.units.predictions import Predictions
from elmo.lab.units.sampled_text import sample_note
from elmo.lab.units.traces import Direction, Kind, Sentences, TextSample, Track, UnitTraces
from elmo.lab.units.word_lines import line_batches, sample_lines, split_lines
from elmo.model.lstm import LSTMLayer, LSTMState, StepMask
from elmo.model.network import ELMoNetwork
from elmo.text.characters import END_TOKEN
from elmo.text.token_batches import TokenMapper, token_mapper
from elmo.text.tokenizer import WhitespaceTokenizer
from elmo.text.tokenizers_by_name import get_tokenizer
from elmo.text.vocabulary import UNKNOWN, Vocabulary

# Predictions that are computed at a time.
PREDICTIONS = 256


@dataclass(frozen=True)
class ElmoUnits:
    """An ELMo network, ready to record its units.

    Attributes:
        network: The network, in evaluation mode.
        mapper: Converts words to the input of the network.
        tokenizer: Name of the tokenizer that splits a line into words.
        vocabulary: Words of the softmax, if there is one.
    """

    network: ELMoNetwork
    mapper: TokenMapper
    tokenizer: str
    vocabulary: Vocabulary | None

    @classmethod
    def load(cls, model: Pretrained, device: str | torch.device) -> "ElmoUnits":
        """Build the network of a model."""
        network = ELMoNetwork(config=model.config)
        network.load_state_dict(dict(model.weights))
        move(network.eval().requires_grad_(False), device)
        return cls(
            network,
            token_mapper(model.config, model.characters, model.words),
            model.config.text.tokenizer or WhitespaceTokenizer.name,
            model.vocabulary,
        )

    @property
    def can_predict(self) -> bool:
        """Whether the model has a softmax and knows its words."""
        ids = {} if self.vocabulary is None else self.vocabulary.ids
        return self.network.softmax is not None and UNKNOWN in ids and END_TOKEN in ids

    @cached_property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.network.parameters()).device

    @cached_property
    def kernels(self) -> Kernels:
        """Kernels, for weights that do not change."""
        return compile_kernels(self.network.bilm.named_parameters())

    @torch.no_grad()
    def traces(
        self,
        text: str | Sentences,
        *,
        kinds: Sequence[Kind],
        max_positions: int,
        n_guesses: int,
    ) -> UnitTraces:
        """Read a text; see `read_traces`. Each line starts from a zero state.

        The hidden state is that of the LSTM, before the input of the layer is added to it.
        """
        lines = split_lines(text, get_tokenizer(self.tokenizer).words)
        sentences, windows = sample_lines(lines, max_positions, n_ends=1)
        n_guesses = n_guesses if self.can_predict else 0
        predictions = Predictions(self._piece, n_guesses)
        recorded: dict[Track, list[Tensor]] = {}
        with exact_float32():
            for batch in line_batches(sentences):
                self._read_batch(batch, kinds, recorded, predictions if n_guesses else None)
        whole = [piece for words in lines for piece in (*words, "\n")]
        note = sample_note(windows, len(whole), "words and line breaks")
        pieces = tuple(piece for words in sentences for piece in (*words, "\n"))
        known = {"\n"} if self.vocabulary is None else {"\n", *self.vocabulary.ids}
        return UnitTraces(
            pieces=pieces,
            unit="words",
            values={track: torch.cat(parts).numpy() for track, parts in recorded.items()},
            surprisal=predictions.surprisal if n_guesses else None,
            guesses=predictions.guesses if n_guesses else None,
            note=note,
            sample=TextSample(windows, whole) if note else None,
            unknown=frozenset(
                row for row, piece in enumerate(pieces) if n_guesses and piece not in known
            ),
        )

    def _piece(self, number: int) -> str:
        assert self.vocabulary is not None
        word = self.vocabulary.words[number]
        return "\n" if word == END_TOKEN else word

    def _read_batch(
        self,
        sentences: Sequence[Sequence[str]],
        kinds: Sequence[Kind],
        recorded: dict[Track, list[Tensor]],
        predictions: Predictions | None,
    ) -> None:
        """Add the values of sentences to `recorded`, and their predictions."""
        bilm = self.network.bilm
        kernels = self.kernels
        tokens = self.mapper.distinct(sentences)
        rows = torch.from_numpy(self.mapper.rows_with_boundaries(tokens.words)).to(self.device)
        index = torch.from_numpy(tokens.index).to(self.device)
        mask = torch.arange(index.shape[1])[:, None] < torch.from_numpy(tokens.lengths)
        step_mask = StepMask(mask.to(self.device), None)
        vectors = functional.embedding(index.t(), bilm.encoder(rows, kernels=kernels))
        # Words and `</S>`, sentence after sentence.
        is_piece = mask.t().clone()
        is_piece[:, 0] = False
        zeros = LSTMState.zeros(bilm.config.lstm, len(sentences), device=self.device)
        directions: tuple[Direction, Direction] = ("forward", "backward")
        for direction, stack in zip(
            directions, (bilm.forward_lstm, bilm.backward_lstm), strict=True
        ):
            x = vectors
            for depth, layer in enumerate(stack.layers):
                assert isinstance(layer, LSTMLayer)
                h, c = zeros.h[depth, 0], zeros.c[depth, 0]
                call = layer.kernel_call(x, h, c, step_mask, direction == "backward")
                ((hidden, _, _),) = kernels.lstm([call])
                values = {"hidden": hidden}
                if set(kinds) != {"hidden"}:
                    values |= elmo_gates(call, hidden)
                for name, value in values.items():
                    if name in kinds:
                        track = Track(depth, direction, cast(Kind, name))
                        chosen = value.transpose(0, 1).float().cpu()[is_piece]
                        recorded.setdefault(track, []).append(chosen)
                x = hidden + x if stack.residual and depth > 0 else hidden
            if direction == "forward" and predictions is not None:
                # The vector before a piece predicts it.
                self._predict(x[:-1].transpose(0, 1)[is_piece[:, 1:]], sentences, predictions)

    def _predict(
        self, hidden: Tensor, sentences: Sequence[Sequence[str]], predictions: Predictions
    ) -> None:
        """Add the predictions of all words and ends of sentences."""
        softmax, vocabulary = self.network.softmax, self.vocabulary
        assert softmax is not None
        assert vocabulary is not None
        ids = vocabulary.ids
        unknown = ids[UNKNOWN]
        words = [word for sentence in sentences for word in (*sentence, END_TOKEN)]
        targets = np.array([ids.get(word, unknown) for word in words], dtype=np.int32)
        for first in range(0, len(targets), PREDICTIONS):
            part = hidden[first : first + PREDICTIONS]
            if isinstance(softmax, nn.AdaptiveLogSoftmaxWithLoss):
                scores = softmax.log_prob(part)
            else:
                scores = functional.log_softmax(softmax(part), dim=-1)
            predictions.add(scores, targets[first : first + PREDICTIONS])
