"""Results of `elmo task fit`."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

from elmo.tasks.core.label_scores import Spread, mean_and_deviation
from elmo.tasks.core.task_model import MixShares
from elmo.train.run_folder import MODEL

RESULTS = "results.json"
# Data sets for evaluation: development set and test set.
PARTS = ("development", "test")


class SeedRun(TypedDict):
    """Results of a run with one seed: its folder, scores by data set and layer mixes."""

    out: str
    seed: int
    development: dict[str, float] | None
    test: dict[str, float] | None
    mixes: dict[str, MixShares] | None
    metric: NotRequired[str]


@dataclass(frozen=True)
class FitResult:
    """Results of the training runs with all seeds; `metric` is the main score."""

    out: str
    metric: str
    runs: tuple[SeedRun, ...]

    def spreads(self) -> dict[str, dict[str, Spread]]:
        """Return the mean and standard deviation over seeds, by data set and score name."""
        scores_by_part = {
            "development": [scores for run in self.runs if (scores := run["development"])],
            "test": [scores for run in self.runs if (scores := run["test"])],
        }
        return {
            part: {
                name: mean_and_deviation([scores[name] for scores in all_scores])
                for name in all_scores[0]
            }
            for part, all_scores in scores_by_part.items()
            if all_scores
        }

    def shares(self) -> dict[str, list[float]]:
        """Return the layer shares by placement and seed, without mixes of a single layer."""
        return {
            f"{placement}, seed {run['seed']}": mix["shares"]
            for run in self.runs
            for placement, mix in (run["mixes"] or {}).items()
            if len(mix["shares"]) > 1
        }

    def to_dict(self) -> dict[str, object]:
        """Return the results as a JSON-serializable dictionary."""
        spreads = {
            part: {name: dataclasses.asdict(spread) for name, spread in spreads.items()}
            for part, spreads in self.spreads().items()
        }
        return {"metric": self.metric, "scores": spreads, "runs": list(self.runs)}

    def __str__(self) -> str:
        """Return the scores and layer mixes as text, with standard deviations for several seeds."""
        lines = []
        for part, spreads in self.spreads().items():
            scores = ", ".join(_format_score(name, spread) for name, spread in spreads.items())
            lines.append(f"{part:<12} {scores}")
        for placement, mix in (self.runs[0]["mixes"] or {}).items():
            shares = " ".join(f"{share:.3f}" for share in mix["shares"])
            lines.append(f"mix at {placement}: layers {shares}, gamma {mix['gamma']:.3f}")
        if len(self.runs) == 1:
            lines.append(f"model: {Path(self.out) / MODEL}")
        else:
            lines.append(f"models: {self.out}/seed-*/{MODEL}, scores in {self.out}/{RESULTS}")
        return "\n".join(lines)


def _format_score(name: str, spread: Spread) -> str:
    deviation = f" ± {spread.deviation:.4f}" if spread.n > 1 else ""
    return f"{name.replace('_', ' ')} {spread.mean:.4f}{deviation}"
