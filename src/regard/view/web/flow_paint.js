// The colours of a stage, stretched over the numbers that it has, and its picture: a pixel a block.

import { exponential, fixed, figure } from "./arithmetic.js";
import { heat, signed } from "./scale.js";

/**
 * @typedef {import("./scale.js").Colour} Colour
 * @typedef {import("./flow_source.js").Picture} Picture
 *
 * From `least` to `most`: `weights` and `one` (all of one sign) take the whole scale for it, `both`
 * has zero in the middle. Its numbers need so many decimals, 4 at most;
 * `open` is whether something is masked.
 * @typedef {{ least: number, most: number, kind: "weights" | "one" | "both", log: boolean, decimals: number, open: boolean }} Shades
 */

const KEPT = 20_000; // numbers that are kept as they were written
const FINE = 256; // pixels of a bar
const WIDE = 40; // times that the largest weight may be the smallest before the logarithm is taken

/** @param {ArrayLike<number>} values @param {boolean} weights @returns {Shades} */
export function rangeOf(values, weights) {
  let [least, most, open] = [Infinity, -Infinity, false];
  for (let n = 0; n < values.length; n++) {
    const value = values[n];
    // A weight of 0 is masked: no colour of the scale.
    if (!Number.isFinite(value) || (weights && value === 0)) {
      open = true;
      continue;
    }
    if (value < least) least = value;
    if (value > most) most = value;
  }
  if (least > most) [least, most] = [0, 0];
  const decimals = decimalsOf(values);
  if (weights) {
    const log = most > WIDE * least;
    return { least: log ? Math.max(least, most / 1000) : least, most, kind: "weights", log, decimals, open };
  }
  if (least < 0 && most > 0) {
    const size = Math.max(-least, most);
    return { least: -size, most: size, kind: "both", log: false, decimals, open };
  }
  return { least, most, kind: "one", log: false, decimals, open };
}

/** The colour of a number; null: none, as it is masked. @param {number} value @param {Shades} shades @returns {Colour | null} */
export function colourOf(value, { least, most, kind, log }) {
  if (!Number.isFinite(value) || (kind === "weights" && value === 0)) return null;
  if (kind === "both") return signed(value / most);
  const share = most === least ? 0.5
    : log ? Math.log(Math.max(value, least) / least) / Math.log(most / least) : (value - least) / (most - least);
  if (kind === "weights") return heat(0.07 + 0.73 * share);
  return most <= 0 ? signed(-1 + 0.94 * share) : signed(0.06 + 0.94 * share);
}

/** @param {Picture} picture @param {Shades} shades @returns {HTMLCanvasElement} */
export function paintStage({ rows, columns, values }, shades) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  if (context === null) return canvas;
  const image = context.createImageData(columns, rows);
  for (let n = 0; n < rows * columns; n++) {
    const colour = colourOf(values[n], shades);
    if (colour !== null) image.data.set([...colour, 255], n * 4);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** Each row of weights as a bar of length 1, shared by colour. @param {Picture} picture @param {Shades} shades @returns {HTMLCanvasElement} */
export function paintBars({ rows, columns, values }, shades) {
  const canvas = document.createElement("canvas");
  canvas.width = FINE;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  if (context === null) return canvas;
  const image = context.createImageData(FINE, rows);
  for (let row = 0; row < rows; row++) {
    let [column, sum] = [0, values[row * columns]];
    for (let pixel = 0; pixel < FINE; pixel++) {
      while (column < columns - 1 && sum < (pixel + 0.5) / FINE) sum += values[row * columns + ++column];
      const colour = colourOf(values[row * columns + column], shades);
      if (colour !== null) image.data.set([...colour, 255], (row * FINE + pixel) * 4);
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** How many decimals numbers of a picture need, of 24 bits each: 4 at most. @param {ArrayLike<number>} values */
function decimalsOf(values) {
  for (let decimals = 1; decimals < 4; decimals++) {
    const unit = 10 ** decimals;
    const near = (/** @type {number} */ value) => !Number.isFinite(value) || Math.abs(value * unit - Math.round(value * unit)) <= 1e-6 * Math.max(1, Math.abs(value * unit));
    if (Array.from(values).every(near)) return decimals;
  }
  return 4;
}

/** Numbers as they were written before, by decimals: to write one takes longer than to draw it. @type {Map<number, string>[]} */
const written = [0, 1, 2, 3, 4].map(() => new Map());

/** With so many decimals. @param {number} value @param {number} decimals */
export function inDecimals(value, decimals) {
  const known = written[decimals];
  let text = known.get(value);
  if (text === undefined) {
    // What is too small for so many decimals would be too wide with an exponent.
    text = Math.abs(value) < 1e-4 && decimals < 4 ? fixed(0, decimals) : inLetters(value, 12, decimals);
    if (known.size > KEPT) known.clear();
    known.set(value, text);
  }
  return text;
}

/** A number in so many letters, with so many decimals at most. @param {number} value @param {number} letters @param {number} decimals */
export function inLetters(value, letters, decimals = 4) {
  if (!Number.isFinite(value)) return figure(value);
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-4)) return exponential(value, 0);
  const before = fixed(Math.trunc(value), 0).length + (value < 0 && value > -1 ? 1 : 0);
  return fixed(value, Math.max(0, Math.min(decimals, letters - before - 1)));
}
