// Charts: lines over numbers, bars with where they may end, matrices side by side.

import { el, fourDigits, svg, visible } from "./dom.js";
import { css, headColour, heat, signed } from "./scale.js";

/**
 * @typedef {{ name: string, x: number[], y: (number | null)[], low?: (number | null)[], high?: (number | null)[] }} Series
 * @typedef {{ kind: "lines", title: string, told?: string, x: string, y: string, log: string, series: Series[] }} Lines
 * @typedef {{ kind: "bars", title: string, told?: string, y: string, names: string[], groups: string[], values: (number | null)[][],
 *   low?: (number | null)[][], high?: (number | null)[][] }} Bars
 * @typedef {{ kind: "maps", title: string, rows: string[], columns: string[], signed: boolean,
 *   panes: { name: string, told?: string, values: (number | null)[][] }[] }} Maps
 * @typedef {Lines | Bars | Maps} Chart
 */

export const CHART_CSS = `
figure { margin: 0; min-width: 0; }
figcaption { font-weight: 600; margin: 0 0 2px; }
figure svg { display: block; width: 100%; height: auto; overflow: visible; }
figure text { font: 12px var(--sans); fill: var(--faint); }
figure text.number { fill: var(--ink); font-variant-numeric: tabular-nums; }
.key { display: flex; flex-wrap: wrap; gap: 2px 16px; margin: 2px 0 0; padding: 0; list-style: none; font-size: 13px; }
.key i { display: inline-block; width: 18px; height: 4px; margin-right: 6px; vertical-align: middle; }
.maps { display: flex; flex-wrap: wrap; gap: 10px 18px; }
`;

const WIDE = 460;
const TALL = 220;

/** An axis: from a number to its place, and round numbers on it, as `plots.py` has it. */
export class Axis {
  /** @param {number} low @param {number} high @param {boolean} log */
  constructor(low, high, log) {
    this.low = low;
    this.high = high;
    this.log = log;
  }

  /** As long as these numbers need. @param {(number | null)[]} numbers @param {boolean} log @param {boolean} zero */
  static of(numbers, log, zero = false) {
    const found = /** @type {number[]} */ (numbers.filter((x) => x !== null && Number.isFinite(x) && (x > 0 || !log)));
    let low = found.length > 0 ? Math.min(...found) : log ? 1 : 0;
    let high = found.length > 0 ? Math.max(...found) : 1;
    if (zero && !log) low = Math.min(low, 0);
    const below = zero ? 0 : 0.5;
    if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - below, high + 1 - below];
    return new Axis(low, high, log);
  }

  /** From 0 to 1. @param {number} x */
  place(x) {
    if (this.log && x <= 0) return 0;
    const share = this.log ? Math.log(x / this.low) / Math.log(this.high / this.low) : (x - this.low) / (this.high - this.low);
    return Math.min(1, Math.max(0, share));
  }

  /** @param {number} most @returns {number[]} */
  marks(most = 5) {
    if (this.log) {
      const first = Math.ceil(Math.log10(this.low) - 1e-9);
      const last = Math.floor(Math.log10(this.high) + 1e-9);
      if (last <= first) {
        const decades = Array.from({ length: last - first + 2 }, (_, n) => 10 ** (first - 1 + n));
        const found = decades.flatMap((size) => [size, 2 * size, 5 * size]).filter((mark) => this.low <= mark && mark <= this.high);
        return found.length > 1 ? found : [this.low, this.high];
      }
      const step = Math.ceil((last - first + 1) / most);
      return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, n) => 10 ** (first + n * step));
    }
    const rough = (this.high - this.low) / Math.max(1, most - 1);
    const size = 10 ** Math.floor(Math.log10(rough));
    const step = ([1, 2, 2.5, 5, 10].find((by) => by * size >= rough * (1 - 1e-9)) ?? 10) * size;
    const first = Math.ceil(this.low / step - 1e-9);
    const last = Math.floor(this.high / step + 1e-9);
    return Array.from({ length: last - first + 1 }, (_, n) => (first + n) * step);
  }
}

/** A number beside a mark: as few letters as tell it. @param {number} x @returns {string} */
export function short(x) {
  const size = Math.abs(x);
  /** @type {(n: number) => string} */
  const few = (n) => String(Number(n.toPrecision(4)));
  let text;
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) text = powerOf(x);
  else if (size >= 1e6) text = `${few(x / 1e6)}M`;
  else if (size >= 1e4) text = `${few(x / 1e3)}k`;
  else text = few(x);
  return text.replaceAll("-", "−");
}

/** A number as a digit and a power of ten. @param {number} x @returns {string} */
function powerOf(x) {
  const [digit, power] = x.toExponential(0).replace("+", "").split("e");
  return `${digit}·10${[...power].map((letter) => (letter === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(letter)])).join("")}`;
}

/** A chart with its title. @param {Chart} chart @returns {HTMLElement} */
export function chartOf(chart) {
  const drawn = chart.kind === "lines" ? lines(chart) : chart.kind === "bars" ? bars(chart) : maps(chart);
  return el("figure", {}, el("figcaption", {}, chart.title), ...drawn);
}

/** @param {Lines} chart @returns {Element[]} */
function lines(chart) {
  const across = Axis.of(chart.series.flatMap(({ x }) => x), chart.log.includes("x"));
  const up = Axis.of(chart.series.flatMap(({ y, low = [], high = [] }) => [...y, ...low, ...high]), chart.log.includes("y"), true);
  const [left, top, right, bottom] = [52, 20, WIDE - 12, TALL - 34];
  const x = (/** @type {number} */ a) => left + (right - left) * across.place(a);
  const y = (/** @type {number} */ b) => bottom - (bottom - top) * up.place(b);
  const drawn = [svg("text", { x: 0, y: 11 }, chart.y)];
  for (const mark of up.marks(5)) {
    drawn.push(svg("text", { x: left - 6, y: y(mark) + 4, "text-anchor": "end" }, short(mark)));
    drawn.push(/** @type {any} */ (svg("line", { x1: left, x2: right, y1: y(mark), y2: y(mark), stroke: "var(--edge)" })));
  }
  for (const mark of across.marks(7)) {
    drawn.push(svg("text", { x: x(mark), y: bottom + 16, "text-anchor": "middle" }, short(mark)));
  }
  drawn.push(svg("text", { x: (left + right) / 2, y: TALL - 2, "text-anchor": "middle" }, chart.x));
  const shapes = chart.series.flatMap((series, nth) => {
    const colour = headColour(nth);
    const points = (/** @type {(number | null)[]} */ of) =>
      of.flatMap((b, n) => (b === null ? [] : [`${x(series.x[n]).toFixed(1)},${y(b).toFixed(1)}`]));
    const made = [];
    if (series.low !== undefined && series.high !== undefined) {
      made.push(svg("polygon", { points: [...points(series.high), ...points(series.low).reverse()].join(" "), fill: colour, opacity: 0.15 }));
    }
    made.push(svg("polyline", { points: points(series.y).join(" "), fill: "none", stroke: colour, "stroke-width": 2 }));
    if (series.y.length <= 40) {
      series.y.forEach((b, n) => {
        if (b === null) return;
        const told = `${series.name}: ${short(series.x[n])}, ${short(Number(b.toPrecision(4)))}`;
        made.push(svg("circle", { cx: x(series.x[n]), cy: y(b), r: 3, fill: colour }, svg("title", {}, told)));
      });
    }
    return made;
  });
  return [svg("svg", { viewBox: `0 0 ${WIDE} ${TALL}`, role: "img", "aria-label": chart.told ?? chart.title }, ...drawn, ...shapes), key(chart.series.map(({ name }) => name))];
}

const ruler = document.createElement("canvas").getContext("2d");

/** How wide a name is, in pixels. @param {string} name */
function wideness(name) {
  if (ruler === null) return 6.5 * name.length;
  ruler.font = `12px ${getComputedStyle(document.documentElement).getPropertyValue("--sans") || "sans-serif"}`;
  return ruler.measureText(name).width;
}

/** @param {Bars} chart @returns {Element[]} */
function bars(chart) {
  const all = [...chart.values, ...(chart.high ?? [])].flat().map((b) => (b === null ? null : Math.abs(b)));
  const scale = Axis.of(all, false, true);
  const [left, height] = [Math.min(WIDE / 2, 10 + Math.max(30, ...chart.names.map(wideness))), 18];
  const room = WIDE - left - 60;
  const each = height * chart.groups.length + 6;
  const drawn = [svg("text", { x: 0, y: 11 }, chart.y)];
  chart.names.forEach((name, n) => {
    const top = 20 + n * each;
    // A name that is longer than half of the chart is made narrower.
    const narrow = wideness(name) > left - 10 ? { textLength: left - 10, lengthAdjust: "spacingAndGlyphs" } : {};
    drawn.push(svg("text", { class: "number", x: left - 8, y: top + each / 2 + 1, "text-anchor": "end", ...narrow }, svg("title", {}, name), name));
    chart.values.forEach((row, nth) => {
      const b = row[n];
      const y = top + nth * height;
      if (b === null) return;
      const length = room * scale.place(Math.abs(b));
      const [low, high] = [chart.low?.[nth][n] ?? null, chart.high?.[nth][n] ?? null];
      drawn.push(/** @type {any} */ (svg("rect", { x: left, y: y + 2, width: length, height: height - 4, fill: headColour(nth) })));
      let end = length;
      if (low !== null && high !== null) {
        const [x1, x2] = [low, high].map((at) => left + room * scale.place(Math.abs(at)));
        drawn.push(/** @type {any} */ (svg("line", { x1, x2, y1: y + height / 2, y2: y + height / 2, stroke: "var(--ink)", "stroke-width": 1.5 })));
        end = Math.max(end, x2 - left);
      }
      const number = Math.abs(b) < 1e-4 ? fourDigits(Number(b.toPrecision(1))) : short(Number(b.toPrecision(3)));
      drawn.push(svg("text", { class: "number", x: left + end + 6, y: y + height / 2 + 4 }, number));
    });
  });
  const size = `0 0 ${WIDE} ${26 + chart.names.length * each}`;
  const keys = chart.groups.length > 1 ? [key(chart.groups)] : [];
  return [svg("svg", { viewBox: size, role: "img", "aria-label": chart.told ?? chart.title }, ...drawn), ...keys];
}

/** @param {Maps} chart @returns {Element[]} */
function maps(chart) {
  const cell = Math.max(6, Math.min(26, Math.floor(300 / Math.max(chart.columns.length, 1))));
  const label = 12 + 7 * Math.min(12, Math.max(0, ...chart.rows.map((name) => name.length)));
  const wide = label + cell * chart.columns.length;
  const tall = 18 + cell * chart.rows.length;
  const panes = chart.panes.map(({ name, told = name, values }) => {
    const drawn = [svg("text", { class: "number", x: label, y: 11 }, name)];
    chart.rows.forEach((row, i) => {
      if (cell >= 9) drawn.push(svg("text", { x: label - 5, y: 18 + (i + 0.5) * cell + 4, "text-anchor": "end" }, visible(row.slice(0, 12))));
      values[i].forEach((value, j) => {
        const fill = value === null ? "var(--edge)" : css(chart.signed ? signed(value) : heat(value));
        const told = `${row} → ${chart.columns[j]}: ${value === null ? "–" : short(Number(value.toPrecision(3)))}`;
        drawn.push(/** @type {any} */ (svg("rect", { x: label + j * cell, y: 18 + i * cell, width: cell, height: cell, fill }, svg("title", {}, told))));
      });
    });
    return svg("svg", { viewBox: `0 0 ${wide} ${tall}`, style: `width: ${wide}px`, role: "img", "aria-label": `${chart.title}. ${told}` }, ...drawn);
  });
  return [el("div", { class: "maps" }, ...panes)];
}

/** Which colour is which. @param {string[]} names */
function key(names) {
  return el("ul", { class: "key" }, ...names.map((name, n) => el("li", {}, el("i", { style: `background: ${headColour(n)}` }), name)));
}
