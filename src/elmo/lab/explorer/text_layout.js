// The text of a pane as the browser lays it out: paragraphs, and the boxes of the pieces in them.
// Boxes are measured paragraph by paragraph when they are needed.

const MAX_NODE = 200; // longer text nodes make the measurement of single characters slow

class TextLayout {
  constructor(scroller, source) {
    this.scroller = scroller;
    this.source = source;
    this.content = make("div", { class: "text-content" });
    this.body = make("div", { class: "text-body" }, this.content);
    this.build();
    scroller.replaceChildren(this.body);
  }

  /** Create one block per paragraph, with its own direction, and text nodes of limited length. */
  build() {
    const { pieces, separator } = this.source;
    const n = pieces.length;
    this.node = new Array(n).fill(null);
    this.offset = new Uint32Array(n);
    this.firstOf = new Map(); // text node to its first position
    this.paragraphs = [];
    let text = "", first = 0;
    let paragraph = null;
    const flush = (end) => {
      if (text) {
        const node = document.createTextNode(text);
        for (let i = first; i < end; i++) this.node[i] = node;
        this.firstOf.set(node, first);
        paragraph.element.append(node);
      }
      [text, first] = ["", end];
    };
    const parts = new Map(this.source.parts.slice(1));
    const open = (start) => {
      paragraph = { start, end: start, element: make("div", { class: "line", dir: "auto" }) };
      this.paragraphs.push(paragraph);
    };
    open(0);
    pieces.forEach((piece, i) => {
      if (parts.has(i)) {
        flush(i);
        if (paragraph.start < i) open(i);
        paragraph.gap = make("div", { class: "gap" }, this.source.gapText(i));
      }
      if (piece === "\n") {
        flush(i);
        first = i + 1;
        paragraph.end = i + 1;
        if (i + 1 < n) open(i + 1);
        return;
      }
      if (text.length >= MAX_NODE) flush(i);
      this.offset[i] = text.length;
      text += piece + separator;
      paragraph.end = i + 1;
      if (this.source.lineEnds.has(i)) {
        flush(i + 1);
        if (i + 1 < n) open(i + 1);
      }
    });
    flush(n);
    this.content.replaceChildren(...this.paragraphs.flatMap(
      ({ gap, element }) => (gap ? [gap, element] : [element])));
  }

  /** Forget the boxes after a change of the size. */
  forget() {
    for (const paragraph of this.paragraphs) paragraph.boxes = paragraph.top = undefined;
  }

  /** Measure the tops of all paragraphs. */
  measureTops() {
    if (this.paragraphs[0].top !== undefined) return;
    this.lineHeight = parseFloat(getComputedStyle(this.content).lineHeight);
    for (const paragraph of this.paragraphs) {
      paragraph.top = paragraph.element.offsetTop + this.content.offsetTop;
      paragraph.bottom = paragraph.top + paragraph.element.offsetHeight;
    }
  }

  /** Return the boxes of a paragraph, as [position, x, y, width] in the order of the text. */
  boxes(paragraph) {
    if (paragraph.boxes) return paragraph.boxes;
    const { source, lineHeight } = this;
    const origin = this.body.getBoundingClientRect();
    const range = document.createRange();
    const isRtl = getComputedStyle(paragraph.element).direction === "rtl";
    const edge = paragraph.element.getBoundingClientRect();
    let last = { left: isRtl ? edge.right : edge.left, right: isRtl ? edge.right : edge.left,
      top: edge.top, height: lineHeight };
    const boxes = [];
    const add = (position, rect, minimum) => {
      const width = Math.max(rect.right - rect.left, minimum);
      const middle = rect.top + rect.height / 2 - origin.top;
      boxes.push([position, rect.left - origin.left, middle - lineHeight / 2, width]);
    };
    for (let i = paragraph.start; i < paragraph.end; i++) {
      const piece = source.pieces[i];
      const node = this.node[i];
      if (node && piece) {
        range.setStart(node, this.offset[i]);
        range.setEnd(node, this.offset[i] + piece.length);
        for (const rect of range.getClientRects()) {
          add(i, rect, 2);
          last = rect;
        }
      } else { // a line break, or the later bytes of a character
        const width = piece === "\n" ? 7 : 2;
        const left = isRtl ? last.left - width : last.right;
        const rect = { left, right: left + width, top: last.top, height: last.height };
        add(i, rect, width);
        last = rect;
      }
    }
    paragraph.boxes = boxes;
    return boxes;
  }

  /** Return the paragraph of a position or, with `key` "bottom", at a height. */
  paragraphAt(value, key = "end") {
    let [low, high] = [0, this.paragraphs.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.paragraphs[middle][key] > value) high = middle;
      else low = middle + 1;
    }
    return this.paragraphs[low];
  }

  /** Return the position at a point of the screen, or -1. */
  positionAt(clientX, clientY) {
    this.measureTops();
    const origin = this.body.getBoundingClientRect();
    const [x, y] = [clientX - origin.left, clientY - origin.top];
    for (const [position, left, top, width] of this.boxes(this.paragraphAt(y, "bottom"))) {
      if (y >= top && y < top + this.lineHeight && x >= left && x < left + width) return position;
    }
    return -1;
  }

  /** Return the first box of a position. */
  box(position) {
    this.measureTops();
    return this.boxes(this.paragraphAt(position)).find((box) => box[0] === position);
  }

  /** Return the positions of a selection of the browser as [first, end), or null. */
  selectedPositions(selection) {
    if (!selection.rangeCount || selection.isCollapsed) return null;
    const range = selection.getRangeAt(0);
    if (!this.content.contains(range.startContainer)) return null;
    if (!this.content.contains(range.endContainer)) return null;
    const first = this.boundary(range.startContainer, range.startOffset, false);
    const end = this.boundary(range.endContainer, range.endOffset, true);
    return end > first ? [first, end] : null;
  }

  boundary(node, offset, isEnd) {
    if (!this.firstOf.has(node)) { // between paragraphs
      const next = node === this.content ? this.content.children[offset] : node;
      const paragraph = this.paragraphs.find((each) => each.element === next || each.gap === next);
      if (!paragraph) return this.source.length;
      return node !== this.content && offset > 0 ? paragraph.end : paragraph.start;
    }
    let i = this.firstOf.get(node);
    while (i < this.source.length && this.node[i] === node && this.offset[i] < offset) {
      if (!isEnd && this.offset[i] + this.source.pieces[i].length > offset) break;
      i++;
    }
    return i;
  }

  /** Return the visible positions as [first, end). */
  visible() {
    this.measureTops();
    const { scrollTop, clientHeight } = this.scroller;
    const upper = this.paragraphAt(scrollTop, "bottom");
    const lower = this.paragraphAt(scrollTop + clientHeight - 1, "bottom");
    const first = this.boxes(upper).find((box) => box[2] + this.lineHeight > scrollTop + 2);
    const last = this.boxes(lower).findLast((box) => box[2] < scrollTop + clientHeight - 2);
    const start = first ? first[0] : upper.start;
    return [start, Math.max(start + 1, last ? last[0] + 1 : lower.end)];
  }
}
