"""Argument structures of `native.c`, and what the library reports about itself.

The sizes are compared when the library is loaded.
"""

import ctypes

ABI_VERSION = 2
"""The value of `ABI_VERSION` in native.c. Increase both when a signature or structure changes."""


def _fields(*groups: tuple[type, str]) -> list[tuple[str, type]]:
    """Return the fields of a structure, given a type and space-separated names for each group."""
    return [(name, kind) for kind, names in groups for name in names.split()]


class ProductArgs(ctypes.Structure):
    """The struct `product_args`."""

    _fields_ = _fields(
        (ctypes.c_int64, "rows k n first last epilogue"),
        (ctypes.c_void_p, "a a_scale w w_scale bias x out sums"),
    )


class ConvolutionArgs(ctypes.Structure):
    """The struct `convolution_args`."""

    _fields_ = _fields(
        (ctypes.c_int64, "words length n_distinct columns n_widths"),
        (ctypes.c_void_p, "shapes characters contributions bias out"),
    )


class LSTMArgs(ctypes.Structure):
    """The struct `lstm_args`."""

    _fields_ = _fields(
        (ctypes.c_int64, "cell out batch first_step last_step reverse rows n_inputs block"),
        (ctypes.c_float, "cell_clip projection_clip"),
        (ctypes.c_void_p, "gates index active recurrent recurrent_scale projection cells h"),
        (ctypes.c_void_p, "outputs state state_scale hidden projection_sums gate_sums"),
    )


class LibraryInfo(ctypes.Structure):
    """The struct `library_info`, which the library fills: ABI version and sizes in bytes."""

    _fields_ = _fields((ctypes.c_int64, "abi_version product_args convolution_args lstm_args"))

    def as_tuple(self) -> tuple[int, ...]:
        """Return the values of all fields."""
        return self.abi_version, self.product_args, self.convolution_args, self.lstm_args


EXPECTED = (ABI_VERSION, *map(ctypes.sizeof, (ProductArgs, ConvolutionArgs, LSTMArgs)))
"""The values of `LibraryInfo` that this package needs."""
