"""Benchmark the conversion of words to character ids on one core.

python benchmarks/characters.py
"""

import argparse
import statistics
import time
from pathlib import Path

from machine import describe

from elmo.text.characters import ByteCharacters, DictionaryCharacters
from elmo.text.token_batches import TokenMapper

HERE = Path(__file__).parent


def main() -> None:
    """Print words per second for a batch of English words, without deduplication."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--words", type=int, default=20_000, help="Words per batch.")
    parser.add_argument("--repeats", type=int, default=15, help="Timed calls; reports the median.")
    args = parser.parse_args()
    text = (HERE / "sentences.txt").read_text(encoding="utf-8").split()
    words = (text * (args.words // len(text) + 1))[: args.words]
    symbols = sorted(set("".join(text))) + list(DictionaryCharacters.SPECIAL_SYMBOLS)
    dictionary = {symbol: number for number, symbol in enumerate(symbols)}
    schemes = {
        "bytes, 50 per word": TokenMapper(ByteCharacters(50)),
        "dictionary, 50 per word": TokenMapper(DictionaryCharacters(50, dictionary)),
    }
    print(describe())
    print("| scheme | words/s (median) |\n| --- | --- |")
    for name, mapper in schemes.items():
        times = []
        for _ in range(args.repeats):
            started = time.perf_counter()
            mapper.rows(words)
            times.append(time.perf_counter() - started)
        print(f"| {name} | {len(words) / statistics.median(times):,.0f} |")


if __name__ == "__main__":
    main()
