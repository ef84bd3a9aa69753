"""Cache of context-independent word vectors that persists between calls.

Most words in a text are repeated; with the cache, the character CNN computes each word only once.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import count
from threading import Lock
from weakref import ref

import torch
from torch import Tensor

from elmo.errors import ConfigError
from elmo.model.token_encoder import TokenEncoder

# Initial number of slots; the number doubles when all are used.
INITIAL_SLOTS = 1024


class WordCache:
    """Least-recently-used cache of word vectors for one model; safe to share between threads.

    Attributes:
        max_words: Maximum number of words; the least recently used word is evicted.
        n_found: Number of words that were found in the cache.
        n_computed: Number of words that had to be computed.
    """

    def __init__(self, max_words: int = 100_000) -> None:
        """Create an empty cache.

        Args:
            max_words: Maximum number of words.

        Raises:
            ConfigError: `max_words` is not an integer of at least 1.
        """
        if isinstance(max_words, bool) or not isinstance(max_words, int) or max_words < 1:
            raise ConfigError(f"max_words must be an integer of at least 1 (got {max_words!r}).")
        self.max_words = max_words
        self.n_found = self.n_computed = 0
        self._lock = Lock()
        self._encoder: ref[TokenEncoder] | None = None
        self._state: tuple[object, ...] = ()
        self._slots: OrderedDict[str, int] = OrderedDict()
        self._vectors = torch.empty(0)
        self._boundaries: Tensor | None = None

    def __len__(self) -> int:
        return len(self._slots)

    def boundaries(
        self, encoder: TokenEncoder, state: tuple[object, ...], compute: Callable[[], Tensor]
    ) -> Tensor:
        """Return the vectors of the boundary tokens, (2, dim); see `look_up`."""
        with self._lock:
            self._bind(encoder, state)
            if self._boundaries is None:
                self._boundaries = compute()
            return self._boundaries

    def look_up(
        self,
        words: Sequence[str],
        encoder: TokenEncoder,
        state: tuple[object, ...],
        compute: Callable[[list[str]], Tensor],
    ) -> Tensor:
        """Return the vectors of distinct words, of shape (words, dim).

        `compute` returns the vectors of missing words. The cache is cleared if the state
        (precision, device and identity of the weights) differs from that of the previous call. A
        cache of another model is an error.
        """
        with self._lock:
            self._bind(encoder, state)
            missing = [word for word in words if word not in self._slots]
            self.n_found += len(words) - len(missing)
            self.n_computed += len(missing)
            new = compute(missing) if missing else None
            if len(words) > self.max_words:
                # More words than slots: keep the first ones, because frequent words of a text
                # tend to come early.
                vectors = self._gather(words, missing, new)
                self._slots = OrderedDict(zip(words[: self.max_words], count(), strict=False))
                self._vectors = vectors[: self.max_words].clone()
                return vectors
            for word in words:
                if word in self._slots:
                    self._slots.move_to_end(word)
            if new is not None:
                new_slots = [self._allocate_slot(word) for word in missing]
                self._grow(max(new_slots) + 1, new)
                self._vectors[torch.tensor(new_slots, device=new.device)] = new
            slots = [self._slots[word] for word in words]
            return self._vectors[torch.tensor(slots, device=self._vectors.device)]

    def _gather(self, words: Sequence[str], missing: list[str], new: Tensor | None) -> Tensor:
        numbers = {word: number for number, word in enumerate(missing)}
        parts = [
            self._vectors[self._slots[word]]
            if new is None or word not in numbers
            else new[numbers[word]]
            for word in words
        ]
        return torch.stack(parts)

    def _bind(self, encoder: TokenEncoder, state: tuple[object, ...]) -> None:
        if self._encoder is not None and self._encoder() is not encoder:
            raise ConfigError(
                "The word cache belongs to another model. Create one WordCache per model."
            )
        self._encoder = ref(encoder)
        if state != self._state:
            self._slots.clear()
            self._state, self._vectors, self._boundaries = state, torch.empty(0), None

    def _allocate_slot(self, word: str) -> int:
        """Return a slot for a new word; evict the least recently used word if necessary."""
        slot = len(self._slots)
        if slot == self.max_words:
            _, slot = self._slots.popitem(last=False)
        self._slots[word] = slot
        return slot

    def _grow(self, n_slots: int, like: Tensor) -> None:
        if n_slots <= len(self._vectors):
            return
        size = min(self.max_words, max(n_slots, INITIAL_SLOTS, 2 * len(self._vectors)))
        larger = like.new_empty(size, like.shape[1])
        if len(self._vectors):
            larger[: len(self._vectors)] = self._vectors
        self._vectors = larger
