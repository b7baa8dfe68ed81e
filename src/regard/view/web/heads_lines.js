// Links as lines on a canvas: heads by colour, weights by strength.

import { contextOf, el, svg } from "./dom.js";
import { headColour } from "./scale.js";

/** @typedef {{ head: number, weight: number, from: number, to: number }} Line from a row to a row */

const LEVELS = 10;

/** Which of the looks a weight has. @param {number} weight */
function levelOf(weight) {
  return Math.min(LEVELS - 1, Math.floor(weight * LEVELS));
}

/** @param {number} level */
function lookOf(level) {
  const strength = (level + 0.5) / LEVELS;
  return { opacity: 0.25 + 0.7 * strength, width: 0.8 + 3.4 * strength };
}

/** As colours come again after twelve heads, these are told apart by dashes. @param {number} head */
function dashOf(head) {
  return [[], [7, 3], [2, 3], [9, 3, 2, 3]][Math.floor(head / 12) % 4];
}

/** A line of this weight, for a legend. @param {number} weight @returns {HTMLElement} */
export function sample(weight) {
  const { width, opacity } = lookOf(levelOf(weight));
  const look = { stroke: "currentColor", "stroke-width": width, "stroke-opacity": opacity };
  const picture = svg("svg", { width: 34, height: 10, "aria-hidden": "true" },
    svg("line", { x1: 0, x2: 34, y1: 5, y2: 5, ...look }));
  return el("span", {}, picture, String(weight));
}

/**
 * Draw lines from the left edge of a canvas to its right edge. One whose end is out of sight leaves the
 * picture at the edge behind which it is.
 * @param {HTMLCanvasElement} canvas
 * @param {Line[]} lines
 * @param {number} heads how many there are
 * @param {{ height: number, top: number, row: number }} view the height of the canvas, how far it is
 *   scrolled, and the height of a row
 */
export function stroke(canvas, lines, heads, { height, top, row }) {
  const width = canvas.clientWidth;
  const context = contextOf(canvas, width, height);
  if (context === null) return;
  context.clearRect(0, 0, width, height);
  const outside = 3 * row;
  // Side by side, the links of all heads between the same words can be seen.
  const apart = Math.min(2, (row - 8) / heads);
  const y = (/** @type {number} */ at, /** @type {number} */ head) =>
    Math.min(height + outside, Math.max(-outside, (at + 0.5) * row - top)) + (head - (heads - 1) / 2) * apart;
  // One path for all lines of a head that look the same.
  /** @type {Map<number, Path2D>} */
  const paths = new Map();
  for (const { head, weight, from, to } of lines) {
    const look = levelOf(weight) * heads + head;
    let path = paths.get(look);
    if (path === undefined) paths.set(look, (path = new Path2D()));
    const [start, end] = [y(from, head), y(to, head)];
    path.moveTo(0, start);
    path.bezierCurveTo(width * 0.45, start, width * 0.55, end, width, end);
  }
  for (const [look, path] of Array.from(paths).sort(([a], [b]) => a - b)) {
    const head = look % heads;
    const { opacity, width: thick } = lookOf(Math.floor(look / heads));
    context.strokeStyle = headColour(head);
    context.globalAlpha = opacity;
    context.lineWidth = thick;
    context.setLineDash(dashOf(head));
    context.stroke(path);
  }
  context.globalAlpha = 1;
}
