// Shared by all pages: data, colors, the theme, and downloads.

const ARRAYS = {
  int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array,
  int32: Int32Array, uint32: Uint32Array, float32: Float32Array,
};

/** Return the data of the page. */
function readData() {
  return JSON.parse(document.getElementById("page-data").textContent);
}

/** Return the flat typed array of an encoded array (see page_data.py). */
function decodeArray({ dtype, base64 }) {
  if (Uint8Array.fromBase64) return new ARRAYS[dtype](Uint8Array.fromBase64(base64).buffer);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new ARRAYS[dtype](bytes.buffer);
}

// Colors for -1, 0 and 1. Blue and red differ for all common types of color blindness, and the text
// has a contrast of at least 4.5 on all of them.
const DIVERGING = {
  light: [[67, 147, 195], [255, 255, 255], [222, 108, 88]],
  dark: [[36, 104, 178], [28, 31, 37], [188, 54, 54]],
};
const PALETTE_CENTER = 127;

function isDark() {
  return document.documentElement.dataset.theme === "dark";
}

/** Return the RGB color of a value from -1 (blue) to 1 (red). */
function divergingRgb(value, dark = isDark()) {
  const [low, middle, high] = DIVERGING[dark ? "dark" : "light"];
  const end = value < 0 ? low : high;
  const share = Math.min(1, Math.abs(value));
  return middle.map((start, i) => Math.round(start + (end[i] - start) * share));
}

/** Return 255 CSS colors; that of a value from -1 to 1 is at 127 + round(127 * value). */
function divergingPalette(dark = isDark()) {
  return Array.from({ length: 2 * PALETTE_CENTER + 1 },
    (_, i) => `rgb(${divergingRgb((i - PALETTE_CENTER) / PALETTE_CENTER, dark).join(",")})`);
}

/** Return the color of a value from -1 to 1 in a palette of `divergingPalette`. */
function paletteColor(palette, value) {
  return palette[PALETTE_CENTER + Math.round(PALETTE_CENTER * value)];
}

/** Set the theme to that of the system, and call `changed` whenever it changes. */
function followTheme(button, changed) {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const set = (dark) => {
    root.dataset.theme = dark ? "dark" : "light";
    button.setAttribute("aria-pressed", String(dark));
    cssColors.clear();
  };
  set(system.matches);
  system.addEventListener("change", () => { set(system.matches); changed(); });
  button.addEventListener("click", () => { set(!isDark()); changed(); });
}

const cssColors = new Map(); // of the current theme; computed styles are slow

/** Return the current value of a CSS variable with a color. */
function cssColor(name) {
  if (!cssColors.has(name)) {
    const style = getComputedStyle(document.documentElement);
    cssColors.set(name, style.getPropertyValue(name).trim());
  }
  return cssColors.get(name);
}

/** Return a new element with attributes and children; strings become text, never HTML. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Resize a canvas to its CSS size at the resolution of the screen; return its cleared context. */
function clearedCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [columns, rows] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== columns) canvas.width = columns;
  if (canvas.height !== rows) canvas.height = rows;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Return text for use in SVG. */
function escapeXml(text) {
  const names = { "<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;" };
  const clean = text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|\p{Cs}/gu, "\ufffd");
  return clean.replace(/[<>&"]/g, (c) => names[c]);
}

/** Offer a file for download. */
function download(name, blob) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** Return a PNG of an SVG text with the given size in CSS pixels, at twice the resolution. */
async function svgToPng(svg, width, height) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = make("canvas");
  [canvas.width, canvas.height] = [2 * width, 2 * height];
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  context.drawImage(image, 0, 0, width, height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}
