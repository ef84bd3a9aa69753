// A pane: one text, colored by one unit of one track.

class Pane {
  constructor(number, explorer) {
    this.number = number;
    this.explorer = explorer;
    this.element = document.getElementById("pane-template").content.firstElementChild.cloneNode(true);
    const part = (name) => this.element.querySelector(`.${name}`);
    this.part = part;
    this.selects = ["model", "layer", "direction", "kind"].map(part);
    part("model").addEventListener("change", () => this.setSource(explorer.sources[part("model").value]));
    for (const name of ["layer", "direction", "kind"]) {
      part(name).addEventListener("change", () => this.setTrack(this.source.find(
        Number(part("layer").value), part("direction").value, part("kind").value)
        ?? this.nearestTrack()));
    }
    part("previous").addEventListener("click", () => explorer.stepUnit(-1, this));
    part("next").addEventListener("click", () => explorer.stepUnit(1, this));
    this.element.addEventListener("focusin", () => explorer.activate(this));
    this.element.addEventListener("pointerdown", () => explorer.activate(this));
    const overview = part("overview");
    overview.addEventListener("click", (event) => {
      const share = event.offsetX / overview.clientWidth;
      this.view.scrollTo(Math.floor(share * this.source.length), true);
    });
    const scroller = part("text-scroll");
    scroller.addEventListener("pointermove", (event) =>
      explorer.hover(this, this.view.positionAt(event.clientX, event.clientY), event));
    scroller.addEventListener("pointerleave", () => explorer.hover(this, -1));
    part("plot").addEventListener("pointermove", (event) => this.hoverPlot(event));
    part("plot").addEventListener("pointerleave", () => explorer.hover(this, -1));
    this.observer = new ResizeObserver(() => this.drawPlots());
    this.observer.observe(part("plot"));
  }

  remove() {
    this.observer.disconnect();
    this.view.remove();
    this.element.remove();
  }

  hoverPlot(event) {
    const [first, end] = this.view.visible();
    const share = (event.offsetX - 46) / (this.part("plot").clientWidth - 54);
    const position = Math.floor(first + share * (end - first));
    this.explorer.hover(this, position >= first && position < end ? position : -1, event);
  }

  /** Show the text and a track of a model. */
  setSource(source, track) {
    this.source = source;
    this.view?.remove();
    this.view = new TextView(this.part("text-scroll"), source, () => this.drawPlots());
    this.view.content.dataset.unit = source.unit;
    this.cursor = this.pointed = -1;
    this.setTrack(track ?? this.nearestTrack());
  }

  /** Return the track of the model that is most similar to the shown one. */
  nearestTrack() {
    const wanted = ["layer", "direction", "kind"].map((name) => this.part(name).value);
    const matches = (track) => [String(track.layer) === wanted[0], track.direction === wanted[1],
      track.kind === wanted[2]].filter(Boolean).length;
    const tracks = [this.source.defaultTrack, ...this.source.tracks];
    return tracks.sort((a, b) => matches(b) - matches(a))[0];
  }

  setTrack(track, index) {
    const unit = this.track?.units[this.index];
    this.track = track;
    const kept = track.units.indexOf(unit);
    this.fillSelects();
    this.order = undefined;
    this.setUnit(index ?? (kept >= 0 ? kept : this.explorer.order(this)[0] ?? 0));
    this.explorer.trackChanged(this);
  }

  fillSelects() {
    const { source, track, explorer } = this;
    const fill = (name, entries, value) => {
      this.part(name).replaceChildren(...entries.map(([key, text]) =>
        make("option", { value: key, selected: String(key) === String(value) }, text)));
    };
    fill("model", explorer.sources.map((each, i) => [i, each.name]), explorer.sources.indexOf(source));
    this.part("model-label").hidden = explorer.sources.length < 2;
    const { layers } = source;
    fill("layer", layers.map((layer) => [layer, layers.length < 2 ? String(layer)
      : layer === layers[0] ? `${layer} (lowest)`
        : layer === layers.at(-1) ? `${layer} (highest)` : String(layer)]), track.layer);
    fill("direction", source.directions.map((each) => [each, each]), track.direction);
    this.part("direction-label").hidden = source.directions.length < 2;
    const kinds = source.tracks.filter((each) =>
      each.layer === track.layer && each.direction === track.direction);
    fill("kind", kinds.map((each) => [each.kind, KINDS[each.kind][0].toLowerCase()]), track.kind);
    this.part("kind-help").textContent = this.part("kind-help").title = KINDS[track.kind][1];
  }

  /** Color the text by a unit, given by its index in the track. */
  setUnit(index) {
    this.index = index;
    const { track } = this;
    this.row = track.row(index);
    this.colors = track.colors(index, this.explorer.palette);
    const [low, high] = track.colorRange(index).map(formatValue);
    const name = `Unit ${track.units[index]}`;
    this.part("unit-name").textContent = name;
    this.part("low-label").textContent = low;
    this.part("high-label").textContent = high;
    this.part("legend").setAttribute("aria-label", `Colors: blue is ${low} and below, red is ${high} and above`);
    this.part("scale").style.background =
      `linear-gradient(to right, ${track.legend(index).map((value) =>
        paletteColor(this.explorer.palette, value)).join(",")})`;
    this.part("text-scroll").setAttribute("aria-label",
      `Text colored by unit ${track.units[index]}, ${track.name}. Arrow keys left and right move `
      + "through the text.");
    this.element.setAttribute("aria-label", `${this.source.name}: ${name}, ${track.name}`);
    this.part("plot").setAttribute("aria-label", `Values of ${name.toLowerCase()} in the visible text`);
    this.part("overview").setAttribute("aria-label", `${name} over the whole text`);
    this.view.show(this.row, this.colors);
    this.drawPlots();
  }

  drawPlots() {
    if (!this.row) return;
    const visible = this.view.visible();
    drawLine(this.part("plot"), this.track, this.index, visible, this.cursor);
    const marks = [...(this.view.matches ?? []), ...(this.view.selection ? [this.view.selection] : [])];
    drawOverview(this.part("overview"), this.row, this.colors, visible, marks);
  }

  setCursor(position) {
    if (position === this.cursor) return;
    this.cursor = position;
    if (position >= 0) this.pointed = position;
    this.view.setCursor(position);
    drawLine(this.part("plot"), this.track, this.index, this.view.visible(), position);
  }
}
