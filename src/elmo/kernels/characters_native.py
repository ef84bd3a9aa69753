"""Convolutions over characters and their maximum on a CPU through `native.c`.

The twin of `characters_reference.pooled`, without gradients. Words are laid one after another, each
as long as it is and not as the longest; a window is a row of a product that overlaps the next one.
"""

import ctypes
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from elmo.kernels.narrow import Arithmetic, wanted
from elmo.kernels.native_calls import (
    LANES,
    PANEL,
    SIZES,
    TOGETHER,
    Weights,
    are_within,
    can_compute,
    filled_up,
    function,
    gather,
    is_plain,
    pack,
    room,
    shares,
    together,
)


class _Convolution(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_int64)
            for name in ("words", "dim", "width", "k", "n", "filters", "columns", "column")
        ),
        *((name, ctypes.c_void_p) for name in ("starts", "a", "w", "bias", "out", "room")),
    )


def can_run(characters: Tensor, table: Tensor, weights: Sequence[Tensor]) -> bool:
    """Tell whether this is a call without gradients, of words as long as the widest filter."""
    return (
        is_plain(table, *weights)
        and characters.device.type == "cpu"
        and len(characters) > 0
        and are_within(characters, len(table))
        and table.shape[1] % LANES == 0
        and characters.shape[1] >= max(weight.shape[2] for weight in weights)
        and can_compute(_arithmetic())
    )


def _arithmetic() -> Arithmetic:
    """Rows that overlap cannot have scales of their own: int8 is bfloat16 here."""
    return "float32" if wanted() == "float32" else "bfloat16"


def pooled(
    characters: Tensor, table: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]
) -> Tensor:
    """Give the maximum of each filter over the positions of each word; see the reference."""
    arithmetic = _arithmetic()
    filters = [pack(weight, arithmetic, "filters", _by_windows) for weight in weights]
    padded = [
        functional.pad(bias.detach(), (0, own.n - len(bias)))
        for own, bias in zip(filters, biases, strict=True)
    ]
    out = torch.empty(len(characters), sum(map(len, biases)))
    table = table.detach().contiguous()

    def compute(first: int, last: int) -> None:
        _compute(
            characters[first:last], table, weights, filters, padded, arithmetic, out[first:last]
        )

    together(partial(compute, *words) for words in shares(len(characters), LANES))
    return out


def _by_windows(weight: Tensor) -> Tensor:
    """Put the numbers of a filter, (filters, dim, width), as they lie in a window."""
    return weight.transpose(1, 2).flatten(1)


def _compute(
    characters: Tensor,
    table: Tensor,
    weights: Sequence[Tensor],
    filters: Sequence[Weights],
    biases: Sequence[Tensor],
    arithmetic: Arithmetic,
    out: Tensor,
) -> None:
    widest = max(weight.shape[2] for weight in weights)
    lengths = _lengths(characters, widest)
    is_needed = torch.arange(characters.shape[1]) < lengths[:, None]
    starts = functional.pad(lengths.cumsum(dim=0), (1, 0))
    dim = table.shape[1]
    # The last windows, filled up, reach over the end.
    spare = (LANES * dim + max(own.k for own in filters)) * SIZES[arithmetic]
    _, values, _ = gather(
        table, characters[is_needed].long(), arithmetic, is_flat=True, spare=spare
    )
    n_rows = filled_up(TOGETHER + int(lengths.max()), 2 * LANES)
    column = 0
    for weight, own, bias in zip(weights, filters, biases, strict=True):
        given = _Convolution(
            words=len(characters),
            dim=dim,
            width=weight.shape[2],
            k=own.k,
            n=own.n,
            filters=len(weight),
            columns=out.shape[1],
            column=column,
            starts=starts.data_ptr(),
            a=values,
            w=own.values.data_ptr(),
            bias=bias.data_ptr(),
            out=out.data_ptr(),
            room=room("windows", n_rows * PANEL * 4),
        )
        function(f"pooled_{arithmetic}")(ctypes.byref(given))
        column += len(weight)


def _lengths(characters: Tensor, widest: int) -> Tensor:
    """Count the characters of each word until every filter has seen all there is to see.

    Once the last character has been repeated for the width of the widest filter, all further
    windows equal one that was seen, and a maximum does not count repetitions.
    """
    places = torch.arange(1, characters.shape[1] + 1)
    used = ((characters != characters[:, -1:]) * places).amax(dim=1)
    return (used + widest).clamp(max=characters.shape[1])
