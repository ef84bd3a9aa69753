"""What a run came to, told to people."""

from dataclasses import dataclass
from pathlib import Path

from elmo.evaluate.perplexity import Perplexity
from elmo.train.progress_line import duration
from elmo.train.run_folder import MODEL
from elmo.train.run_plan import RunPlan


@dataclass(frozen=True)
class TrainResult:
    """What a run came to.

    Attributes:
        out: the training folder.
        plan: what it set out to do.
        step: steps done.
        seconds: time spent, over all restarts.
        best: the best evaluation, where there was held-out text.
        note: how it ended, in words.
        before: the evaluation before the network changed, when fine-tuning.
        is_first: whether this is the first of several processes; the others have nothing to say.
    """

    out: str
    plan: RunPlan
    step: int
    seconds: float
    best: Perplexity | None
    note: str
    before: Perplexity | None = None
    is_first: bool = True

    def __str__(self) -> str:
        """Say it in a few lines."""
        if not self.is_first:
            return ""
        lines = [f"{self.note}: step {self.step:,} of {self.plan.n_steps:,}"]
        lines[0] += f", {duration(self.seconds)}"
        if self.before is not None and self.best is not None:
            lines += comparison(self.before, self.best)
        elif self.best is not None:
            lines += ["best on held-out text:", str(self.best)]
        if (Path(self.out) / MODEL).is_dir():
            lines.append(f"model: {Path(self.out) / MODEL}")
        return "\n".join(lines)


def comparison(before: Perplexity, after: Perplexity) -> list[str]:
    """Give the lines of a table of two evaluations on the same text."""
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
    return lines + [f"{name:<22}{one:>12,.3f}{other:>12,.3f}" for name, one, other in rows]
