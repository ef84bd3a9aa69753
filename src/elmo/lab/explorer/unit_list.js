// The list of the units of a track: order, search, and a strip with the values of each unit.

const SORT_KEYS = {
  spread: (track, i) => -track.spread[i],
  slowness: (track, i) => -track.slowness[i],
  memory: (track, i) => -(track.timeScale?.[track.units[i]] ?? 0),
  high: (track, i) => -track.mean[i],
  low: (track, i) => track.mean[i],
  number: (track, i) => track.units[i],
};

/** Return the indices of the units whose number begins with the query, in the given order. */
function orderedUnits(track, sort, query, found) {
  let key = SORT_KEYS[sort];
  if (sort === "selection" && found) {
    const scores = new Map(found.units.filter((each) => each.track === track)
      .map((each) => [each.index, Math.abs(each.score)]));
    key = (_, i) => -(scores.get(i) ?? 0);
  }
  key ??= SORT_KEYS.spread;
  const order = Array.from(track.units.keys());
  const keys = order.map((i) => key(track, i));
  order.sort((a, b) => keys[a] - keys[b] || track.units[a] - track.units[b]);
  return order.filter((i) => String(track.units[i]).startsWith(query));
}

class UnitList {
  constructor(element, onChoice) {
    this.element = element;
    element.addEventListener("click", (event) => {
      const row = event.target.closest("li");
      if (row) onChoice(Number(row.dataset.index));
    });
    this.observer = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        this.observer.unobserve(entry.target);
        this.drawRow(entry.target);
      }
    }, { root: element, rootMargin: "200px" });
  }

  drawRow(row) {
    const index = Number(row.dataset.index);
    const canvas = row.querySelector("canvas");
    drawStrip(canvas, this.track.row(index), this.track.colors(index, this.palette),
      canvas.clientWidth, canvas.clientHeight);
  }

  /** List the units of a track in an order. */
  fill(track, order, palette) {
    Object.assign(this, { track, palette });
    this.observer.disconnect();
    this.rows = new Map();
    this.element.replaceChildren(...order.map((index) => {
      const row = make("li", { role: "option", id: `unit-${track.units[index]}`,
        "data-index": index, "aria-selected": "false" },
      make("span", { class: "number" }, String(track.units[index])),
      make("canvas", { "aria-hidden": "true" }));
      this.rows.set(index, row);
      this.observer.observe(row);
      return row;
    }));
    if (!order.length) {
      this.element.append(make("li", { role: "option", "aria-disabled": "true" }, "No such unit."));
    }
  }

  select(index) {
    this.selected?.setAttribute("aria-selected", "false");
    this.selected = this.rows.get(index);
    if (!this.selected) {
      this.element.removeAttribute("aria-activedescendant");
      return;
    }
    this.selected.setAttribute("aria-selected", "true");
    this.element.setAttribute("aria-activedescendant", this.selected.id);
    this.selected.scrollIntoView({ block: "nearest" });
  }
}
