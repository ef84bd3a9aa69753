"""What `embed` tells when it is done."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EmbedResult:
    """What `embed` did.

    Attributes:
        output: the file or folder written.
        n_sentences: lines read, blank ones included.
        n_words: words embedded.
        seconds: time it took, without loading the model.
    """

    output: str
    n_sentences: int
    n_words: int
    seconds: float

    def __str__(self) -> str:
        """Say it in one line."""
        return (
            f"{self.output}: {self.counts()} in {self.seconds:.1f} s ({self.rate():,.0f} words/s)"
        )

    def counts(self) -> str:
        """Say how much there is."""
        return f"{count(self.n_sentences, 'sentence')}, {count(self.n_words, 'word')}"

    def rate(self) -> float:
        """Give words a second."""
        return self.n_words / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class JobResult(EmbedResult):
    """What `embed` did with many texts.

    Attributes:
        n_shards: files of vectors in the folder.
        n_bytes: of all of them.
        estimated_bytes: what they were thought to take at most, before the start.
        n_new_shards: shards written by this call; the others were there.
        n_new_words: words in them.
    """

    n_shards: int
    n_bytes: int
    estimated_bytes: int
    n_new_shards: int
    n_new_words: int

    def __str__(self) -> str:
        """Say it in one line."""
        whole = f"{self.output}: {self.counts()} in {count(self.n_shards, 'shard')}"
        whole += f", {size(self.n_bytes)}"
        if not self.n_shards:
            return f"{whole}: there was nothing to embed"
        if not self.n_new_shards:
            return f"{whole}; it was finished before, and nothing was done"
        before = self.n_shards - self.n_new_shards
        after = f", {count(before, 'shard')} before" if before else ""
        return f"{whole} in {self.seconds:.1f} s ({self.rate():,.0f} words/s{after})"

    def rate(self) -> float:
        """Give words a second, of this call."""
        return self.n_new_words / max(self.seconds, 1e-9)


def count(number: int, noun: str) -> str:
    """Give a number with its noun."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def size(n_bytes: float) -> str:
    """Give bytes in a unit that suits."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "bytes" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:,.1f} TB"
