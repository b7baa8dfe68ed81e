// Where an atlas stands: the rectangle of a weight matrix that is seen, and how large its cells are.

import { TILE } from "./source.js";

/**
 * @typedef {{ query: number, key: number, scale: number }} View the weight in the middle, counted from
 *   the edge of the matrix, and how many pixels a weight has
 * @typedef {{ queries: number, keys: number, height: number, width: number }} Frame a matrix, and the
 *   pixels that it is shown in
 * @typedef {{ level: number, row: number, column: number }} Spot of a tile
 */

/** No weight is larger than this, in pixels: a figure can be read in it. */
export const LARGEST = 64;
/** Pixels per weight from which on each row and column can have its name. */
export const LEGIBLE = 12;
const SLIM = 42; // pixels above the map for numbers
const SNUG = 44; // pixels of a weight when all of a short text is shown

/** Pixels per weight at which all of a matrix is seen. @param {Frame} frame */
export function fitting({ queries, keys, height, width }) {
  return Math.min(width / Math.max(1, keys), height / Math.max(1, queries), SNUG);
}

/**
 * The pixels of a map, and of the names around it.
 * @param {{ queries: number, keys: number }} matrix
 * @param {number} across pixels for the map and the names on its left @param {number} down and above it
 * @param {number} label pixels of the longest name @param {number} most pixels that a name may have
 * @param {View | null} view that is asked for; null: all of the matrix
 * @returns {{ frame: Frame, margins: { left: number, top: number }, named: boolean }}
 */
export function layout({ queries, keys }, across, down, label, most, view) {
  const left = Math.min(most, Math.max(82, label));
  const width = Math.max(100, across - left - 1);
  // Names of tokens need more room on top than numbers do; the map as a whole stays as large as it is.
  const slim = { queries, keys, height: down - SLIM, width };
  const named = { ...slim, height: down - Math.min(most, Math.max(SLIM, label)) };
  const fit = fitting(named) >= LEGIBLE ? named : slim;
  const isNamed = view === null ? fit === named : view.scale >= LEGIBLE;
  const rows = Math.min(fit.height, Math.max(queries * fitting(fit), 120));
  const { height } = isNamed ? named : slim;
  const frame = {
    queries,
    keys,
    height: Math.round(rows + (height - fit.height)),
    width: Math.round(Math.min(width, Math.max(keys * fitting(fit), 120))),
  };
  return { frame, margins: { left, top: down - height }, named: isNamed };
}

/** All of the matrix. @param {Frame} frame @returns {View} */
export function whole(frame) {
  return within({ query: frame.queries / 2, key: frame.keys / 2, scale: fitting(frame) }, frame);
}

/** The nearest view that shows nothing beyond the matrix; from its first corner if it is small.
 * @param {View} view @param {Frame} frame @returns {View} */
export function within({ query, key, scale }, frame) {
  const size = Math.min(Math.max(scale, fitting(frame)), LARGEST);
  const middle = (/** @type {number} */ at, /** @type {number} */ count, /** @type {number} */ pixels) => {
    const half = pixels / size / 2;
    return half * 2 >= count ? half : Math.min(Math.max(at, half), count - half);
  };
  return {
    query: middle(query, frame.queries, frame.height),
    key: middle(key, frame.keys, frame.width),
    scale: size,
  };
}

/** The weight at the upper left pixel. @param {View} view @param {Frame} frame */
export function corner({ query, key, scale }, { height, width }) {
  return { query: query - height / scale / 2, key: key - width / scale / 2 };
}

/** The pixels before a weight, from the edge of the canvas. @param {View} view @param {Frame} frame
 * @param {{ left: number, top: number }} margins */
export function pixels(view, frame, margins) {
  const start = corner(view, frame);
  return {
    x: (/** @type {number} */ key) => margins.left + (key - start.key) * view.scale,
    y: (/** @type {number} */ query) => margins.top + (query - start.query) * view.scale,
  };
}

/** Nearer or farther by a factor, such that the pixel (x, y) stays on its weight.
 * @param {View} view @param {Frame} frame @param {number} factor @param {number} x @param {number} y
 * @returns {View} */
export function zoomed(view, frame, factor, x, y) {
  const scale = Math.min(Math.max(view.scale * factor, fitting(frame)), LARGEST);
  const shift = 1 / view.scale - 1 / scale;
  return within(
    { query: view.query + (y - frame.height / 2) * shift, key: view.key + (x - frame.width / 2) * shift, scale },
    frame,
  );
}

/** Moved by pixels. @param {View} view @param {Frame} frame @param {number} right @param {number} down
 * @returns {View} */
export function moved({ query, key, scale }, frame, right, down) {
  return within({ query: query + down / scale, key: key + right / scale, scale }, frame);
}

/** Does the view show every weight? @param {View} view @param {Frame} frame */
export function isWhole({ scale }, frame) {
  return scale <= fitting(frame) * 1.0001;
}

/** The level of which one tile holds all weights. @param {number} queries @param {number} keys */
export function topLevel(queries, keys) {
  return Math.max(0, Math.ceil(Math.log2(Math.max(1, queries, keys) / TILE)));
}

/** The finest level whose cells have a pixel or more. @param {number} scale @param {number} top */
export function levelFor(scale, top) {
  return Math.min(top, Math.max(0, Math.ceil(-Math.log2(scale) - 1e-9)));
}

/** The tiles of a level that are seen, nearest to the middle first.
 * @param {View} view @param {Frame} frame @param {number} level @returns {Spot[]} */
export function spots(view, frame, level) {
  const size = TILE * 2 ** level;
  const start = corner(view, frame);
  const range = (/** @type {number} */ from, /** @type {number} */ pixels, /** @type {number} */ count) => [
    Math.max(0, Math.floor(from / size)),
    Math.ceil(Math.min(count, from + pixels / view.scale) / size),
  ];
  const [top, bottom] = range(start.query, frame.height, frame.queries);
  const [left, right] = range(start.key, frame.width, frame.keys);
  /** @type {(Spot & { far: number })[]} */
  const found = [];
  for (let row = top; row < bottom; row++) {
    for (let column = left; column < right; column++) {
      const far = Math.hypot((row + 0.5) * size - view.query, (column + 0.5) * size - view.key);
      found.push({ level, row, column, far });
    }
  }
  return found.sort((a, b) => a.far - b.far);
}

/** A view as the text of an address: the weight in the middle, and pixels per weight.
 * @param {View} view */
export function written({ query, key, scale }) {
  const places = Math.max(0, Math.ceil(Math.log10(scale)) + 1);
  return [query.toFixed(places), key.toFixed(places), String(Number(scale.toPrecision(4)))].join(",");
}

/** The view that a text says; null for none. @param {string} text @returns {View | null} */
export function readView(text) {
  const numbers = text.split(",").map(Number);
  if (numbers.length !== 3 || !numbers.every(Number.isFinite) || numbers[2] <= 0) return null;
  return { query: numbers[0], key: numbers[1], scale: numbers[2] };
}

/** Round numbers from `first` to before `last`, at least `apart` pixels from each other.
 * @param {number} first @param {number} last @param {number} scale @param {number} apart */
export function ticks(first, last, scale, apart) {
  let step = 1;
  for (let n = 0; step * scale < apart; n++) step = [1, 2, 5][n % 3] * 10 ** Math.floor(n / 3);
  const found = [];
  for (let at = Math.ceil(Math.max(0, first) / step) * step; at < last; at += step) found.push(at);
  return found;
}
