"""Times training steps of a word language model against plain PyTorch, as a ratio in one run.

    python benchmarks/lm_step.py --device cuda

The geometry is that of AWD-LSTM: 400 input dimensions, three LSTM layers of 1,150, 1,150 and 400,
weight drop 0.5, locked dropout, tied softmax over 10,000 words, 80 rows of 70 words. The plain
model is the same with `nn.LSTM`, whose recurrent weights are replaced by dropped ones in each step,
and eager operations. Both use AdamW and clip gradients. Steps alternate, and medians are compared.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from machine import describe
from torch import Tensor, nn
from torch.nn import functional

from elmo.config import RunConfig
from elmo.config.language_model_commands import LMTrainConfig
from elmo.config.language_models import (
    RecurrentConfig,
    RecurrentDropoutConfig,
    SegmentConfig,
    SymbolConfig,
)
from elmo.lab.recurrent_trainable import RecurrentTrainable
from elmo.lab.symbol_text import read_training_text
from elmo.lab.train_lm import training_job
from elmo.train.devices import make_fabric

DROPOUTS = RecurrentDropoutConfig(
    dropout=0.25, input_dropout=0.4, output_dropout=0.4, embedding_dropout=0.1, weight_drop=0.5
)


class PlainModel(nn.Module):
    """The same network with PyTorch's modules."""

    def __init__(self, config: LMTrainConfig, n_words: int) -> None:
        super().__init__()
        shape, self.rates = config.network, config.regularization
        self.embedding = nn.Parameter(torch.empty(n_words, shape.input_dim).uniform_(-0.1, 0.1))
        self.bias = nn.Parameter(torch.zeros(n_words))
        outputs = [shape.hidden_dim] * (shape.n_layers - 1) + [shape.input_dim]
        inputs = [shape.input_dim, *outputs[:-1]]
        self.layers = nn.ModuleList(map(nn.LSTM, inputs, outputs))

    def forward(self, x: Tensor, state: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Return the logits of the next words; the state is updated."""
        keep = torch.ones(len(self.embedding), 1, device=x.device)
        table = self.embedding * functional.dropout(keep, self.rates.embedding_dropout)
        hidden = functional.embedding(x, table)
        for number, layer in enumerate(self.layers):
            hidden = self._locked(hidden, self.rates.input_dropout if number == 0 else None)
            dropped = functional.dropout(layer.weight_hh_l0, self.rates.weight_drop)
            weights = {**dict(layer.named_parameters()), "weight_hh_l0": dropped}
            hidden, (h, c) = torch.func.functional_call(layer, weights, (hidden, state[number]))
            state[number] = (h.detach(), c.detach())
        hidden = self._locked(hidden, self.rates.output_dropout)
        return functional.linear(hidden, self.embedding, self.bias)

    def _locked(self, x: Tensor, rate: float | None) -> Tensor:
        rate = self.rates.dropout if rate is None else rate
        return x * functional.dropout(torch.ones_like(x[:1]), rate)


def plain_step(
    config: LMTrainConfig, n_words: int, device: torch.device
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function that trains the plain model on a segment."""
    model = PlainModel(config, n_words).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    batch = config.segments.batch_size
    state = [
        (
            torch.zeros(1, batch, layer.hidden_size, device=device),
            torch.zeros(1, batch, layer.hidden_size, device=device),
        )
        for layer in model.layers
        if isinstance(layer, nn.LSTM)
    ]
    is_bfloat16 = config.run.precision == "bfloat16"

    def step(x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=is_bfloat16):
            logits = model(x, state)
        loss = functional.cross_entropy(logits.flatten(0, 1).float(), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def main() -> None:
    """Time both programs in turn."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--hidden-dim", type=int, default=1150)
    parser.add_argument("--embedding-dim", type=int, default=400)
    parser.add_argument("--words", type=int, default=10_000)
    parser.add_argument("--batch-size", type=int, default=80)
    parser.add_argument("--unroll", type=int, default=70)
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        generator = np.random.default_rng(0)
        n_tokens = args.batch_size * args.unroll * 4
        words = np.concatenate(
            [np.arange(args.words), generator.integers(args.words, size=n_tokens)]
        )
        path = Path(folder) / "text.txt"
        path.write_text(" ".join(f"w{word}" for word in words), encoding="ascii")
        config = LMTrainConfig(
            text=(str(path),),
            out=folder,
            symbols=SymbolConfig(unit="words", valid_fraction=0.0),
            network=RecurrentConfig(
                n_layers=3, hidden_dim=args.hidden_dim, embedding_dim=args.embedding_dim, tied=True
            ),
            segments=SegmentConfig(batch_size=args.batch_size, unroll=args.unroll),
            regularization=DROPOUTS,
            run=RunConfig(precision=args.precision, accelerator=args.device),
        )
        text = read_training_text(config)
        trainable = RecurrentTrainable(training_job(config, text), make_fabric(config.run))
    device = trainable.fabric.device
    plain = plain_step(config, len(text.symbols), device)
    batches = trainable.batches(0)
    times: dict[str, list[float]] = {"elmo": [], "plain": []}
    for number in range(args.steps + 5):
        batch = next(batches)
        segment = trainable.streams.segment(number)
        x, y = (torch.from_numpy(ids).to(device) for ids in (segment.inputs, segment.targets))
        calls = {
            "elmo": lambda batch=batch, number=number: trainable.step(batch, number, 1.0).losses,
            "plain": lambda x=x, y=y: plain(x, y),
        }
        for name, call in calls.items():
            begin = time.perf_counter()
            call().cpu()  # waits for the GPU
            if number >= 5:  # earlier steps compile and capture
                times[name].append(time.perf_counter() - begin)
    ours, theirs = (statistics.median(times[name]) for name in ("elmo", "plain"))
    print(f"{describe()}; {args.device}, {args.precision}")
    print(
        f"elmo {1e3 * ours:.2f} ms, plain PyTorch {1e3 * theirs:.2f} ms, ratio {theirs / ours:.2f}"
    )


if __name__ == "__main__":
    main()
