// Drawings of the values of one unit: line plot, overview of the text, and histogram.

const N_BINS = 33;

/** Return the axes of a line plot of the positions [first, end). */
function lineAxes(track, index, [first, end], width, height) {
  const [left, right, top, bottom] = [46, 8, 8, 20];
  const [low, high] = track.range(index);
  const step = (width - left - right) / Math.max(end - first, 1);
  return {
    left, right, top, bottom, step, low, high,
    ticks: [low, (low + high) / 2, high],
    x: (position) => left + (position - first + 0.5) * step,
    y: (value) => top + (high - value) / (high - low || 1) * (height - top - bottom),
    lineWidth: step > 3 ? 1.8 : 1,
    hasDots: step > 6,
  };
}

/** Draw the values of the positions [first, end) as a line, with the pieces as labels. */
function drawLine(canvas, track, index, [first, end], cursor) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const context = clearedCanvas(canvas, width, height);
  const axes = lineAxes(track, index, [first, end], width, height);
  const { left, right, top, bottom, step, low, high, x, y } = axes;
  const quiet = cssColor("--quiet");
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const value of axes.ticks) {
    context.fillStyle = cssColor("--line");
    context.fillRect(left, Math.round(y(value)), width - left - right, 1);
    context.fillStyle = quiet;
    context.fillText(formatValue(value), left - 6, y(value));
  }
  // The line is drawn with short points between low and high color.
  const gradient = context.createLinearGradient(0, y(high), 0, y(low));
  gradient.addColorStop(0, cssColor("--high"));
  gradient.addColorStop(0.5, quiet);
  gradient.addColorStop(1, cssColor("--low"));
  context.strokeStyle = gradient;
  context.lineWidth = axes.lineWidth;
  context.lineJoin = "round";
  context.beginPath();
  const begins = new Set(track.source.parts.map(([begin]) => begin));
  for (let i = first; i < end; i++) {
    if (begins.has(i)) context.moveTo(x(i), y(track.value(index, i)));
    else context.lineTo(x(i), y(track.value(index, i)));
  }
  context.stroke();
  if (axes.hasDots) {
    context.fillStyle = gradient;
    for (let i = first; i < end; i++) {
      context.beginPath();
      context.arc(x(i), y(track.value(index, i)), 2.4, 0, 7);
      context.fill();
    }
  }
  context.fillStyle = quiet;
  context.textAlign = "center";
  for (const [label, place] of positionLabels(context, track.source, [first, end], step)) {
    context.fillText(label, x(place), height - bottom / 2);
  }
  context.textAlign = "left";
  if (cursor >= first && cursor < end) {
    context.fillStyle = cssColor("--accent");
    context.fillRect(x(cursor) - 0.75, top, 1.5, height - top - bottom);
  }
}

/** Return labels of positions: their pieces if all of them fit, else round numbers. */
function positionLabels(context, source, [first, end], step) {
  const widest = step < 9 ? Infinity : Math.max(...source.pieces.slice(first, end)
    .map((piece) => context.measureText(visiblePiece(piece)).width));
  if (widest + 2 <= step) {
    return source.pieces.slice(first, end).map((piece, i) => [visiblePiece(piece), first + i]);
  }
  const labels = [];
  const raw = 110 / step;
  const power = 10 ** Math.floor(Math.log10(raw));
  const interval = Math.max(1, power * [1, 2, 5, 10].find((factor) => factor * power >= raw));
  for (let i = first; i < end;) {
    const [begin, position, partEnd] = source.part(i);
    const offset = position - begin;
    const stop = Math.min(end, partEnd);
    for (let k = Math.ceil((i + offset) / interval) * interval; k < stop + offset; k += interval) {
      labels.push([k.toLocaleString("en"), k - offset]);
    }
    i = stop;
  }
  return labels;
}

/** Draw the mean color of each part of the text as a strip. */
function drawStrip(canvas, row, colors, width, height) {
  const context = clearedCanvas(canvas, width, height);
  const columns = Math.max(1, Math.min(Math.round(width), row.length));
  for (let column = 0; column < columns; column++) {
    const first = Math.floor(column * row.length / columns);
    const end = Math.max(first + 1, Math.floor((column + 1) * row.length / columns));
    // Of long parts a sample is enough.
    const stride = Math.max(1, (end - first) >> 4);
    let [sum, count] = [0, 0];
    for (let i = first; i < end; i += stride, count++) sum += row[i];
    context.fillStyle = colors[127 + Math.round(sum / count)];
    context.fillRect(column * width / columns, 0, width / columns + 0.5, height);
  }
  return context;
}

/** Draw the overview of the whole text, with a frame around the visible positions. */
function drawOverview(canvas, row, colors, [first, end], marks) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const context = drawStrip(canvas, row, colors, width, height);
  context.fillStyle = cssColor("--accent");
  for (const [from, to] of marks) {
    context.fillRect(from / row.length * width, height - 3,
      Math.max(2, (to - from) / row.length * width), 3);
  }
  context.strokeStyle = cssColor("--ink");
  context.lineWidth = 1.5;
  context.strokeRect(first / row.length * width + 0.75, 0.75,
    Math.max(3, (end - first) / row.length * width - 1.5), height - 1.5);
}

/** Draw how often the unit has each value. */
function drawHistogram(canvas, track, index, colors) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const context = clearedCanvas(canvas, width, height);
  const [low, high] = track.range(index);
  const bins = new Array(N_BINS).fill(0);
  const row = track.row(index);
  const scale = track.scale[index] / 127;
  for (const q of row) {
    const share = (q * scale - low) / (high - low || 1);
    bins[Math.max(0, Math.min(N_BINS - 1, Math.floor(share * N_BINS)))]++;
  }
  const most = Math.max(...bins);
  const room = height - 16;
  bins.forEach((count, i) => {
    const value = low + (i + 0.5) / N_BINS * (high - low);
    const q = scale ? Math.max(-127, Math.min(127, Math.round(value / scale))) : 0;
    const x = i * width / N_BINS;
    const tall = count ? Math.max(1.5, count / most * (room - 2)) : 0;
    context.fillStyle = colors[127 + q];
    context.fillRect(x + 0.5, room - tall, width / N_BINS - 1, tall);
    context.strokeStyle = cssColor("--quiet");
    context.lineWidth = 0.5;
    if (tall) context.strokeRect(x + 0.5, room - tall, width / N_BINS - 1, tall);
  });
  context.fillStyle = cssColor("--line");
  context.fillRect(0, room, width, 1);
  context.fillStyle = cssColor("--quiet");
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "bottom";
  [[low, "left", 0], [(low + high) / 2, "center", width / 2], [high, "right", width]].forEach(
    ([value, align, x]) => {
      context.textAlign = align;
      context.fillText(formatValue(value), x, height);
    });
}
