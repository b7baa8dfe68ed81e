// From a number to a colour, on scales that colour-blind readers can tell apart, and their legends.

import { el } from "./dom.js";
import { isDark } from "./theme.js";
import { word } from "./words.js";

/** @typedef {[number, number, number]} Colour */

// From the page, which is nothing, over orange to what stands out most. Lightness runs one way, so
// that each scale can also be read in grey.
/** @type {Colour[]} */
const LIGHT = [[255, 255, 255], [254, 232, 200], [253, 187, 99], [214, 96, 24], [122, 36, 10], [58, 10, 6]];
/** @type {Colour[]} */
const DARK = [[13, 17, 23], [66, 33, 14], [135, 64, 14], [214, 118, 32], [253, 199, 110], [255, 250, 220]];

// Blue below zero, orange above, and the page at zero.
/** @type {Colour[]} */
const LIGHT_BOTH = [[22, 78, 140], [110, 170, 217], [247, 246, 243], [253, 187, 99], [190, 82, 12]];
/** @type {Colour[]} */
const DARK_BOTH = [[142, 200, 255], [35, 92, 150], [22, 27, 34], [150, 78, 18], [255, 190, 105]];

// Of heads: Okabe and Ito's, without the yellow that is lost on white, and four more.
const HEADS_LIGHT = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#6a3d9a", "#8c564b", "#117733", "#882255", "#44aa99", "#666666"];
const HEADS_DARK = ["#5ab4f0", "#ff8c42", "#3fd3a2", "#f0a6cf", "#8fd0ff", "#ffc94d", "#b59ae8", "#c99a8f", "#63c77f", "#e07bb0", "#7fdccd", "#b3b3b3"];

/** The colour of a share from 0 to 1. @param {number} share @returns {Colour} */
export function heat(share) {
  return between(isDark() ? DARK : LIGHT, share);
}

/** The colour of a number from −1 to 1. @param {number} share @returns {Colour} */
export function signed(share) {
  return between(isDark() ? DARK_BOTH : LIGHT_BOTH, (share + 1) / 2);
}

/** The colour of a head. @param {number} head @returns {string} */
export function headColour(head) {
  const colours = isDark() ? HEADS_DARK : HEADS_LIGHT;
  return colours[head % colours.length];
}

/** @param {Colour} colour @returns {string} */
export function css(colour) {
  return `rgb(${colour.map(Math.round).join(" ")})`;
}

/** Black or white letters, whichever stand out more; that is a contrast of 4.5 at least. @param {Colour} colour */
export function inkOn([red, green, blue]) {
  const light = (/** @type {number} */ part) => (part <= 10 ? part / 3295 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * light(red) + 0.7152 * light(green) + 0.0722 * light(blue) > 0.179 ? "#000000" : "#ffffff";
}

/** @param {Colour[]} scale @param {number} share @returns {Colour} */
function between(scale, share) {
  const place = Math.min(1, Math.max(0, share)) * (scale.length - 1);
  const low = Math.min(Math.floor(place), scale.length - 2);
  const part = place - low;
  const [a, b] = [scale[low], scale[low + 1]];
  const mix = (/** @type {0 | 1 | 2} */ n) => a[n] + (b[n] - a[n]) * part;
  return [mix(0), mix(1), mix(2)];
}

/**
 * How weights become shares of a scale: linearly up to `most`, or by the logarithm from `least`.
 * @typedef {{ log: boolean, least: number, most: number }} Range
 */

/** The share of the scale that a weight gets. @param {number} weight @param {Range} range */
export function share(weight, { log, least, most }) {
  if (!(weight > 0) || !(most > 0)) return 0;
  if (!log) return Math.min(1, weight / most);
  if (weight <= least) return 0;
  return Math.min(1, Math.log(weight / least) / Math.log(most / least));
}

/**
 * The colours of 256 shares, for pictures: (256 × 3) bytes.
 * @returns {Uint8ClampedArray}
 */
export function palette() {
  const bytes = new Uint8ClampedArray(768);
  const scale = isDark() ? DARK : LIGHT;
  for (let n = 0; n < 256; n++) bytes.set(between(scale, n / 255).map(Math.round), n * 3);
  return bytes;
}

/**
 * Paint weights into a canvas, one pixel each. What is not known (NaN), or left out, stays open.
 * @param {HTMLCanvasElement} canvas
 * @param {ArrayLike<number>} weights row by row
 * @param {number} height @param {number} width
 * @param {Range} range
 * @param {Uint8ClampedArray} [colours] @param {(row: number) => (column: number) => boolean} [leftOut]
 * @returns {boolean} whether something is open
 */
export function paint(canvas, weights, height, width, range, colours = palette(), leftOut = () => () => false) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  if (context === null || width === 0 || height === 0) return false;
  const image = context.createImageData(width, height);
  let open = false;
  for (let row = 0, n = 0; row < height; row++) {
    const skip = leftOut(row);
    for (let column = 0; column < width; column++, n++) {
      if (Number.isNaN(weights[n]) || skip(column)) {
        open = true;
        continue;
      }
      const at = Math.round(share(weights[n], range) * 255) * 3;
      image.data[n * 4] = colours[at];
      image.data[n * 4 + 1] = colours[at + 1];
      image.data[n * 4 + 2] = colours[at + 2];
      image.data[n * 4 + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
  return open;
}

/**
 * A legend of the scale: its colours, with the weights at both ends and in between.
 * @param {Range} range
 * @param {string} what the weights are, such as “weight”
 * @returns {HTMLElement}
 */
export function legend(range, what) {
  const canvas = el("canvas", { "aria-hidden": "true", style: "width:120px;height:12px;border:1px solid var(--edge);border-radius:3px" });
  const shares = Array.from({ length: 120 }, (_, n) => n / 119);
  paint(canvas, shares, 1, 120, { log: false, least: 0, most: 1 });
  const least = range.log ? shortly(range.least) : "0";
  return el(
    "span",
    { class: "legend faint", style: "display:inline-flex;gap:6px;align-items:center;font-size:13px", role: "img", "aria-label": word(range.log ? "legend.logarithm" : "legend.weights", { least, most: shortly(range.most), what }) },
    what,
    el("span", {}, range.log ? `≤ ${least}` : least),
    canvas,
    el("span", {}, shortly(range.most)),
  );
}

/** @param {number} value */
function shortly(value) {
  if (value >= 0.0001 || value === 0) return String(Number(value.toPrecision(2)));
  return value.toExponential(0).replace("-", "−");
}
