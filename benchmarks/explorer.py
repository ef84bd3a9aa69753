"""Measures size, first paint and unit switch of the explorer page in headless Chromium.

    python benchmarks/explorer.py
    python benchmarks/explorer.py --page page.html    # a page written by `elmo explore`

Without --page, the page has 10,000 characters in lines of about 40, two LSTM layers with six kinds
of values each, and five guesses per position. A switch is measured from the key press to the end of
the next frame, when the text, the line plot and the overview are painted. The last row colors the
same text by changing the class of one <span> per character instead of painting a canvas.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
from machine import describe

from elmo.lab.explorer.explore import explorer_page
from elmo.lab.units.traces import GATES, KINDS, Track, UnitTraces

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from headless_browser import headless_browser
from headless_firefox import headless_firefox
from open_page import OpenPage

N_POSITIONS, N_UNITS, N_SWITCHES = 10_000, 64, 40
FRAME = "await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));"
SWITCHES = f"""(async () => {{
  const times = [];
  const units = new Set();
  for (let i = 0; i < {N_SWITCHES}; i++) {{
    const start = performance.now();
    dispatchEvent(new KeyboardEvent("keydown", {{ key: i % 30 < 15 ? "ArrowDown" : "ArrowUp" }}));
    {FRAME}
    times.push(performance.now() - start);
    units.add(explorer.panes[0].index);
    await new Promise((done) => setTimeout(done, 80));
  }}
  if (units.size < 10) throw Error("The unit did not change.");
  return times;
}})()"""
SPANS = f"""(async () => {{
  const sheet = new CSSStyleSheet();
  const rules = explorer.palette.map((color, i) => `.q${{i}} {{ background: ${{color}} }}`);
  sheet.replaceSync(rules.join(""));
  document.adoptedStyleSheets = [sheet];
  const {{ source, track, view }} = explorer.panes[0];
  const content = view.content.cloneNode(false);
  const spans = source.pieces.map((piece) => {{
    const span = document.createElement("span");
    span.textContent = piece;
    return span;
  }});
  content.append(...spans);
  view.scroller.replaceChildren(content);
  {FRAME}
  const times = [];
  for (let unit = 0; unit < 12; unit++) {{
    const start = performance.now();
    const row = track.row(unit % track.units.length);
    spans.forEach((span, i) => {{ span.className = `q${{127 + row[i]}}`; }});
    {FRAME}
    times.push(performance.now() - start);
  }}
  return times;
}})()"""


def random_page(folder: Path) -> Path:
    """Write a page of random values, which change slowly as those of a trained network."""
    generator = np.random.default_rng(0)
    text = "".join(generator.choice(list("etaoinshrdlu    "), N_POSITIONS))
    pieces = tuple("\n" if i % 40 == 39 else piece for i, piece in enumerate(text))
    values = {}
    for layer in range(2):
        for kind in KINDS[:6]:
            steps = generator.normal(size=(N_POSITIONS, N_UNITS)).cumsum(axis=0)
            waves = np.sin(steps / 3).astype(np.float32)
            values[Track(layer, "forward", kind)] = (waves + 1) / 2 if kind in GATES else waves
    guesses = (tuple((piece, 0.2) for piece in "etaoi"),) * N_POSITIONS
    surprisal = np.ones(N_POSITIONS, dtype=np.float32)
    traces = UnitTraces(pieces, "characters", values, surprisal, guesses)
    return explorer_page({"random values": traces}).save(folder / "page.html")


def measure(page: OpenPage, path: Path) -> dict[str, str]:
    """Return the measurements as text by name."""
    paints = []
    for _ in range(3):
        page.open(path)
        page.wait("window.explorer && performance.getEntriesByType('paint').length")
        paints.append(page.evaluate("performance.getEntriesByType('paint').at(-1).startTime"))
    page.evaluate("new Promise((done) => setTimeout(done, 500))")
    switches = sorted(page.evaluate(SWITCHES))
    spans = page.evaluate(SPANS)
    return {
        "characters": f"{page.evaluate('explorer.sources[0].length'):,}",
        "page": f"{path.stat().st_size / 1e6:.2f} MB",
        "first paint with text, median of 3": f"{statistics.median(paints):.0f} ms",
        "unit switch, median": f"{statistics.median(switches):.0f} ms",
        "unit switch, 90 % are below": f"{switches[int(0.9 * len(switches))]:.0f} ms",
        "unit switch with spans, median": f"{statistics.median(spans):.0f} ms",
    }


def main() -> None:
    """Print the measurements as a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page", type=Path, help="a page written by elmo explore")
    parser.add_argument("--firefox", action="store_true", help="use Firefox instead of Chromium")
    arguments = parser.parse_args()
    print(describe())
    started = headless_firefox() if arguments.firefox else headless_browser()
    with tempfile.TemporaryDirectory() as folder, started as browser:
        rows = measure(browser.page(1400, 860), arguments.page or random_page(Path(folder)))
    for name, value in rows.items():
        print(f"{name:<38}{value:>10}")


if __name__ == "__main__":
    main()
