"""Benchmark the recurrent layers of language models on a CPU against `torch.nn`.

    python benchmarks/recurrent.py [--cells lstm gru rnn lstmp] [--threads 2] [--repeats 9]

Prints the median times of one layer in turn and their ratio: a forward and backward pass with the
gradients of input and weights, and a forward pass without gradients. The input has as many
dimensions as the state.
"""

import argparse
from collections.abc import Callable

import torch
from machine import describe
from timing import Timing, time_in_turn
from torch import Tensor, nn

from elmo.kernels.recurrent_call import Cell, RecurrentCall
from elmo.kernels.recurrent_kernels import run_recurrent

TRAINING = [(64, 16, 128), (128, 32, 128), (64, 32, 256), (128, 64, 256), (64, 16, 512)]
"""Steps, batch size and hidden units."""
INFERENCE = [(1, 1, 256), (1, 16, 256), (500, 1, 256), (500, 16, 256), (1, 1, 512), (500, 1, 512)]


class Layer:
    """A module of `torch.nn` and a call of the same layer with the same weights."""

    def __init__(self, cell: Cell, n_steps: int, batch: int, hidden: int) -> None:
        torch.manual_seed(0)
        self.cell = cell
        if cell == "rnn":
            self.module: nn.RNNBase = nn.RNN(hidden, hidden)
        elif cell == "gru":
            self.module = nn.GRU(hidden, hidden)
        else:
            self.module = nn.LSTM(hidden, hidden, proj_size=hidden // 2 if cell == "lstmp" else 0)
        self.x = torch.randn(n_steps, batch, hidden)
        self.h = torch.zeros(batch, hidden // 2 if cell == "lstmp" else hidden)
        self.c = torch.zeros(batch, hidden) if cell.startswith("lstm") else None
        self.weights = {name.removesuffix("_l0"): p for name, p in self.module.named_parameters()}

    def with_module(self, x: Tensor) -> Tensor:
        """Run the module and return its output."""
        h = self.h.unsqueeze(0)
        output: Tensor = self.module(x, h if self.c is None else (h, self.c.unsqueeze(0)))[0]
        return output

    def with_kernel(self, x: Tensor) -> Tensor:
        """Run the kernel and return its output."""
        return run_recurrent(RecurrentCall(self.cell, x, self.h, self.c, **self.weights)).output

    def train(self, run: Callable[[Tensor], Tensor]) -> None:
        """Run a forward and a backward pass."""
        x = self.x.clone().requires_grad_()
        torch.autograd.grad(run(x), [x, *self.weights.values()], self.gradient)

    @property
    def gradient(self) -> Tensor:
        """Gradient of the output, of the same values for both variants."""
        return self.x[..., : self.h.shape[1]]


def time_layer(layer: Layer, is_training: bool, repeats: int) -> dict[str, Timing]:
    """Return the times of module and kernel."""
    runs = {"torch.nn": layer.with_module, "kernel": layer.with_kernel}
    if is_training:
        steps = {name: [lambda run=run: layer.train(run)] for name, run in runs.items()}
        return time_in_turn(steps, repeats)
    with torch.no_grad():
        steps = {name: [lambda run=run: run(layer.x)] * 5 for name, run in runs.items()}
        return time_in_turn(steps, repeats)


def main() -> None:
    """Print a table of all layers."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cells", nargs="+", default=["lstm", "gru", "rnn", "lstmp"])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{describe()}, {options.threads} threads")
    print(f"{'cell':6} {'pass':18} {'steps':>5} {'batch':>5} {'hidden':>6}", end="")
    print(f" {'torch.nn ms':>12} {'kernel ms':>10} {'ratio':>6} {'of minima':>9}")
    for cell in options.cells:
        for is_training, shapes in ((True, TRAINING), (False, INFERENCE)):
            for shape in shapes:
                times = time_layer(Layer(cell, *shape), is_training, options.repeats)
                module, kernel = times["torch.nn"], times["kernel"]
                print(
                    f"{cell:6} {'forward + backward' if is_training else 'no gradients':18}"
                    f" {shape[0]:5} {shape[1]:5} {shape[2]:6}"
                    f" {1000 * module.median:12.2f} {1000 * kernel.median:10.2f}"
                    f" {module.median / kernel.median:6.2f} {module.minimum / kernel.minimum:9.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
