// The visible text and line plot of the panes as SVG, and their values as JSON.

const MARGIN = 16;
const HEADER = 66;
const PLOT_HEIGHT = 118;

/** Return {svg, width, height} of all panes, next to each other. */
function pictureOf(panes) {
  const parts = panes.map(paneSvg);
  const width = Math.ceil(parts.reduce((sum, part) => sum + part.width, 0));
  const height = Math.ceil(Math.max(...parts.map((part) => part.height)));
  let x = 0;
  const groups = parts.map((part) => {
    const group = `<g transform="translate(${x} 0)">${part.content}</g>`;
    x += part.width;
    return group;
  });
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" `
    + `viewBox="0 0 ${width} ${height}"><rect width="${width}" height="${height}" `
    + `fill="${cssColor("--panel")}"/>${groups.join("")}</svg>`;
  return { svg, width, height };
}

function paneSvg(pane) {
  const { view, track, index, source } = pane;
  const { scrollTop, clientHeight, clientWidth } = view.scroller;
  const width = clientWidth + 2 * MARGIN;
  const [first, end] = view.visible();
  const style = getComputedStyle(view.content);
  const ink = cssColor("--ink");
  const [rects, texts] = [[], []];
  const isIn = (position, [start, stop]) => position >= start && position < stop;
  const mark = (x, y, boxWidth) => rects.push(`<rect class="mark" x="${x.toFixed(1)}" `
    + `y="${y.toFixed(1)}" width="${(boxWidth + 0.4).toFixed(1)}" height="2.5" `
    + `fill="${cssColor("--accent")}"/>`);
  for (const line of visualLines(view, first, end)) {
    if (line.y + view.lineHeight / 2 < scrollTop) continue;
    if (line.y + view.lineHeight / 2 > scrollTop + clientHeight) continue;
    for (const [position, x, y, boxWidth] of line.boxes) {
      rects.push(`<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" `
        + `width="${(boxWidth + 0.4).toFixed(1)}" height="${view.lineHeight}" `
        + `fill="${pane.colors[127 + pane.row[position]]}"/>`);
    }
    for (const [position, x, y, boxWidth] of line.boxes) {
      const isSelected = view.selection && isIn(position, view.selection);
      const isMatch = (view.matches ?? []).some((part) => isIn(position, part));
      if (isSelected) mark(x, y, boxWidth);
      if (isSelected || isMatch) mark(x, y + view.lineHeight - 2.5, boxWidth);
    }
    const x = line.isRtl ? line.right : line.left;
    if (line.text.trim()) {
      texts.push(`<text x="${x.toFixed(1)}" y="${(line.y + view.lineHeight * 0.7).toFixed(1)}" `
        + `textLength="${(line.right - line.left).toFixed(1)}" xml:space="preserve" `
        + `direction="${line.isRtl ? "rtl" : "ltr"}">${escapeXml(line.text)}</text>`);
    }
  }
  const title = `Unit ${track.units[index]}: ${track.name}`;
  const [low, high] = track.colorRange(index);
  const stops = track.legend(index).map((value, i, { length }) => `<stop offset="${i / (length - 1)}" `
    + `stop-color="rgb(${divergingRgb(value).join(",")})"/>`).join("");
  const id = `scale-${pane.number}`;
  const content = `<defs><linearGradient id="${id}">${stops}</linearGradient></defs>`
    + `<g font-family="system-ui, sans-serif" font-size="13" fill="${ink}">`
    + `<text x="${MARGIN}" y="24" font-weight="600">${escapeXml(title)}</text>`
    + `<text x="${MARGIN}" y="44" font-size="12">${escapeXml(source.name)}</text>`
    + `<rect x="${width - MARGIN - 140}" y="14" width="140" height="10" fill="url(#${id})"/>`
    + `<text x="${width - MARGIN - 140}" y="40" font-size="11">${formatValue(low)}</text>`
    + `<text x="${width - MARGIN}" y="40" font-size="11" text-anchor="end">${formatValue(high)}`
    + `</text></g><g transform="translate(${MARGIN} ${(HEADER - scrollTop).toFixed(1)})" `
    + `font-family="${escapeXml(style.fontFamily)}" font-size="${style.fontSize}" fill="${ink}">`
    + `${rects.join("")}${texts.join("")}</g>`;
  const base = HEADER + Math.min(clientHeight, view.body.offsetHeight) + MARGIN;
  const plot = `<g transform="translate(${MARGIN} ${base})">${lineSvg(pane, clientWidth)}</g>`;
  return { content: content + plot, width, height: base + PLOT_HEIGHT };
}

/** Return the line plot of the visible text. */
function lineSvg(pane, width) {
  const { view, track, index, source, cursor } = pane;
  const [first, end] = view.visible();
  const axes = lineAxes(track, index, [first, end], width, PLOT_HEIGHT);
  const { left, right, top, bottom, low, high, x, y } = axes;
  const id = `line-${pane.number}`;
  const quiet = cssColor("--quiet");
  const stops = [cssColor("--high"), quiet, cssColor("--low")].map((color, i) =>
    `<stop offset="${i / 2}" stop-color="${color}"/>`).join("");
  const grid = axes.ticks.map((value) => `<rect x="${left}" y="${y(value).toFixed(1)}" `
    + `width="${width - left - right}" height="1" fill="${cssColor("--line")}"/>`
    + `<text x="${left - 6}" y="${(y(value) + 4).toFixed(1)}" text-anchor="end">`
    + `${formatValue(value)}</text>`);
  const begins = new Set(source.parts.map(([begin]) => begin));
  const points = Array.from({ length: end - first }, (_, i) => [
    x(first + i).toFixed(1), y(track.value(index, first + i)).toFixed(1)]);
  const path = points.map(([px, py], i) =>
    `${i === 0 || begins.has(first + i) ? "M" : "L"}${px} ${py}`).join("");
  const dots = axes.hasDots ? points.map(([px, py]) =>
    `<circle cx="${px}" cy="${py}" r="2.4" fill="url(#${id})"/>`) : [];
  const context = pane.part("plot").getContext("2d"); // which knows the widths of texts
  const labels = positionLabels(context, source, [first, end], axes.step).map(([label, place]) =>
    `<text x="${x(place).toFixed(1)}" y="${PLOT_HEIGHT - bottom / 2 + 4}" text-anchor="middle">`
    + `${escapeXml(label)}</text>`);
  const here = cursor >= first && cursor < end ? `<rect x="${(x(cursor) - 0.75).toFixed(1)}" `
    + `y="${top}" width="1.5" height="${PLOT_HEIGHT - top - bottom}" `
    + `fill="${cssColor("--accent")}"/>` : "";
  return `<defs><linearGradient id="${id}" gradientUnits="userSpaceOnUse" x1="0" x2="0" `
    + `y1="${y(high)}" y2="${y(low)}">${stops}</linearGradient></defs>`
    + `<g font-family="system-ui, sans-serif" font-size="11" fill="${quiet}">${grid.join("")}`
    + `<path class="line" d="${path}" fill="none" stroke="url(#${id})" `
    + `stroke-width="${axes.lineWidth}" stroke-linejoin="round"/>`
    + `${dots.join("")}${labels.join("")}${here}</g>`;
}

/** Yield the lines of the positions [first, end) as the browser broke them. */
function* visualLines(view, first, end) {
  const { source } = view;
  for (const paragraph of view.paragraphs) {
    if (paragraph.end <= first) continue;
    if (paragraph.start >= end) return;
    const isRtl = getComputedStyle(paragraph.element).direction === "rtl";
    let line = null;
    const finish = () => ({ ...line, text: line.text.join(source.separator), isRtl });
    for (const box of view.boxes(paragraph)) {
      const [position, x, y, width] = box;
      if (!line || Math.abs(line.y - y) > 2) {
        if (line) yield finish();
        line = { y, left: Infinity, right: -Infinity, boxes: [], text: [] };
      }
      line.boxes.push(box);
      if (source.pieces[position] === "\n") continue;
      line.text.push(source.pieces[position]);
      line.left = Math.min(line.left, x);
      line.right = Math.max(line.right, x + width);
    }
    if (line) yield finish();
  }
}

/** Return how often the gates of all units are saturated, and their time scales, as plain data. */
function saturationData(source) {
  const rounded = (values) => Array.from(values,
    (value) => (Number.isFinite(value) ? Number(value.toPrecision(4)) : null));
  return source.tracks.filter((track) => track.saturation).map((track) => ({
    layer: track.layer,
    direction: track.direction,
    gate: track.kind,
    low: rounded(track.saturation.low),
    high: rounded(track.saturation.high),
    time_scale: track.saturation.timeScale && rounded(track.saturation.timeScale),
  }));
}

/** Return what the tooltip of a position has, as plain data. */
function positionData({ source, track, index }, position) {
  const bits = source.surprisal?.[position];
  return {
    position: source.position(position),
    piece: source.pieces[position],
    value: Number(track.value(index, position).toPrecision(4)),
    surprisal_bits: Number.isFinite(bits) ? Number(bits.toPrecision(4)) : null,
    guesses: source.guesses(position).map(([piece, probability]) => (
      { piece, probability: Number(probability.toPrecision(4)) })),
  };
}

/** Return the values of the shown units, and the selection with what was found, as plain data. */
function shownData(panes, found) {
  const shown = panes.map(({ source, track, index, pointed }) => ({
    model: source.name,
    note: source.note,
    layer: track.layer,
    direction: track.direction,
    values_of: track.kind,
    unit: track.units[index],
    position_is: source.one,
    pieces: source.pieces,
    // Where the pieces begin in the text, if only parts of it were read.
    parts: source.parts.map(([first, position]) => ({ first, position })),
    unknown: [...source.unknown], // indexes of pieces that are not in the vocabulary
    values: Array.from(track.row(index), (_, i) => Number(track.value(index, i).toPrecision(4))),
    surprisal_bits: source.surprisal && Array.from(source.surprisal,
      (bits) => (Number.isFinite(bits) ? Number(bits.toPrecision(4)) : null)),
    // The guesses are those of the last position with a tooltip.
    pointed_at: pointed < 0 ? null : positionData({ source, track, index }, pointed),
  }));
  const selection = found && {
    model: found.source.name,
    first: found.source.position(found.first),
    end: found.source.position(found.end - 1) + 1,
    text: found.source.text(found.first, found.end),
    units: found.units.slice(0, N_LISTED_UNITS).map((each) => ({
      layer: each.track.layer,
      direction: each.track.direction,
      values_of: each.track.kind,
      unit: each.track.units[each.index],
      score: Number(each.score.toPrecision(4)),
    })),
    similar_parts: found.parts.map(({ first, end }) => (
      { first: found.source.position(first), end: found.source.position(end - 1) + 1,
        text: found.source.text(first, end) })),
  };
  const saturation = Object.fromEntries(panes.map(({ source }) => [source.name, saturationData(source)]));
  return { shown, selection, saturation };
}
