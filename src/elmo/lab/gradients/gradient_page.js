const data = readData();
const byName = new Map(data.networks.map((network) => [network.name, network]));
const element = (id) => document.getElementById(id);

// Colors of Okabe and Ito, which color-blind people can tell apart; dashes differ as well.
const COLORS = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b0568a", "#b37a00", "#3d8fc4", "#55606e", "#1c2026"],
  dark: ["#56b4e9", "#f08a4b", "#2fc7a0", "#dd92bd", "#e6b84a", "#8fd0f5", "#aab4c0", "#e6e8eb"],
};
const DASHES = ["", "9 4", "2 3", "9 3 2 3", "14 4", "5 3", "1 5", "12 3 2 3 2 3"];
// Curves below this norm leave the chart: differences between such gradients do not matter.
const SMALLEST = 1e-24;
const EXPLANATIONS = {
  "Training": "Trained models, and the networks from which their training began.",
  "Cells": "Networks of the same size with different cells, before training.",
  "Forget bias": "The same LSTM with other biases of its forget gates, before training. A larger "
    + "bias keeps more of the cell.",
  "Recurrent weights": "Networks with other initial recurrent weights. Each gate of a gated cell "
    + "has a matrix of its own; x 2 is a factor of the weights.",
};
const view = { panel: Object.keys(data.panels)[0], step: 0, layer: -1, state: "hidden",
  scale: "relative" };
const WIDTH = 1120, HEIGHT = 400, LEFT = 62, RIGHT = 16, TOP = 12, BOTTOM = 36;

const color = (i) => COLORS[isDark() ? "dark" : "light"][i % 8];
const networks = () => data.panels[view.panel].map((name) => byName.get(name));
const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};
const power = (value) => value === 0 ? "0"
  : value >= 0.01 && value < 1000 ? value.toPrecision(3) : value.toExponential(1);

function draw(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}
const text = (x, y, content, attributes = {}) => draw("text", {
  x, y, fill: cssColor("--quiet"), "font-size": 12, "font-family": "system-ui, sans-serif",
  ...attributes }, content);
const line = (x1, y1, x2, y2, attributes = {}) => draw("line", {
  x1, y1, x2, y2, stroke: cssColor("--line"), ...attributes });

/** Return the curve of a network for the chosen layer and state, or undefined. */
function curveOf(network) {
  const curves = network.curves.filter((curve) => curve.state === view.state);
  return view.layer < 0 ? curves.at(-1) : curves.find((curve) => curve.layer === view.layer);
}
const unitOf = (curve) => view.scale === "relative" ? curve.norms[0] : 1;

const xOf = (step) => LEFT + (step / data.steps) * (WIDTH - LEFT - RIGHT);

/** Return the vertical axis: the powers of ten that contain all curves, and a function. */
function axis(curves) {
  let low = Infinity, high = -Infinity;
  for (const curve of curves) {
    for (const norm of curve.norms) {
      low = Math.min(low, norm / unitOf(curve));
      high = Math.max(high, norm / unitOf(curve));
    }
  }
  if (view.scale === "relative") {
    low = Math.min(low, 0.1 / data.region_factor);
    high = Math.max(high, 10);
  }
  const bottom = Math.floor(Math.log10(Math.max(low, SMALLEST)));
  const top = Math.max(bottom + 1, Math.ceil(Math.log10(high)));
  const height = HEIGHT - TOP - BOTTOM;
  return { bottom, top,
    y: (value) => TOP + (top - Math.log10(Math.max(value, 1e-99))) / (top - bottom) * height };
}

function drawCurves() {
  const svg = element("curves");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.replaceChildren();
  const rows = networks().map((network, i) => ({ network, i, curve: curveOf(network) }))
    .filter((row) => row.curve);
  const { bottom, top, y } = axis(rows.map((row) => row.curve));
  const right = WIDTH - RIGHT, base = HEIGHT - BOTTOM;
  svg.append(draw("defs", {}, draw("clipPath", { id: "inside" },
    draw("rect", { x: LEFT, y: TOP, width: right - LEFT, height: base - TOP })),
    draw("clipPath", { id: "passed" },
      draw("rect", { id: "passed-steps", x: 0, y: 0, width: WIDTH, height: HEIGHT }))));
  if (view.scale === "relative") drawRegions(svg, y, top, right, base);
  const stride = Math.ceil((top - bottom) / 10);
  for (let exponent = top; exponent >= bottom; exponent -= stride) {
    const height = y(10 ** exponent);
    svg.append(line(LEFT, height, right, height));
    const label = text(LEFT - 8, height + 4, "10", { "text-anchor": "end" });
    label.append(draw("tspan", { dy: -4, "font-size": 9 }, String(exponent)));
    svg.append(label);
  }
  for (let i = 0; i <= 4; i++) {
    const step = Math.round(data.steps * i / 4);
    svg.append(text(xOf(step), base + 16, String(step), { "text-anchor": "middle" }));
  }
  svg.append(text((LEFT + right) / 2, HEIGHT - 4, "steps back (k)", { "text-anchor": "middle" }));
  const inside = draw("g", { "clip-path": "url(#inside)" });
  for (const { i, curve } of rows) drawBand(inside, curve, i, y);
  const passed = draw("g", { "clip-path": "url(#passed)" });
  for (const { i, curve } of rows) drawCurve(passed, curve, i, y);
  inside.append(passed);
  inside.append(line(0, TOP, 0, base, { id: "cursor", stroke: cssColor("--ink") }));
  for (const { i } of rows) {
    inside.append(draw("circle", { class: "dot", "data-row": i, r: 5, fill: color(i),
      stroke: cssColor("--panel"), "stroke-width": 1.5 }));
  }
  svg.append(inside);
  view.y = y;
  moveCursor();
}

/** Shade the regions of vanished and exploded gradients. */
function drawRegions(svg, y, top, right, base) {
  const regions = [
    [y(1 / data.region_factor), base, `vanished: below 1/${data.region_factor}`, "--low", base - 8],
    [TOP, y(data.region_factor), `exploded: above ${data.region_factor} x`, "--high", TOP + 16],
  ];
  for (const [from, to, label, name, height] of regions) {
    if (to - from < 4) continue;
    svg.append(draw("rect", { x: LEFT, y: from, width: right - LEFT, height: to - from,
      fill: cssColor(name), opacity: 0.13, class: "region" }));
    // In these corners there are few curves.
    if (to - from > 20) svg.append(text(LEFT + 8, height, label));
  }
}

/** Return a function that returns the coordinates of a norm at a step. */
function pointOf(curve, y) {
  const unit = unitOf(curve);
  return (norm, step) => `${xOf(step).toFixed(1)},${y(norm / unit).toFixed(1)}`;
}

function drawBand(group, curve, i, y) {
  const point = pointOf(curve, y);
  const points = [...curve.high.map(point), ...curve.low.map(point).reverse()];
  group.append(draw("polygon", { points: points.join(" "), fill: color(i), opacity: 0.09 }));
}

function drawCurve(group, curve, i, y) {
  const unit = unitOf(curve);
  const points = curve.norms.map(pointOf(curve, y)).join(" ");
  group.append(draw("polyline", { class: "curve", points, fill: "none", stroke: color(i),
    "stroke-width": 2, "stroke-dasharray": DASHES[i % 8], "stroke-linejoin": "round" }));
  for (const step of [curve.vanishes_at, curve.explodes_at]) {
    if (step === null) continue;
    group.append(draw("rect", { x: xOf(step) - 4, y: y(curve.norms[step] / unit) - 4, width: 8,
      height: 8, fill: cssColor("--panel"), stroke: color(i), "stroke-width": 2 }));
  }
}

/** Move the cursor and the dots to the chosen step, and write the table. */
function moveCursor() {
  const x = xOf(view.step);
  const cursor = element("cursor");
  cursor.setAttribute("x1", x);
  cursor.setAttribute("x2", x);
  // While the steps are played, the curves grow with them.
  element("passed-steps").setAttribute("width", player.timer === null ? WIDTH : x);
  const list = networks();
  for (const dot of document.querySelectorAll(".dot")) {
    const curve = curveOf(list[Number(dot.dataset.row)]);
    dot.setAttribute("cx", x);
    dot.setAttribute("cy", view.y(curve.norms[view.step] / unitOf(curve)));
  }
  element("step").value = view.step;
  element("step-value").textContent = view.step;
  drawTable(list);
}

function drawTable(list) {
  const head = make("tr", {}, ...["network", `norm at k = ${view.step}`, "relative to k = 0",
    "factor per step", "vanishes at k", "explodes at k", "spectral radius"]
    .map((name) => make("th", { scope: "col" }, name)));
  const rows = list.map((network, i) => {
    const swatch = draw("svg", { viewBox: "0 0 30 10", "aria-hidden": "true" }, line(0, 5, 30, 5,
      { stroke: color(i), "stroke-width": 3, "stroke-dasharray": DASHES[i % 8] }));
    const curve = curveOf(network);
    const cells = curve ? [power(curve.norms[view.step]),
      power(curve.norms[view.step] / curve.norms[0]), curve.factor_per_step?.toFixed(3) ?? "–",
      curve.vanishes_at ?? "–", curve.explodes_at ?? "–",
      median(network.spectral_radii.find((row) => row.layer === curve.layer).values).toFixed(2)]
      : Array(6).fill("–");
    return make("tr", {}, make("td", {}, swatch, network.name),
      ...cells.map((cell) => make("td", {}, String(cell))));
  });
  element("table").replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows));
}

/** Draw one row of dots per network. */
function drawStrips(id, rows, { low, high, marks, log, label }) {
  const svg = element(id), width = 540, left = 168, right = 14, gap = 34;
  const height = rows.length * gap + 44, base = rows.length * gap + 6;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren();
  const scale = log ? Math.log10 : (value) => value;
  const [from, to] = [scale(low), scale(high)];
  const x = (value) => left + (scale(value) - from) / (to - from) * (width - left - right);
  for (const value of marks.ticks) {
    svg.append(line(x(value), 4, x(value), base),
      text(x(value), base + 15, String(value), { "text-anchor": "middle", "font-size": 11 }));
  }
  svg.append(line(x(marks.line), 4, x(marks.line), base,
    { stroke: cssColor("--ink"), "stroke-dasharray": "4 3" }));
  svg.append(text((left + width - right) / 2, height - 4, label, { "text-anchor": "middle" }));
  rows.forEach(({ name, series }, i) => {
    const middle = i * gap + 22;
    svg.append(text(left - 10, middle + 4, name, { "text-anchor": "end", fill: cssColor("--ink") }));
    series.forEach(({ values, hollow, shift = 0 }) => {
      for (const value of values) {
        svg.append(draw("circle", { cx: x(value), cy: middle + shift, r: 4,
          fill: hollow ? "none" : color(i), stroke: color(i),
          "fill-opacity": 0.45, "stroke-opacity": 0.7 }));
      }
      svg.append(line(x(median(values)), middle + shift - 8, x(median(values)), middle + shift + 8,
        { stroke: cssColor("--ink"), "stroke-width": 2 }));
    });
  });
}

function drawRadii() {
  const rows = networks().map((network) => {
    const radii = network.spectral_radii;
    const chosen = view.layer < 0 ? radii.at(-1) : radii.find((row) => row.layer === view.layer);
    return { name: network.name, series: chosen ? [{ values: chosen.values }] : [] };
  });
  const all = rows.flatMap((row) => row.series.flatMap((series) => series.values));
  const high = Math.max(1.2, ...all) * 1.05;
  const stride = [0.25, 0.5, 1, 2, 5, 10, 20, 50, 100].find((size) => high / size < 7) ?? high / 5;
  const ticks = [];
  for (let value = 0; value <= high; value += stride) ticks.push(value);
  drawStrips("radii", rows, { low: 0, high, marks: { ticks, line: 1 }, log: false,
    label: "spectral radius" });
}

function drawClipping() {
  const limit = data.clip_norm;
  const rows = networks().map((network) => ({
    name: network.name,
    series: [{ values: network.clipping.before, hollow: true, shift: -6 },
      { values: network.clipping.after, shift: 6 }],
  }));
  const all = rows.flatMap((row) => row.series.flatMap((series) => series.values))
    .concat(limit || []).filter((value) => value > 0);
  const low = 10 ** Math.floor(Math.log10(Math.min(...all)));
  const high = 10 ** Math.ceil(Math.log10(Math.max(...all) * 1.0001));
  const n = Math.round(Math.log10(high / low)), stride = Math.ceil(n / 6), ticks = [];
  for (let i = 0; i <= n; i += stride) ticks.push(Number((low * 10 ** i).toPrecision(1)));
  drawStrips("clipping", rows, { low, high, marks: { ticks, line: limit || low }, log: true,
    label: "gradient norm of all weights" });
  const { steps, rows: batch, number } = data.segments;
  const shares = networks().map((network) =>
    `${network.name}: ${Math.round(100 * network.clipping.share)} %`);
  element("clipping-text").textContent = limit
    ? `Circles: norm before clipping; dots: after clipping to ${limit}. ${number} segments of `
      + `${batch} x ${steps}. Clipped: ${shares.join("; ")}.`
    : `No clipping. ${number} segments of ${batch} x ${steps}.`;
}

function drawAll() {
  for (const button of element("panels").children) {
    button.setAttribute("aria-pressed", String(button.textContent === view.panel));
  }
  element("explanation").textContent = EXPLANATIONS[view.panel] ?? "";
  drawCurves();
  drawRadii();
  drawClipping();
}

/** Fill the lists of layers and states. */
function fillChoices() {
  const curves = data.networks.flatMap((network) => network.curves);
  const last = Math.max(...curves.map((curve) => curve.layer));
  element("layer").append(make("option", { value: -1 }, "last"));
  for (let layer = 0; layer <= last; layer++) {
    element("layer").append(make("option", { value: layer }, String(layer)));
  }
  for (const state of new Set(curves.map((curve) => curve.state))) {
    element("state").append(make("option", { value: state }, `${state} state`));
  }
}

/** Play the steps back; with reduced motion as a few jumps. */
const player = {
  timer: null,
  toggle() { if (this.timer === null) this.start(); else this.stop(); },
  start() {
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const jump = calm ? Math.max(1, Math.round(data.steps / 10)) : 1;
    if (view.step >= data.steps) view.step = 0;
    this.timer = setInterval(() => {
      view.step = Math.min(data.steps, view.step + jump);
      if (view.step === data.steps) this.stop();
      else moveCursor();
    }, calm ? 1000 : Math.max(20, 8000 / data.steps));
    this.show();
  },
  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.show();
    moveCursor();
  },
  show() {
    const playing = this.timer !== null;
    element("play").textContent = playing ? "Pause" : "Play";
    element("play").setAttribute("aria-pressed", String(playing));
  },
};

function setStep(step) {
  view.step = Math.min(data.steps, Math.max(0, Math.round(step)));
  player.stop();
}

function listen() {
  element("step").addEventListener("input", (event) => setStep(Number(event.target.value)));
  element("play").addEventListener("click", () => player.toggle());
  element("layer").addEventListener("change", (event) => {
    view.layer = Number(event.target.value);
    drawAll();
  });
  for (const name of ["state", "scale"]) {
    element(name).addEventListener("change", (event) => {
      view[name] = event.target.value;
      drawAll();
    });
  }
  const point = (event) => {
    const box = element("curves").getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * WIDTH;
    setStep((x - LEFT) / (WIDTH - LEFT - RIGHT) * data.steps);
  };
  element("curves").addEventListener("pointerdown", point);
  element("curves").addEventListener("pointermove", (event) => { if (event.buttons) point(event); });
  element("save-json").addEventListener("click", () => download("gradients.json",
    new Blob([JSON.stringify(data, null, 1)], { type: "application/json" })));
  element("save-svg").addEventListener("click", () => {
    const copy = element("curves").cloneNode(true);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.prepend(draw("rect", { width: WIDTH, height: HEIGHT, fill: cssColor("--panel") }));
    download("gradients.svg", new Blob([copy.outerHTML], { type: "image/svg+xml" }));
  });
}

element("summary").textContent = `${data.n_windows} windows of a text of `
  + `${data.n_symbols.toLocaleString("en")} ${data.unit}; geometric means, bands from the first to `
  + "the last decile of windows. Squares mark where a gradient has vanished or exploded.";
element("step").max = data.steps;
view.step = Math.min(100, data.steps);
for (const title of Object.keys(data.panels)) {
  element("panels").append(make("button", { type: "button", onclick: () => {
    view.panel = title;
    drawAll();
  } }, title));
}
fillChoices();
listen();
followTheme(element("theme"), drawAll);
drawAll();
