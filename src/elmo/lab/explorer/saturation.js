// The figure of saturated gates: for each layer and gate one point per unit, at the fractions of
// positions where the gate is nearly closed and nearly open. A click shows the unit.

const PLOT_SIZE = 186;
const [PLOT_LEFT, PLOT_RIGHT, PLOT_TOP, PLOT_BOTTOM] = [34, 16, 8, 32];
const POINT_REACH = 9; // pixels from which a point is found

/** Return the plots of a layer, each with the points [x, y] of its units, from 0 to 1. */
function saturationPlots(track) {
  const { low, high, timeScale } = track.saturation;
  const name = KINDS[track.kind][0];
  const plots = [{
    track, title: name, xLabel: "share below 0.1", yLabel: "share above 0.9",
    xTicks: [[0, "0"], [0.5, "0.5"], [1, "1"]], hasLimit: true,
    points: Array.from(low, (value, unit) => [value, high[unit]]),
  }];
  if (!timeScale) return plots;
  // Units by their time scale: a straight scale of its logarithm, and the share of shorter ones.
  const logs = Array.from(timeScale, (value) => Math.log10(Math.max(0.1, Math.min(1e6, value))));
  const [least, most] = [Math.floor(Math.min(...logs)), Math.ceil(Math.max(...logs, 1))];
  const x = (log) => (log - least) / (most - least);
  const points = [];
  Array.from(logs.keys()).sort((a, b) => logs[a] - logs[b]).forEach((unit, rank) => {
    points[unit] = [x(logs[unit]), (rank + 0.5) / logs.length];
  });
  const ticks = Array.from({ length: most - least + 1 },
    (_, i) => [x(least + i), (10 ** (least + i)).toLocaleString("en")]);
  plots.push({ track, title: "Time scale", xLabel: track.source.unit, yLabel: "share of units",
    xTicks: ticks, points });
  return plots;
}

class SaturationPanel {
  constructor(element, explorer) {
    Object.assign(this, { element, explorer, plots: [] });
    this.grid = element.querySelector(".saturation-grid");
  }

  get isOpen() {
    return !this.element.hidden;
  }

  toggle() {
    this.element.hidden = this.isOpen;
    this.update();
    // Begin with the layer that is shown.
    const { track } = this.explorer.active;
    this.plots.find((plot) => plot.track.hasUnitsOf(track) || plot.track.layer === track.layer)
      ?.canvas.closest("section").scrollIntoView({ block: "nearest" });
  }

  /** Draw the figure of the active model, with the unit that it shows. */
  update() {
    if (!this.isOpen) return;
    const { source } = this.explorer.active;
    if (source !== this.source) this.build(source);
    for (const plot of this.plots) this.draw(plot);
  }

  build(source) {
    this.source = source;
    this.plots = [];
    const gates = source.tracks.filter((track) => track.saturation);
    document.getElementById("no-gates").hidden = gates.length > 0;
    this.grid.replaceChildren(...source.layers.flatMap((layer) =>
      source.directions.map((direction) => {
        const tracks = gates.filter((track) => track.layer === layer && track.direction === direction);
        return tracks.length ? this.row(tracks) : "";
      })));
  }

  row(tracks) {
    const { layer, direction, source } = tracks[0];
    const title = source.directions.length > 1 ? `Layer ${layer}, ${direction}` : `Layer ${layer}`;
    const plots = tracks.flatMap(saturationPlots);
    // The time scales come last.
    plots.sort((a, b) => Number(!a.hasLimit) - Number(!b.hasLimit));
    return make("section", {}, make("h3", {}, title), make("div", { class: "saturation-row" },
      ...plots.map((plot) => {
        plot.canvas = make("canvas", { role: "img", "aria-label": this.summary(plot, title),
          onpointermove: (event) => this.hover(plot, event),
          onpointerleave: () => { this.explorer.tooltip.hidden = true; },
          onclick: (event) => this.choose(plot, event) });
        this.plots.push(plot);
        return make("figure", {}, make("figcaption", {}, plot.title), plot.canvas);
      })));
  }

  summary({ track, hasLimit }, place) {
    const { low, high, timeScale } = track.saturation;
    const mean = (values) => formatPercent(values.reduce((sum, x) => sum + x, 0) / values.length);
    return hasLimit
      ? `${place}, ${track.kind} gate: on average below 0.1 at ${mean(low)} and above 0.9 at `
        + `${mean(high)} of the positions.`
      : `${place}: the median of the time scales is ${formatTime(median(timeScale))} ${this.source.unit}.`;
  }

  draw(plot) {
    const { canvas, points, track } = plot;
    const context = clearedCanvas(canvas, PLOT_SIZE, PLOT_SIZE);
    const [quiet, line] = [cssColor("--quiet"), cssColor("--line")];
    const [x0, x1] = [PLOT_LEFT, PLOT_SIZE - PLOT_RIGHT];
    const [y0, y1] = [PLOT_SIZE - PLOT_BOTTOM, PLOT_TOP];
    context.font = "11px system-ui, sans-serif";
    context.fillStyle = quiet;
    context.strokeStyle = line;
    context.strokeRect(x0 + 0.5, y1 + 0.5, x1 - x0, y0 - y1);
    if (plot.hasLimit) { // both shares together are at most 1
      context.beginPath();
      context.moveTo(x0, y1);
      context.lineTo(x1, y0);
      context.stroke();
    }
    context.textAlign = "center";
    for (const [share, text] of plot.xTicks) context.fillText(text, x0 + share * (x1 - x0), y0 + 13);
    context.fillText(plot.xLabel, (x0 + x1) / 2, y0 + 27);
    context.textAlign = "right";
    for (const share of [0, 0.5, 1]) context.fillText(String(share), x0 - 4, y0 - share * (y0 - y1) + 4);
    context.save();
    context.translate(10, (y0 + y1) / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(plot.yLabel, 0, 0);
    context.restore();
    const shown = this.explorer.active;
    const isRow = shown.track.hasUnitsOf(track);
    const current = isRow ? shown.track.units[shown.index] : -1;
    context.fillStyle = cssColor("--low");
    context.globalAlpha = 0.55;
    points.forEach((point, unit) => { if (unit !== current) this.dot(context, point, 2.2); });
    context.globalAlpha = 1;
    if (current >= 0 && points[current]) {
      context.fillStyle = cssColor("--high");
      this.dot(context, points[current], 4.5);
      context.strokeStyle = cssColor("--ink");
      context.lineWidth = 1.5;
      context.stroke();
    }
  }

  dot(context, [x, y], radius) {
    context.beginPath();
    context.arc(...this.place(x, y), radius, 0, 7);
    context.fill();
  }

  place(x, y) {
    return [PLOT_LEFT + x * (PLOT_SIZE - PLOT_LEFT - PLOT_RIGHT),
      PLOT_SIZE - PLOT_BOTTOM - y * (PLOT_SIZE - PLOT_TOP - PLOT_BOTTOM)];
  }

  /** Return the unit next to the pointer, or -1. */
  unitAt(plot, { offsetX, offsetY }) {
    let [best, distance] = [-1, POINT_REACH ** 2];
    plot.points.forEach((point, unit) => {
      const [x, y] = this.place(...point);
      const far = (x - offsetX) ** 2 + (y - offsetY) ** 2;
      if (far < distance) [best, distance] = [unit, far];
    });
    return best;
  }

  hover(plot, event) {
    const { tooltip } = this.explorer;
    const unit = this.unitAt(plot, event);
    plot.canvas.style.cursor = unit < 0 ? "default" : "pointer";
    tooltip.hidden = unit < 0;
    if (unit < 0) return;
    const isStored = plot.track.units.includes(unit);
    tooltip.replaceChildren(make("div", {}, make("b", {}, `Unit ${unit}`)),
      ...saturationSentences(plot.track, unit).map((text) => make("p", {}, text)),
      ...(isStored ? [] : [make("p", { class: "quiet" },
        "Its values are not in this page: use --units or --all-units.")]));
    placeTooltip(tooltip, { left: event.clientX, top: event.clientY - 8, bottom: event.clientY + 8 });
  }

  choose(plot, event) {
    const index = plot.track.units.indexOf(this.unitAt(plot, event));
    if (index >= 0) this.explorer.showTrackUnit(this.explorer.active, plot.track, index);
  }
}

/** Return what is known about the gates of a unit, as sentences. */
function saturationSentences(track, unit) {
  const sentences = [];
  const percent = (share) => (share ? formatPercent(share) : "0%");
  for (const gate of track.source.tracks) {
    if (!gate.saturation || !track.hasUnitsOf(gate)) continue;
    const { low, high, timeScale } = gate.saturation;
    sentences.push(`${KINDS[gate.kind][0]}: below 0.1 at ${percent(low[unit])}, above 0.9 at `
      + `${percent(high[unit])} of the ${track.source.unit}.`);
    if (timeScale) {
      sentences.push(`Time scale of its memory: ${formatTime(timeScale[unit])} ${track.source.unit}.`);
    }
  }
  return sentences;
}

function median(values) {
  return Array.from(values).sort((a, b) => a - b)[values.length >> 1];
}

function formatTime(value) {
  return Number.isFinite(value) ? Number(value.toPrecision(3)).toLocaleString("en") : "unlimited";
}
