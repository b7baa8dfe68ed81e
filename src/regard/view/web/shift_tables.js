// The numbers of words' journeys as tables with small pictures, and what the lines of the picture mean.

import { el, svg } from "./dom.js";
import { moveTo, pairs, two } from "./shift_numbers.js";
import { word } from "./words.js";

/**
 * @import { Stage } from "./shift_numbers.js"
 * @typedef {object} Numbers
 * @property {import("./shift_numbers.js").Journeys} journeys
 * @property {Stage[]} stages
 * @property {number} upto the place that is compared with the first
 * @property {number} focus the word that stands out
 * @property {string[]} names of the words
 */

const KINDS = /** @type {const} */ (["attention", "feed-forward", "layer"]);

export const TABLES_CSS = `
.keys { display: flex; flex-wrap: wrap; gap: 2px 16px; font-size: 13px; margin: 6px 0 4px; color: var(--faint); }
.keys span { display: inline-flex; align-items: center; gap: 6px; }
.box { max-height: 214px; overflow-y: auto; margin-bottom: 16px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th { font-weight: 400; color: var(--faint); text-align: right; white-space: nowrap; }
thead th { position: sticky; top: 0; background: var(--page); vertical-align: bottom; }
th:first-child { text-align: left; }
td { text-align: right; white-space: nowrap; }
.pairs td:not(:first-child), .pairs th:not(:first-child) { width: 1%; }
td, th { padding: 1px 0 1px 8px; border-bottom: 1px solid var(--edge); }
td:first-child, th:first-child { padding-left: 2px; }
.pairs td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; }
.pairs .own td:first-child { font-weight: 600; }
.name {
  text-decoration: underline 3px; text-underline-offset: 3px; text-decoration-skip-ink: none; unicode-bidi: isolate;
}
.moves th:first-child { width: 1%; padding-right: 10px; }
.moves td { padding-right: 4px; }
.moves thead th:not(:first-child) { width: 50%; padding-right: 4px; }
.moves .cell { display: flex; align-items: center; gap: 6px; }
.moves .cell span { flex: none; width: 46px; text-align: right; }
.moves .track { flex: 1; height: 11px; margin: 0; }
.moves .track i { display: block; height: 100%; min-width: 1px; background: var(--own); border-radius: 0 2px 2px 0; }
.moves .track.feed-forward i { background: repeating-linear-gradient(90deg, var(--own) 0 4px, transparent 4px 7px); }
.moves i.cut {
  border-right: 3px double var(--page); box-shadow: 4px 0 0 var(--own); width: calc(100% - 4px) !important;
}
.moves .later { opacity: 0.66; }
.moves .now { outline: 2px solid var(--accent); outline-offset: -2px; border-radius: 4px; }
`;

/** How alike the words are, pair by pair. @param {Numbers} numbers @param {string[]} colours
 * @returns {HTMLElement[]} */
export function alike({ journeys, upto, focus, names }, colours) {
  const rows = pairs(journeys, upto);
  if (rows.length === 0) return [el("tbody", {}, el("tr", {}, el("td", {}, word("shift.second_word"))))];
  const name = (/** @type {number} */ n) =>
    el("span", { class: "name", style: `text-decoration-color:${colours[n]}` }, names[n]);
  const least = Math.min(0, ...rows.flatMap(({ before, after }) => [before, after]).filter(Number.isFinite));
  const heading = el("tr", {}, el("th", {}, word("shift.words")), el("th", {}, word("shift.at_first")), el("td", {}),
    el("th", {}, word("shift.now")), el("th", {}, word("shift.change")));
  return [
    el("thead", {}, heading),
    el("tbody", {}, ...rows.map(({ first, second, before, after }) => {
      const own = first === focus || second === focus;
      const words = `${journeys.words[first]},${journeys.words[second]}`;
      return el("tr", { class: own ? "own" : null, "data-pair": words },
        el("td", {}, name(first), " · ", name(second)),
        ...[two(before), dumbbell(before, after, least), two(after), two(after - before, true)]
          .map((each) => el("td", {}, each)));
    })),
  ];
}

/** From one similarity to another, on a line from `least` to 1. @param {number} before @param {number} after
 * @param {number} least */
function dumbbell(before, after, least) {
  const x = (/** @type {number} */ value) => (5 + (54 * (value - least)) / (1 - least)).toFixed(1);
  const base = svg("line", { x1: 5, x2: 59, y1: 6, y2: 6, stroke: "var(--edge)" });
  const known = Number.isFinite(before - after);
  const hollow = { r: 3, fill: "var(--page)", stroke: "var(--accent)", "stroke-width": 1.5 };
  return svg("svg", { width: 64, height: 12, "aria-hidden": "true" }, base,
    known && svg("line", { x1: x(before), x2: x(after), y1: 6, y2: 6, stroke: "var(--accent)", "stroke-width": 2.5 }),
    known && svg("circle", { cx: x(before), cy: 6, ...hollow }),
    known && svg("circle", { cx: x(after), cy: 6, r: 3.5, fill: "var(--accent)" }));
}

/** How far each move took the word that stands out, layer by layer. @param {Numbers} numbers
 * @returns {HTMLElement[]} */
export function far({ journeys, stages, upto, focus }) {
  const shares = stages.map((_, n) => (n === 0 ? NaN : moveTo(journeys.vectors[focus], journeys.width, n)));
  const full = fullBar(shares);
  const kinds = KINDS.filter((kind) => stages.some((stage) => stage.kind === kind));
  /** @type {Map<string, number[]>} */
  const layers = new Map();
  stages.forEach(({ layer }, n) => n > 0 && layers.set(layer, [...(layers.get(layer) ?? []), n]));
  const cell = (/** @type {number | undefined} */ stage) => {
    if (stage === undefined) return el("td", {});
    const wide = Number.isFinite(shares[stage]) ? Math.min(1, shares[stage] / full) : 0;
    const bar = el("i", { class: shares[stage] > full ? "cut" : null, style: `width:${(100 * wide).toFixed(1)}%` });
    const track = el("div", { class: `track ${stages[stage].kind}` }, bar);
    return el("td", { class: stage > upto ? "later" : stage === upto ? "now" : null, "data-stage": stage },
      el("div", { class: "cell" }, track, el("span", {}, two(shares[stage]))));
  };
  const titles = {
    attention: word("shift.attention"), "feed-forward": word("shift.feed_forward"), layer: word("shift.layer_move"),
  };
  return [
    el("thead", {}, el("tr", {}, el("th", {}, word("shift.layer")), ...kinds.map((kind) => el("th", {}, titles[kind])))),
    el("tbody", {}, ...[...layers].map(([layer, members]) => {
      const cells = kinds.map((kind) => cell(members.find((n) => stages[n].kind === kind)));
      return el("tr", {}, el("th", { scope: "row" }, layer), ...cells);
    })),
  ];
}

/** What a full bar is: the longest move, or 1 where that is so long that the others could not be seen.
 * @param {number[]} shares */
function fullBar(shares) {
  const most = Math.max(1e-9, ...shares.filter(Number.isFinite));
  return most > 2 ? 1 : most;
}

/** What the bars are. @param {Numbers} numbers */
export function barsOf({ journeys, stages, focus }) {
  const shares = stages.slice(1).map((_, n) => moveTo(journeys.vectors[focus], journeys.width, n + 1));
  const cut = shares.some((share) => share > fullBar(shares));
  return word("shift.bars") + (cut ? ` ${word("shift.bars_cut")}` : "");
}

/** What the lines of the picture mean. @param {Stage[]} stages @returns {HTMLElement[]} */
export function keysOf(stages) {
  const line = (/** @type {string} */ kind) =>
    svg("svg", { width: 34, height: 10, "aria-hidden": "true" }, svg("path", {
      d: "M1 5H33", stroke: "currentColor", "stroke-width": 2.4,
      "stroke-dasharray": kind === "feed-forward" ? "4 3" : null,
    }));
  const mark = (/** @type {SVGElement} */ shape) =>
    svg("svg", { width: 12, height: 12, viewBox: "-6 -6 12 12", "aria-hidden": "true" }, shape);
  const said = {
    attention: word("shift.attention_line"), "feed-forward": word("shift.feed_forward_line"), layer: word("shift.layer_line"),
  };
  const there = KINDS.filter((kind) => stages.some((stage) => stage.kind === kind));
  return [
    el("span", {}, mark(svg("circle", { r: 4, fill: "currentColor" })), word("shift.begin_mark", { place: stages[0].title })),
    ...there.map((kind) => el("span", {}, line(kind), said[kind])),
    el("span", {}, mark(svg("polygon", { points: "5,0 -6,-5 -4,0 -6,5", fill: "currentColor" })), word("shift.end_mark")),
  ];
}
