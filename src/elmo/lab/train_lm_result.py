"""Result of training a recurrent language model."""

from dataclasses import dataclass
from pathlib import Path

from elmo.lab.recurrent_folder import MODEL
from elmo.lab.text_loss import TextLoss
from elmo.progress import duration


@dataclass(frozen=True)
class LMTrainResult:
    """Result of a training run; `str()` returns a summary.

    Attributes:
        out: The training folder.
        step: Number of completed steps.
        n_steps: Number of steps of the whole run.
        seconds: Training time in seconds, including the time before a run was resumed.
        best: The best evaluation; None without held-out text.
        note: Description of how the run ended.
        test: Loss on the test text; None if there is none.
        comparison: Table that compares the loss with n-gram models and published results.
    """

    out: str
    step: int
    n_steps: int
    seconds: float
    best: TextLoss | None
    note: str
    test: TextLoss | None = None
    comparison: str = ""

    def __str__(self) -> str:
        """Return a summary of a few lines."""
        if not self.step:  # a dry run
            return self.note
        lines = [f"{self.note}: step {self.step:,} of {self.n_steps:,}, {duration(self.seconds)}"]
        if self.best is not None:
            lines.append(f"held-out  {self.best.line()}")
        if self.test is not None:
            lines.append(f"test      {self.test.line()}")
        if self.comparison:
            lines += ["", self.comparison, ""]
        lines.append(f"model: {Path(self.out) / MODEL}")
        return "\n".join(lines)
