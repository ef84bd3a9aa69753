"""The exported graph in onnxruntime, beside which `encode` is timed.

Run it with `python benchmarks/onnx_session.py` for sizes, speed and fidelity of every `dtype`.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from timing import times_of

from elmo.config import Storage
from elmo.embed.embedder import ELMo
from elmo.export import to_onnx

STORAGES: tuple[Storage, ...] = ("float32", "float16", "int8")


def session_of(elmo: ELMo, dtype: Storage = "float32", threads: int = 2) -> tuple[Any, int]:
    """Give a model as a session of onnxruntime, and the bytes of its file.

    Args:
        elmo: the model.
        dtype: how its file stores weights.
        threads: onnxruntime's.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        to_onnx(elmo, path, dtype)
        n_bytes = sum(item.stat().st_size for item in Path(folder).iterdir())
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session, n_bytes


def onnx_way(
    elmo: ELMo, sentences: Sequence[Sequence[str]], dtype: Storage = "float32", threads: int = 2
) -> Callable[[], Any]:
    """Give a call that computes all layers of sentences, from ids that are made beforehand.

    Args:
        elmo: the model.
        sentences: one batch.
        dtype: how the file stores weights.
        threads: onnxruntime's.
    """
    session, _ = session_of(elmo, dtype, threads)
    ids = elmo.character_ids(sentences).cpu().numpy()
    return lambda: session.run(["layers"], {"character_ids": ids})[0]


def main() -> None:
    """Print a row for each way to store the weights."""
    from embed import SIZES, model_of
    from machine import describe

    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--model", help="a model of your own in place of the sizes")
    given = parser.parse_args()
    text = Path(__file__).with_name("sentences.txt").read_text(encoding="utf-8")
    sentences = [line.split() for line in text.splitlines()][:32]
    print(describe())
    print(
        "| model | stored as | MB | 32 sentences, words/s | 1 sentence, ms "
        "| largest error | mean cosine | least cosine |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    names = [given.model] if given.model else given.sizes
    for name in names:
        elmo = ELMo.from_pretrained(name) if given.model else model_of(SIZES[name])
        for dtype in STORAGES:
            print(f"| {name} | {dtype} | {_row(elmo, sentences, dtype, given.repeats)} |")


def _row(elmo: ELMo, sentences: list[list[str]], dtype: Storage, repeats: int) -> str:
    session, n_bytes = session_of(elmo, dtype)
    batch, single = (elmo.character_ids(part).numpy() for part in (sentences, [sentences[0][:10]]))
    seconds = times_of(
        {
            "batch": [lambda: session.run(["layers"], {"character_ids": batch})],
            "single": [lambda: session.run(["layers"], {"character_ids": single})],
        },
        repeats,
    )
    layers = session.run(["layers"], {"character_ids": batch})[0]
    found = np.concatenate(
        [layers[:, n, 1 : len(words) + 1] for n, words in enumerate(sentences)], axis=1
    )
    expected = np.concatenate(elmo.encode(sentences, layers="all"), axis=1)
    cosines = torch.cosine_similarity(
        torch.from_numpy(found).double(), torch.from_numpy(expected).double(), dim=2
    )
    n_words = sum(map(len, sentences))
    return (
        f"{n_bytes / 1e6:,.1f} | {n_words / seconds['batch'].median:,.0f} | "
        f"{1000 * seconds['single'].median:.1f} | {np.abs(found - expected).max():.1e} | "
        f"{cosines.mean():.6f} | {cosines.min():.6f}"
    )


if __name__ == "__main__":
    main()
