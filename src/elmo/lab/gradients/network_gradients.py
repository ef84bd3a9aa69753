"""Everything that is measured of one network."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from elmo.lab.gradients.backward_norms import (
    GradientCurve,
    gradient_curves,
    unrolled_windows,
)
from elmo.lab.gradients.clipped_norms import ClippedNorms, clipped_norms
from elmo.lab.gradients.gradient_regions import gradient_regions
from elmo.lab.gradients.measured_network import MeasuredNetwork
from elmo.lab.gradients.recurrent_jacobian import SpectralRadii, spectral_radii
from elmo.lab.gradients.text_windows import TextStream, TextWindows

# Segments whose weight gradients are clipped: steps, batch rows, and number of segments.
SEGMENT_STEPS, SEGMENT_ROWS, N_SEGMENTS = 64, 8, 16


@dataclass(frozen=True)
class NetworkGradients:
    """Gradients of one network on a text.

    Attributes:
        name: Name of the network.
        n_windows: Number of windows of the text.
        curves: Norms of the gradients of earlier states, by layer and state.
        radii: Spectral radii of the recurrent Jacobian, by layer.
        clipping: Norms of the gradients of the weights before and after clipping.
    """

    name: str
    n_windows: int
    curves: tuple[GradientCurve, ...]
    radii: tuple[SpectralRadii, ...]
    clipping: ClippedNorms

    def curve(self, layer: int = -1, state: str = "hidden") -> GradientCurve:
        """Return the curve of a layer. Default: the hidden state of the last layer."""
        return [curve for curve in self.curves if curve.state == state][layer]

    def to_dict(self) -> Mapping[str, object]:
        """Return all numbers as plain data."""
        return {
            "name": self.name,
            "curves": [
                {**asdict(curve), **asdict(gradient_regions(curve.norms))} for curve in self.curves
            ],
            "spectral_radii": [asdict(radii) for radii in self.radii],
            "clipping": {**asdict(self.clipping), "share": self.clipping.share},
        }


def network_gradients(
    name: str,
    network: MeasuredNetwork,
    stream: TextStream,
    *,
    steps: int,
    n_windows: int,
    clip_norm: float,
) -> NetworkGradients:
    """Measure the gradients of a network.

    Args:
        name: Name of the network.
        network: The network.
        stream: What the network reads and predicts.
        steps: Maximum number of steps back.
        n_windows: Maximum number of windows of the text.
        clip_norm: Maximum norm of the gradient of the weights; 0: no clipping.
    """
    windows = TextWindows.of_text(stream, n_windows, steps + 1)
    frozen = network.frozen_copy()
    states = unrolled_windows(frozen, windows)
    segments = TextWindows.of_text(stream, N_SEGMENTS * SEGMENT_ROWS, min(SEGMENT_STEPS, steps + 1))
    return NetworkGradients(
        name,
        windows.n_windows,
        gradient_curves(frozen, windows, states),
        spectral_radii(frozen, states),
        clipped_norms(network, segments, SEGMENT_ROWS, clip_norm),
    )
