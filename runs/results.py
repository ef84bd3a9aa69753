"""The runs of runs/tasks.sh as tables in Markdown, and the mixes of the layers as a picture.

    python runs/results.py OUT [--picture mixes.png]

A figure is the mean over seeds with its deviation, on the test part where the set has one, else on
the development part; in hundredths, as papers give them.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from elmo.tasks.scores import mean_and_deviation

MEASURES = {"ynat": "macro_f1"}
WAYS = {
    "none": "letters alone",
    "static": "static vectors",
    "layer0": "layer 0",
    "elmo": "ELMo",
    "finetuned": "ELMo, fine-tuned first",
}


def figure(path: Path, measure: str | None) -> tuple[float, str]:
    """Give the mean of a run, and how it is written."""
    found: dict[str, Any] = json.loads((path / "results.json").read_text())
    part = "test" if found["runs"][0]["test"] else "development"
    values = [100 * run[part][measure or found["measure"]] for run in found["runs"]]
    spread = mean_and_deviation(values)
    deviation = f" ± {spread.deviation:.2f}" if spread.n > 1 else ""
    return spread.mean, f"{spread.mean:.2f}{deviation}"


def by_way(out: Path) -> str:
    """Give the table of all tasks."""
    tasks = sorted(path.name.removesuffix("-elmo") for path in out.glob("*-elmo"))
    lines = [
        f"| task | {' | '.join(WAYS.values())} | gain over the best without |",
        "| --- |" + " ---: |" * (len(WAYS) + 1),
    ]
    for task in tasks:
        cells, means = [], {}
        for way in WAYS:
            path = out / f"{task}-{way}"
            if (path / "results.json").is_file():
                means[way], text = figure(path, MEASURES.get(task))
                cells.append(text)
            else:
                cells.append("")
        without = [means[way] for way in ("none", "static") if way in means]
        gain = f"{means['elmo'] - max(without):+.2f}" if without else ""
        lines.append(f"| {task} | {' | '.join(cells)} | {gain} |")
    return "\n".join(lines)


def others(out: Path) -> str:
    """Give all further runs, one a line."""
    lines = ["| run | score |", "| --- | ---: |"]
    for path in sorted(out.glob("*/results.json")):
        name = path.parent.name
        if not any(name.endswith(f"-{way}") for way in WAYS):
            lines.append(f"| {name} | {figure(path.parent, MEASURES.get(name.split('-')[0]))[1]} |")
    return "\n".join(lines)


def draw(out: Path, picture: Path) -> None:
    """Draw the shares of the layers that each task has learned."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shares = {}
    for path in sorted(out.glob("*-elmo/results.json")):
        runs = [run["mixes"]["input"]["shares"] for run in json.loads(path.read_text())["runs"]]
        name = path.parent.name.removesuffix("-elmo")
        shares[name] = [sum(layer) / len(runs) for layer in zip(*runs, strict=True)]
    sheet = Figure(figsize=(8, 0.6 + 0.4 * len(shares)), dpi=150, layout="constrained")
    FigureCanvasAgg(sheet)
    axes = sheet.subplots()
    left = [0.0] * len(shares)
    for layer, values in enumerate(zip(*shares.values(), strict=True)):
        axes.barh(list(shares), values, left=left, label=f"layer {layer}")
        left = [a + b for a, b in zip(left, values, strict=True)]
    axes.set_xlabel("share of each layer in the learned mix")
    axes.set_xlim(0, 1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(ncols=3, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    sheet.savefig(picture)


def main() -> None:
    """Print the tables, and draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    print(by_way(given.out), others(given.out), sep="\n\n")
    if given.picture is not None:
        draw(given.out, given.picture)


if __name__ == "__main__":
    main()
