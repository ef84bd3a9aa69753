"""The threads that compute batches of the queue."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock, Thread

from elmo.serve.fair_queue import Batch, FairQueue, Slice
from elmo.serve.thread_priority import lower_thread_priority

logger = logging.getLogger(__name__)

# Weight of earlier batches in the moving average of the rate.
DECAY = 0.9


@dataclass(frozen=True)
class BatchReport:
    """Measurements of a batch.

    Attributes:
        operation: Name of the operation.
        subject: Name of the model or task.
        n_words: Number of positions.
        seconds: Duration of the computation.
        waits: Seconds in the queue of the requests that began with this batch.
    """

    operation: str
    subject: str
    n_words: int
    seconds: float
    waits: Sequence[float]


class BatchWorker:
    """Takes what is queued as soon as it is free, and never waits for more.

    With several threads, the others take a batch when there is much in the queue. Each has moments
    in which only one core computes: words are looked up before the native library runs, and vectors
    are copied afterwards. Then the batch of another thread uses the other cores.
    """

    def __init__(
        self,
        queue: FairQueue,
        *,
        batch_words: int,
        n_threads: int = 1,
        report: Callable[[BatchReport], None] = lambda report: None,
    ) -> None:
        """Create a worker; `start` starts its threads.

        Args:
            queue: The queue. The worker ends when it is closed and empty.
            batch_words: Maximum number of positions per batch.
            n_threads: Number of threads, each of which computes one batch at a time.
            report: Function that receives the measurements of each batch, in a thread of the
                worker.
        """
        self._queue, self._batch_words, self._report = queue, batch_words, report
        self._words = self._seconds = 0.0
        # Of the batches in progress, and when the last one began or ended.
        self._words_in_progress, self._counted_until = 0, 0.0
        self._lock = Lock()
        self._threads = [
            Thread(target=self._run, args=(number > 0,), name=f"batches-{number}", daemon=True)
            for number in range(n_threads)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    @property
    def is_started(self) -> bool:
        """Whether the threads were started."""
        return all(thread.ident is not None for thread in self._threads)

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the threads have ended, and return whether they have."""
        end = None if timeout is None else time.monotonic() + timeout
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def words_per_second(self) -> float | None:
        """Moving average of the rate of all threads; None before the first batch."""
        return self._words / self._seconds if self._seconds else None

    @property
    def seconds_of_work(self) -> float:
        """Estimated time to compute the batches in progress and what is in the queue."""
        rate = self.words_per_second
        return (self._words_in_progress + self._queue.n_words) / rate if rate else 0.0

    def _run(self, much: bool) -> None:
        lower_thread_priority()
        while (batch := self._queue.take(self._batch_words, much=much)) is not None:
            try:
                self._process(batch)
            except Exception:  # the thread must go on
                logger.exception("A batch could not be recorded.")

    def _process(self, batch: Batch) -> None:
        """Compute a batch and report it."""
        started, n_words = time.monotonic(), batch.n_words
        waits = []
        with self._lock:
            if not self._words_in_progress:
                self._counted_until = started
            self._words_in_progress += n_words
            for part in batch.slices:
                if part.request.started_at is None:
                    part.request.started_at = started
                    waits.append(started - part.request.queued_at)
        try:
            self._compute(batch)
        finally:
            with self._lock:
                ended = time.monotonic()
                self._words_in_progress -= n_words
                self._words = DECAY * self._words + n_words
                self._seconds = DECAY * self._seconds + ended - self._counted_until
                self._counted_until = ended
        operation = batch.operation
        self._report(
            BatchReport(operation.name, operation.subject, n_words, ended - started, waits)
        )

    def _compute(self, batch: Batch) -> None:
        """Compute a batch. If this fails, compute each slice alone."""
        try:
            self._compute_slices(batch, batch.slices)
        except Exception as error:
            if len(batch.slices) == 1:
                batch.slices[0].request.fail(error)
                return
            # The message can contain text of a request.
            logger.warning(
                "A batch failed (%s). Its requests are computed alone.", type(error).__name__
            )
            for part in batch.slices:
                try:
                    self._compute_slices(batch, [part])
                except Exception as error_of_slice:
                    part.request.fail(error_of_slice)

    def _compute_slices(self, batch: Batch, slices: Sequence[Slice]) -> None:
        """Compute slices, without those of requests that were cancelled or have failed."""
        slices = [part for part in slices if not part.request.future.done()]
        items = [item for part in slices for item in part.items]
        if not items:
            return
        results = batch.operation.run(items)
        if len(results) != len(items):
            raise RuntimeError(f"{len(results)} results for {len(items)} items.")
        first = 0
        for part in slices:
            n_items = part.stop - part.start
            part.request.add_results(part.start, results[first : first + n_items])
            first += n_items
