"""Sentences to the vectors of their words: who shares a batch, and how it is taken apart.

`EncodingRun` is one run with fixed settings. What it gives for a sentence from the zero state
depends on that sentence alone, but for rounding; what it gives for a set of sentences, not on their
order.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call

from elmo.config import Layers
from elmo.embed.compute_dtype import resolve_compute_dtype
from elmo.embed.layer_selection import choose_layers, lstm_layers, needs_boundaries, whole
from elmo.embed.pending_batch import PendingBatch, alike, as_array, check_words, sent_back
from elmo.embed.word_cache import WordCache
from elmo.errors import ConfigError, InputError
from elmo.kernels.compute_precision import computing_in
from elmo.kernels.device import HALF_DTYPES, is_out_of_memory, to_device
from elmo.kernels.exact_float32 import exact_float32
from elmo.model.bilm import BiLMOutput
from elmo.model.lstm import LSTMState
from elmo.model.network import ELMoNetwork
from elmo.text.token_batches import Sentence, TokenMapper

# Positions computed together, padding included; longer sentences go in smaller batches.
MAX_POSITIONS = {"cpu": 8192, "cuda": 65536}
# Sentences computed together where nothing is asked for; and rows of a state that is carried,
# which is another thing on each device if they are not the same everywhere.
SENTENCES = {"cpu": 256, "cuda": 4096}
CARRIED_ROWS = 32
# Batches of a GPU that wait to be taken apart, and threads that do it: a gigabyte of new memory is
# the slowest part of all, and one thread fills some two in a second.
AHEAD = 2
CUTTERS = 4
# Values copied together when a batch is taken apart: what an array that is kept keeps at most.
PIECE = 2**21

# Those of a sentence: on the host an array, which is made in less time than a tensor.
Vectors = NDArray[np.floating[Any]] | Tensor
Key = TypeVar("Key")
Group = tuple[Key, Sequence[Sequence[str]]]


def _tell_nobody(key: object, count: int) -> None:
    pass


class _Asked(Generic[Key]):
    """Sentences that are wanted together, and what has been found of them."""

    def __init__(self, key: Key, sentences: Sequence[Sequence[str]]) -> None:
        self.key = key
        self.sentences = [tuple(sentence) for sentence in sentences]
        self.counts: Counter[Sentence] = Counter(self.sentences)
        self.distinct = list(dict.fromkeys(self.sentences))
        self.found: dict[Sentence, Vectors] = {}

    @property
    def is_complete(self) -> bool:
        return len(self.found) == len(self.counts)

    def results(self) -> list[Vectors]:
        """Give the vectors of each sentence, and to each its own."""
        results = [self.found[sentence] for sentence in self.sentences]
        if len(self.counts) < len(self.sentences):
            handed_out: set[Sentence] = set()
            for place, sentence in enumerate(self.sentences):
                if sentence in handed_out:
                    results[place] = _copied(results[place])
                handed_out.add(sentence)
        return results


class EncodingRun:
    """Turns batches of sentences into vectors with one choice of layers and arithmetic."""

    def __init__(
        self,
        network: ELMoNetwork,
        mapper: TokenMapper,
        *,
        layers: Layers,
        batch_size: int | None,
        precision: torch.dtype | str | None = None,
        keep_on_device: bool = False,
        host: torch.dtype = torch.float32,
        cache: WordCache | None = None,
    ) -> None:
        """Prepare a run.

        Args:
            network: its weights are read, not changed.
            mapper: turns words into ids.
            layers: "average", "mix", "top", "all" or a layer number.
            batch_size: sentences computed together, at most; None for what suits the device.
            precision: the arithmetic, or its name; that of the weights where None.
            keep_on_device: give tensors of that arithmetic on the device of the network, not
                arrays on the host.
            host: type of those arrays, float32 or float16; `DoesNotFit` where a number becomes
                infinite.
            cache: keeps the vectors of words before their context.
        """
        size = whole(batch_size)
        if batch_size is not None and (size is None or size < 1):
            raise ConfigError(
                f"batch_size is {batch_size!r}; it must be a whole number, at least 1"
            )
        if cache is not None and not isinstance(cache, WordCache):
            raise ConfigError(f"cache is {cache!r:.60}; expected a WordCache")
        self.mapper = mapper
        self.batch_size = size
        self.keep_on_device = keep_on_device
        self._host = host
        self.device = next(network.parameters()).device
        # A thread takes batches apart while a GPU is at the next one. Tensors that stay on the
        # device are cut there, in the caller's stream.
        self.is_cut_aside = self.device.type == "cuda" and not keep_on_device
        # Places of a batch that did not fit: none as large is tried again.
        self._too_many = math.inf
        self._choose = choose_layers(network, layers)
        self._needs_marks = needs_boundaries(network, layers)
        self._n_layers = lstm_layers(network, layers)
        self.cache = cache
        self._bilm = network.bilm
        self._run: Callable[..., BiLMOutput] = network.bilm
        self._encode: Callable[..., Tensor] = network.bilm.encoder
        own_dtype = next(network.bilm.parameters()).dtype
        self._arithmetic = resolve_compute_dtype(precision, own_dtype, self.device)
        self._dtype = self._arithmetic.results
        # Half precision, where it is asked for, is what travels from a GPU.
        is_narrowed = self.is_cut_aside and self._dtype in HALF_DTYPES and host not in HALF_DTYPES
        self._travels = self._dtype if is_narrowed else host
        if self._arithmetic.weights != own_dtype:
            weights = {
                name: value.detach().to(self._arithmetic.weights)
                for name, value in network.bilm.named_parameters()
            }
            self._run = _with_weights(network.bilm, weights)
            self._encode = _with_weights(network.bilm.encoder, _below("encoder.", weights))

    def remember_words(self) -> None:
        """Keep the vectors of words from here on, where making them again costs more."""
        if self.device.type == "cpu":
            self.cache = WordCache()

    def encode(
        self,
        sentences: Sequence[Sequence[str]],
        state: str = "reset",
        report: Callable[[int], None] = lambda count: None,
    ) -> list[Vectors]:
        """Encode sentences.

        Args:
            sentences: lists of words.
            state: where each begins: "reset" or "carry", as the methods of these names.
            report: told how many sentences are done after each batch.

        Returns:
            For each sentence (words, dim), or (layers, words, dim) for "all".
        """
        way = self.carry if state == "carry" else self.reset
        ((_, vectors),) = way([(None, sentences)], lambda _, count: report(count))
        return vectors

    def reset(
        self, groups: Iterable[Group[Key]], report: Callable[[Key, int], None] = _tell_nobody
    ) -> Iterator[tuple[Key, list[Vectors]]]:
        """Encode groups of sentences, each sentence from the zero state.

        Of a group, sentences that stand more than once are computed once, and batches are formed
        from the sorted rest, so that neither order nor neighbours given by the caller decide
        anything. A GPU is given the next batches while one is taken apart, of the next group too.

        Args:
            groups: what a group is known by, and its sentences; read some batches ahead.
            report: told how many sentences of a group are done after each batch.

        Yields:
            What a group is known by, and the vectors of its sentences as `encode` gives them.
        """
        waiting: deque[_Asked[Key]] = deque()

        def begun() -> Iterator[PendingBatch]:
            for key, sentences in groups:
                waiting.append(_Asked(key, sentences))
                for batch in self._batches(waiting[-1].distinct):
                    yield from self._start(batch)

        for started, vectors in self._taken_apart(begun()):
            group = next(group for group in waiting if not group.is_complete)
            group.found.update(zip(started.sentences, vectors, strict=True))
            report(group.key, sum(group.counts[sentence] for sentence in started.sentences))
            while waiting and waiting[0].is_complete:
                yield waiting[0].key, waiting.popleft().results()
        for group in waiting:
            yield group.key, group.results()

    def carry(
        self, groups: Iterable[Group[Key]], report: Callable[[Key, int], None] = _tell_nobody
    ) -> Iterator[tuple[Key, list[Vectors]]]:
        """Encode batches in the order given, each row going on from the same row of the last one.

        The first begins with zeros; nothing is remembered afterwards. Arguments and what is given
        are those of `reset`.
        """
        table: LSTMState | None = None
        size = self.batch_size or CARRIED_ROWS
        for key, sentences in groups:
            results: list[Vectors] = []
            for start in range(0, len(sentences), size):
                batch = [tuple(sentence) for sentence in sentences[start : start + size]]
                rows = None if table is None else table.rows(len(batch))
                parts = self._start(batch, rows, is_carried=True)
                state = LSTMState.joined([part.state for part in parts])
                table = state if table is None else table.updated(state)
                for part in parts:
                    results += self._vectors(part)
                report(key, len(batch))
            yield key, results

    def _batches(self, sentences: Sequence[tuple[str, ...]]) -> Iterator[list[tuple[str, ...]]]:
        size = self.batch_size or _of_device(SENTENCES, self.device)
        return batches_by_length(sentences, size, _of_device(MAX_POSITIONS, self.device))

    def _taken_apart(
        self, everything: Iterator[PendingBatch]
    ) -> Iterator[tuple[PendingBatch, list[Vectors]]]:
        """Give batches and their vectors, in their order."""
        if not self.is_cut_aside:
            for started in everything:
                yield started, self._vectors(started)
            return
        waiting: deque[tuple[PendingBatch, list[Future[list[Vectors]]]]] = deque()
        with ThreadPoolExecutor(CUTTERS, "encode") as pool:
            for started in everything:
                parts = [pool.submit(self._cut, started, rows) for rows in self._pieces(started)]
                waiting.append((started, parts))
                if len(waiting) > AHEAD:
                    yield _joined(*waiting.popleft())
            while waiting:
                yield _joined(*waiting.popleft())

    def _start(
        self,
        sentences: Sequence[Sentence],
        state: LSTMState | None = None,
        *,
        is_carried: bool = False,
    ) -> list[PendingBatch]:
        """Set a batch going; in several parts where the memory of the device asks for it."""
        n_places = len(sentences) * max(map(len, sentences))
        if n_places < self._too_many or len(sentences) == 1:
            try:
                return [self._compute(sentences, state, is_carried)]
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                if len(sentences) == 1:
                    raise InputError(
                        f"a sentence of {len(sentences[0])} words does not fit the memory of "
                        f"{self.device}: split it, or take another device"
                    ) from None
            self._too_many = n_places
            torch.cuda.empty_cache()
        half = len(sentences) // 2
        parts = (slice(None, half), slice(half, None))
        started: list[PendingBatch] = []
        for part in parts:
            rows = None if state is None else LSTMState(state.h[:, :, part], state.c[:, :, part])
            started += self._start(sentences[part], rows, is_carried=is_carried)
        return started

    def _compute(
        self, sentences: Sequence[Sentence], state: LSTMState | None, is_carried: bool
    ) -> PendingBatch:
        tokens = self.mapper.distinct(sentences)
        lengths = tokens.lengths.tolist()
        index, ends = self._sent(tokens.index), self._sent(tokens.lengths)
        mask = torch.arange(index.shape[1], device=self.device) < ends[:, None]
        # The arithmetic is the one asked for, also inside somebody's autocast.
        plain = torch.autocast(self.device.type, enabled=False)
        kernels = computing_in(self._arithmetic.cpu_precision)
        with torch.inference_mode(), exact_float32(), plain, kernels:
            known, spelled = None, tokens.words
            if self.cache is not None:
                known, spelled = self._looked_up(self.cache, tokens.words), []
            rows = self._sent(self.mapper.rows_with_marks(spelled))
            words_only = not is_carried and not self._needs_marks
            # A state to go on with is that of all layers.
            n_layers = None if is_carried else self._n_layers
            output = self._run(rows, index, mask, state, lengths, known, words_only, n_layers)
            chosen = self._choose(output)
            if not words_only:
                chosen = chosen[..., 1:-1, :]
            counts = [length - 2 for length in lengths]
            if self.keep_on_device:
                return PendingBatch(sentences, chosen.to(self._dtype), counts, output.state)
            stored = chosen.to(self._travels)
            too_large = stored.isinf().any() if self._host in HALF_DTYPES else None
            if self.device.type != "cuda":
                return PendingBatch(sentences, stored.cpu(), counts, output.state, too_large)
            stored = sent_back(stored)
            too_large = None if too_large is None else sent_back(too_large)
            done = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            done.record(torch.cuda.current_stream(self.device))
        return PendingBatch(sentences, stored, counts, output.state, too_large, done)

    def _looked_up(self, cache: WordCache, words: list[str]) -> Tensor:
        """Give the vectors of the sentence marks and of words, most of them from the cache."""

        def compute(missing: list[str]) -> Tensor:
            return self._encode(self._sent(self.mapper.rows(missing)))

        arithmetic = f"{self._arithmetic} on {self.device}"
        marks = self._encode(self._sent(self.mapper.boundaries()))
        if not words:
            return marks
        found = cache.look_up(words, self._bilm.encoder, arithmetic, compute)
        return torch.cat([marks, found])

    def _sent(self, array: NDArray[Any]) -> Tensor:
        return to_device(array, self.device)

    def _vectors(self, started: PendingBatch) -> list[Vectors]:
        """Give the sentences of a batch."""
        return [vectors for rows in self._pieces(started) for vectors in self._cut(started, rows)]

    def _pieces(self, started: PendingBatch) -> Iterator[range]:
        """Give the rows that are copied together.

        Copied, so that a sentence that is kept does not keep its batch; several together, since one
        at a time Python takes longer than the copy. Tensors are copied each: with a tensor all it
        shares memory with is saved.
        """
        row_size = max(1, started.vectors.select(-3, 0).numel())
        together = 1 if self.keep_on_device else max(1, PIECE // row_size)
        return alike(started.lengths, together)

    def _cut(self, started: PendingBatch, rows: range) -> list[Vectors]:
        """Give the sentences of some rows."""
        if started.done is not None:
            started.done.synchronize()
        if started.too_large is not None and bool(started.too_large):
            check_words(started)
        counts = started.lengths[rows.start : rows.stop]
        piece = started.vectors.narrow(-3, rows.start, len(counts)).narrow(-2, 0, max(counts))
        piece = piece.movedim(-3, 0)
        if self.keep_on_device:
            copied = piece.to(self._dtype, copy=True)
            return [
                row.narrow(-2, 0, count).contiguous()
                for row, count in zip(copied.unbind(0), counts, strict=True)
            ]
        return [
            np.ascontiguousarray(row[..., :count, :])
            for row, count in zip(as_array(piece, self._host), counts, strict=True)
        ]


def _joined(
    started: PendingBatch, parts: list[Future[list[Vectors]]]
) -> tuple[PendingBatch, list[Vectors]]:
    return started, [vectors for part in parts for vectors in part.result()]


def _copied(vectors: Vectors) -> Vectors:
    return vectors.clone() if isinstance(vectors, Tensor) else vectors.copy()


def _of_device(sizes: dict[str, int], device: torch.device) -> int:
    return sizes.get(device.type, sizes["cpu"])


def _with_weights(module: torch.nn.Module, weights: dict[str, Tensor]) -> Callable[..., Any]:
    """Give a module that computes with other weights; its own stay as they are."""
    return lambda *inputs: functional_call(module, weights, inputs)


def _below(prefix: str, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Give the weights of a part by the names it has for them."""
    return {
        name.removeprefix(prefix): value
        for name, value in weights.items()
        if name.startswith(prefix)
    }


def batches_by_length(
    sentences: Sequence[tuple[str, ...]], batch_size: int, max_positions: int
) -> Iterator[list[tuple[str, ...]]]:
    """Cut distinct sentences into batches, longest first, ties in the order of their words."""
    ordered = sorted(sentences, key=lambda words: (-len(words), words))
    start = 0
    while start < len(ordered):
        length = len(ordered[start]) + 2
        count = min(batch_size, max(1, max_positions // length))
        yield ordered[start : start + count]
        start += count
