"""The whole training step, with the words of a real text: what a run does between two log lines.

    elmo prepare text.txt --out corpus
    python benchmarks/train.py --data corpus [--sizes small medium original] [--batches 128 2048]

Character CNN, dropout, both LSTMs, sampled softmax of both directions, gradient clipping and the
optimiser's update, fed by the run's own data pipeline, all as the presets have it. A token is one
position read by both directions. Memory is the most that was taken from the device, the first plain
steps included.
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
from elmo.train.loop import PREFETCH_BATCHES
from elmo.train.prefetch import prefetched
from elmo.train.pretrain_model import model_config

PUBLISHED_WORDS = 793_471


def config_of(size: str, batch: int, given: argparse.Namespace) -> PretrainConfig:
    """Give a preset with another batch."""
    config: PretrainConfig = load_config(
        PretrainConfig, size, {"data": (given.data,), "out": ""}, presets()
    )
    return dataclasses.replace(
        config,
        stream=dataclasses.replace(config.stream, batch_size=batch),
        loss=dataclasses.replace(config.loss, n_samples=given.samples),
        run=dataclasses.replace(
            config.run,
            accelerator=given.accelerator,
            precision="float32" if given.accelerator == "cpu" else "bfloat16",
            kernel=given.kernel,
        ),
    )


def learner_of(config: PretrainConfig, corpus: Corpus, n_words: int) -> Learner:
    """Put a new network of a published geometry on its device."""
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
    """Give windows as a run makes them."""
    config = learner.config
    stream = SegmentLoader(
        corpus.splits["train"], config.stream, seed=0, local_streams=range(config.stream.batch_size)
    )
    for number, window in enumerate(stream):
        batches = learner.batches(window)
        yield batches, number, learner.draw(batches, number)


def measure(size: str, batch: int, corpus: Corpus, given: argparse.Namespace) -> str:
    """Give a line of the table."""
    config = config_of(size, batch, given)
    learner = learner_of(config, corpus, given.words)
    is_cuda = learner.fabric.device.type == "cuda"
    ready = prefetched(inputs(learner, corpus), PREFETCH_BATCHES)
    for _ in range(given.warm):
        learner.step(*next(ready))
    if is_cuda:
        torch.cuda.synchronize()
    times, words = [], []
    for _ in range(given.repeats):
        started = time.perf_counter()
        for _ in range(given.steps):
            item = next(ready)
            words.append(len(item[0][0].words))
            learner.step(*item)
        if is_cuda:
            torch.cuda.synchronize()
        times.append((time.perf_counter() - started) / given.steps)
    ready.close()
    memory = torch.cuda.max_memory_reserved() / 2**30 if is_cuda else 0.0
    seconds = statistics.median(times)
    rate = batch * config.stream.unroll / seconds
    return (
        f"| {size} | {batch} x {config.stream.unroll} | {statistics.mean(words):,.0f} | "
        f"{1000 * seconds:.2f} | {rate / 1000:,.0f} k | {memory:.1f} |"
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--sizes", nargs="+", default=["small", "medium", "original"])
    parser.add_argument("--batches", type=int, nargs="+", default=[128, 512, 2048])
    parser.add_argument("--words", type=int, default=PUBLISHED_WORDS)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--warm", type=int, default=8)
    parser.add_argument("--accelerator", default="auto")
    parser.add_argument("--kernel", default="auto")
    given = parser.parse_args()
    corpus = Corpus.open(Path(given.data))
    print(f"{describe()}; {given.words:,} words, {given.samples:,} candidates")
    print("| size | batch | distinct words | ms a step | tokens/s | GiB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for size in given.sizes:
        for batch in given.batches:
            print(measure(size, batch, corpus, given), flush=True)
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
