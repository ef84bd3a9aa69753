"""Config class of the command `elmo gradients`."""

import math
from dataclasses import dataclass

from elmo.config.bounds import require_at_least_one
from elmo.errors import ConfigError


@dataclass(frozen=True)
class GradientsConfig:
    """Measure how far the gradients of an RNN reach back in time.

    The page compares the trained model with its initial weights, and with other cells, forget
    biases and recurrent weights in networks of the same size. --json prints all numbers.

    Examples:
      elmo gradients run shakespeare.txt --out page.html
      elmo gradients lstm-run shakespeare.txt --compare rnn-run --out page.html --png gradients.png
      elmo gradients char-small shakespeare.txt --out page.html
    """

    model: str
    """Folder written by `elmo lm train`, or a preset or YAML config file of this command, whose
    network is measured without training."""
    text: tuple[str, ...]
    """Text files or globs, or - for standard input. Several files are joined in the given order."""
    out: str
    """HTML file of the page."""
    png: str | None = None
    """Also draw the curves to this PNG file. Needs matplotlib."""
    compare: tuple[str, ...] = ()
    """Folders of other trained models, such as one with another cell."""
    steps: int = 200
    """Maximum number of steps back."""
    windows: int = 32
    """Number of windows of the text. The loss at the end of each window is differentiated, and the
    norms are averaged."""
    clip_norm: float = 1.0
    """Maximum gradient norm of all weights, whose effect is measured. 0: no clipping."""
    seed: int = 1
    """Seed of the initial weights."""

    def __post_init__(self) -> None:
        """Validate numbers."""
        require_at_least_one(self, "steps", "windows")
        if not 0.0 <= self.clip_norm < math.inf:
            raise ConfigError(f"clip_norm must be 0 or more (got {self.clip_norm}).")
        if self.seed < 0:
            raise ConfigError(f"seed must be 0 or more (got {self.seed}).")
