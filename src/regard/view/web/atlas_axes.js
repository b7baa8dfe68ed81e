// The edges of an atlas: the tokens that look, on the left, and those looked at, on top.

import { clip, many, visible } from "./dom.js";
import { corner, pixels, ticks } from "./atlas_view.js";
import { word } from "./words.js";

/**
 * @import { Frame, View } from "./atlas_view.js"
 * @typedef {{ ink: string, faint: string, edge: string, accent: string, onAccent: string, mark: string,
 *   page: string, raised: string, sans: string }} Inks
 * @typedef {{ left: number, top: number }} Margins in pixels
 * @typedef {{ query: number | null, key: number | null }} Cell
 */

/** The colours of the page, as they are now. @param {Element} element @returns {Inks} */
export function inks(element) {
  const style = getComputedStyle(element);
  const of = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: of("ink"), faint: of("faint"), edge: of("edge"), accent: of("accent"), onAccent: of("on-accent"),
    mark: of("mark"), page: of("page"), raised: of("raised"), sans: of("sans"),
  };
}

/** Both edges, with the row and column that are pointed at and the row that is chosen.
 * @param {CanvasRenderingContext2D} context @param {View} view @param {Frame} frame
 * @param {Margins} margins @param {Inks} colours
 * @param {{ query: (n: number) => string, key: (n: number) => string }} names
 * @param {boolean} tokens whether there is room for names beside all rows and columns
 * @param {Cell} pointed @param {number | null} chosen the query that was chosen */
export function drawAxes(context, view, frame, margins, colours, names, tokens, pointed, chosen) {
  const start = corner(view, frame);
  const rows = seen(start.query, frame.height, frame.queries, view.scale);
  const columns = seen(start.key, frame.width, frame.keys, view.scale);
  context.save();
  context.textBaseline = "middle";
  context.font = `12px ${colours.sans}`;

  const middle = { left: margins.left + view.scale / 2, top: margins.top + view.scale / 2 };
  const { x, y } = pixels(view, frame, middle);
  const room = margins.left - 12;
  const high = margins.top - 12;

  clip(context, 0, margins.top, margins.left, frame.height);
  context.textAlign = "right";
  if (chosen !== null && chosen !== pointed.query) {
    box(context, 0, y(chosen), margins.left - 2, Math.max(3, Math.min(view.scale, 18)), colours.mark);
  }
  if (tokens) {
    for (let n = rows.first; n < rows.last; n++) {
      context.fillStyle = colours.ink;
      context.fillText(shortened(context, visible(names.query(n)), room), margins.left - 7, y(n));
    }
  } else {
    for (const n of ticks(rows.first, rows.last, view.scale, 44)) {
      tick(context, margins.left - 5, y(n), margins.left, y(n), colours.edge);
      context.fillStyle = colours.faint;
      const at = Math.min(Math.max(y(n), margins.top + 7), margins.top + frame.height - 7);
      context.fillText(many(n), margins.left - 8, at);
    }
  }
  if (pointed.query !== null) {
    const at = Math.min(Math.max(y(pointed.query), margins.top + 9), margins.top + frame.height - 9);
    box(context, 0, at, margins.left - 2, 18, colours.accent);
    context.fillStyle = colours.onAccent;
    context.fillText(shortened(context, visible(names.query(pointed.query)), room), margins.left - 7, at);
  }
  context.restore();

  clip(context, margins.left, 0, frame.width, margins.top);
  if (tokens) {
    const labels = [];
    for (let n = columns.first; n < columns.last; n++) labels.push(visible(names.key(n)));
    const flat = labels.every((label) => context.measureText(label).width <= view.scale - 4);
    labels.forEach((label, n) => {
      keyName(context, label, x(columns.first + n), margins.top - 7, high, flat, colours.ink);
    });
    if (pointed.key !== null) {
      const label = visible(names.key(pointed.key));
      if (flat) {
        const wide = context.measureText(label).width + 6;
        upright(context, x(pointed.key), margins.top - 2, wide, 20, colours.accent);
      } else upright(context, x(pointed.key), margins.top - 2, 18, margins.top, colours.accent);
      keyName(context, label, x(pointed.key), margins.top - 7, high, flat, colours.onAccent);
    }
  } else {
    context.textAlign = "center";
    for (const n of ticks(columns.first, columns.last, view.scale, 64)) {
      tick(context, x(n), margins.top - 5, x(n), margins.top, colours.edge);
      context.fillStyle = colours.faint;
      const label = many(n);
      const half = context.measureText(label).width / 2 + 1;
      const at = Math.min(Math.max(x(n), margins.left + half), margins.left + frame.width - half);
      context.fillText(label, at, margins.top - 14);
    }
    if (pointed.key !== null) {
      const label = shortened(context, visible(names.key(pointed.key)), 140);
      const half = context.measureText(label).width / 2 + 5;
      const at = Math.min(Math.max(x(pointed.key), margins.left + half), margins.left + frame.width - half);
      upright(context, at, margins.top - 3, half * 2, 20, colours.accent);
      context.fillStyle = colours.onAccent;
      context.fillText(label, at, margins.top - 13);
    }
  }
  context.restore();
  corners(context, margins, colours);
  context.restore();
}

/** What is where, in the corner between the edges. @param {CanvasRenderingContext2D} context
 * @param {Margins} margins @param {Inks} colours */
function corners(context, margins, colours) {
  context.fillStyle = colours.faint;
  context.font = `11px ${colours.sans}`;
  context.textAlign = "right";
  context.fillText(word("atlas.looks_at"), margins.left - 7, margins.top - 28, margins.left - 9);
  context.fillText(word("atlas.this_token"), margins.left - 7, margins.top - 11, margins.left - 9);
}

/** @param {CanvasRenderingContext2D} context @param {string} label @param {number} x @param {number} y
 * @param {number} room @param {boolean} flat @param {string} colour */
function keyName(context, label, x, y, room, flat, colour) {
  context.save();
  context.fillStyle = colour;
  if (flat) {
    context.textAlign = "center";
    context.fillText(label, x, y - 5);
  } else {
    context.translate(x, y);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillText(shortened(context, label, room), 0, 0);
  }
  context.restore();
}

/** @param {number} from @param {number} pixels @param {number} count @param {number} scale */
function seen(from, pixels, count, scale) {
  const last = Math.min(count, Math.ceil(from + pixels / scale - 1e-6));
  return { first: Math.max(0, Math.floor(from + 1e-6)), last };
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} width
 * @param {number} height @param {string} colour */
function box(context, x, y, width, height, colour) {
  context.fillStyle = colour;
  context.fillRect(x, y - height / 2, width, height);
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} width
 * @param {number} height @param {string} colour */
function upright(context, x, y, width, height, colour) {
  context.fillStyle = colour;
  context.fillRect(x - width / 2, y - height, width, height);
}

/** @param {CanvasRenderingContext2D} context @param {number} x0 @param {number} y0 @param {number} x1
 * @param {number} y1 @param {string} colour */
function tick(context, x0, y0, x1, y1, colour) {
  context.strokeStyle = colour;
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

/** @type {Map<string, string>} */
const cut = new Map();
const letters = new Intl.Segmenter();

/** A label that has no more than so many pixels; whole letters are cut off its end.
 * @param {CanvasRenderingContext2D} context @param {string} label @param {number} room */
function shortened(context, label, room) {
  const name = `${room} ${label}`;
  let found = cut.get(name);
  if (found !== undefined) return found;
  found = label;
  if (context.measureText(label).width > room) {
    const parts = [...letters.segment(label.slice(0, 200))].map(({ segment }) => segment);
    let [fits, many] = [0, parts.length];
    while (fits < many) {
      const half = Math.ceil((fits + many) / 2);
      if (context.measureText(parts.slice(0, half).join("") + "…").width <= room) fits = half;
      else many = half - 1;
    }
    found = parts.slice(0, fits).join("") + "…";
  }
  if (cut.size > 5000) cut.clear();
  cut.set(name, found);
  return found;
}
