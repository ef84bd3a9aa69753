"""Results that `embed` returns and the command line prints."""

from dataclasses import dataclass

from elmo.progress import duration, format_count


@dataclass(frozen=True)
class EmbedResult:
    """Result of embedding a text into a single file.

    Sentences include blank lines. The elapsed seconds exclude the time to load the model. `n_empty`
    sentences have no words; None if a part of the vectors was written by an earlier version.
    """

    out: str
    n_sentences: int
    n_words: int
    seconds: float
    n_empty: int | None

    def __str__(self) -> str:
        time = duration(self.seconds, decimal=True)
        return f"{self.out}: {self.counts()} in {time} ({self.rate():,.0f} words/s)"

    def counts(self) -> str:
        """Return the sentence and word counts as text."""
        empty = f" ({self.n_empty:,} without words)" if self.n_empty else ""
        sentences = format_count(self.n_sentences, "sentence")
        return f"{sentences}{empty}, {format_count(self.n_words, 'word')}"

    def rate(self) -> float:
        """Return the speed in words per second."""
        return self.n_words / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class JobResult(EmbedResult):
    """Result of embedding texts into a folder of shards.

    `estimated_bytes` is the upper bound on the total size that was estimated before the job
    started. New shards and words were written by this call.
    """

    n_shards: int
    n_bytes: int
    estimated_bytes: int
    n_new_shards: int
    n_new_words: int

    def __str__(self) -> str:
        total = f"{self.out}: {self.counts()} in {format_count(self.n_shards, 'shard')}"
        total += f", {format_size(self.n_bytes)}"
        if not self.n_sentences:
            return f"{total}: the input is empty"
        if not self.n_new_shards:
            return f"{total}; the job was already finished"
        n_old_shards = self.n_shards - self.n_new_shards
        old = f", {format_count(n_old_shards, 'shard')} written earlier" if n_old_shards else ""
        time = duration(self.seconds, decimal=True)
        return f"{total} in {time} ({self.rate():,.0f} words/s{old})"

    def rate(self) -> float:
        """Return the speed of this call in words per second."""
        return self.n_new_words / max(self.seconds, 1e-9)


def format_size(n_bytes: float) -> str:
    """Format a size in bytes with a suitable unit."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "bytes" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:,.1f} TB"
