"""The vectors of words before any context, kept from call to call: each is computed once.

Most of a text is words that were there before. The character CNN need not see them again.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import count
from threading import Lock
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from elmo.errors import ConfigError
from elmo.kernels.packing import weight_fingerprint
from elmo.model.token_encoder import TokenEncoder

# Words there is room for at first; the room doubles when it is full.
FIRST_ROOM = 1024


class WordCache:
    """Vectors of the words used last, for one model; several threads may share it.

    Attributes:
        max_words: words that are kept; beyond that the one not used for longest makes room.
        n_found: words that were in it.
        n_computed: words that were not.
    """

    def __init__(self, max_words: int = 100_000) -> None:
        """Begin with nothing.

        Args:
            max_words: how many are kept at most.
        """
        if isinstance(max_words, bool) or not isinstance(max_words, int) or max_words < 1:
            raise ConfigError(f"max_words is {max_words!r}; it must be a whole number, at least 1")
        self.max_words = max_words
        self.n_found = self.n_computed = 0
        self._lock = Lock()
        self._encoder: ref[TokenEncoder] | None = None
        self._state: Any = None
        self._places: OrderedDict[str, int] = OrderedDict()
        self._vectors = torch.empty(0)

    def __len__(self) -> int:
        """Count the words kept."""
        return len(self._places)

    def look_up(
        self,
        words: Sequence[str],
        encoder: TokenEncoder,
        arithmetic: str,
        compute: Callable[[list[str]], Tensor],
    ) -> Tensor:
        """Give the vectors of distinct words, (words, dim).

        Args:
            words: each once.
            encoder: whose vectors they are; another model's are refused.
            arithmetic: they are computed in; in another one, or with changed weights, all is new.
            compute: gives the vectors of words that are not there.
        """
        with self._lock:
            self._belong_to(encoder, arithmetic)
            missing = [word for word in words if word not in self._places]
            self.n_found += len(words) - len(missing)
            self.n_computed += len(missing)
            new = compute(missing) if missing else None
            if len(words) > self.max_words:
                # More than there is room for: the first ones are kept, as a text has its frequent
                # words early.
                vectors = self._mixed(words, missing, new)
                self._places = OrderedDict(zip(words[: self.max_words], count(), strict=False))
                self._vectors = vectors[: self.max_words].clone()
                return vectors
            for word in words:
                if word in self._places:
                    self._places.move_to_end(word)
            if new is not None:
                places = [self._place_of(word) for word in missing]
                self._make_room(max(places) + 1, new)
                self._vectors[torch.tensor(places, device=new.device)] = new
            found = [self._places[word] for word in words]
            return self._vectors[torch.tensor(found, device=self._vectors.device)]

    def _mixed(self, words: Sequence[str], missing: list[str], new: Tensor | None) -> Tensor:
        numbers = {word: number for number, word in enumerate(missing)}
        parts = [
            self._vectors[self._places[word]]
            if new is None or word not in numbers
            else new[numbers[word]]
            for word in words
        ]
        return torch.stack(parts)

    def _belong_to(self, encoder: TokenEncoder, arithmetic: str) -> None:
        if self._encoder is not None and self._encoder() is not encoder:
            raise ConfigError("the word cache belongs to another model: make one for each model")
        self._encoder = ref(encoder)
        state = (arithmetic, *map(weight_fingerprint, encoder.parameters()))
        if state != self._state:
            self._places.clear()
            self._state, self._vectors = state, torch.empty(0)

    def _place_of(self, word: str) -> int:
        """Find room for a new word, if need be that of the one not used for longest."""
        place = len(self._places)
        if place == self.max_words:
            _, place = self._places.popitem(last=False)
        self._places[word] = place
        return place

    def _make_room(self, n: int, like: Tensor) -> None:
        if n <= len(self._vectors):
            return
        size = min(self.max_words, max(n, FIRST_ROOM, 2 * len(self._vectors)))
        larger = like.new_empty(size, like.shape[1])
        if len(self._vectors):
            larger[: len(self._vectors)] = self._vectors
        self._vectors = larger
