"""Embedding on a CPU in one run: our arithmetics, the older programs' loop, `nn.LSTM`, onnxruntime.

Run it with `python benchmarks/embed.py --text FILE`: a text, of
which 200 pieces of 25 words are taken. Without one the sentences beside this file are used, which
are fewer. Ways are timed in turn: medians of all turns, and the least that a call took, the older
loop's being counted batch by batch since its batches take as long as our calls. What follows in the
text is what `cache=` knows words of: it has never seen the pieces, in any of the calls.
"""

import argparse
import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from allennlp_loop import older_layers
from machine import describe
from onnx_session import onnx_way
from timing import Part, Way, times_of
from torch import nn

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig
from elmo.embed.embedder import ELMo
from elmo.embed.word_cache import WordCache
from elmo.formats.pretrained import Pretrained
from elmo.kernels.compute_precision import Precision
from elmo.kernels.device import onednn_has_bfloat16
from elmo.kernels.native_ffi import can_compute
from elmo.model.initialization import initialize
from elmo.model.network import ELMoNetwork

HERE = Path(__file__).parent
SIZES = {
    "small": ModelConfig(
        encoder=EncoderConfig(n_highway=1), lstm=LSTMConfig(cell_dim=1024, projection_dim=128)
    ),
    "original": ModelConfig(),
    "bundled": ModelConfig(
        encoder=EncoderConfig(
            filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 128), (6, 128)), n_highway=1
        ),
        lstm=LSTMConfig(cell_dim=768, projection_dim=256),
    ),
}
N_SENTENCES, N_WORDS = 200, 25
# What the older loop is best at is one of these.
OLDER_BATCHES = (32, 64, 200)
ARITHMETICS: tuple[Precision, ...] = ("float32", "bfloat16", "int8")


class Given(NamedTuple):
    """What was asked for.

    Attributes:
        repeats: how often a way is timed.
        ways: beginnings of the names of those that are compared with the yardstick.
        rest: what follows the sentences in their text.
    """

    repeats: int
    ways: tuple[str, ...]
    rest: list[list[str]]


def model_of(config: ModelConfig) -> ELMo:
    """Give a model of a published geometry with random weights."""
    network = ELMoNetwork(config=config)
    initialize(network, seed=0)
    return ELMo(Pretrained(config, network.state_dict(), "random weights"))


def pieces(text: str) -> list[list[str]]:
    """Cut a text into pieces of equal length."""
    words = text.split()
    ends = range(N_WORDS, len(words) + 1, N_WORDS)
    return [words[end - N_WORDS : end] for end in ends]


def matrix_rates(repeats: int) -> dict[str, float]:
    """Measure the best rate of large products, in GFLOP/s (int8: in billions of operations)."""
    rates: dict[str, float] = dict.fromkeys(filter(can_compute, ARITHMETICS), 0.0)
    for size in (1024, 2048, 4096):
        a = torch.randn(size, size)
        b = torch.randn(size, size)
        whole = [(10 * x).to(torch.int8) for x in (a, b)]
        halves = [x.bfloat16() for x in (a, b)]
        products: dict[str, Part] = {
            "float32": partial(torch.mm, a, b),
            "bfloat16": partial(torch.mm, *halves),
            "int8": partial(torch._int_mm, *whole),
        }
        for name, seconds in times_of({name: [products[name]] for name in rates}, repeats).items():
            rates[name] = max(rates[name], 2e-9 * size**3 / seconds.least)
        # What is slower than float32 has no kernel of its own in PyTorch, and would take minutes.
        rates = {name: rate for name, rate in rates.items() if rate >= rates["float32"]}
    return rates


def plain_lstms(config: LSTMConfig, n: int, dtype: torch.dtype) -> Part:
    """Give PyTorch's own LSTMs of the model, which know no clips, over token vectors."""
    width = config.projection_dim
    sized = {"proj_size": width} if width != config.cell_dim else {}
    stacks = [
        nn.LSTM(width, config.cell_dim, config.n_layers, **sized).to(dtype).eval() for _ in range(2)
    ]
    x = torch.randn(N_WORDS + 2, n, width).to(dtype)

    @torch.inference_mode()
    def run() -> object:
        return [stack(x) for stack in stacks]

    return run


def older_ways(elmo: ELMo, sentences: list[list[str]]) -> dict[str, Way]:
    """Give the older programs' loop with batches that it may be best at."""
    batches = sorted({min(batch, len(sentences)) for batch in OLDER_BATCHES})
    return {f"older loop, batch {batch}": older(elmo, sentences, batch) for batch in batches}


def older(elmo: ELMo, sentences: list[list[str]], batch: int) -> Way:
    """Give the older programs' loop over batches."""
    batches = [
        elmo.character_ids(sentences[first : first + batch])
        for first in range(0, len(sentences), batch)
    ]
    return [partial(older_layers, elmo.network, ids) for ids in batches]


def knowing_words(elmo: ELMo, sentences: list[list[str]], precision: str, given: Given) -> Part:
    """Give `encode` with a cache that knows the words of the rest of the text."""
    cache = WordCache()
    elmo.encode(given.rest, layers=0, precision=precision, cache=cache)
    # Each call has what was there before the first one.
    twins = iter([_twin(cache) for _ in range(given.repeats + 1)])
    return lambda: elmo.encode(sentences, precision=precision, cache=next(twins))


def _twin(cache: WordCache) -> WordCache:
    """Give a cache that knows the same words."""
    twin = WordCache(cache.max_words)
    values = {name: value for name, value in vars(cache).items() if name != "_lock"}
    vars(twin).update({name: copy.copy(value) for name, value in values.items()})
    return twin


def cosine(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Give the least cosine of a word's vectors."""
    a, b = np.concatenate(found), np.concatenate(expected)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(((a * b).sum(axis=1) / lengths).min())


def ways_of(
    elmo: ELMo, sentences: list[list[str]], given: Given
) -> Iterator[tuple[str, Callable[[], Part]]]:
    """Give how to make all that is compared with the yardstick."""
    n = len(sentences)
    # Where the CPU has no bfloat16, PyTorch's own takes minutes.
    for dtype in (torch.float32, torch.bfloat16) if onednn_has_bfloat16() else (torch.float32,):
        name = str(dtype).removeprefix("torch.")
        make = partial(plain_lstms, elmo.config.lstm, n, dtype)
        yield f"nn.LSTM alone, {name}, no clips", make
    for name in ("float32", "int8"):
        yield f"onnxruntime, {name}", partial(onnx_way, elmo, sentences, name)
    for name in filter(can_compute, ARITHMETICS):
        yield f"ours, {name}", partial(partial, elmo.encode, sentences, precision=name)
        if given.rest and n > 1:
            yield f"ours, {name}, cache", partial(knowing_words, elmo, sentences, name, given)


def table(
    size: str, elmo: ELMo, sentences: list[list[str]], rates: dict[str, float], given: Given
) -> None:
    """Print how fast the ways asked for are on some sentences."""
    n_words = sum(map(len, sentences))
    lstm = elmo.config.lstm
    n_weights = lstm.cell_dim * lstm.projection_dim * (9 if lstm.has_projection else 8)
    flop = 2 * 2 * lstm.n_layers * n_weights
    expected = elmo.encode(sentences)
    yardsticks = older_ways(elmo, sentences)
    ways = dict(yardsticks)
    for name, make in ways_of(elmo, sentences, given):
        if name.startswith(given.ways):
            ways[name] = [make()]
    # One sentence is quick, and is timed more often.
    seconds = times_of(ways, given.repeats * (1 if len(sentences) > 1 else 10))
    # The best of before and after: cores are not as fast in every minute.
    after = matrix_rates(given.repeats)
    rates = {name: max(rate, rates.get(name, 0.0)) for name, rate in after.items()}
    best = min(seconds[name].median for name in yardsticks)
    least = min(seconds[name].least for name in yardsticks)
    distinct = {word for sentence in sentences for word in sentence}
    known = distinct & {word for sentence in given.rest for word in sentence}
    print(
        f"\n{size}: {len(sentences)} sentences, {n_words} words, {len(distinct)} of them distinct "
    )
    print(f"({len(known)} stand in the rest of the text); ", end="")
    print(f"{flop / 1e6:.0f} MFLOP a word in the LSTMs")
    print("matrix products:", ", ".join(f"{name} {rate:,.0f} G/s" for name, rate in rates.items()))
    print()
    print("| way | ms | words/s | of the older loop ", end="")
    print("| least, ms | of the older loop | of the matrix rate | least cosine |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, value in seconds.items():
        share = fidelity = ""
        arithmetic = next((one for one in ARITHMETICS if one in name), "float32")
        if name not in yardsticks and arithmetic in rates:
            share = f"{100e-9 * flop * n_words / value.least / rates[arithmetic]:.0f} %"
        if name.startswith("ours"):
            fidelity = f"{cosine(elmo.encode(sentences, precision=arithmetic), expected):.5f}"
        usual = f"{1000 * value.median:,.2f} | {n_words / value.median:,.0f}"
        ratios = (best / value.median, least / value.least)
        figures = f"{usual} | {ratios[0]:.2f} | {1000 * value.least:,.2f} | {ratios[1]:.2f}"
        print(f"| {name} | {figures} | {share} | {fidelity} |")


def check(elmo: ELMo, sentences: list[list[str]]) -> None:
    """Refuse to compare what does not compute the same."""
    theirs = older_layers(elmo.network, elmo.character_ids(sentences))[:, :, 1:]
    for row, found in enumerate(elmo.encode(sentences, layers="all")):
        error = (theirs[:, row, : found.shape[1]] - torch.from_numpy(found)).abs().max()
        assert error < 1e-4, f"the two do not compute the same: {error}"


def main() -> None:
    """Print a table for each size, many sentences and one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", nargs="+", default=["small", "original"], choices=list(SIZES))
    parser.add_argument("--text", type=Path, default=HERE / "sentences.txt")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ways", nargs="+", default=[""], help="beginnings of their names")
    arguments = parser.parse_args()
    cut = pieces(arguments.text.read_text(encoding="utf-8"))
    sentences, rest = cut[:N_SENTENCES], cut[N_SENTENCES:]
    given = Given(arguments.repeats, tuple(arguments.ways), rest)
    print(describe())
    rates = matrix_rates(arguments.repeats)
    for size in arguments.sizes:
        elmo = model_of(SIZES[size])
        check(elmo, sentences[:20])
        for some in (sentences, [sentences[0][:10]]):
            table(size, elmo, some, rates, given)


if __name__ == "__main__":
    main()
