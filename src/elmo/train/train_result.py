"""Result of training a language model."""

from dataclasses import dataclass
from pathlib import Path

from elmo.evaluate.perplexity import Perplexity
from elmo.progress import duration
from elmo.train.run_folder import MODEL
from elmo.train.run_plan import RunPlan


@dataclass(frozen=True)
class TrainResult:
    """Result of a training run; `str()` returns a summary, empty in all but the first process.

    The seconds include the time before a run was resumed. `best` is None without held-out text, and
    `before`, the evaluation before fine-tuning, after pretraining. `carried_rows` is the batch size
    of evaluations in which the LSTM state was carried over; 0 if it was reset for each sentence.
    """

    out: str
    plan: RunPlan
    step: int
    seconds: float
    best: Perplexity | None
    note: str
    before: Perplexity | None = None
    carried_rows: int = 0
    is_first: bool = True

    def __str__(self) -> str:
        if not self.is_first:
            return ""
        if not self.step:  # a dry run
            return self.note
        lines = [f"{self.note}: step {self.step:,} of {self.plan.n_steps:,}"]
        lines[0] += f", {duration(self.seconds)}"
        if self.before is not None and self.best is not None:
            lines += comparison(self.before, self.best)
            if self.best == self.before:
                lines.append(
                    "No evaluation improved on the model before fine-tuning, so its weights were "
                    "kept."
                )
        elif self.best is not None:
            lines += ["best on held-out text:", str(self.best)]
        if self.best is not None and self.carried_rows:
            lines.append(
                "The LSTM state was carried over from batch to batch; elmo evaluate resets it for "
                f"each sentence unless --state carry --batch-size {self.carried_rows} is given."
            )
        if (Path(self.out) / MODEL).is_dir():
            lines.append(f"model: {Path(self.out) / MODEL}")
        return "\n".join(lines)


def comparison(before: Perplexity, after: Perplexity) -> list[str]:
    """Return the lines of a table that compares two evaluations on the same text."""
    rows = [
        ("forward perplexity", before.forward, after.forward),
        ("backward perplexity", before.backward, after.backward),
        ("perplexity", before.mean, after.mean),
        *(
            (name.replace("_", " "), before.values()[name], after.values()[name])
            for name in ("bits_per_character", "bits_per_word")
        ),
    ]
    lines = [f"{'on held-out text':<22}{'before':>12}{'after':>12}"]
    return lines + [f"{name:<22}{old:>12,.3f}{new:>12,.3f}" for name, old, new in rows]
