// How wide the columns of matrices are, and with how many decimals they fit beside one another.

import { facts, figures } from "./arithmetic.js";
import { visible } from "./dom.js";

/**
 * @typedef {import("./steps_made.js").Sheet} Sheet
 * @typedef {import("./steps_matrix.js").Sizes} Sizes
 * @typedef {import("./arithmetic.js").Facts} Facts
 * @typedef {(value: number) => string} Writer
 * @typedef {Sizes & { write: Writer }} Plan
 *
 * @typedef {object} Room
 * @property {number} width
 * @property {number} gap
 * @property {boolean} heads whether they are heads, which are to be compared
 * @property {number} tallest rows that are shown at once
 * @property {string} family of the letters
 * @property {string} mono of the figures
 * @property {number} from the first of `WAYS` that may be taken
 */

/** @typedef {{ line: number, letters: number, figures: number, pad: number }} Size in pixels */

/** Of a few rows that fit in one line; all but the last where there is much room, for a projector. */
const LARGE = [
  { line: 68, letters: 34, figures: 34, pad: 17 },
  { line: 52, letters: 26, figures: 26, pad: 13 },
  { line: 42, letters: 21, figures: 21, pad: 10 },
  { line: 32, letters: 16, figures: 16, pad: 8 },
];
/** Of all others. */
export const SMALL = { line: 22, letters: 13, figures: 12.5, pad: 6 };
const FINE = { line: 20, letters: 12, figures: 11, pad: 3 };
const DIGITS = [4, 3, 2]; // decimals at most: the first that fits
/** The ways in which numbers are written, until they fit. */
export const WAYS = [
  ...DIGITS.map((digits) => ({ size: SMALL, digits, upright: false })),
  ...DIGITS.map((digits) => ({ size: SMALL, digits, upright: true })),
  { size: FINE, digits: 2, upright: true },
];
const WIDEST = 96; // pixels of a label, in letters of up to 16
const MUCH = 1500; // pixels of a window from which on matrices are shown as large as they can be
const FEW = 8; // rows that are shown large
const NARROW = 800; // pixels that are too few for two matrices beside one another
const BORDER = 2;

/** @type {CanvasRenderingContext2D | null} */
let pen = null;
let held = ""; // the font of the pen: to set it takes longer than to measure a word

/** How wide a text is, in pixels. @param {string} text @param {string} font */
function widthOf(text, font) {
  pen ??= document.createElement("canvas").getContext("2d");
  if (pen === null) return text.length * 8;
  if (font !== held) pen.font = held = font;
  return pen.measureText(text).width;
}

/** Pixels of a bar to scroll with, once they are known; some systems draw it over what is scrolled. */
let bar = -1;

function barWidth() {
  if (bar < 0) {
    const probe = document.createElement("div");
    probe.style.cssText = "position:fixed;visibility:hidden;overflow:scroll;width:60px;height:60px";
    document.body.append(probe);
    bar = probe.offsetWidth - probe.clientWidth;
    probe.remove();
  }
  return bar;
}

/** @type {WeakMap<string[], Map<string, number>>} */
const measured = new WeakMap();

/** The width of the longest label. @param {string[]} labels @param {string} font @param {number} widest @returns {number} */
function longest(labels, font, widest) {
  const known = measured.get(labels) ?? new Map();
  measured.set(labels, known);
  let most = known.get(font) ?? 0;
  if (known.has(font)) return most;
  for (const label of new Set(labels)) {
    // More letters than could ever fit need no measuring.
    most = Math.max(most, label.length > 60 ? widest : Math.min(widest, Math.ceil(widthOf(visible(label), font))));
    if (most === widest) break;
  }
  known.set(font, most);
  return most;
}

/** The width of the widest figure. @param {Facts} facts @param {Writer} write @param {string} font */
function figureWidth({ least, most, tiny, finite }, write, font) {
  // Between the ends all others lie; that of the smallest number may have the longest exponent.
  const widest = [least, most, least < 0 ? -tiny : tiny, finite ? 0 : -Infinity];
  return Math.max(...widest.map((value) => widthOf(write(value), font)));
}

/**
 * The sizes of matrices side by side. They are written smaller, then with upright labels and fewer
 * decimals, until they fit; if they never do, they are below one another, or get a bar to scroll.
 * @param {Sheet[]} sheets @param {Room} room @returns {Plan[]}
 */
export function plan(sheets, room) {
  const ways = WAYS.slice(room.from).map(({ size, digits, upright }) => attempt(sheets, room, size, digits, upright));
  const first = (/** @type {(plans: Plan[]) => boolean} */ fits) => {
    for (const way of ways) {
      const plans = way();
      if (fits(plans)) return plans;
    }
    return null;
  };
  // Heads are compared, so that two of them should stand beside one another.
  const most = room.heads ? share(sheets.length, room) : room.width;
  return first((plans) => total(plans, room.gap) <= room.width)
    ?? first((plans) => plans.every((each) => each.width <= most))
    ?? shared(attempt(sheets, room, SMALL, 3, true)(), room);
}

/** The largest size in which all stands in one line, or null. @param {Sheet[]} sheets @param {Room} room
 * @param {number} high pixels that are seen at once @returns {Size | null} */
export function largeSize(sheets, room, high) {
  const rows = Math.max(0, ...sheets.map(({ rowLabels }) => rowLabels.length));
  const [least] = LARGE.slice(-1);
  const sizes = LARGE.filter((size) => size === least || (room.width >= MUCH && (rows + 1) * size.line <= high));
  return sizes.find((size) => largePlan(sheets, room, size) !== null) ?? null;
}

/** Large and in one line, or null. @param {Sheet[]} sheets @param {Room} room @param {Size} size @returns {Plan[] | null} */
export function largePlan(sheets, room, size) {
  if (sheets.some(({ rowLabels }) => rowLabels.length > FEW)) return null;
  const plans = attempt(sheets, room, size, DIGITS[0], false)();
  return total(plans, room.gap) <= room.width ? plans : null;
}

/** @param {Sheet[]} sheets @param {Room} room @param {Size} size @param {number} digits @param {boolean} upright
 * @returns {() => Plan[]} */
function attempt(sheets, room, size, digits, upright) {
  return () => sheets.map((sheet) => sized(sheet, room, size, digits, upright));
}

/** @param {Sheet} sheet @param {Room} room @param {Size} size @param {number} digits @param {boolean} upright
 * @returns {Plan} */
function sized(sheet, { tallest, family, mono }, size, digits, upright) {
  const font = `600 ${size.letters}px ${family}`;
  const widest = Math.max(WIDEST, size.letters * (WIDEST / 16));
  const label = Math.max(longest(sheet.rowLabels, font, widest), 16) + 12;
  const above = longest(sheet.columnLabels, font, widest);
  const write = figures(facts(sheet.all), digits);
  const own = figureWidth(facts(sheet.all), write, `${size.figures}px ${mono}`) + 2 * size.pad;
  const turned = upright && above + 12 > own;
  const tall = sheet.rowLabels.length > tallest;
  const head = turned ? above + 14 : size.line;
  const cell = Math.ceil(turned ? own : Math.max(own, above + 12));
  return {
    ...size, write, cell, label, head, upright: turned,
    width: label + sheet.columnLabels.length * cell + BORDER + (tall ? barWidth() : 0),
    // Half a row more says that there are others.
    height: head + (tall ? tallest + 0.5 : sheet.rowLabels.length) * size.line + BORDER,
  };
}

/** What plans take beside one another. @param {Plan[]} plans @param {number} gap */
export function total(plans, gap) {
  return plans.reduce((sum, each) => sum + each.width, Math.max(0, plans.length - 1) * gap);
}

/** The width of one of so many matrices, if two are side by side. @param {number} count @param {Room} room */
function share(count, { width, gap }) {
  return width < NARROW || count < 2 ? width : Math.floor((width - gap) / 2);
}

/** Matrices that are too wide get a bar.
 * @param {Plan[]} plans @param {Room} room @returns {Plan[]} */
function shared(plans, room) {
  const most = share(plans.length, room);
  return plans.map((each) => each.width <= most ? each : { ...each, width: most, height: each.height + barWidth() });
}
