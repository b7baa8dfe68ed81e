// Small things to play with, computed in the page: softmax, the dot product, the order of words.

import { el } from "./dom.js";
import { attend, softmax } from "./flow_compute.js";
import { headColour } from "./scale.js";
import { vectors, VECTORS_CSS } from "./vectors.js";
import { WORD_ORDER_CSS, wordOrder } from "./word_order.js";
import { word } from "./words.js";

/** @typedef {{ what: string, words: string, scores: number[] }} Try */

const LONGEST = 3; // of the vectors

export const TRY_CSS = `
${VECTORS_CSS}${WORD_ORDER_CSS}
.try { display: grid; gap: 6px 14px; align-items: center; }
.try.softmax { grid-template-columns: auto 1fr 3.5em 2fr 4em; }
.try .number { font-variant-numeric: tabular-nums; text-align: right; }
.try .share { height: 18px; min-width: 1px; border-radius: 3px; }
.try input[type="range"] { width: 100%; accent-color: var(--accent); }
.try.dot { grid-template-columns: minmax(160px, 260px) 1fr; }
.try.dot label { display: grid; grid-template-columns: 9em 1fr 4em; gap: 8px; }
@media (max-width: 700px) { .try.dot { grid-template-columns: 1fr; } .try.softmax { grid-template-columns: auto 1fr 3.6em; } .try.softmax .share { grid-column: 2; } }
`;

/** @param {any} block @returns {HTMLElement} */
export function tryIt(block) {
  const made = { softmax: trySoftmax, dot: tryDot, order: tryOrder }[/** @type {"softmax" | "dot" | "order"} */ (block.what)];
  return made(block);
}

/** A slider that says its number. @param {number} least @param {number} most @param {number} step @param {number} value
 * @param {string} name @param {() => void} changed */
function slider(least, most, step, value, name, changed) {
  return el("input", { type: "range", min: least, max: most, step, value, "aria-label": name, oninput: changed });
}

/** @param {Try} block */
function trySoftmax({ scores }) {
  const divide = el("input", { type: "checkbox", onchange: () => draw() });
  const width = slider(0, 10, 1, 2, "dₖ", () => draw());
  const rows = scores.map((score, n) => ({
    input: slider(-10, 10, 0.5, score, word("try.score", { number: n + 1 }), () => draw()),
    score: el("span", { class: "number" }), share: el("div", { class: "share" }), weight: el("span", { class: "number" }),
  }));
  const told = el("p", { role: "status" });
  const widthTold = el("span", { class: "number" });
  const draw = () => {
    const dk = 2 ** Number(width.value);
    widthTold.textContent = `dₖ = ${dk}`;
    const given = rows.map(({ input }) => Number(input.value));
    const weights = softmax(given.map((each) => (divide.checked ? each / Math.sqrt(dk) : each)));
    rows.forEach(({ score, share, weight }, n) => {
      score.textContent = String(given[n]).replace("-", "−");
      share.style.width = `${100 * weights[n]}%`;
      share.style.background = headColour(n);
      weight.textContent = weights[n].toFixed(4);
    });
    told.textContent = word("try.largest", { weight: Math.max(...weights).toFixed(2) });
  };
  draw();
  return el("div", {},
    el("div", { class: "try softmax" }, ...rows.flatMap(({ input, score, share, weight }, n) => [
      el("span", {}, word("try.score", { number: n + 1 })), input, score, share, weight])),
    el("p", { class: "bar" }, el("label", {}, divide, word("try.divide")), width, widthTold), told);
}

function tryDot() {
  const names = /** @type {const} */ (["try.angle_a", "try.length_a", "try.angle_b", "try.length_b"]);
  const inputs = [[0, 355, 5, 20], [0, LONGEST, 0.1, 2], [0, 355, 5, 70], [0, LONGEST, 0.1, 1.5]].map(([least, most, step, value], n) =>
    slider(least, most, step, value, word(names[n]), () => draw()));
  const numbers = inputs.map(() => el("span", { class: "number" }));
  const { picture, told, set } = vectors(["a", "b"], LONGEST, (which, [x, y]) => {
    const [angle, length] = inputs.slice(2 * which);
    const degrees = (Math.atan2(y, x) * 180) / Math.PI;
    angle.value = String((5 * Math.round(degrees / 5) + 360) % 360);
    length.value = String(Math.min(LONGEST, Math.hypot(x, y)));
    draw();
  });
  const draw = () => {
    const [a, la, b, lb] = inputs.map(({ value }) => Number(value));
    const end = (/** @type {number} */ angle, /** @type {number} */ length) =>
      /** @type {[number, number]} */ ([length * Math.cos((angle * Math.PI) / 180), length * Math.sin((angle * Math.PI) / 180)]);
    set([end(a, la), end(b, lb)]);
    [`${a}°`, la, `${b}°`, lb].forEach((each, n) => (numbers[n].textContent = String(each)));
  };
  draw();
  return el("div", { class: "try dot" }, picture,
    el("div", {}, el("p", { class: "faint" }, word("try.drag")), ...inputs.map((input, n) => el("label", {}, word(names[n]), input, numbers[n])), told));
}

/** Numbers that look random, always the same for a word. @param {string} text @param {number} count */
function numbersOf(text, count) {
  let seed = [...text].reduce((sum, letter) => (sum * 31 + (letter.codePointAt(0) ?? 0)) % 2147483647, 7);
  return Array.from({ length: count }, () => {
    seed = (seed * 48271) % 2147483647;
    return (seed / 2147483647) * 4 - 2;
  });
}

/** @param {Try} block */
function tryOrder({ words }) {
  const first = words.split(/\s+/);
  const positions = el("input", { type: "checkbox", onchange: () => draw() });
  const told = el("p", { role: "status" });
  const outputs = (/** @type {number[]} */ order) => {
    const rows = order.map((each, n) => numbersOf(first[each], 2).map((x, j) => x + (positions.checked ? (j === 0 ? Math.sin(n) : Math.cos(n)) : 0)));
    return attend(rows, rows, rows);
  };
  const below = (/** @type {number[]} */ order) => {
    const made = outputs(order);
    const before = outputs(first.map((_, n) => n));
    const same = order.every((each, n) => made[n].every((x, j) => Math.abs(x - before[each][j]) < 1e-9));
    told.textContent = word(same ? "try.same" : "try.other");
    return made.map((row) => row.map((x) => x.toFixed(3).replace("-", "−")).join(" "));
  };
  const { list, draw } = wordOrder(first, below, () => {});
  return el("div", { class: "try order" }, list, el("p", { class: "bar" }, el("label", {}, positions, word("try.positions"))), told);
}
