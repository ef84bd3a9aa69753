"""The LSTM stack of the original, forward and backward, on one GPU: ours beside the others.

    python benchmarks/kernels.py [--batches 128 512 2048] [--steps 20]

Two layers, two directions, 512/4096, clips at 3. A token is one position read by both directions.
Every figure of a table is from the same run: medians, warm, each beside the ceiling of a large
bf16 product measured there and then. cuDNN has no clips: its figures are of other arithmetic.
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
"""Operations of a token, forward and backward."""


def milliseconds(work: Callable[[], None], repeats: int) -> float:
    """Give the median time of a call, by the device's clock."""
    for _ in range(3):
        work()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def graphed(work: Callable[[], None]) -> Callable[[], None]:
    """Capture a call, so that it is launched as one."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def ceiling() -> float:
    """Give the operations a second of a large bf16 product on random numbers."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return 2 * 8192**3 / (milliseconds(lambda: torch.mm(a, b), 20) / 1000)


class Stack:
    """Weights of the stack and one window of input, in plain tensors."""

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
        """Go forward and backward; gradients of everything."""
        x = self.x
        for layer in range(LAYERS):
            directions = [
                LSTMCall(
                    x[side],
                    **self.weights[2 * layer + side],
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
            outputs = [walk[0] for walk in kernel(directions)]
            x = [out + into for out, into in zip(outputs, x, strict=True)] if layer else outputs
        leaves = [*self.x, *(value for each in self.weights for value in each.values())]
        torch.autograd.grad(x, leaves, [self.x[0].detach()] * 2)


class Cudnn:
    """The same geometry without clips and residual."""

    def __init__(self, batch: int, n_steps: int, dtype: torch.dtype) -> None:
        self.stacks = [
            nn.LSTM(DIM, CELL, LAYERS, proj_size=DIM, device="cuda", dtype=dtype) for _ in range(2)
        ]
        self.x = [
            torch.randn(n_steps, batch, DIM, device="cuda", dtype=dtype, requires_grad=True)
            for _ in range(2)
        ]

    def run(self) -> None:
        """Go forward and backward; gradients of everything."""
        out = [stack(x)[0] for stack, x in zip(self.stacks, self.x, strict=True)]
        leaves = [*self.x, *(value for stack in self.stacks for value in stack.parameters())]
        torch.autograd.grad(out, leaves, [self.x[0].detach()] * 2)


def measure(name: str, work: Callable[[], None], tokens: int, top: float, base: float) -> float:
    """Time one line of the table, print it, and give its tokens a second."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    time = milliseconds(work, 20)
    rate = tokens / time * 1000
    ratio = f"{rate / base:6.2f}" if base else "  1.00"
    memory = torch.cuda.max_memory_reserved() / 2**30
    print(
        f"  {name:28} {time:8.2f} ms {rate / 1e3:8.1f} k tokens/s {ratio} x "
        f"{100 * rate * FLOPS / top:5.1f} % {memory:6.1f} GiB",
        flush=True,
    )
    return rate


def main() -> None:
    """Print a table for each batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, nargs="+", default=[128, 512, 2048])
    parser.add_argument("--steps", type=int, default=20)
    given = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("there is no CUDA device to measure")
    top = ceiling()
    print(describe())
    print(f"ceiling: {top / 1e12:.0f} TFLOP/s, {top / FLOPS / 1e6:.2f} M tokens/s")
    for batch in given.batches:
        tokens = batch * given.steps
        print(
            f"batch {batch} x {given.steps}; ratios to cuDNN, eager; share of the ceiling; memory"
        )
        other = Cudnn(batch, given.steps, torch.bfloat16)
        base = measure("cuDNN bf16, no clips, eager", other.run, tokens, top, 0.0)
        measure("cuDNN bf16, no clips, graph", graphed(other.run), tokens, top, base)
        del other
        ours = Stack(batch, given.steps, torch.bfloat16)
        measure("fused bf16, eager", lambda s=ours: s.run(lstm_fused.lstm), tokens, top, base)
        replay = graphed(lambda s=ours: s.run(lstm_fused.lstm))
        fused = measure("fused bf16, graph", replay, tokens, top, base)
        del replay, ours
        plain = Stack(batch, given.steps, torch.float32)
        measure("fused fp32, eager", lambda s=plain: s.run(lstm_fused.lstm), tokens, top, base)
        loop = measure(
            "reference fp32, eager", lambda s=plain: s.run(lstm_reference.lstm), tokens, top, base
        )
        print(f"  fused bf16 over the reference: {fused / loop:.1f} x", flush=True)
        del plain


if __name__ == "__main__":
    main()
