"""Encodes sentences as word vectors: batching, computation, unpacking.

An `EncodingRun` has fixed settings. When the state is reset for each sentence, its vectors do not
depend on other sentences, apart from rounding, and the results do not depend on the order of the
input.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.config import Layers, Pooling
from elmo.embed.layer_selection import (
    as_integer,
    layer_selector,
    n_lstm_layers,
    needs_boundaries,
    pool_sentence,
)
from elmo.embed.pending_batch import (
    PendingBatch,
    check_finite,
    similar_length_ranges,
    start_copy_to_host,
    to_array,
)
from elmo.embed.sentence_groups import (
    Group,
    Key,
    PendingGroup,
    Vectors,
    batches_by_length,
    count_positions,
)
from elmo.errors import ConfigError, InputError, shortened
from elmo.inference.engine import Engine
from elmo.inference.engine_slot import EngineSlot
from elmo.inference.precision import resolve_precision
from elmo.inference.word_cache import WordCache
from elmo.kernels.device import HALF_DTYPES, is_out_of_memory, to_device
from elmo.kernels.exact_float32 import exact_float32
from elmo.model.bilm import BiLMOutput
from elmo.model.lstm import LSTMState
from elmo.model.network import ELMoNetwork
from elmo.text.token_batches import Sentence, TokenMapper

# Maximum number of positions per batch, including padding; long sentences get smaller batches.
MAX_POSITIONS = {"cpu": 8192, "cuda": 65536}
# Default number of sentences per batch. With a carried state, the number of rows affects the
# result, so it is the same on all devices.
BATCH_SIZES = {"cpu": 256, "cuda": 4096}
CARRIED_ROWS = 32
# Number of computed batches of a GPU that wait to be unpacked, and number of threads that unpack
# them. Filling new memory is the slowest step, and one thread fills about two gigabytes per second.
BATCHES_AHEAD = 2
UNPACK_THREADS = 4
# Maximum number of values copied at once when a batch is unpacked. An array that the caller keeps
# can keep this many values in memory.
CHUNK_VALUES = 2**21


def _no_report(key: object, count: int) -> None:
    pass


class EncodingRun:
    """Encodes sentences in batches, with fixed layers and precision."""

    def __init__(
        self,
        network: ELMoNetwork,
        mapper: TokenMapper,
        *,
        layers: Layers,
        pooling: Pooling | None = None,
        batch_size: int | None,
        precision: torch.dtype | str | None = None,
        keep_on_device: bool = False,
        host_dtype: torch.dtype = torch.float32,
        cache: WordCache | None = None,
        engines: EngineSlot | None = None,
        device: torch.device | None = None,
        boundaries: bool = False,
    ) -> None:
        """Prepare an encoding run.

        `ELMo.encode` documents layers, pooling, batch size, precision and cache. With a pooling,
        the vectors of a sentence are one vector, and its word vectors are freed with their batch.
        With `keep_on_device`, tensors are returned instead of arrays. With the host dtype float16,
        encoding raises `VectorOverflow` if a value becomes infinite. By default, the run has its
        own engines of the network. `device` is the one to which the caller moves the network before
        encoding; by default, that of the network. With `boundaries`, the vectors of a sentence
        include those of the boundary tokens, first and last.
        """
        size = as_integer(batch_size)
        if batch_size is not None and (size is None or size < 1):
            value = shortened(repr(batch_size), 60)
            raise ConfigError(f"batch_size must be an integer of at least 1 (got {value}).")
        if cache is not None and not isinstance(cache, WordCache):
            raise ConfigError(f"cache must be a WordCache (got {shortened(repr(cache), 60)}).")
        self.mapper = mapper
        self.batch_size = size
        self.keep_on_device = keep_on_device
        self._host_dtype = host_dtype
        self.device = next(network.parameters()).device if device is None else device
        # Threads unpack batches while a GPU computes the next ones. Tensors that stay on the
        # device are unpacked there, in the caller's CUDA stream.
        self.unpacks_in_threads = self.device.type == "cuda" and not keep_on_device
        # Number of positions of the smallest batch that ran out of memory so far.
        self._failed_positions = math.inf
        self._select = layer_selector(network, layers)
        self._needs_boundaries = boundaries or needs_boundaries(network, layers)
        self._keeps_boundaries = boundaries
        self._pooling = pooling
        self._n_layers = n_lstm_layers(network, layers)
        self.cache = cache
        self._bilm = network.bilm
        self._engines = EngineSlot() if engines is None else engines
        self._requested_precision = precision
        weights_dtype = next(network.bilm.parameters()).dtype
        lstm = network.bilm.config.lstm
        widths = (lstm.cell_dim, lstm.projection_dim)
        self._result_dtype = resolve_precision(
            precision, weights_dtype, self.device, widths
        ).results
        # Half precision results are transferred from a GPU as they are and widened on the host.
        is_narrowed = (
            self.unpacks_in_threads
            and self._result_dtype in HALF_DTYPES
            and host_dtype not in HALF_DTYPES
        )
        self._transfer_dtype = self._result_dtype if is_narrowed else host_dtype

    def _engine(self, n_positions: int, previous: Engine | None) -> Engine:
        """Return the engine for a group of sentences.

        The engine of the previous group is kept on a GPU, where weights may have to be converted.
        """
        if previous is not None and self.device.type != "cpu":
            return previous
        weights = dict(self._bilm.named_parameters())
        precision = self._requested_precision
        engine = self._engines.engine(weights, precision, n_positions, self._n_layers)
        if self.cache is not None:
            engine.snapshot.use(
                weight for name, weight in weights.items() if name.startswith("encoder.")
            )
        return engine

    def enable_word_cache(self) -> None:
        """Enable an empty word cache on a CPU; on a GPU, recomputing the vectors is cheaper."""
        if self.device.type == "cpu":
            self.cache = WordCache()

    def encode(
        self,
        sentences: Sequence[Sequence[str]],
        state: str = "reset",
        report: Callable[[int], None] = lambda count: None,
    ) -> list[Vectors]:
        """Encode sentences, one array each: (words, dim), or (layers, words, dim) for all layers.

        With a pooling, an array has no dimension of words.
        `state` is "reset" or "carry"; see the methods with the same names. `report` receives the
        number of sentences of each finished batch.
        """
        encode_groups = self.carry if state == "carry" else self.reset
        ((_, vectors),) = encode_groups([(None, sentences)], lambda _, count: report(count))
        return vectors

    def reset(
        self, groups: Iterable[Group[Key]], report: Callable[[Key, int], None] = _no_report
    ) -> Iterator[tuple[Key, list[Vectors]]]:
        """Encode groups of sentences, starting each sentence from the zero state.

        Repeated sentences in a group are computed once, and batches are formed from the sorted
        sentences, so that the result does not depend on the order of the input. On a GPU, the next
        batches are computed while a batch is unpacked, even if they belong to the next group.

        Groups have a key and are read a few batches ahead. `report` receives the key of a group and
        the number of its sentences in a finished batch.
        """
        pending: deque[PendingGroup[Key]] = deque()

        def started_batches() -> Iterator[PendingBatch]:
            engine: Engine | None = None
            for key, sentences in groups:
                group = PendingGroup(key, sentences)
                pending.append(group)
                engine = self._engine(group.n_positions, engine)
                for batch in self._batches(group.distinct):
                    yield from self._start(batch, engine)

        for batch, vectors in self._unpacked(started_batches()):
            group = next(group for group in pending if not group.is_complete)
            group.vectors.update(zip(batch.sentences, self._pooled(vectors), strict=True))
            report(group.key, sum(group.counts[sentence] for sentence in batch.sentences))
            while pending and pending[0].is_complete:
                yield pending[0].key, pending.popleft().results()
        for group in pending:
            yield group.key, group.results()

    def carry(
        self, groups: Iterable[Group[Key]], report: Callable[[Key, int], None] = _no_report
    ) -> Iterator[tuple[Key, list[Vectors]]]:
        """Encode batches in input order; each row continues from the state of the previous batch.

        The first batch starts from the zero state, and the final state is discarded. The arguments
        and the yielded values are the same as for `reset`.
        """
        table: LSTMState | None = None
        engine: Engine | None = None
        size = self.batch_size or CARRIED_ROWS
        for key, sentences in groups:
            results: list[Vectors] = []
            engine = self._engine(count_positions(sentences), engine)
            for start in range(0, len(sentences), size):
                batch = [tuple(sentence) for sentence in sentences[start : start + size]]
                rows = None if table is None else table.rows(len(batch))
                parts = self._start(batch, engine, rows, is_carried=True)
                state = LSTMState.joined([part.state for part in parts])
                table = state if table is None else table.updated(state)
                for part in parts:
                    results += self._pooled(self._unpack(part))
                report(key, len(batch))
            yield key, results

    def _batches(self, sentences: Sequence[tuple[str, ...]]) -> Iterator[list[tuple[str, ...]]]:
        size = self.batch_size or _for_device(BATCH_SIZES, self.device)
        return batches_by_length(sentences, size, _for_device(MAX_POSITIONS, self.device))

    def _unpacked(
        self, batches: Iterator[PendingBatch]
    ) -> Iterator[tuple[PendingBatch, list[Vectors]]]:
        """Yield each batch with the vectors of its sentences, in order."""
        if not self.unpacks_in_threads:
            for batch in batches:
                yield batch, self._unpack(batch)
            return
        pending: deque[tuple[PendingBatch, list[Future[list[Vectors]]]]] = deque()
        with ThreadPoolExecutor(UNPACK_THREADS, "encode") as pool:
            for batch in batches:
                parts = [
                    pool.submit(self._unpack_rows, batch, rows) for rows in self._row_ranges(batch)
                ]
                pending.append((batch, parts))
                if len(pending) > BATCHES_AHEAD:
                    yield _collect(*pending.popleft())
            while pending:
                yield _collect(*pending.popleft())

    def _start(
        self,
        sentences: Sequence[Sentence],
        engine: Engine,
        state: LSTMState | None = None,
        *,
        is_carried: bool = False,
    ) -> list[PendingBatch]:
        """Start computing a batch; split it into smaller ones if the device runs out of memory."""
        n_positions = len(sentences) * max(map(len, sentences))
        if n_positions < self._failed_positions or len(sentences) == 1:
            try:
                return [self._compute(sentences, engine, state, is_carried)]
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                if len(sentences) == 1:
                    raise InputError(
                        f"A sentence of {len(sentences[0])} words does not fit into the memory of "
                        f"{self.device}. Split the sentence, or use another device."
                    ) from None
            self._failed_positions = n_positions
            torch.cuda.empty_cache()
        half = len(sentences) // 2
        parts = (slice(None, half), slice(half, None))
        started: list[PendingBatch] = []
        for part in parts:
            rows = None if state is None else LSTMState(state.h[:, :, part], state.c[:, :, part])
            started += self._start(sentences[part], engine, rows, is_carried=is_carried)
        return started

    def _compute(
        self,
        sentences: Sequence[Sentence],
        engine: Engine,
        state: LSTMState | None,
        is_carried: bool,
    ) -> PendingBatch:
        tokens = self.mapper.distinct(sentences)
        lengths = tokens.lengths.tolist()
        index, ends = (to_device(ids, self.device) for ids in (tokens.index, tokens.lengths))
        mask = torch.arange(index.shape[1], device=self.device) < ends[:, None]
        # The requested precision also applies inside a caller's autocast.
        no_autocast = torch.autocast(self.device.type, enabled=False)
        with torch.inference_mode(), exact_float32(), no_autocast:
            cached, uncached = None, tokens.words
            if self.cache is not None:
                cached, uncached = self._cached_vectors(self.cache, tokens.words, engine), []
            rows = to_device(self.mapper.rows_with_boundaries(uncached), self.device)
            words_only = not is_carried and not self._needs_boundaries
            # A carried state needs all layers.
            n_layers = None if is_carried else self._n_layers
            args = (rows, index, mask, state, lengths, cached, words_only, n_layers)
            bilm = engine.with_weights(self._bilm)
            output: BiLMOutput = bilm(*args, kernels=engine.kernels)
            selected = self._select(output)
            counts = lengths
            if not self._keeps_boundaries:
                counts = [length - 2 for length in lengths]
                selected = selected if words_only else selected[..., 1:-1, :]
            if self.keep_on_device:
                vectors = selected.to(self._result_dtype)
                return PendingBatch(sentences, vectors, counts, output.state)
            vectors = selected.to(self._transfer_dtype)
            overflows = vectors.isinf().any() if self._host_dtype in HALF_DTYPES else None
            if self.device.type != "cuda":
                return PendingBatch(sentences, vectors.cpu(), counts, output.state, overflows)
            vectors = start_copy_to_host(vectors)
            overflows = None if overflows is None else start_copy_to_host(overflows)
            done = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            done.record(torch.cuda.current_stream(self.device))
        return PendingBatch(sentences, vectors, counts, output.state, overflows, done)

    def _cached_vectors(self, cache: WordCache, words: list[str], engine: Engine) -> Tensor:
        """Return the context-independent vectors of the boundary tokens and the given words."""

        def encode(rows: NDArray[np.int64]) -> Tensor:
            ids = to_device(rows, self.device)
            bilm = engine.with_weights(self._bilm)
            vectors: Tensor = bilm.encoder(ids, kernels=engine.kernels)
            return vectors

        owner = self._bilm.encoder, (engine.precision, engine.device, engine.snapshot.identity)
        boundaries = cache.boundaries(*owner, lambda: encode(self.mapper.boundaries()))
        if not words:
            return boundaries
        vectors = cache.look_up(words, *owner, lambda missing: encode(self.mapper.rows(missing)))
        return torch.cat([boundaries, vectors])

    def _unpack(self, batch: PendingBatch) -> list[Vectors]:
        """Return the vectors of each sentence in a batch."""
        return [
            vectors
            for rows in self._row_ranges(batch)
            for vectors in self._unpack_rows(batch, rows)
        ]

    def _pooled(self, vectors: list[Vectors]) -> list[Vectors]:
        """Return the vectors that are kept of each sentence."""
        if self._pooling is None:
            return vectors
        return [pool_sentence(item, self._pooling) for item in vectors]

    def _row_ranges(self, batch: PendingBatch) -> Iterator[range]:
        """Return the ranges of batch rows that are copied together.

        Rows are copied so that a reference to one sentence does not keep its whole batch in memory.
        Arrays are copied several rows at a time, because otherwise the Python overhead would exceed
        the cost of copying. Tensors are copied row by row, because saving a tensor saves all the
        memory that it shares with others.
        """
        row_size = max(1, batch.vectors.select(-3, 0).numel())
        max_rows = 1 if self.keep_on_device else max(1, CHUNK_VALUES // row_size)
        return similar_length_ranges(batch.lengths, max_rows)

    def _unpack_rows(self, batch: PendingBatch, rows: range) -> list[Vectors]:
        """Return the vectors of the given rows, one array per sentence."""
        if batch.done is not None:
            batch.done.synchronize()
        if batch.overflows is not None and bool(batch.overflows):
            check_finite(batch)
        counts = batch.lengths[rows.start : rows.stop]
        chunk = batch.vectors.narrow(-3, rows.start, len(counts)).narrow(-2, 0, max(counts))
        chunk = chunk.movedim(-3, 0)
        if self.keep_on_device:
            copied = chunk.to(self._result_dtype, copy=True)
            return [
                row.narrow(-2, 0, count).contiguous()
                for row, count in zip(copied.unbind(0), counts, strict=True)
            ]
        return [
            np.ascontiguousarray(row[..., :count, :])
            for row, count in zip(to_array(chunk, self._host_dtype), counts, strict=True)
        ]


def _collect(
    batch: PendingBatch, parts: list[Future[list[Vectors]]]
) -> tuple[PendingBatch, list[Vectors]]:
    return batch, [vectors for part in parts for vectors in part.result()]


def _for_device(sizes: dict[str, int], device: torch.device) -> int:
    return sizes.get(device.type, sizes["cpu"])
