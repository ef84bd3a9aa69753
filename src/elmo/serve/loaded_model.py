"""A model of the server: an ELMo with its word cache, in one precision."""

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from elmo.config import Layers
from elmo.embed.embedder import ELMo
from elmo.embed.encoding import EncodingRun
from elmo.errors import MissingExtra
from elmo.inference.word_cache import WordCache
from elmo.kernels.device import move
from elmo.semantics.word_scorer import WordScorer

WARM_UP = [["The", "first", "batch", "compiles", "kernels", "and", "packs", "weights", "."]]

# A weight of the softmax takes as long as this many of the LSTM. Measured on a CPU, where
# positions with probabilities took 7 to 10 times as long as others.
SOFTMAX_WEIGHT_COST = 3


class LoadedModel:
    """An ELMo that the server uses under a name. Its weights do not change."""

    def __init__(self, name: str, elmo: ELMo, precision: str | None = None) -> None:
        """Keep the model; the words of requests share one cache on a CPU."""
        self.name, self.elmo, self.precision = name, elmo, precision
        is_cpu = next(elmo.parameters()).device.type == "cpu"
        # On a GPU, computing the vectors of words again is faster.
        self.cache = WordCache() if is_cpu else None
        self._runs: dict[str, EncodingRun] = {}

    @classmethod
    def load(
        cls, name: str, source: str, device: str | None = None, precision: str | None = None
    ) -> "LoadedModel":
        """Load a model and compute a first batch."""
        elmo = ELMo.from_pretrained(source)
        if device is not None:
            move(elmo, device)
        model = cls(name, elmo.eval(), precision)
        model.encode(WARM_UP, "average")
        # A missing tokenizer is an error of requests with text. Lists of words need none.
        with suppress(MissingExtra):
            elmo.tokenizer.words(" ".join(WARM_UP[0]))
        return model

    @cached_property
    def scorer(self) -> WordScorer:
        """Scorer of words; accessing it raises `ConfigError` if the model has no softmax."""
        return WordScorer(self.elmo, precision=self.precision, cache=self.cache)

    @cached_property
    def softmax_cost(self) -> int:
        """Cost of a position with its probabilities, in positions without them."""
        bilm, softmax = self.elmo.network.bilm, self.elmo.softmax()
        lstms = (bilm.forward_lstm, bilm.backward_lstm)
        n_lstm = sum(weight.numel() for lstm in lstms for weight in lstm.parameters())
        n_softmax = sum(weight.numel() for weight in softmax.parameters()) if softmax else 0
        return 1 + round(SOFTMAX_WEIGHT_COST * len(lstms) * n_softmax / n_lstm)

    def run(self, layers: str) -> EncodingRun:
        """Return the encoding run for layers, or raise `ConfigError` if the model has no such."""
        if layers not in self._runs:
            self._runs[layers] = self.elmo.encoding_run(
                layers=cast(Layers, layers), precision=self.precision, cache=self.cache
            )
        return self._runs[layers]

    def encode(self, sentences: Sequence[Sequence[str]], layers: str) -> list[NDArray[np.float32]]:
        """Return the word vectors of each sentence."""
        return cast(list[NDArray[np.float32]], self.run(layers).encode(sentences))
