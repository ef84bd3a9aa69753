"""`encode` on a GPU: words in, averaged vectors on the host, with the words of a real text.

elmo prepare text.txt --out corpus
python benchmarks/encode.py --data corpus [--sizes small original] [--sentences 10000]
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from embed import SIZES, model_of
from machine import describe

from elmo.corpus.shards import Corpus


def sentences_of(corpus: Corpus, n_sentences: int, n_words: int) -> list[list[str]]:
    """Cut a text into sentences of one length."""
    split = corpus.splits["train"]
    tokens = np.concatenate([np.asarray(shard.words) for shard in split.shards])
    words = corpus.words.strings(0, len(corpus.words))
    if len(tokens) < n_sentences * n_words:
        raise SystemExit(
            f"the text has {len(tokens):,} words: too few for {n_sentences:,} sentences"
        )
    cut = tokens[: n_sentences * n_words].reshape(-1, n_words)
    return [[words[number] for number in line] for line in cut]


def main() -> None:
    """Print words per second for each size and arithmetic."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--words", type=int, default=25)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precisions", nargs="+", default=["bfloat16", "float16", "float32"])
    given = parser.parse_args()
    sentences = sentences_of(Corpus.open(Path(given.data)), given.sentences, given.words)
    n_words = sum(map(len, sentences))
    print(f"{describe()}; {len(sentences):,} sentences of {given.words} words")
    print("| size | precision | seconds | words/s | GiB |")
    print("| --- | --- | --- | --- | --- |")
    for size in given.sizes:
        model = model_of(SIZES[size])
        for precision in given.precisions:
            if torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
            times = []
            for _ in range(given.repeats + 1):
                started = time.perf_counter()
                vectors = model.encode(sentences, device=given.device, precision=precision)
                times.append(time.perf_counter() - started)
                # A caller keeps them; giving a gigabyte back to the system takes its time, too.
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
