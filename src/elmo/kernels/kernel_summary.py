"""One-line summary of the kernels and precisions of this machine, for `elmo info`."""

from typing import get_args

import torch

from elmo.kernels.device import can_fuse
from elmo.kernels.lstm_native import WIDTH_MULTIPLE, has_native_widths
from elmo.kernels.native_ffi import NumberFormat, can_compute
from elmo.kernels.native_library import library


def summarize_kernels(cell_dim: int, projection_dim: int) -> str:
    """Return the kernels of an LSTM of the given size with their precisions, the default first.

    The default is float32, because weights are loaded in it.
    """
    summary = f"CPU {_summarize_cpu((cell_dim, projection_dim))}"
    if torch.cuda.is_available():
        kernel = "fused" if can_fuse(torch.empty(0, device="cuda")) else "cudnn"
        summary += f"; GPU {kernel}, in float32 (default), bfloat16 or float16"
    return summary


def _summarize_cpu(widths: tuple[int, ...]) -> str:
    loaded = library()
    if loaded is None:
        return "reference, in float32 (the native kernels need a C compiler)"
    if not has_native_widths(widths):
        return f"reference, in float32 (dimensions are not multiples of {WIDTH_MULTIPLE})"
    others = [name for name in get_args(NumberFormat)[1:] if can_compute(name)]
    names = ["float32 (default)", *others]
    precisions = " or ".join([", ".join(names[:-1]), names[-1]] if others else names)
    return f"native ({loaded.instructions().decode()}), in {precisions}"
