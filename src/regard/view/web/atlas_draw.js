// The picture of an atlas: its tiles, whatever stands in for those that are missing, and marks.

import { TILE } from "./source.js";
import { inkOn, share } from "./scale.js";
import { clip, contextOf } from "./dom.js";
import { LEGIBLE, corner, pixels, spots } from "./atlas_view.js";

/**
 * @import { Frame, Spot, View } from "./atlas_view.js"
 * @import { Kept } from "./atlas_tiles.js"
 * @import { Cell, Inks, Margins } from "./atlas_axes.js"
 * @typedef {{ find: (spot: Spot) => Kept | undefined, picture: (kept: Kept) => HTMLCanvasElement | null,
 *   levels: number[], finest: number, top: number }} Stock the tiles that are here; the levels to draw,
 *   the coarsest first; the finest and the coarsest that others may be stood in for
 */

const FIGURES = 28; // pixels of a weight that has room for its figures

/** Draw the tiles of all levels, one over the other; what is not known lets the coarser shine through.
 * @param {CanvasRenderingContext2D} context @param {View} view @param {Frame} frame
 * @param {Margins} margins @param {Stock} stock @param {CanvasPattern | null} hatch @param {string} ground */
export function drawTiles(context, view, frame, margins, stock, hatch, ground) {
  const start = corner(view, frame);
  const wide = Math.min(frame.width, (frame.keys - start.key) * view.scale);
  const high = Math.min(frame.height, (frame.queries - start.query) * view.scale);
  clip(context, margins.left, margins.top, wide, high);
  context.fillStyle = ground;
  context.fillRect(margins.left, margins.top, wide, high);
  context.imageSmoothingEnabled = false;
  for (const level of stock.levels) {
    for (const spot of spots(view, frame, level)) {
      const kept = stock.find(spot);
      if (kept !== undefined) {
        put(context, view, frame, margins, kept, stock.picture(kept), spot, hatch);
        continue;
      }
      const coarser = ancestor(stock, spot);
      if (coarser !== undefined) put(context, view, frame, margins, coarser, stock.picture(coarser), spot, null);
      for (const finer of children(stock, spot)) {
        put(context, view, frame, margins, finer, stock.picture(finer), finer.spot, null);
      }
    }
  }
  context.restore();
}

/** @param {Stock} stock @param {Spot} spot */
function ancestor(stock, { level, row, column }) {
  for (let up = 1; level + up <= stock.top; up++) {
    const found = stock.find({ level: level + up, row: row >> up, column: column >> up });
    if (found !== undefined) return found;
  }
  return undefined;
}

/** @param {Stock} stock @param {Spot} spot @returns {Kept[]} */
function children(stock, { level, row, column }) {
  if (level <= stock.finest) return [];
  const found = [];
  for (const [down, right] of [[0, 0], [0, 1], [1, 0], [1, 1]]) {
    const kept = stock.find({ level: level - 1, row: row * 2 + down, column: column * 2 + right });
    if (kept !== undefined) found.push(kept);
  }
  return found;
}

/** The cells of a tile that are seen within a spot. @param {CanvasRenderingContext2D} context
 * @param {View} view @param {Frame} frame @param {Margins} margins @param {Kept} kept
 * @param {HTMLCanvasElement | null} picture @param {Spot} spot @param {CanvasPattern | null} hatch */
function put(context, view, frame, margins, kept, picture, spot, hatch) {
  if (picture === null || picture.width === 0 || picture.height === 0) return;
  const start = corner(view, frame);
  const size = 2 ** kept.spot.level;
  const [wide, high] = [frame.width / view.scale, frame.height / view.scale];
  const across = extent(spot.column, spot.level, kept.spot.column, size, kept.width, start.key, wide);
  const down = extent(spot.row, spot.level, kept.spot.row, size, kept.height, start.query, high);
  if (across === null || down === null) return;
  const ratio = context.getTransform().a;
  const snap = (/** @type {number} */ pixels) => Math.round(pixels * ratio) / ratio;
  const { x, y } = pixels(view, frame, margins);
  const [x0, x1, y0, y1] = [x(across.from), x(across.to), y(down.from), y(down.to)].map(snap);
  if (hatch !== null && kept.holes) {
    context.fillStyle = hatch;
    context.fillRect(x0, y0, x1 - x0, y1 - y0);
  }
  context.drawImage(picture, across.cell, down.cell, across.cells, down.cells, x0, y0, x1 - x0, y1 - y0);
}

/** Along one axis, the whole cells of a tile that lie in a spot and are seen; null for none.
 * @param {number} spot @param {number} level @param {number} tile @param {number} size @param {number} cells
 * @param {number} seen the first weight that is seen @param {number} many */
function extent(spot, level, tile, size, cells, seen, many) {
  const origin = tile * TILE * size;
  const from = Math.max(spot * TILE * 2 ** level, origin, seen);
  const to = Math.min((spot + 1) * TILE * 2 ** level, origin + cells * size, seen + many);
  if (to <= from) return null;
  const cell = Math.floor((from - origin) / size + 1e-9);
  const last = Math.min(cells, Math.ceil((to - origin) / size - 1e-9));
  return { from: origin + cell * size, to: origin + last * size, cell, cells: last - cell };
}

/** Lines between weights that are large enough, and their figures where there is room.
 * @param {CanvasRenderingContext2D} context @param {View} view @param {Frame} frame
 * @param {Margins} margins @param {Inks} colours @param {(query: number, key: number) => number} weight
 * @param {import("./scale.js").Range} range @param {Uint8ClampedArray} palette */
export function drawCells(context, view, frame, margins, colours, weight, range, palette) {
  if (view.scale < LEGIBLE) return;
  const start = corner(view, frame);
  const [top, left] = [Math.max(0, Math.floor(start.query)), Math.max(0, Math.floor(start.key))];
  const bottom = Math.min(frame.queries, Math.ceil(start.query + frame.height / view.scale));
  const right = Math.min(frame.keys, Math.ceil(start.key + frame.width / view.scale));
  const { x, y } = pixels(view, frame, margins);
  clip(context, margins.left, margins.top, frame.width, frame.height);
  context.strokeStyle = colours.edge;
  context.globalAlpha = 0.6;
  context.lineWidth = 0.5;
  context.beginPath();
  for (let key = left; key <= right; key++) {
    context.moveTo(x(key), y(top));
    context.lineTo(x(key), y(bottom));
  }
  for (let query = top; query <= bottom; query++) {
    context.moveTo(x(left), y(query));
    context.lineTo(x(right), y(query));
  }
  context.stroke();
  context.globalAlpha = 1;
  if (view.scale >= FIGURES) {
    context.font = `11px ${colours.sans}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let query = top; query < bottom; query++) {
      for (let key = left; key < right; key++) {
        const value = weight(query, key);
        if (!(value > 0)) continue; // not known yet, or masked
        const at = Math.round(share(value, range) * 255) * 3;
        context.fillStyle = inkOn([palette[at], palette[at + 1], palette[at + 2]]);
        context.fillText(value.toFixed(2), x(key + 0.5), y(query + 0.5));
      }
    }
  }
  context.restore();
}

/** The cell that is pointed at, and the row that is chosen.
 * @param {CanvasRenderingContext2D} context @param {View} view @param {Frame} frame
 * @param {Margins} margins @param {Inks} colours @param {Cell} pointed @param {number} size of the block
 * @param {number | null} chosen */
export function drawMarks(context, view, frame, margins, colours, pointed, size, chosen) {
  const { x, y } = pixels(view, frame, margins);
  clip(context, margins.left, margins.top, frame.width, frame.height);
  context.lineWidth = 1;
  if (chosen !== null) {
    context.strokeStyle = colours.accent;
    context.setLineDash([4, 3]);
    const high = Math.max(2, view.scale);
    context.strokeRect(margins.left - 4, y(chosen + 0.5) - high / 2, frame.width + 8, high);
    context.setLineDash([]);
  }
  if (pointed.query !== null && pointed.key !== null) {
    const [top, left] = [Math.floor(pointed.query / size) * size, Math.floor(pointed.key / size) * size];
    const pixels = Math.max(3, size * view.scale);
    context.strokeStyle = colours.accent;
    context.globalAlpha = 0.55;
    context.beginPath();
    context.moveTo(margins.left, y(top + size / 2));
    context.lineTo(x(left + size / 2) - pixels / 2, y(top + size / 2));
    context.moveTo(x(left + size / 2), margins.top);
    context.lineTo(x(left + size / 2), y(top + size / 2) - pixels / 2);
    context.stroke();
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.strokeRect(x(left + size / 2) - pixels / 2, y(top + size / 2) - pixels / 2, pixels, pixels);
  }
  context.restore();
}

/** Thin slanted lines, over which what is known is painted; a dark one by a light one, so that they are
 * seen on every colour. @param {Inks} colours @param {CanvasRenderingContext2D} context */
export function hatching(colours, context) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 8;
  const pen = canvas.getContext("2d");
  if (pen === null) return null;
  pen.globalAlpha = 0.6;
  pen.lineWidth = 1;
  for (const [shift, colour] of /** @type {[number, string][]} */ ([[0, colours.ink], [1.5, colours.page]])) {
    pen.strokeStyle = colour;
    pen.beginPath();
    for (const from of [-8, 0, 8]) {
      pen.moveTo(from + shift, 8);
      pen.lineTo(from + shift + 8, 0);
    }
    pen.stroke();
  }
  return context.createPattern(canvas, "repeat");
}

/** All of the matrix, small, with the part that is seen.
 * @param {HTMLCanvasElement} canvas @param {HTMLCanvasElement | null} picture @param {View} view
 * @param {Frame} frame @param {Inks} colours */
export function drawOverview(canvas, picture, view, frame, colours) {
  const most = 150;
  const scale = most / Math.max(frame.queries, frame.keys);
  const width = Math.max(20, Math.round(frame.keys * scale));
  const height = Math.max(20, Math.round(frame.queries * scale));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = contextOf(canvas, width, height);
  if (context === null) return;
  context.fillStyle = colours.raised;
  context.fillRect(0, 0, width, height);
  if (picture !== null && picture.width > 0) context.drawImage(picture, 0, 0, width, height);
  const start = corner(view, frame);
  const wide = Math.max(4, (frame.width / view.scale / frame.keys) * width);
  const high = Math.max(4, (frame.height / view.scale / frame.queries) * height);
  context.strokeStyle = colours.accent;
  context.lineWidth = 2;
  context.strokeRect((start.key / frame.keys) * width, (start.query / frame.queries) * height, wide, high);
}
