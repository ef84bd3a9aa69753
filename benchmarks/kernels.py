"""Benchmark the LSTM kernels on one GPU: forward and backward pass of the original ELMo's stack.

    python benchmarks/kernels.py [--batches 128 512 2048] [--steps 20]

Two layers, two directions, projection 512, cell 4096, clipping at 3. A token is one position, read
by both directions. All times of a table are from the same run: medians after a warm-up, compared to
the peak rate of a large bfloat16 matrix product in the same run. cuDNN does not support clipping,
so it computes less.
"""

import argparse
import statistics
from collections.abc import Callable

import torch
from machine import describe
from torch import Tensor, nn

from elmo.kernels import lstm_fused, lstm_reference
from elmo.kernels.lstm_call import LSTMCall

DIM, CELL, LAYERS = 512, 4096, 2
FLOPS = 3 * 2 * LAYERS * 2 * (2 * DIM * 4 * CELL + CELL * DIM)
"""Floating point operations per token, forward and backward."""


def milliseconds(function: Callable[[], None], repeats: int) -> float:
    """Return the median time of a call, measured with CUDA events."""
    for _ in range(3):
        function()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def capture(function: Callable[[], None]) -> Callable[[], None]:
    """Capture a call in a CUDA graph, and return a function that replays it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def peak_rate() -> float:
    """Return the operations per second of a large bfloat16 matrix product."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * 8192**3 / (milliseconds(lambda: torch.mm(a, b), 20) / 1000)


class Stack:
    """Weights of the LSTM stack and the input of one BPTT segment, as plain tensors."""

    def __init__(self, batch: int, n_steps: int, dtype: torch.dtype) -> None:
        def draw(*shape: int, scale: float = 1.0) -> Tensor:
            return (scale * torch.randn(shape, device="cuda")).to(dtype).requires_grad_()

        self.x = [draw(n_steps, batch, DIM) for _ in range(2)]
        self.weights = [
            {
                "weight_ih": draw(4 * CELL, DIM, scale=DIM**-0.5),
                "weight_hh": draw(4 * CELL, DIM, scale=DIM**-0.5),
                "bias": draw(4 * CELL),
                "weight_hr": draw(DIM, CELL, scale=2 * CELL**-0.5),
            }
            for _ in range(2 * LAYERS)
        ]
        self.h = torch.zeros(batch, DIM, device="cuda", dtype=dtype)
        self.c = torch.zeros(batch, CELL, device="cuda")
        self.mask = torch.ones(n_steps, batch, device="cuda", dtype=torch.bool)
        self.active = [batch] * n_steps

    def run(self, kernel: Callable[[list[LSTMCall]], list[tuple[Tensor, ...]]]) -> None:
        """Run a forward and a backward pass with the gradients of inputs and weights."""
        x = self.x
        for depth in range(LAYERS):
            directions = [
                LSTMCall(
                    x[side],
                    **self.weights[2 * depth + side],
                    h=self.h,
                    c=self.c,
                    mask=self.mask,
                    active=self.active,
                    cell_clip=3.0,
                    projection_clip=3.0,
                    reverse=False,
                )
                for side in range(2)
            ]
            outputs = [result[0] for result in kernel(directions)]
            x = (
                [output + residual for output, residual in zip(outputs, x, strict=True)]
                if depth
                else outputs
            )
        leaves = [*self.x, *(value for layer in self.weights for value in layer.values())]
        torch.autograd.grad(x, leaves, [self.x[0].detach()] * 2)


class Cudnn:
    """`nn.LSTM` stacks of the same sizes, without clipping and residual connection."""

    def __init__(self, batch: int, n_steps: int, dtype: torch.dtype) -> None:
        self.stacks = [
            nn.LSTM(DIM, CELL, LAYERS, proj_size=DIM, device="cuda", dtype=dtype) for _ in range(2)
        ]
        self.x = [
            torch.randn(n_steps, batch, DIM, device="cuda", dtype=dtype, requires_grad=True)
            for _ in range(2)
        ]

    def run(self) -> None:
        """Run a forward and a backward pass with the gradients of inputs and weights."""
        out = [stack(x)[0] for stack, x in zip(self.stacks, self.x, strict=True)]
        leaves = [*self.x, *(value for stack in self.stacks for value in stack.parameters())]
        torch.autograd.grad(out, leaves, [self.x[0].detach()] * 2)


def measure(
    name: str, function: Callable[[], None], tokens: int, peak: float, baseline: float
) -> float:
    """Time a variant, print its row of the table, and return its tokens per second.

    Args:
        name: Name of the variant.
        function: Forward and backward pass.
        tokens: Tokens per call.
        peak: Operations per second of `peak_rate`.
        baseline: Tokens per second of the baseline; 0 if this is the baseline.
    """
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    time = milliseconds(function, 20)
    rate = tokens / time * 1000
    ratio = f"{rate / baseline:6.2f}" if baseline else "  1.00"
    memory = torch.cuda.max_memory_reserved() / 2**30
    print(
        f"  {name:32} {time:8.2f} ms {rate / 1e3:8.1f} k tokens/s {ratio} x "
        f"{100 * rate * FLOPS / peak:5.1f} % {memory:6.1f} GiB",
        flush=True,
    )
    return rate


def main() -> None:
    """Print a table for each batch size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[128, 512, 2048], help="Batch sizes."
    )
    parser.add_argument("--steps", type=int, default=20, help="Time steps per segment.")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("This benchmark requires a CUDA device.")
    peak = peak_rate()
    print(describe())
    print(f"peak: {peak / 1e12:.0f} TFLOP/s, {peak / FLOPS / 1e6:.2f} M tokens/s")
    for batch in args.batches:
        tokens = batch * args.steps
        print(
            f"batch {batch} x {args.steps}; speed relative to cuDNN, eager; percent of peak; memory"
        )
        cudnn = Cudnn(batch, args.steps, torch.bfloat16)
        baseline = measure("cuDNN bf16, no clipping, eager", cudnn.run, tokens, peak, 0.0)
        measure("cuDNN bf16, no clipping, graph", capture(cudnn.run), tokens, peak, baseline)
        del cudnn
        bfloat16_stack = Stack(batch, args.steps, torch.bfloat16)
        measure(
            "fused bf16, eager",
            lambda s=bfloat16_stack: s.run(lstm_fused.lstm),
            tokens,
            peak,
            baseline,
        )
        replay = capture(lambda s=bfloat16_stack: s.run(lstm_fused.lstm))
        fused = measure("fused bf16, graph", replay, tokens, peak, baseline)
        del replay, bfloat16_stack
        float32_stack = Stack(batch, args.steps, torch.float32)
        measure(
            "fused fp32, eager",
            lambda s=float32_stack: s.run(lstm_fused.lstm),
            tokens,
            peak,
            baseline,
        )
        reference = measure(
            "reference fp32, eager",
            lambda s=float32_stack: s.run(lstm_reference.lstm),
            tokens,
            peak,
            baseline,
        )
        print(f"  fused bf16 over the reference: {fused / reference:.1f} x", flush=True)
        del float32_stack


if __name__ == "__main__":
    main()
