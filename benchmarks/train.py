"""Benchmark the training step with the presets of `elmo pretrain` and a prepared corpus.

    elmo prepare text.txt --out corpus
    python benchmarks/train.py --data corpus [--sizes small medium original] [--batches 128 2048]

A step includes the data pipeline, character CNN, dropout, both LSTMs, the sampled softmax of both
directions, gradient clipping and the optimizer update. A token is one position, read by both
directions. Memory is the maximum reserved on the device, including the first steps without a CUDA
graph.
"""

import argparse
import dataclasses
import gc
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from machine import describe

from elmo.config import PretrainConfig
from elmo.config.serialization import load_config, presets
from elmo.corpus.bptt_segments import SegmentLoader
from elmo.corpus.shards import Corpus
from elmo.evaluate.perplexity import model_tables
from elmo.formats.pretrained import Pretrained
from elmo.model.initialization import initialize
from elmo.model.network import ELMoNetwork
from elmo.text.characters import N_BYTE_CHARACTERS
from elmo.text.vocabulary import Vocabulary
from elmo.train.devices import make_fabric
from elmo.train.learner import Learner
from elmo.train.prefetch import prefetched
from elmo.train.pretrain_model import model_config

PUBLISHED_WORDS = 793_471


def preset_config(size: str, batch: int, args: argparse.Namespace) -> PretrainConfig:
    """Return the config of a preset with another batch size and the options of this program."""
    config: PretrainConfig = load_config(
        PretrainConfig, size, {"data": (args.data,), "out": ""}, presets()
    )
    return dataclasses.replace(
        config,
        stream=dataclasses.replace(config.stream, batch_size=batch),
        loss=dataclasses.replace(config.loss, n_samples=args.samples),
        run=dataclasses.replace(
            config.run,
            accelerator=args.accelerator,
            precision="float32" if args.accelerator == "cpu" else "bfloat16",
            kernel=args.kernel,
        ),
    )


def make_learner(config: PretrainConfig, corpus: Corpus, n_words: int) -> Learner:
    """Return a learner with a randomly initialized network on its device.

    Args:
        config: Training config.
        corpus: Prepared corpus.
        n_words: Size of the softmax vocabulary; unused words fill it up.
    """
    shape = model_config(
        config.input,
        config.lstm,
        config.loss,
        tokenizer=corpus.reading.tokenizer,
        n_characters=N_BYTE_CHARACTERS,
        max_characters=config.input.max_characters or 50,
        n_words=n_words,
    )
    network = ELMoNetwork(config=shape)
    initialize(network, 0)
    words = corpus.vocabulary.words[:n_words]
    words = Vocabulary([*words, *(f"filler-{number}" for number in range(n_words - len(words)))])
    model = Pretrained(shape, network.state_dict(), "random weights", words)
    fabric = make_fabric(config.run)
    return Learner(fabric, network, config, model_tables(model, corpus.words), n_steps=1000)


def inputs(learner: Learner, corpus: Corpus) -> Iterator[Any]:
    """Yield the arguments of `Learner.step` for each BPTT segment."""
    config = learner.config
    loader = SegmentLoader(
        corpus.splits["train"], config.stream, seed=0, local_streams=range(config.stream.batch_size)
    )
    for number, segment in enumerate(loader):
        batches = learner.batches(segment)
        yield batches, number, learner.draw(batches, number)


def measure(size: str, batch: int, corpus: Corpus, args: argparse.Namespace) -> str:
    """Return a row of the table.

    Args:
        size: Preset.
        batch: Batch size.
        corpus: Prepared corpus.
        args: Options of this program.
    """
    config = preset_config(size, batch, args)
    learner = make_learner(config, corpus, args.words)
    is_cuda = learner.fabric.device.type == "cuda"
    steps = prefetched(inputs(learner, corpus))
    for _ in range(args.warmup):
        learner.step(*next(steps))
    if is_cuda:
        torch.cuda.synchronize()
    times, distinct_words = [], []
    for _ in range(args.repeats):
        started = time.perf_counter()
        for _ in range(args.steps):
            item = next(steps)
            distinct_words.append(len(item[0][0].words))
            learner.step(*item)
        if is_cuda:
            torch.cuda.synchronize()
        times.append((time.perf_counter() - started) / args.steps)
    steps.close()
    memory = torch.cuda.max_memory_reserved() / 2**30 if is_cuda else 0.0
    seconds = statistics.median(times)
    rate = batch * config.stream.unroll / seconds
    return (
        f"| {size} | {batch} x {config.stream.unroll} | {statistics.mean(distinct_words):,.0f} | "
        f"{1000 * seconds:.2f} | {rate / 1000:,.0f} k | {memory:.1f} |"
    )


def main() -> None:
    """Print a table row for each model size and batch size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="Corpus written by `elmo prepare`.")
    parser.add_argument(
        "--sizes", nargs="+", default=["small", "medium", "original"], help="Presets."
    )
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[128, 512, 2048], help="Batch sizes."
    )
    parser.add_argument(
        "--words", type=int, default=PUBLISHED_WORDS, help="Size of the vocabulary."
    )
    parser.add_argument("--samples", type=int, default=8192, help="Samples of the softmax.")
    parser.add_argument("--steps", type=int, default=10, help="Steps per timing.")
    parser.add_argument("--repeats", type=int, default=5, help="Timings; reports the median.")
    parser.add_argument("--warmup", type=int, default=8, help="Steps before the timing.")
    parser.add_argument("--accelerator", default="auto", help="Accelerator: auto, cpu or cuda.")
    parser.add_argument("--kernel", default="auto", help="Kernel of `elmo pretrain`.")
    args = parser.parse_args()
    corpus = Corpus.open(Path(args.data))
    print(f"{describe()}; {args.words:,} words, {args.samples:,} samples")
    print("| size | batch | distinct words | ms per step | tokens/s | GiB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for size in args.sizes:
        for batch in args.batches:
            print(measure(size, batch, corpus, args), flush=True)
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
