// How the steps look: their style, how a matrix is coloured, and the caption that says so.

import { facts, figure } from "./arithmetic.js";
import { el, indexed } from "./dom.js";
import { css, heat, signed } from "./scale.js";
import { MATRIX_CSS } from "./steps_matrix.js";
import { word } from "./words.js";

/**
 * @typedef {import("./steps_made.js").Sheet} Sheet
 * @typedef {import("./steps_matrix.js").Look} Look
 * @typedef {import("./steps_sizes.js").Plan} Plan
 */

const SHADES = 64; // on each side of zero
export const GAP = 18; // pixels between two matrices

export const STEPS_CSS = `
/* Neither is a colour of the scale: what lights up stands out from it. */
:host { --left: #00705c; --right: #a3168f; }
@media (prefers-color-scheme: dark) { :host { --left: #52e0c0; --right: #ff9bea; } }
${MATRIX_CSS}
[hidden] { display: none !important; }
nav { display: flex; flex-wrap: wrap; gap: 4px; align-items: center; margin: 0 0 12px; }
[role="tablist"] { display: contents; }
[role="tab"] { padding: 3px 9px; }
[role="tab"] span { color: var(--faint); font-size: 12px; }
[role="tab"][aria-selected="true"] { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
[role="tab"][aria-selected="true"] span { color: inherit; }
h2 { display: flex; flex-wrap: wrap; gap: 2px 18px; align-items: baseline; margin: 0; font-size: 18px; }
h2 small { font-size: 13px; font-weight: 400; }
h2 code { font: 17px var(--mono); overflow-wrap: anywhere; }
h2 + p { margin: 2px 0; }
.flow { display: flex; gap: 12px ${GAP}px; align-items: flex-start; }
.flow.stacked { flex-direction: column; gap: 4px; }
.flow.stacked .sign.from { font: 13px/1.5 var(--sans); margin: 10px 0 0; width: auto; }
.made, .results { display: flex; flex-wrap: wrap; gap: 10px ${GAP}px; align-items: flex-start; min-width: 0;
  max-width: 100%; }
.results.many { flex-wrap: nowrap; overflow-x: auto; padding-bottom: 4px; }
.results.many figure { flex: none; }
.sign { align-self: center; width: ${GAP}px; margin: 18px ${-GAP / 2}px 0; text-align: center; color: var(--faint);
  font: 600 24px/1 var(--sans); }
.flow > .sign { margin: 18px 0 0; } .stacked > .sign { align-self: flex-start; margin: 0 0 0 14px; font-size: 20px; }

.bar-legend { display: inline-flex; gap: 5px; align-items: center; white-space: nowrap; font-size: 12px;
  color: var(--faint); }
.bar-legend i { width: 46px; height: 9px; border: 1px solid var(--edge); border-radius: 2px; }
.answer { position: sticky; bottom: 0; z-index: 4; background: var(--page); border-top: 1px solid var(--edge);
  margin: 14px 0 0; padding: 8px 0 10px; max-height: 45vh; overflow: auto; }
.answer p { margin: 0; }
.line { font: 16px/1.5 var(--mono); overflow-wrap: anywhere; unicode-bidi: isolate; }
.line .result { font-weight: 700; } .line .left { color: var(--left); } .line .right { color: var(--right); }
.hint { margin: 0 0 12px; font-size: 13px; }
@media (min-width: 1500px) { .line { font-size: 22px; } h2 { font-size: 24px; } h2 code { font-size: 22px; } h2 + p { font-size: 18px; } }
@media (max-width: 600px) {
  .line { font-size: 14px; }
  nav { flex-wrap: nowrap; overflow-x: auto; margin: 0 0 6px; }
  nav button { flex: none; }
  [role="tabpanel"] { display: flex; flex-direction: column; }
  [role="tabpanel"] > * { max-width: 100%; }
  .hint { order: 1; margin: 12px 0 0; }
}
`;

/** @param {Sheet} sheet @param {Plan} sizes @returns {Look} */
export function look(sheet, sizes) {
  const most = facts(sheet.all).size;
  const shade = sheet.shares ? heat : signed;
  /** @type {Map<number, import("./scale.js").Colour>} */
  const colours = new Map();
  return {
    name: `${sheet.symbol.replace("_", " ")}, ${sheet.name}`,
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
    caption: [el("b", {}, ...indexed(sheet.symbol)), named(sheet.name), shades(most, sheet.shares)],
    sizes,
  };
}

/** What a matrix is called; what “given” means is said where it is. @param {string} name */
function named(name) {
  if (!name.endsWith(word("steps.given"))) return el("span", {}, name);
  return el("abbr", { title: word("steps.given_tip") }, name);
}

/** The colours of a matrix with the numbers at their ends. @param {number} most @param {boolean} shares */
function shades(most, shares) {
  const [shade, from] = shares ? [heat, 0] : [signed, -1];
  const stops = Array.from({ length: 9 }, (_, n) => css(shade(from + ((1 - from) * n) / 8)));
  const [least, end] = [figure(Number((from * most).toPrecision(3))), figure(Number(most.toPrecision(3)))];
  return el("span", { class: "bar-legend", role: "img", "aria-label": word("legend.range", { least, most: end }) },
    least, el("i", { style: `background:linear-gradient(to right, ${stops.join(",")})` }), end);
}
