// The colours and letters that a flow is drawn with, as the page has them now.

import { headColour, inkOn } from "./scale.js";
import { isDark } from "./theme.js";

/**
 * @typedef {object} Look
 * @property {boolean} dark
 * @property {string} page
 * @property {string} raised
 * @property {string} ink
 * @property {string} faint
 * @property {string} edge
 * @property {string} accent
 * @property {string} left of what a number was made from
 * @property {string} right
 * @property {string} mark
 * @property {string} sans
 * @property {string} mono
 * @property {CanvasPattern | string} masked what cannot be seen
 */

/** @param {HTMLElement} element @returns {Look} */
export function lookOf(element) {
  const style = getComputedStyle(element);
  const of = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
  const edge = of("edge");
  return {
    dark: isDark(), page: of("page"), raised: of("raised"), ink: of("ink"), faint: of("faint"), edge,
    accent: of("accent"), left: of("left"), right: of("right"), mark: of("mark"), sans: of("sans"), mono: of("mono"),
    masked: hatched(edge),
  };
}

/** Slanted lines: nothing is there. @param {string} colour @returns {CanvasPattern | string} */
function hatched(colour) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 8;
  const pen = canvas.getContext("2d");
  if (pen === null) return colour;
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  for (const shift of [-8, 0, 8]) {
    pen.beginPath();
    pen.moveTo(shift - 1, 9);
    pen.lineTo(shift + 9, -1);
    pen.stroke();
  }
  return pen.createPattern(canvas, "repeat") ?? colour;
}

/** The colour of a token, in bars and ribbons. @param {number} token */
export function tokenColour(token) {
  return headColour(token);
}

/** Letters on the colour of a token. @param {number} token */
export function inkOnToken(token) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(tokenColour(token).slice(at, at + 2), 16));
  return inkOn([red, green, blue]);
}

export const SMALLEST = 7; // pixels of a letter

/** @param {CanvasRenderingContext2D} pen @param {Look} look @param {number} size @param {boolean} [bold] */
export function letters(pen, look, size, bold = false) {
  pen.font = `${bold ? 600 : 400} ${size}px ${look.sans}`;
}

/** A symbol such as W_Q, what stands behind the line as an index. @param {CanvasRenderingContext2D} pen @param {Look} look
 * @param {string} symbol @param {number} x @param {number} y @param {number} size @returns {number} how wide it is */
export function drawSymbol(pen, look, symbol, x, y, size) {
  let at = x;
  symbol.split("_").forEach((text, n) => {
    letters(pen, look, n === 0 ? size : size * 0.68, true);
    pen.fillText(text, at, n === 0 ? y : y + size * 0.26);
    at += pen.measureText(text).width;
  });
  return at - x;
}
