// The page: what it shows, and how the parts of the page change together.

const data = readData();
const byId = (id) => document.getElementById(id);

class Explorer {
  constructor() {
    this.sources = data.sources.map((record) => new Source(record));
    this.panes = [];
    this.active = null;
    this.found = null;
    this.tooltip = byId("tooltip");
    followTheme(byId("theme"), () => this.recolor());
    this.palette = divergingPalette();
    this.list = new UnitList(byId("unit-list"), (index) => this.showUnit(this.active, index));
    this.saturation = new SaturationPanel(byId("saturation"), this);
    byId("title").textContent = document.title;
    this.addPane(this.sources[0]);
    if (this.sources.length > 1) this.setCompare(true);
    followAddress(this);
    listen(this);
  }

  /** Show the notes about the models, with their names if they differ, and a message. */
  showNote(message = "") {
    const areEqual = new Set(this.sources.map((source) => source.note)).size === 1;
    const notes = areEqual ? [this.sources[0].note] : this.sources
      .filter((source) => source.note).map((source) => `${source.name}: ${source.note}`);
    byId("note").textContent = [...notes, message].filter(Boolean).join(" ");
  }

  /** Add a pane; the second shows another layer of the same model, or another model. */
  addPane(source, track) {
    const pane = new Pane(this.panes.length, this);
    this.panes.push(pane);
    this.active ??= pane;
    byId("panes").append(pane.element);
    byId("panes").dataset.count = this.panes.length;
    pane.setSource(source, track ?? source.defaultTrack);
  }

  setCompare(isOn) {
    if (isOn === this.panes.length > 1) return;
    byId("compare").setAttribute("aria-pressed", String(isOn));
    if (!isOn) {
      this.panes.pop().remove();
      byId("panes").dataset.count = 1;
      this.activate(this.panes[0]);
      return;
    }
    const { source, track } = this.panes[0];
    const other = this.sources.find((each) => each !== source) ?? source;
    const kindred = other.tracks.filter((each) => each.kind === track.kind && each !== track);
    this.addPane(other, kindred.find((each) => each.layer !== track.layer) ?? kindred[0]);
    this.activate(this.panes[0]);
  }

  activate(pane) {
    if (pane === this.active && this.list.track === pane.track) return;
    this.active = pane;
    this.panes.forEach((each) => each.element.classList.toggle("active", each === pane));
    this.fillList();
    this.detail();
  }

  /** Return the units of a pane's track in the order of the list. */
  order(pane) {
    pane.order ??= orderedUnits(pane.track, byId("sort").value, byId("search").value.trim(), this.found);
    return pane.order;
  }

  trackChanged(pane) {
    this.active = pane;
    this.panes.forEach((each) => each.element.classList.toggle("active", each === pane));
    this.fillList();
    this.detail();
    writeAddress(this);
  }

  /** Fill the list of units for the active pane, after a change of order, search or track. */
  fillList() {
    for (const pane of this.panes) pane.order = undefined;
    const order = this.order(this.active);
    this.list.fill(this.active.track, order, this.palette);
    this.list.select(this.active.index);
    const { units, record } = this.active.track;
    const stored = units.length;
    byId("unit-count").textContent = stored < record.n_units
      ? `${stored} of ${record.n_units} stored` : String(stored);
  }

  showUnit(pane, index) {
    pane.setUnit(index);
    if (pane === this.active) this.list.select(index);
    else this.activate(pane);
    byId("announcement").textContent = `Unit ${pane.track.units[index]}`;
    this.detail();
    writeAddress(this);
  }

  stepUnit(step, pane = this.active) {
    if (pane !== this.active) this.activate(pane);
    const order = this.order(pane);
    if (!order.length) return;
    const now = order.indexOf(pane.index);
    const next = now < 0 ? 0 : Math.max(0, Math.min(order.length - 1, now + step));
    this.showUnit(pane, order[next]);
  }

  /** Update the panel about the unit after the text has been painted. */
  detail() {
    clearTimeout(this.detailTimer);
    this.detailTimer = setTimeout(() => this.showDetails(), 50);
  }

  showDetails() {
    showUnitDetails(this.active, (position) => this.jump(position));
    this.saturation.update();
  }

  jump(position) {
    this.active.view.scrollTo(position, true);
    this.setCursor(this.active, position);
  }

  /** Put the cursor of all panes with the same text at a position. */
  setCursor(pane, position) {
    for (const each of this.panes) {
      const isSame = each === pane || (each.source.length === pane.source.length
        && each.source.unit === pane.source.unit);
      each.setCursor(isSame ? position : -1);
    }
  }

  hover(pane, position, event) {
    this.setCursor(pane, position);
    if (position < 0 || event?.buttons) {
      this.tooltip.hidden = true;
      return;
    }
    fillTooltip(this.tooltip, pane, position);
    const inText = pane.part("text-scroll").contains(event.target);
    placeTooltip(this.tooltip, inText ? pane.view.cursorBox.getBoundingClientRect()
      : { left: event.clientX, top: event.clientY - 10, bottom: event.clientY + 10 });
  }

  /** Move the keyboard cursor of the active pane, or extend the selection by it. */
  moveCursor(position, isExtending) {
    const pane = this.active;
    const target = Math.max(0, Math.min(pane.source.length - 1, position));
    if (isExtending) this.anchor ??= Math.max(0, pane.cursor);
    else this.anchor = undefined;
    this.setCursor(pane, target);
    pane.view.scrollTo(target);
    byId("announcement").textContent = fillTooltip(this.tooltip, pane, target);
    placeTooltip(this.tooltip, pane.view.cursorBox.getBoundingClientRect());
    if (isExtending) {
      this.select(pane, Math.min(this.anchor, target), Math.max(this.anchor, target) + 1);
    }
  }

  /** Find units and similar parts for the positions [first, end) of a pane. */
  select(pane, first, end) {
    this.selected = { pane, first, end };
    const { source, track } = pane;
    const tracks = byId("scope").value === "all" ? source.tracks : [track];
    const units = unitsOfSelection(tracks, first, end);
    this.found = { source, first, end, units, parts: similarParts(units, first, end) };
    this.showFound(pane);
  }

  clearSelection() {
    if (!this.found) return;
    const { pane } = this.selected;
    this.found = this.selected = null;
    this.anchor = undefined;
    getSelection().removeAllRanges();
    this.showFound(pane);
  }

  showFound(pane) {
    const { found } = this;
    const option = byId("sort").querySelector('[value="selection"]');
    option.disabled = !found;
    if (!found && byId("sort").value === "selection") byId("sort").value = "spread";
    showSelection(found, pane, (position) => this.jump(position), (each) => this.showFoundUnit(each));
    for (const each of this.panes) {
      const isSame = found && each.source === found.source;
      each.view.mark(isSame ? [found.first, found.end] : null,
        isSame ? found.parts.slice(0, 200).map((part) => [part.first, part.end]) : null);
      each.drawPlots();
    }
    if (byId("sort").value === "selection" || !found) this.fillList();
  }

  showFoundUnit({ track, index }) {
    this.showTrackUnit(this.selected?.pane ?? this.active, track, index);
  }

  showTrackUnit(pane, track, index) {
    if (pane.track !== track) pane.setTrack(track, index);
    else this.showUnit(pane, index);
  }

  recolor() {
    this.palette = divergingPalette();
    for (const pane of this.panes) pane.setUnit(pane.index);
    this.fillList();
    this.detail();
  }

  get fileName() {
    const { track, index } = this.active;
    return `unit-${track.units[index]}-layer-${track.layer}-${track.kind}`;
  }
}

window.explorer = new Explorer();
