"""Metrics of the server for Prometheus, in a registry of their own.

Labels are patterns of paths, statuses and configured names only, so their number is bounded.
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from elmo.inference.word_cache import WordCache
from elmo.serve.batch_worker import BatchReport
from elmo.serve.request_facts import RequestFacts

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
WORDS = (16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384)
CANCELLED = 499


class ServerMetrics:
    """Counters and histograms of requests and batches."""

    def __init__(self) -> None:
        """Create all metrics."""
        registry = self.registry = CollectorRegistry()
        self._requests = Counter(
            "elmo_requests", "Requests.", ["route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "elmo_request_seconds",
            "Seconds until a request is answered.",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self._queue_seconds = Histogram(
            "elmo_queue_seconds",
            "Seconds that a request waits for its first batch.",
            buckets=SECONDS,
            registry=registry,
        )
        labels = ["operation", "model"]
        self._compute_seconds = Histogram(
            "elmo_batch_seconds",
            "Seconds to compute a batch.",
            labels,
            buckets=SECONDS,
            registry=registry,
        )
        self._batch_words = Histogram(
            "elmo_batch_words",
            "Positions per batch.",
            labels,
            buckets=WORDS,
            registry=registry,
        )
        self._words = Counter("elmo_words", "Computed positions.", labels, registry=registry)
        self._rejected = Counter(
            "elmo_rejected_requests",
            "Requests that were rejected because of the load.",
            ["status"],
            registry=registry,
        )
        self._cancelled = Counter(
            "elmo_cancelled_requests",
            "Requests whose client closed the connection.",
            registry=registry,
        )

    def watch(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Add a gauge that is read when the metrics are."""
        Gauge(name, text, registry=self.registry).set_function(value)

    def watch_caches(self, caches: Callable[[], Mapping[str, WordCache]]) -> None:
        """Add counters of the word caches, by model."""
        self.registry.register(_CacheCollector(caches))

    def add_batch(self, report: BatchReport) -> None:
        """Count a batch."""
        labels = (report.operation, report.subject)
        self._compute_seconds.labels(*labels).observe(report.seconds)
        self._batch_words.labels(*labels).observe(report.n_words)
        self._words.labels(*labels).inc(report.n_words)
        for seconds in report.waits:
            self._queue_seconds.observe(seconds)

    def add_request(self, facts: RequestFacts, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(facts.route, str(status)).inc()
        self._seconds.labels(facts.route).observe(seconds)
        if status in (429, 503):
            self._rejected.labels(str(status)).inc()
        if status == CANCELLED:
            self._cancelled.inc()

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)


class _CacheCollector(Collector):
    """Reads the counters of word caches."""

    def __init__(self, caches: Callable[[], Mapping[str, WordCache]]) -> None:
        self._caches = caches

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the numbers of words that were in the caches and that were not."""
        hits = CounterMetricFamily(
            "elmo_word_cache_hits", "Words whose vectors were cached.", labels=["model"]
        )
        misses = CounterMetricFamily(
            "elmo_word_cache_misses", "Words whose vectors were computed.", labels=["model"]
        )
        for name, cache in self._caches().items():
            hits.add_metric([name], cache.n_found)
            misses.add_metric([name], cache.n_computed)
        yield hits
        yield misses
