"""Operations of the network with the native CPU library, which reads packed copies of weights."""

from collections.abc import Sequence

from torch import Tensor

from elmo.kernels import characters_native, linear_native, lstm_native
from elmo.kernels.gradient_mode import no_grad_if_unneeded
from elmo.kernels.lstm_call import LSTMCall, LSTMResult
from elmo.kernels.native_ffi import NumberFormat
from elmo.kernels.torch_kernels import Kernels
from elmo.kernels.weight_snapshot import WeightSnapshot


class NativeKernels(Kernels):
    """Native kernels for the weights of a snapshot.

    Calls that need gradients, have other weights, or have shapes that the library does not support
    run with PyTorch. Biases and tables are read in each call.

    Attributes:
        snapshot: Snapshot of the weights.
        number_format: Number format of the LSTM and of highway layers. Convolutions and linear
            layers are always computed in float32: all layers depend on them, and they are too small
            for a noticeable gain.
    """

    def __init__(self, snapshot: WeightSnapshot, number_format: NumberFormat) -> None:
        """Use the copies of a snapshot, which are made on first use."""
        super().__init__()
        self.snapshot = snapshot
        self.number_format = number_format

    def lstm(self, directions: Sequence[LSTMCall]) -> list[LSTMResult]:
        """Run a layer in all given directions; see `Kernels.lstm`."""
        with no_grad_if_unneeded(tensor for call in directions for tensor in call.tensors()):
            weights = [
                weight
                for call in directions
                for weight in (call.weight_ih, call.weight_hh, call.weight_hr)
            ]
            if self.snapshot.covers(weights) and lstm_native.can_run(
                directions, self.number_format
            ):
                return lstm_native.lstm(directions, self.snapshot, self.number_format)
        return super().lstm(directions)

    def convolve_and_pool(
        self,
        characters: Tensor,
        table: Tensor,
        weights: Sequence[Tensor],
        biases: Sequence[Tensor],
    ) -> Tensor:
        """Return the maximum of each filter; see `Kernels.convolve_and_pool`."""
        args = (characters, table, weights, biases)
        with no_grad_if_unneeded((table, *weights, *biases)):
            if self.snapshot.covers((*weights, *biases)) and characters_native.can_run(*args[:3]):
                return characters_native.convolve_and_pool(*args, self.snapshot)
        return super().convolve_and_pool(*args)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return `x weightᵀ + bias`; see `Kernels.linear`."""
        with no_grad_if_unneeded((x, weight, bias)):
            if self.snapshot.covers((weight,)) and linear_native.can_run(x, weight, bias):
                return linear_native.linear(x, weight, bias, self.snapshot)
        return super().linear(x, weight, bias)

    def highway(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return the output of a highway layer; see `Kernels.highway`."""
        with no_grad_if_unneeded((x, weight, bias)):
            if self.snapshot.covers((weight,)) and linear_native.can_run_highway(x, weight, bias):
                return linear_native.highway(x, weight, bias, self.snapshot, self.number_format)
        return super().highway(x, weight, bias)
