// The visible text of the panes as SVG, and their values as JSON.

const MARGIN = 16;
const HEADER = 66;

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
  for (const line of visualLines(view, first, end)) {
    if (line.y + view.lineHeight / 2 < scrollTop) continue;
    if (line.y + view.lineHeight / 2 > scrollTop + clientHeight) continue;
    for (const [position, x, y, boxWidth] of line.boxes) {
      rects.push(`<rect x="${x.toFixed(1)}" y="${y.toFixed(1)}" `
        + `width="${(boxWidth + 0.4).toFixed(1)}" height="${view.lineHeight}" `
        + `fill="${pane.colors[127 + pane.row[position]]}"/>`);
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
  const stops = [-1, 0, 1].map((value) => `<stop offset="${(value + 1) / 2}" `
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
  const height = HEADER + Math.min(clientHeight, view.body.offsetHeight) + MARGIN;
  return { content, width, height };
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

/** Return the values of the shown units, and the selection with what was found, as plain data. */
function shownData(panes, found) {
  const shown = panes.map(({ source, track, index }) => ({
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
