// Controls, keys, and selection with the mouse.

/** React to the controls of the page. */
function listen(explorer) {
  byId("compare").addEventListener("click", () => explorer.setCompare(explorer.panes.length < 2));
  byId("show-saturation").addEventListener("click", (event) => {
    explorer.saturation.toggle();
    event.target.setAttribute("aria-pressed", String(explorer.saturation.isOpen));
  });
  byId("sort").addEventListener("change", () => explorer.fillList());
  byId("search").addEventListener("input", () => {
    explorer.fillList();
    const [first] = explorer.order(explorer.active);
    if (first !== undefined && byId("search").value.trim()) explorer.showUnit(explorer.active, first);
  });
  byId("clear-selection").addEventListener("click", () => explorer.clearSelection());
  byId("scope").addEventListener("change", () => {
    if (explorer.selected) explorer.select(explorer.selected.pane, explorer.selected.first, explorer.selected.end);
  });
  byId("save-svg").addEventListener("click", () => download(`${explorer.fileName}.svg`,
    new Blob([pictureOf(explorer.panes).svg], { type: "image/svg+xml" })));
  byId("save-png").addEventListener("click", async () => {
    const { svg, width, height } = pictureOf(explorer.panes);
    download(`${explorer.fileName}.png`, await svgToPng(svg, width, height));
  });
  byId("save-json").addEventListener("click", () => download(`${explorer.fileName}.json`,
    new Blob([JSON.stringify(shownData(explorer.panes, explorer.found), null, 1)],
      { type: "application/json" })));
  addEventListener("hashchange", () => followAddress(explorer));
  addEventListener("keydown", (event) => pressKey(explorer, event));
  document.addEventListener("pointerup", () => setTimeout(() => readSelection(explorer), 0));
}

/** Read what was selected with the mouse. */
function readSelection(explorer) {
  for (const pane of explorer.panes) {
    const positions = pane.view.selectedPositions(getSelection());
    if (positions) {
      explorer.activate(pane);
      explorer.select(pane, ...positions);
    }
  }
}

/** React to a key. */
function pressKey(explorer, event) {
  const { key } = event;
  const target = event.target instanceof Element ? event.target : document.body;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (key === "Escape") {
    explorer.tooltip.hidden = true;
    if (target === byId("search")) target.value = "", explorer.fillList();
    else explorer.clearSelection();
    return;
  }
  const isTyping = target.matches("select, input");
  const isSearch = target === byId("search");
  if ((key === "ArrowDown" || key === "ArrowUp") && (!isTyping || isSearch)) {
    explorer.stepUnit(key === "ArrowDown" ? 1 : -1);
  } else if (isTyping) {
    return;
  } else if (key === "/") {
    byId("search").focus();
  } else if (target.closest(".text-scroll") || target === document.body) {
    const { cursor, source, view } = explorer.active;
    const now = cursor >= 0 ? cursor : view.visible()[0] - 1;
    const moves = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: source.length - 1 };
    if (!(key in moves)) return;
    explorer.moveCursor(moves[key], event.shiftKey);
  } else {
    return;
  }
  event.preventDefault();
}
