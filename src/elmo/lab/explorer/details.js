// What is said about a unit, a position and a selection. Texts become text nodes, never HTML.

const CONTEXT = { characters: [22, 14], bytes: [22, 14], words: [5, 3] };
const N_CONTEXTS = 6;
// What a model reads and predicts instead of a piece that is not in its vocabulary.
const UNKNOWN = "<UNK>";

/** Return a button with the text around [first, end), colored by the unit of the pane. */
function contextButton(pane, first, end, onclick) {
  const { source, row, colors } = pane;
  const [before, after] = CONTEXT[source.unit];
  const [partBegin, , partEnd] = source.part(first);
  const begin = Math.max(partBegin, first - before);
  const stop = Math.min(end, first + before);
  const button = make("button", { "data-unit": source.unit, dir: "auto", onclick });
  const last = Math.min(partEnd, stop + after);
  for (let i = begin; i < last; i++) {
    const text = source.unit === "words" && source.pieces[i] !== "\n" ? source.pieces[i]
      : visiblePiece(source.pieces[i]).replaceAll("␣", " ");
    const part = make(i >= first && i < stop ? "b" : "span", {}, text + source.after(i));
    part.style.background = colors[127 + row[i]];
    button.append(part);
  }
  button.setAttribute("aria-label", `Position ${source.position(first)}: ${source.text(begin, last)}`);
  return button;
}

/** Fill the panel about the unit of a pane. */
function showUnitDetails(pane, jump) {
  const { track, index, source, row } = pane;
  const find = (id) => document.getElementById(id);
  find("details-title").textContent = `Unit ${track.units[index]}, ${track.name}`;
  find("statistics").textContent = `Mean ${formatValue(track.mean[index])}, standard deviation `
    + `${formatValue(track.spread[index])}. From one ${source.one} to the next it correlates with `
    + `itself by ${formatValue(track.slowness[index])}.`;
  find("unit-gates").replaceChildren(...saturationSentences(track, track.units[index])
    .map((text) => make("li", {}, text)));
  drawHistogram(find("histogram"), track, index, pane.colors);
  find("histogram").setAttribute("aria-label", `Histogram of the values of unit ${track.units[index]}`);
  for (const [id, sign] of [["highest", 1], ["lowest", -1]]) {
    const positions = extremePositions(row, sign, N_CONTEXTS, CONTEXT[source.unit][0]);
    find(id).replaceChildren(...positions.map((position) =>
      make("li", {}, contextButton(pane, position, position + 1, () => jump(position)))));
  }
}

/** Fill the tooltip of a position and return a sentence for screen readers. */
function fillTooltip(tooltip, pane, position) {
  const { source, track, index } = pane;
  const place = `${source.one} ${source.position(position)}`;
  const piece = source.pieces[position];
  const value = formatValue(track.value(index, position));
  const rows = [make("div", {},
    make("span", { class: "piece" }, visiblePiece(piece)), ` ${place}`),
  make("p", {}, `Unit ${track.units[index]}: ${value}`)];
  let sentence = `${place}, ${visiblePiece(piece)}: ${value}.`;
  const isUnknown = source.unknown.has(position);
  if (isUnknown) {
    const problem = `This ${source.one} is not in the vocabulary of the model.`;
    rows.push(make("p", {}, problem));
    sentence += ` ${problem}`;
  }
  const bits = source.surprisal?.[position];
  if (Number.isFinite(bits)) {
    const chance = formatPercent(2 ** -bits);
    const which = source.directions.length > 1 ? " (reading forward)" : "";
    const surprisal = `Surprisal${isUnknown ? ` of ${UNKNOWN}` : ""} ${bits.toFixed(2)} bits`;
    const target = isUnknown ? UNKNOWN : "it";
    rows.push(make("p", {}, `${surprisal}: the model expected ${target} with ${chance}${which}.`));
    sentence += ` ${surprisal}.`;
  }
  const guesses = source.guesses(position);
  if (guesses.length) {
    rows.push(make("p", { class: "quiet" }, "What the model expected here:"));
    for (const [text, probability] of guesses) {
      const bar = make("span", { class: "bar" });
      bar.style.width = `${100 * probability}%`;
      const isRight = text === (isUnknown ? UNKNOWN : piece);
      rows.push(make("div", { class: `guess${isRight ? " right" : ""}` },
        make("code", { dir: "auto" }, visiblePiece(text)), make("span", {}, bar),
        make("span", { class: "share" }, formatPercent(probability))));
    }
    sentence += ` Expected: ${guesses.map(([text, p]) => `${visiblePiece(text)} ${formatPercent(p)}`).join(", ")}.`;
  }
  tooltip.replaceChildren(...rows);
  return sentence;
}

/** Place the tooltip below a box of the screen, or above it if there is no room. */
function placeTooltip(tooltip, { left, top, bottom }) {
  tooltip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tooltip;
  const x = Math.max(8, Math.min(left - 20, innerWidth - width - 8));
  const y = bottom + 10 + height < innerHeight ? bottom + 10 : Math.max(8, top - height - 10);
  tooltip.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
}

/** Fill the panel about the selection. */
function showSelection(found, pane, jump, showUnit) {
  const find = (id) => document.getElementById(id);
  find("selection-help").hidden = Boolean(found);
  find("selection-result").hidden = !found;
  if (!found) return;
  const { source, first, end, units, parts } = found;
  const text = source.text(first, end);
  const count = `${end - first} ${source.unit}`;
  find("selected-text").textContent = text.length > 80 ? `${text.slice(0, 60)} … (${count})` : text;
  find("found-units").replaceChildren(...units.slice(0, N_LISTED_UNITS).map((each) => {
    const { track, index, score } = each;
    const side = score > 0 ? "higher" : "lower";
    return make("li", {}, make("button", { onclick: () => showUnit(each) },
      make("span", {}, `Unit ${track.units[index]}`, track === pane.track ? "" : ` (${track.name})`),
      make("span", { class: "score quiet" }, `${formatValue(Math.abs(score))} sd ${side}`)));
  }));
  if (!units.length) {
    find("found-units").append(make("li", {}, "None: the selection is the whole text."));
  }
  const shown = parts.slice(0, N_LISTED_PARTS);
  const more = parts.length > shown.length ? `, ${shown.length} of ${parts.length}` : "";
  find("parts-title").textContent = `Other parts where the first ${Math.min(N_MATCHED_UNITS, units.length)} are on${more}`;
  find("found-parts").replaceChildren(...shown.map((part) => make("li", {},
    contextButton(pane, part.first, part.end, () => jump(part.first)))));
  if (!shown.length) find("found-parts").append(make("li", {}, "None."));
}
