// A model's values over the text: tracks (layer, direction, kind) with the values of their units.

const KINDS = {
  hidden: ["Hidden state", "what the layer passes on"],
  cell: ["Cell state", "the memory of the layer"],
  input: ["Input gate", "how much new content enters the memory (0 closed, 1 open)"],
  forget: ["Forget gate", "how much of the memory is kept (0 none, 1 all)"],
  output: ["Output gate", "how much of the memory is passed on (0 closed, 1 open)"],
  candidate: ["Candidate", "new content that is offered to the memory"],
  reset: ["Reset gate", "how much of the old state the new content sees (0 none, 1 all)"],
  update: ["Update gate", "how much of the old state is kept or replaced"],
};
const GATES = new Set(["input", "forget", "output", "reset", "update"]);
// Even, so that the middle of the color scale is one of the steps.
const LEGEND_STEPS = 16;

class Track {
  constructor(record, source) {
    Object.assign(this, { record, source, layer: record.layer, direction: record.direction });
    this.kind = record.kind;
    this.isGate = GATES.has(record.kind);
    this.units = decodeArray(record.units);
    for (const name of ["scale", "color_limit", "mean", "spread", "slowness"]) {
      this[name] = decodeArray(record[name]);
    }
    if (record.saturation) { // of all units, also those that are not stored
      const { low, high, time_scale: timeScale } = record.saturation;
      this.saturation = { low: decodeArray(low), high: decodeArray(high),
        timeScale: timeScale && decodeArray(timeScale) };
    }
  }

  /** Whether the units are those of another track; projected hidden states are others. */
  hasUnitsOf(track) {
    return this.layer === track.layer && this.direction === track.direction
      && this.record.n_units === track.record.n_units;
  }

  /** The time scales of all units, if the network has forget gates. */
  get timeScale() {
    const gate = this.source.find(this.layer, this.direction, "forget");
    return gate && this.hasUnitsOf(gate) ? gate.saturation.timeScale : undefined;
  }

  /** The rows of all units, decoded when they are first needed. */
  get values() {
    this.decoded ??= decodeArray(this.record.values);
    return this.decoded;
  }

  /** The stored integers of a unit, from -127 to 127. */
  row(index) {
    const n = this.source.length;
    return this.values.subarray(index * n, (index + 1) * n);
  }

  value(index, position) {
    return this.values[index * this.source.length + position] * this.scale[index] / 127;
  }

  /** Range of the values: 0 to 1 for gates, else symmetric around 0. */
  range(index) {
    return this.isGate ? [0, 1] : [-this.scale[index], this.scale[index]];
  }

  /** Range of the color scale. Rare larger values have the colors of its ends. */
  colorRange(index) {
    return this.isGate ? [0, 1] : [-this.color_limit[index], this.color_limit[index]];
  }

  /** Place of a value on the color scale, from -1 (blue) to 1 (red). */
  colorValue(index, value) {
    // The hidden state sees a cell through tanh, which is flat beyond 2.
    const seen = this.kind === "cell" ? Math.tanh : (each) => each;
    const share = this.isGate ? 2 * value - 1 : seen(value) / (seen(this.color_limit[index]) || 1);
    return Math.max(-1, Math.min(1, share));
  }

  /** Places on the color scale of values that are evenly spread over its range. */
  legend(index) {
    const [low, high] = this.colorRange(index);
    return Array.from({ length: LEGEND_STEPS + 1 }, (_, i) =>
      this.colorValue(index, low + i / LEGEND_STEPS * (high - low)));
  }

  /** Colors of the stored integers of a unit; that of q is at 127 + q. */
  colors(index, palette) {
    const scale = this.scale[index] / 127;
    return Array.from({ length: 255 }, (_, i) =>
      paletteColor(palette, this.colorValue(index, (i - 127) * scale)));
  }

  get name() {
    const direction = this.source.directions.length > 1 ? `, ${this.direction}` : "";
    return `${KINDS[this.kind][0].toLowerCase()}, layer ${this.layer}${direction}`;
  }
}

class Source {
  constructor(record) {
    Object.assign(this, { name: record.name, note: record.note, unit: record.unit });
    this.pieces = record.pieces;
    this.length = record.pieces.length;
    this.parts = record.parts; // begin of each part, and its position in the whole text
    this.lineEnds = new Set(record.line_ends); // after these, if line breaks are no pieces
    this.one = { characters: "character", bytes: "byte", words: "word" }[record.unit];
    this.unknown = new Set(record.unknown); // indexes of pieces that the model does not know
    this.surprisal = record.surprisal && decodeArray(record.surprisal);
    this.directions = [...new Set(record.tracks.map((track) => track.direction))];
    this.layers = [...new Set(record.tracks.map((track) => track.layer))];
    this.tracks = record.tracks.map((track) => new Track(track, this));
    this.guessRecord = record.guesses;
  }

  /** The hidden states of the highest layer, forward. */
  get defaultTrack() {
    const forward = this.tracks.filter((track) => track.direction === "forward");
    return forward.findLast((track) => track.kind === "hidden") ?? this.tracks.at(-1);
  }

  find(layer, direction, kind) {
    return this.tracks.find((track) =>
      track.layer === layer && track.direction === direction && track.kind === kind);
  }

  /** The most likely pieces at a position, as [text, probability]. */
  guesses(position) {
    const record = this.guessRecord;
    if (!record) return [];
    record.ids.decoded ??= decodeArray(record.ids);
    record.probabilities.decoded ??= decodeArray(record.probabilities);
    const count = record.ids.shape[1];
    const result = [];
    for (let i = position * count; i < (position + 1) * count; i++) {
      const id = record.ids.decoded[i];
      if (id >= 0) result.push([record.names[id], record.probabilities.decoded[i] / 65535]);
    }
    return result;
  }

  /** The part of an index, as [begin, position in the whole text, end]. */
  part(index) {
    const number = this.parts.findLastIndex(([begin]) => begin <= index);
    return [...this.parts[number], this.parts[number + 1]?.[0] ?? this.length];
  }

  /** The position in the whole text of an index into the text of the page. */
  position(index) {
    const [begin, position] = this.part(index);
    return position + index - begin;
  }

  /** What is said before a part that begins at an index. */
  gapText(index) {
    const last = this.position(index - 1);
    const skipped = (this.position(index) - last - 1).toLocaleString("en");
    return `${skipped} ${this.unit} not shown`;
  }

  /** The index of a position of the whole text, or -1 if the page does not have it. */
  index(position) {
    const number = this.parts.findLastIndex(([, first]) => first <= position);
    if (number < 0) return -1;
    const [begin, first] = this.parts[number];
    const index = begin + position - first;
    return index < (this.parts[number + 1]?.[0] ?? this.length) ? index : -1;
  }

  /** The text of some positions. */
  text(first, end) {
    const pieces = this.pieces.slice(first, end);
    return this.unit === "words" ? pieces.join(" ") : pieces.join("");
  }

  get separator() {
    return this.unit === "words" ? " " : "";
  }

  /** What one sees after a piece in a context. */
  after(i) {
    return this.lineEnds.has(i) ? ` ${visiblePiece("\n")} ` : this.separator;
  }
}

/** A piece as one sees it: white space and control characters get a sign or a number. */
function visiblePiece(piece) {
  const signs = { " ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍", "": "·" };
  if (piece in signs) return signs[piece];
  return piece.replace(/[\s\p{Cc}\p{Cs}]/gu,
    (c) => signs[c] ?? `U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`);
}

function formatValue(value) {
  const text = Math.abs(value) < 0.995 ? value.toFixed(2) : value.toPrecision(3);
  return text.replace("-", "−");
}

function formatPercent(share) {
  return share >= 0.0995 ? `${Math.round(100 * share)}%`
    : share >= 0.001 ? `${(100 * share).toFixed(1)}%` : "<0.1%";
}
