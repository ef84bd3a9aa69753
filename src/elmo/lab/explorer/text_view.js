// The text of a pane with its colors. A canvas behind the text has the colors, so a new unit needs no
// new layout; it covers the visible part and a margin above and below it.

class TextView extends TextLayout {
  constructor(scroller, source, onScroll) {
    super(scroller, source);
    this.canvas = make("canvas", { class: "paint", "aria-hidden": "true" });
    this.cursorBox = make("div", { class: "cursor-box", hidden: true });
    this.body.prepend(this.canvas);
    this.body.append(this.cursorBox);
    this.scrolled = () => {
      const { scrollTop, clientHeight } = scroller;
      if (scrollTop < this.top || scrollTop + clientHeight > this.top + this.height) this.paint();
      onScroll();
    };
    scroller.addEventListener("scroll", this.scrolled, { passive: true });
    this.observer = new ResizeObserver(() => this.relayout());
    this.observer.observe(this.content);
    this.observer.observe(scroller);
  }

  remove() {
    this.observer.disconnect();
    this.scroller.removeEventListener("scroll", this.scrolled);
  }

  /** Measure again after a change of the size, and paint. */
  relayout() {
    this.forget();
    if (this.cursor !== undefined) this.placeCursor();
    this.paint();
  }

  /** Color the text by the stored integers of a unit. */
  show(row, colors) {
    Object.assign(this, { row, colors });
    this.paint();
  }

  /** Mark positions, each as [first, end): the selection, and other positions that match it. */
  mark(selection, matches) {
    Object.assign(this, { selection, matches });
    this.paint();
  }

  paint() {
    if (!this.row) return;
    this.measureTops();
    const { scrollTop, clientHeight, clientWidth } = this.scroller;
    const margin = Math.floor(clientHeight / 4);
    this.top = Math.max(0, Math.floor(scrollTop) - margin);
    this.height = Math.min(clientHeight + 2 * margin, Math.max(this.body.offsetHeight - this.top, 1));
    const width = clientWidth;
    this.canvas.style.top = `${this.top}px`;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.height}px`;
    const context = clearedCanvas(this.canvas, width, this.height);
    context.translate(0, -this.top);
    const bottom = this.top + this.height;
    const marks = [...(this.matches ?? [])];
    const accent = cssColor("--accent");
    const quiet = cssColor("--quiet");
    context.font = "11px sans-serif";
    for (const paragraph of this.paragraphs) {
      if (paragraph.bottom < this.top) continue;
      if (paragraph.top > bottom) break;
      this.paintParagraph(context, paragraph, marks, accent, quiet);
    }
  }

  paintParagraph(context, paragraph, marks, accent, quiet) {
    const { row, colors, lineHeight, source, selection } = this;
    const isIn = (position, [first, end]) => position >= first && position < end;
    const near = marks.filter(([first, end]) => first < paragraph.end && end > paragraph.start);
    const boxes = this.boxes(paragraph);
    const bottom = this.top + this.height;
    for (let i = 0; i < boxes.length; i++) {
      const [position, x, y, width] = boxes[i];
      if (y + lineHeight < this.top || y > bottom) continue;
      const color = colors[127 + row[position]];
      // Neighbors of one color are painted together.
      let right = x + width;
      while (i + 1 < boxes.length && colors[127 + row[boxes[i + 1][0]]] === color
        && boxes[i + 1][2] === y && Math.abs(boxes[i + 1][1] - right) < 0.5) {
        right += boxes[++i][3];
      }
      context.fillStyle = color;
      context.fillRect(x, y, right - x + 0.4, lineHeight);
    }
    for (const [position, x, y, width] of boxes) {
      if (source.pieces[position] === "\n") {
        context.fillStyle = quiet;
        context.globalAlpha = 0.5;
        context.fillText("↵", x, y + lineHeight * 0.68);
        context.globalAlpha = 1;
      }
      const isSelected = selection && isIn(position, selection);
      if (isSelected || near.some((mark) => isIn(position, mark))) {
        context.fillStyle = accent;
        context.fillRect(x, y + lineHeight - 2.5, width + 0.4, 2.5);
        if (isSelected) context.fillRect(x, y, width + 0.4, 2.5);
      }
    }
  }

  /** Put a frame around a position; -1 removes it. */
  setCursor(position) {
    this.cursor = position >= 0 ? position : undefined;
    this.placeCursor();
  }

  placeCursor() {
    const box = this.cursor === undefined ? undefined : this.box(this.cursor);
    this.cursorBox.hidden = !box;
    if (!box) return;
    const [, x, y, width] = box;
    this.cursorBox.style.transform = `translate(${x}px, ${y}px)`;
    this.cursorBox.style.width = `${Math.max(width, 6)}px`;
    this.cursorBox.style.height = `${this.lineHeight}px`;
  }

  /** Scroll so that a position is visible, a third below the top. */
  scrollTo(position, always = false) {
    const box = this.box(position);
    if (!box) return;
    const { scrollTop, clientHeight } = this.scroller;
    const isVisible = box[2] >= scrollTop && box[2] + this.lineHeight <= scrollTop + clientHeight;
    if (always || !isVisible) this.scroller.scrollTop = box[2] - clientHeight / 3;
  }
}
