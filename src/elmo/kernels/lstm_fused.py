"""LSTM kernel for GPUs with fused steps; each launch computes all directions.

Only the recurrent product and the projection are computed step by step. The product with the input
weights and the gradients of weights and input are computed for all steps at once. See
`lstm_fused_steps`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.device import HALF_DTYPES, can_fuse, on_device_of, product_dtype
from elmo.kernels.lstm_call import LSTMCall, LSTMResult
from elmo.kernels.lstm_fused_plan import plan_for
from elmo.kernels.lstm_fused_steps import Backward, Forward, Shape

NEEDS = "Triton, a CUDA device of capability 8.0 or more, and float32, bfloat16 or float16"


def can_run(directions: Sequence[LSTMCall]) -> bool:
    """Whether Triton supports the GPU and the dtype, and all directions have the same shape."""
    first = directions[0]
    return can_fuse(first.x) and all(
        product_dtype(direction.x) in (*HALF_DTYPES, torch.float32)
        and direction.c.dtype == torch.float32
        and _common_settings(direction) == _common_settings(first)
        for direction in directions
    )


def _common_settings(direction: LSTMCall) -> tuple[object, ...]:
    """Return the settings that must be the same for all directions of a call."""
    sizes = [direction.x.shape, direction.h.shape, direction.c.shape]
    clips = [direction.cell_clip, direction.projection_clip]
    return (direction.x.device, *sizes, *clips, direction.weight_hr is None)


def lstm(directions: Sequence[LSTMCall]) -> list[LSTMResult]:
    """Run the layer over all time steps. All directions must have the same shapes and clips.

    Second derivatives are not supported, and the backward pass can run only once, because it
    overwrites the gates with their gradients.
    """
    first = directions[0]
    inputs = [_steps_input(direction) for direction in directions]
    n_steps, batch, dim = inputs[0].shape
    tensors: list[Tensor | None] = []
    for x, direction in zip(inputs, directions, strict=True):
        tensors += [x, direction.weight_ih, direction.weight_hh, direction.bias]
        tensors += [direction.weight_hr, direction.h, direction.c]
    needs_gradient = any(tensor is not None and tensor.requires_grad for tensor in tensors)
    dtype = product_dtype(inputs[0])
    shape = Shape(
        n_directions=len(directions),
        n_steps=n_steps,
        batch=batch,
        dim=dim,
        cell=first.c.shape[1],
        out=first.h.shape[1],
        projected=first.weight_hr is not None,
        cell_clip=first.cell_clip,
        projection_clip=first.projection_clip if first.weight_hr is not None else None,
        dtype=dtype,
        training=needs_gradient and torch.is_grad_enabled(),
        n_rows=_rows_per_step(directions, n_steps),
        plan=plan_for(batch, dtype),
    )
    flags = _row_flags(directions, n_steps, inputs[0].device)
    with torch.autocast(inputs[0].device.type, enabled=False), on_device_of(inputs[0]):
        results = _FusedLayer.apply(shape, flags, *tensors)  # type: ignore[no-untyped-call]
    layer_results = []
    for number, direction in enumerate(directions):
        out, h, c = results[3 * number : 3 * number + 3]
        layer_results.append((out.flip(0) if direction.reverse else out, h, c))
    return layer_results


def _steps_input(direction: LSTMCall) -> Tensor:
    """Return the input in processing order, (time, batch, dim)."""
    if direction.index is None:
        return direction.x.flip(0) if direction.reverse else direction.x
    index = direction.index.flip(0) if direction.reverse else direction.index
    return functional.embedding(index, direction.x)


def _rows_per_step(directions: Sequence[LSTMCall], n_steps: int) -> tuple[int, ...] | None:
    """Return the number of rows to compute at each step, or None for all rows."""
    counts = []
    for direction in directions:
        if direction.active is None or min(direction.active) == len(direction.h):
            return None
        counts.append(direction.active[::-1] if direction.reverse else direction.active)
    return tuple(max(1, *(count[step] for count in counts)) for step in range(n_steps))


def _row_flags(directions: Sequence[LSTMCall], n_steps: int, device: torch.device) -> Tensor | None:
    """Return the RESET and PADDING flags, (directions, time, batch), or None if no flag is set."""
    from elmo.kernels.triton_lstm import PADDING, RESET

    flags_of_directions = []
    for direction in directions:
        batch = len(direction.h)
        flags = None
        if direction.active is None:
            flags = (~direction.mask).to(torch.int8) * PADDING.value
        elif min(direction.active) < batch:
            counts = torch.tensor(direction.active)
            if device.type == "cuda":
                # Asynchronous copy.
                counts = counts.pin_memory().to(device, non_blocking=True)
            is_padding = torch.arange(batch, device=device) >= counts[:, None]
            flags = is_padding.to(torch.int8) * PADDING.value
        if direction.resets is not None:
            resets = direction.resets.to(torch.int8) * RESET.value
            flags = resets if flags is None else flags + resets
        if flags is not None and direction.reverse:
            flags = flags.flip(0)
        flags_of_directions.append(flags)
    if all(flags is None for flags in flags_of_directions):
        return None
    shape = (n_steps, len(directions[0].h))
    no_flags = torch.zeros(shape, dtype=torch.int8, device=device)
    return torch.stack([no_flags if flags is None else flags for flags in flags_of_directions])


class _FusedLayer(torch.autograd.Function):
    """Autograd function of the layer. It takes a flat list of seven tensors per direction."""

    @staticmethod
    def forward(ctx: Any, shape: Shape, flags: Tensor | None, *tensors: Tensor) -> Any:
        forward = Forward(shape, flags, tensors)
        forward.run()
        ctx.shape, ctx.is_consumed = shape, False
        ctx.dtypes = [None if tensor is None else tensor.dtype for tensor in tensors]
        if shape.training:
            ctx.save_for_backward(*forward.saved())
        results: list[Tensor] = []
        for number in range(shape.n_directions):
            h = forward.states[number, -1, :, shape.dim :]
            results += [forward.outputs[number], h.clone(), forward.cells[number, -1].clone()]
        return tuple(results)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        if ctx.is_consumed:
            raise RuntimeError(
                "The fused LSTM supports only one backward pass per forward pass. Use "
                "kernel=reference for several."
            )
        ctx.is_consumed = True
        results = Backward(ctx.shape, ctx.saved_tensors, gradients).run(
            any(ctx.needs_input_grad[2::7])
        )
        converted = [
            None if value is None or dtype is None else value.to(dtype)
            for value, dtype in zip(results, ctx.dtypes, strict=True)
        ]
        return (None, None, *converted)
