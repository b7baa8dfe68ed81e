// How a matrix of the steps is coloured, and the caption that says so.

import { facts, figure } from "./arithmetic.js";
import { el } from "./dom.js";
import { css, heat, signed } from "./scale.js";

/**
 * @typedef {import("./steps_made.js").Sheet} Sheet
 * @typedef {import("./steps_matrix.js").Look} Look
 * @typedef {import("./steps_sizes.js").Plan} Plan
 */

const SHADES = 64; // on each side of zero

/** @param {Sheet} sheet @param {Plan} sizes @returns {Look} */
export function look(sheet, sizes) {
  const most = facts(sheet.all).size;
  const shade = sheet.shares ? heat : signed;
  /** @type {Map<number, import("./scale.js").Colour>} */
  const colours = new Map();
  return {
    name: `${sheet.symbol}, ${sheet.name}`,
    rows: sheet.all[sheet.head],
    rowLabels: sheet.rowLabels,
    columnLabels: sheet.columnLabels,
    write: sizes.write,
    colour: (value) => {
      if (!Number.isFinite(value)) return null;
      const step = most === 0 ? 0 : Math.round((value / most) * SHADES);
      const known = colours.get(step) ?? shade(step / SHADES);
      colours.set(step, known);
      return known;
    },
    caption: [el("b", {}, sheet.symbol), el("span", {}, sheet.name), shades(most, sheet.shares)],
    sizes,
  };
}

/** The colours of a matrix with the numbers at their ends. @param {number} most @param {boolean} shares */
function shades(most, shares) {
  const [shade, from] = shares ? [heat, 0] : [signed, -1];
  const stops = Array.from({ length: 9 }, (_, n) => css(shade(from + ((1 - from) * n) / 8)));
  const [least, end] = [figure(Number((from * most).toPrecision(3))), figure(Number(most.toPrecision(3)))];
  return el("span", { class: "bar-legend", role: "img", "aria-label": `Colours from ${least} to ${end}` },
    least, el("i", { style: `background:linear-gradient(to right, ${stops.join(",")})` }), end);
}
