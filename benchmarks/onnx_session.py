"""Benchmark of the exported graph in onnxruntime: size, speed and precision per storage type.

python benchmarks/onnx_session.py
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from timing import time_in_turn

from elmo.config import Storage
from elmo.embed.embedder import ELMo
from elmo.export import to_onnx

STORAGES: tuple[Storage, ...] = ("float32", "float16", "int8")


def make_session(
    elmo: ELMo, storage: Storage = "float32", threads: int = 2
) -> tuple[onnxruntime.InferenceSession, int]:
    """Return an onnxruntime session of a model and the size of its files in bytes.

    Args:
        elmo: The model.
        storage: Storage type of the weights.
        threads: Number of threads of onnxruntime.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        to_onnx(elmo, path, storage)
        n_bytes = sum(item.stat().st_size for item in Path(folder).iterdir())
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session, n_bytes


def onnx_call(
    elmo: ELMo, sentences: Sequence[Sequence[str]], storage: Storage = "float32", threads: int = 2
) -> Callable[[], Any]:
    """Return a function that computes all layers of a batch from precomputed character ids.

    Args:
        elmo: The model.
        sentences: Sentences of one batch.
        storage: Storage type of the weights.
        threads: Number of threads of onnxruntime.
    """
    session, _ = make_session(elmo, storage, threads)
    ids = elmo.character_ids(sentences).cpu().numpy()
    return lambda: session.run(["layers"], {"character_ids": ids})[0]


def main() -> None:
    """Print a row for each model and storage type."""
    from embed import SIZES, random_model
    from machine import describe

    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--sizes", nargs="+", default=list(SIZES), choices=list(SIZES), help="Model sizes."
    )
    parser.add_argument("--repeats", type=int, default=7, help="Timed calls; reports the median.")
    parser.add_argument("--model", help="A model name or folder to use instead of --sizes.")
    args = parser.parse_args()
    text = Path(__file__).with_name("sentences.txt").read_text(encoding="utf-8")
    sentences = [line.split() for line in text.splitlines()][:32]
    print(describe())
    print(
        "| model | storage | MB | 32 sentences, words/s | 1 sentence, ms "
        "| maximum error | mean cosine | minimum cosine |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    names = [args.model] if args.model else args.sizes
    for name in names:
        elmo = ELMo.from_pretrained(name) if args.model else random_model(SIZES[name])
        for storage in STORAGES:
            print(f"| {name} | {storage} | {_row(elmo, sentences, storage, args.repeats)} |")


def _row(elmo: ELMo, sentences: list[list[str]], storage: Storage, repeats: int) -> str:
    session, n_bytes = make_session(elmo, storage)
    batch, single = (elmo.character_ids(part).numpy() for part in (sentences, [sentences[0][:10]]))
    seconds = time_in_turn(
        {
            "batch": [lambda: session.run(["layers"], {"character_ids": batch})],
            "single": [lambda: session.run(["layers"], {"character_ids": single})],
        },
        repeats,
    )
    layers = session.run(["layers"], {"character_ids": batch})[0]
    vectors = np.concatenate(
        [layers[:, n, 1 : len(words) + 1] for n, words in enumerate(sentences)], axis=1
    )
    expected = np.concatenate(elmo.encode(sentences, layers="all"), axis=1)
    cosines = torch.cosine_similarity(
        torch.from_numpy(vectors).double(), torch.from_numpy(expected).double(), dim=2
    )
    n_words = sum(map(len, sentences))
    return (
        f"{n_bytes / 1e6:,.1f} | {n_words / seconds['batch'].median:,.0f} | "
        f"{1000 * seconds['single'].median:.1f} | {np.abs(vectors - expected).max():.1e} | "
        f"{cosines.mean():.6f} | {cosines.min():.6f}"
    )


if __name__ == "__main__":
    main()
