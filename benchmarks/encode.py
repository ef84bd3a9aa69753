"""Benchmark `encode` on a GPU with the words of a prepared corpus.

    elmo prepare text.txt --out corpus
    python benchmarks/encode.py --data corpus [--sizes small original] [--sentences 10000]

The time is from words to layer-averaged vectors in host memory.
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from embed import SIZES, random_model
from machine import describe

from elmo.corpus.shards import Corpus


def cut_sentences(corpus: Corpus, n_sentences: int, n_words: int) -> list[list[str]]:
    """Return the first words of a corpus as sentences of equal length.

    Args:
        corpus: Prepared corpus.
        n_sentences: Number of sentences.
        n_words: Words per sentence.
    """
    split = corpus.splits["train"]
    tokens = np.concatenate([np.asarray(shard.words) for shard in split.shards])
    words = corpus.words.strings(0, len(corpus.words))
    if len(tokens) < n_sentences * n_words:
        raise SystemExit(
            f"The corpus has {len(tokens):,} words, too few for {n_sentences:,} sentences of "
            f"{n_words} words. Use fewer --sentences."
        )
    rows = tokens[: n_sentences * n_words].reshape(-1, n_words)
    return [[words[number] for number in row] for row in rows]


def main() -> None:
    """Print words per second for each model size and precision."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="Corpus written by `elmo prepare`.")
    parser.add_argument(
        "--sizes", nargs="+", default=list(SIZES), choices=list(SIZES), help="Model sizes."
    )
    parser.add_argument("--sentences", type=int, default=10_000, help="Number of sentences.")
    parser.add_argument("--words", type=int, default=25, help="Words per sentence.")
    parser.add_argument("--repeats", type=int, default=5, help="Timed calls; reports the median.")
    parser.add_argument("--device", default="cuda", help="Device.")
    parser.add_argument(
        "--precisions",
        nargs="+",
        default=["bfloat16", "float16", "float32"],
        help="Precisions of `encode`.",
    )
    args = parser.parse_args()
    sentences = cut_sentences(Corpus.open(Path(args.data)), args.sentences, args.words)
    n_words = sum(map(len, sentences))
    print(f"{describe()}; {len(sentences):,} sentences of {args.words} words")
    print("| size | precision | seconds | words/s | GiB |")
    print("| --- | --- | --- | --- | --- |")
    for size in args.sizes:
        model = random_model(SIZES[size])
        for precision in args.precisions:
            if torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
            times = []
            for _ in range(args.repeats + 1):
                started = time.perf_counter()
                vectors = model.encode(sentences, device=args.device, precision=precision)
                times.append(time.perf_counter() - started)
                # Not timed: a caller keeps the vectors, and freeing a gigabyte takes time.
                del vectors
            seconds = statistics.median(times[1:])
            memory = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else 0
            print(
                f"| {size} | {precision} | {seconds:.3f} | {n_words / seconds / 1000:,.0f} k | "
                f"{memory:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
