// The page: its state, controls and keys.

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
    byId("title").textContent = document.title;
    byId("note").textContent = this.sources.map((source) => source.note).filter(Boolean).join(" ");
    this.addPane(this.sources[0]);
    if (this.sources.length > 1) this.setCompare(true);
    this.followAddress();
    this.listen();
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
    this.writeAddress();
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
    this.writeAddress();
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
    this.detailTimer = setTimeout(() =>
      showUnitDetails(this.active, (position) => this.jump(position)), 50);
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
    const pane = this.selected?.pane ?? this.active;
    if (pane.track !== track) pane.setTrack(track, index);
    else this.showUnit(pane, index);
  }

  recolor() {
    this.palette = divergingPalette();
    for (const pane of this.panes) pane.setUnit(pane.index);
    this.fillList();
    this.detail();
  }

  /** Show what the fragment of the address names, as in `page.html#layer=1&values=cell&unit=37`. */
  followAddress() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    if (![...wanted.keys()].length) return;
    const pane = this.panes[0];
    const source = this.sources[Number(wanted.get("model") ?? 0)] ?? this.sources[0];
    if (source !== pane.source) pane.setSource(source);
    const track = source.find(Number(wanted.get("layer") ?? pane.track.layer),
      wanted.get("direction") ?? pane.track.direction, wanted.get("values") ?? pane.track.kind);
    if (track && track !== pane.track) pane.setTrack(track);
    const index = pane.track.units.indexOf(Number(wanted.get("unit") ?? -1));
    if (index >= 0) this.showUnit(pane, index);
    else if (wanted.has("unit")) {
      byId("note").textContent += ` Unit ${wanted.get("unit")} is not stored in this page: `
        + "use --units or --all-units.";
    }
    const place = source.index(Number(wanted.get("position") ?? -1));
    if (place >= 0) {
      pane.view.scrollTo(place, true);
      this.setCursor(pane, place);
    }
  }

  /** Keep the shown unit in the address, so that it can be copied. */
  writeAddress() {
    const { source, track, index } = this.panes[0];
    const parts = { layer: track.layer, direction: track.direction, values: track.kind,
      unit: track.units[index] };
    if (this.sources.length > 1) parts.model = this.sources.indexOf(source);
    clearTimeout(this.addressTimer);
    this.addressTimer = setTimeout(() => {
      // Frames in notebooks have no address.
      if (location.protocol !== "about:") {
        history.replaceState(null, "", `#${new URLSearchParams(parts)}`);
      }
    }, 300);
  }

  get fileName() {
    const { track, index } = this.active;
    return `unit-${track.units[index]}-layer-${track.layer}-${track.kind}`;
  }

  listen() {
    byId("compare").addEventListener("click", () => this.setCompare(this.panes.length < 2));
    byId("sort").addEventListener("change", () => this.fillList());
    byId("search").addEventListener("input", () => {
      this.fillList();
      const [first] = this.order(this.active);
      if (first !== undefined && byId("search").value.trim()) this.showUnit(this.active, first);
    });
    byId("clear-selection").addEventListener("click", () => this.clearSelection());
    byId("scope").addEventListener("change", () => {
      if (this.selected) this.select(this.selected.pane, this.selected.first, this.selected.end);
    });
    byId("save-svg").addEventListener("click", () => download(`${this.fileName}.svg`,
      new Blob([pictureOf(this.panes).svg], { type: "image/svg+xml" })));
    byId("save-png").addEventListener("click", async () => {
      const { svg, width, height } = pictureOf(this.panes);
      download(`${this.fileName}.png`, await svgToPng(svg, width, height));
    });
    byId("save-json").addEventListener("click", () => download(`${this.fileName}.json`,
      new Blob([JSON.stringify(shownData(this.panes, this.found), null, 1)],
        { type: "application/json" })));
    addEventListener("hashchange", () => this.followAddress());
    addEventListener("keydown", (event) => this.key(event));
    document.addEventListener("pointerup", () => setTimeout(() => this.readSelection(), 0));
  }

  /** Read what was selected with the mouse. */
  readSelection() {
    for (const pane of this.panes) {
      const positions = pane.view.selectedPositions(getSelection());
      if (positions) {
        this.activate(pane);
        this.select(pane, ...positions);
      }
    }
  }

  key(event) {
    const { key } = event;
    const target = event.target instanceof Element ? event.target : document.body;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (key === "Escape") {
      this.tooltip.hidden = true;
      if (target === byId("search")) target.value = "", this.fillList();
      else this.clearSelection();
      return;
    }
    const isTyping = target.matches("select, input");
    const isSearch = target === byId("search");
    if ((key === "ArrowDown" || key === "ArrowUp") && (!isTyping || isSearch)) {
      this.stepUnit(key === "ArrowDown" ? 1 : -1);
    } else if (isTyping) {
      return;
    } else if (key === "/") {
      byId("search").focus();
    } else if (target.closest(".text-scroll") || target === document.body) {
      const { cursor, source, view } = this.active;
      const now = cursor >= 0 ? cursor : view.visible()[0] - 1;
      const moves = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: source.length - 1 };
      if (!(key in moves)) return;
      this.moveCursor(moves[key], event.shiftKey);
    } else {
      return;
    }
    event.preventDefault();
  }
}

window.explorer = new Explorer();
