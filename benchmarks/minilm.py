"""Benchmark of texts to vectors on a CPU: ELMo against MiniLM-L6, both from raw text.

    pip install onnxscript
    python benchmarks/minilm.py --text FILE

MiniLM has the architecture of all-MiniLM-L6-v2 with random weights, and a WordPiece vocabulary
trained on the text, which gives it fewer pieces per word than its own vocabulary. It runs in
onnxruntime, quantized to int8 as its published files are, and with sentence-transformers in
float32. All variants get the same lines of text and sort them by length; words are those of ELMo's
tokenizer, also for MiniLM. All variants are timed in turn in the same run.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from machine import describe
from numpy.typing import NDArray
from onnxruntime.quantization import QuantType, quantize_dynamic
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from timing import Step, Timing, time_in_turn
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertModel, BertTokenizerFast

from elmo import ELMo

HERE = Path(__file__).parent
BATCH_SIZE = 32
# The vocabulary size, and the maximum number of pieces, of all-MiniLM-L6-v2.
VOCABULARY, MAX_PIECES = 30_522, 256


def make_minilm(folder: Path, lines: Sequence[str]) -> None:
    """Write a MiniLM model with random weights, and a tokenizer trained on the lines."""
    trainer = BertWordPieceTokenizer(lowercase=True)
    trainer.train_from_iterator(lines, vocab_size=VOCABULARY, min_frequency=1, show_progress=False)
    trainer.save_model(str(folder))
    BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=MAX_PIECES).save_pretrained(
        folder
    )
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
    )
    BertModel(config, add_pooling_layer=False).eval().save_pretrained(folder)


def int8_session(folder: Path) -> onnxruntime.InferenceSession:
    """Return an onnxruntime session of the model in a folder, quantized to int8."""
    model = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    names = ["input_ids", "attention_mask", "token_type_ids"]
    ids, types = torch.ones(2, 8, dtype=torch.long), torch.zeros(2, 8, dtype=torch.long)
    mask = torch.tensor([[1] * 8, [1] * 5 + [0] * 3])  # without padding, masking is not exported
    shape = {0: torch.export.Dim("batch"), 1: torch.export.Dim("pieces", max=512)}
    torch.onnx.export(
        model,
        kwargs={"input_ids": ids, "attention_mask": mask, "token_type_ids": types},
        f=str(folder / "model.onnx"),
        input_names=names,
        output_names=["vectors"],
        dynamic_shapes=dict.fromkeys(names, shape),
        dynamo=True,
        external_data=False,
    )
    quantize_dynamic(
        folder / "model.onnx", folder / "int8.onnx", weight_type=QuantType.QInt8, per_channel=True
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(
        folder / "int8.onnx", options, providers=["CPUExecutionProvider"]
    )


def onnx_encoder(folder: Path) -> Callable[[Sequence[str]], NDArray[np.float32]]:
    """Return a function that returns the mean of the piece vectors of each line."""
    session, tokenizer = int8_session(folder), BertTokenizerFast.from_pretrained(folder)

    def encode(lines: Sequence[str]) -> NDArray[np.float32]:
        order = sorted(range(len(lines)), key=lambda row: len(lines[row]))
        vectors = np.empty((len(lines), 384), dtype=np.float32)
        for start in range(0, len(order), BATCH_SIZE):
            rows = order[start : start + BATCH_SIZE]
            inputs = tokenizer(
                [lines[row] for row in rows], padding=True, truncation=True, return_tensors="np"
            )
            (pieces,) = session.run(["vectors"], dict(inputs))
            mask = inputs["attention_mask"][:, :, None]
            vectors[rows] = (pieces * mask).sum(1) / mask.sum(1)
        return vectors

    return encode


def variants(folder: Path, lines: Sequence[str]) -> dict[str, Step]:
    """Return the timed functions by name, after a check that MiniLM's two variants agree."""
    make_minilm(folder, lines)
    elmo = ELMo.from_pretrained("small-en")
    onnx_encode = onnx_encoder(folder)
    transformer = Transformer(str(folder), max_seq_length=MAX_PIECES)
    torch_model = SentenceTransformer(
        modules=[transformer, Pooling(transformer.get_embedding_dimension())], device="cpu"
    )
    expected, found = torch_model.encode(list(lines[:8])), onnx_encode(lines[:8])
    norms = np.linalg.norm(expected, axis=1) * np.linalg.norm(found, axis=1)
    least = ((expected * found).sum(1) / norms).min()
    print(f"MiniLM int8 against float32: least cosine {least:.4f}")
    assert least > 0.99

    def elmo_step(precision: str, pooling: str | None) -> Step:
        return lambda: elmo.encode(lines, precision=precision, pooling=pooling)

    return {
        "ELMo small-en int8, text vectors": elmo_step("int8", "mean"),
        "ELMo small-en int8, word vectors": elmo_step("int8", None),
        "ELMo small-en float32, text vectors": elmo_step("float32", "mean"),
        "MiniLM-L6 int8, onnxruntime": lambda: onnx_encode(lines),
        "MiniLM-L6 float32, sentence-transformers": lambda: torch_model.encode(
            list(lines), batch_size=BATCH_SIZE, show_progress_bar=False
        ),
    }


def print_table(times: dict[str, Timing], n_words: int) -> None:
    """Print words per second, by the median and by the minimum time."""
    print("\n| variant | words/s, median | words/s, minimum time |\n| --- | --- | --- |")
    for name, timing in times.items():
        print(f"| {name} | {n_words / timing.median:,.0f} | {n_words / timing.minimum:,.0f} |")


def main() -> None:
    """Time all variants and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, default=HERE / "sentences.txt")
    parser.add_argument("--lines", type=int, default=500, help="Number of lines of the text.")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    text = args.text.read_text(encoding="utf-8").splitlines()
    lines = [line.strip() for line in text if line.strip()][: args.lines]
    elmo = ELMo.from_pretrained("small-en")
    n_words = sum(len(elmo.tokenizer.words(line)) for line in lines)
    print(f"{describe()}\n\n{len(lines)} lines, {n_words:,} words")
    with tempfile.TemporaryDirectory() as folder:
        steps = variants(Path(folder), lines)
        times = time_in_turn({name: [step] for name, step in steps.items()}, args.repeats)
    print_table(times, n_words)


if __name__ == "__main__":
    main()
