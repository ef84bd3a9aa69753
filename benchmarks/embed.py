"""Benchmark embedding on a CPU: our precisions, the AllenNLP-style loop, `nn.LSTM`, onnxruntime.

    python benchmarks/embed.py --text FILE

The first 200 sentences of 25 words of the text are embedded; without --text, the fewer sentences
next to this file. All variants are timed in turn in the same run. The table has the median and the
minimum time; the minimum of the AllenNLP-style loop is taken per batch, because one of its batches
takes as long as a whole call of `encode`.

The variants with a cache know the words of the rest of the text, but have not seen the embedded
sentences before any call.
"""

import argparse
import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from allennlp_loop import allennlp_layers
from machine import describe
from onnx_session import onnx_call
from timing import Step, Variant, time_in_turn
from torch import nn

from elmo.config import EncoderConfig, LSTMConfig, ModelConfig
from elmo.embed.embedder import ELMo
from elmo.formats.pretrained import Pretrained
from elmo.inference.word_cache import WordCache
from elmo.kernels.device import onednn_has_bfloat16
from elmo.kernels.native_ffi import NumberFormat, can_compute
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
    # The geometry of the base models in runs/base_model.py.
    "base": ModelConfig(
        encoder=EncoderConfig(
            filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512)), n_highway=1
        ),
        lstm=LSTMConfig(cell_dim=2560, projection_dim=512),
    ),
}
N_SENTENCES, N_WORDS = 200, 25
# The AllenNLP-style loop is timed with each batch size; the fastest one is the baseline.
BASELINE_BATCHES = (32, 64, 200)
# The longer name first, because a variant is recognized by the name it contains.
PRECISIONS: tuple[NumberFormat, ...] = ("float32", "int8x3", "bfloat16", "int8")


class Settings(NamedTuple):
    """Settings of the benchmark.

    Attributes:
        repeats: How often a variant is timed.
        variants: Prefixes of the names of the variants to compare with the baseline.
        rest: Sentences of the text after those that are embedded.
    """

    repeats: int
    variants: tuple[str, ...]
    rest: list[list[str]]


def random_model(config: ModelConfig) -> ELMo:
    """Return a model with random weights."""
    network = ELMoNetwork(config=config)
    initialize(network, seed=0)
    return ELMo(Pretrained(config, network.state_dict(), "random weights"))


def cut_sentences(text: str) -> list[list[str]]:
    """Return the words of a text as sentences of equal length."""
    words = text.split()
    ends = range(N_WORDS, len(words) + 1, N_WORDS)
    return [words[end - N_WORDS : end] for end in ends]


def matrix_rates(repeats: int) -> dict[str, float]:
    """Measure the maximum rate of large matrix products, in GFLOP/s (int8: 10^9 operations/s)."""
    # PyTorch has no products in int8x3.
    names = [name for name in PRECISIONS if can_compute(name) and name != "int8x3"]
    rates: dict[str, float] = dict.fromkeys(names, 0.0)
    for size in (1024, 2048, 4096):
        a = torch.randn(size, size)
        b = torch.randn(size, size)
        int8_factors = [(10 * x).to(torch.int8) for x in (a, b)]
        bfloat16_factors = [x.bfloat16() for x in (a, b)]
        products: dict[str, Step] = {
            "float32": partial(torch.mm, a, b),
            "bfloat16": partial(torch.mm, *bfloat16_factors),
            "int8": partial(torch._int_mm, *int8_factors),
        }
        for name, seconds in time_in_turn(
            {name: [products[name]] for name in rates}, repeats
        ).items():
            rates[name] = max(rates[name], 2e-9 * size**3 / seconds.minimum)
        # PyTorch has no kernel for a precision slower than float32: the larger sizes would take
        # minutes.
        rates = {name: rate for name, rate in rates.items() if rate >= rates["float32"]}
    return rates


def torch_lstms(config: LSTMConfig, n_sentences: int, dtype: torch.dtype) -> Step:
    """Return a function that runs `nn.LSTM` stacks of the same sizes, without clipping.

    Args:
        config: Sizes of the LSTMs.
        n_sentences: Number of sentences of random token vectors.
        dtype: Dtype of weights and inputs.
    """
    width = config.projection_dim
    projection = {"proj_size": width} if width != config.cell_dim else {}
    stacks = [
        nn.LSTM(width, config.cell_dim, config.n_layers, **projection).to(dtype).eval()
        for _ in range(2)
    ]
    x = torch.randn(N_WORDS + 2, n_sentences, width).to(dtype)

    @torch.inference_mode()
    def run() -> object:
        return [stack(x) for stack in stacks]

    return run


def baselines(elmo: ELMo, sentences: list[list[str]]) -> dict[str, Variant]:
    """Return the AllenNLP-style loop with each batch size."""
    sizes = sorted({min(size, len(sentences)) for size in BASELINE_BATCHES})
    return {
        f"AllenNLP-style loop, batch {size}": allennlp_steps(elmo, sentences, size)
        for size in sizes
    }


def allennlp_steps(elmo: ELMo, sentences: list[list[str]], batch_size: int) -> Variant:
    """Return the AllenNLP-style loop with one step per batch."""
    batches = [
        elmo.character_ids(sentences[first : first + batch_size])
        for first in range(0, len(sentences), batch_size)
    ]
    return [partial(allennlp_layers, elmo.network, ids) for ids in batches]


def encode_with_cache(
    elmo: ELMo, sentences: list[list[str]], precision: str, settings: Settings
) -> Step:
    """Return a call of `encode` with a cache that contains the words of the rest of the text."""
    cache = WordCache()
    elmo.encode(settings.rest, layers=0, precision=precision, cache=cache)
    # Each call gets its own copy, without the words of the calls before.
    copies = iter([_copy(cache) for _ in range(settings.repeats + 1)])
    return lambda: elmo.encode(sentences, precision=precision, cache=next(copies))


def _copy(cache: WordCache) -> WordCache:
    """Return a cache that contains the same words."""
    other = WordCache(cache.max_words)
    values = {name: value for name, value in vars(cache).items() if name != "_lock"}
    vars(other).update({name: copy.copy(value) for name, value in values.items()})
    return other


def minimum_cosine(vectors: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Return the minimum over all words of the cosine of a vector and its expected value."""
    a, b = np.concatenate(vectors), np.concatenate(expected)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(((a * b).sum(axis=1) / lengths).min())


def make_variants(
    elmo: ELMo, sentences: list[list[str]], settings: Settings
) -> Iterator[tuple[str, Callable[[], Step]]]:
    """Yield name and factory of every variant that is compared with the baseline."""
    n = len(sentences)
    # On a CPU without bfloat16 instructions, nn.LSTM in bfloat16 takes minutes.
    for dtype in (torch.float32, torch.bfloat16) if onednn_has_bfloat16() else (torch.float32,):
        name = str(dtype).removeprefix("torch.")
        make = partial(torch_lstms, elmo.config.lstm, n, dtype)
        yield f"nn.LSTM only, {name}, no clipping", make
    for name in ("float32", "int8"):
        yield f"onnxruntime, {name}", partial(onnx_call, elmo, sentences, name)
    for name in filter(can_compute, PRECISIONS):
        yield f"ours, {name}", partial(partial, elmo.encode, sentences, precision=name)
        if settings.rest and n > 1:
            make = partial(encode_with_cache, elmo, sentences, name, settings)
            yield f"ours, {name}, cache", make


def table(
    size: str, elmo: ELMo, sentences: list[list[str]], rates: dict[str, float], settings: Settings
) -> None:
    """Time all requested variants and print a table.

    Args:
        size: Name of the model size.
        elmo: The model.
        sentences: Sentences to embed.
        rates: Rates of `matrix_rates`, measured before.
        settings: Settings of the benchmark.
    """
    n_words = sum(map(len, sentences))
    lstm = elmo.config.lstm
    n_weights = lstm.cell_dim * lstm.projection_dim * (9 if lstm.has_projection else 8)
    flop = 2 * 2 * lstm.n_layers * n_weights
    expected = elmo.encode(sentences)
    baseline_variants = baselines(elmo, sentences)
    variants = dict(baseline_variants)
    for name, make in make_variants(elmo, sentences, settings):
        if name.startswith(settings.variants):
            variants[name] = [make()]
    if len(variants) == len(baseline_variants):
        raise SystemExit(f"No variant begins with {' or '.join(settings.variants)}.")
    # A single sentence is fast, so it is timed more often.
    timings = time_in_turn(variants, settings.repeats * (1 if len(sentences) > 1 else 10))
    # The maximum of before and after, because the speed of the cores varies over time.
    after = matrix_rates(settings.repeats)
    rates = {name: max(rate, rates.get(name, 0.0)) for name, rate in after.items()}
    baseline_median = min(timings[name].median for name in baseline_variants)
    baseline_minimum = min(timings[name].minimum for name in baseline_variants)
    distinct = {word for sentence in sentences for word in sentence}
    known = distinct & {word for sentence in settings.rest for word in sentence}
    print(
        f"\n{size}: {len(sentences)} sentences, {n_words} words, {len(distinct)} of them distinct "
    )
    print(f"({len(known)} are in the rest of the text); ", end="")
    print(f"{flop / 1e6:.0f} MFLOP per word in the LSTMs")
    print("matrix products:", ", ".join(f"{name} {rate:,.0f} G/s" for name, rate in rates.items()))
    print()
    print("| variant | ms | words/s | times the baseline ", end="")
    print("| minimum, ms | times the baseline | of the matrix rate | minimum cosine |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, timing in timings.items():
        utilization = fidelity = ""
        precision = next((item for item in PRECISIONS if item in name), "float32")
        if name not in baseline_variants and precision in rates:
            rate = 1e-9 * flop * n_words / timing.minimum
            utilization = f"{100 * rate / rates[precision]:.0f} %"
        if name.startswith("ours"):
            vectors = elmo.encode(sentences, precision=precision)
            fidelity = f"{minimum_cosine(vectors, expected):.5f}"
        median = f"{1000 * timing.median:,.2f} | {n_words / timing.median:,.0f}"
        speedups = (baseline_median / timing.median, baseline_minimum / timing.minimum)
        minimum = f"{1000 * timing.minimum:,.2f} | {speedups[1]:.2f}"
        print(f"| {name} | {median} | {speedups[0]:.2f} | {minimum} | {utilization} | {fidelity} |")


def check(elmo: ELMo, sentences: list[list[str]]) -> None:
    """Check that `encode` and the AllenNLP-style loop compute the same vectors."""
    expected = allennlp_layers(elmo.network, elmo.character_ids(sentences))[:, :, 1:]
    for row, layers in enumerate(elmo.encode(sentences, layers="all")):
        error = (expected[:, row, : layers.shape[1]] - torch.from_numpy(layers)).abs().max()
        assert error < 1e-4, f"encode and the AllenNLP-style loop differ by {error}."


def main() -> None:
    """Print two tables for each model size: for all sentences and for a single one."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--sizes",
        nargs="+",
        default=["small", "original"],
        choices=list(SIZES),
        help="Model sizes.",
    )
    parser.add_argument(
        "--text",
        type=Path,
        default=HERE / "sentences.txt",
        help="Text. Default: sentences.txt next to this file.",
    )
    parser.add_argument("--repeats", type=int, default=5, help="How often a variant is timed.")
    parser.add_argument(
        "--variants",
        nargs="+",
        default=[""],
        help="Prefixes of the variants to compare, such as ours. Default: all.",
    )
    args = parser.parse_args()
    text = cut_sentences(args.text.read_text(encoding="utf-8"))
    sentences, rest = text[:N_SENTENCES], text[N_SENTENCES:]
    settings = Settings(args.repeats, tuple(args.variants), rest)
    print(describe())
    rates = matrix_rates(args.repeats)
    for size in args.sizes:
        elmo = random_model(SIZES[size])
        check(elmo, sentences[:20])
        for batch in (sentences, [sentences[0][:10]]):
            table(size, elmo, batch, rates, settings)


if __name__ == "__main__":
    main()
