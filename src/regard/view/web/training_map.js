// One head over a training: a map of its weights at one step, small ones of all steps, and a cell that is pointed at.

import { el, figure, put, visible } from "./dom.js";
import { paint } from "./scale.js";
import { word } from "./words.js";

/**
 * @import { HeadPictures, Layer } from "./training_source.js"
 * @typedef {{ row: number, column: number }} Cell
 * @typedef {{ layer: number, head: number, about: Layer, found: HeadPictures, steps: number[], at: number, range: import("./scale.js").Range }} Shown
 */

export const MAP_CSS = `
.map { margin: 0; min-width: 0; }
.map figcaption { font-weight: 600; overflow-wrap: anywhere; }
.map figcaption span { font-weight: 400; color: var(--faint); }
.map .stage { position: relative; margin: 4px 0; }
.map .stage:focus-visible { outline-offset: 3px; }
.map canvas { image-rendering: pixelated; }
.map .whole { position: absolute; outline: 1px solid var(--edge); }
.map .label { position: absolute; font-size: 12px; line-height: 1; color: var(--faint); white-space: pre; overflow: hidden; text-overflow: ellipsis; }
.map .side { text-align: right; } .map .above { writing-mode: vertical-rl; transform: rotate(180deg); }
.map .flat { text-align: center; }
.map .cursor { position: absolute; border: 2px solid var(--accent); box-shadow: 0 0 0 1px var(--page); pointer-events: none; }
.map .strip { display: flex; flex-wrap: wrap; gap: 3px; }
.map .strip canvas { width: 22px; height: 22px; border: 1px solid var(--edge); cursor: pointer; }
.map .strip canvas.now { outline: 2px solid var(--accent); outline-offset: 1px; }
.map p { margin: 2px 0; font-size: 13px; }
`;

const ROOM = 290; // pixels that a map may be wide, with its labels
const LABELLED = 9; // pixels of a cell beside which there is room for a token

/** A token as it is told: with its place, as the same one may stand twice. @param {string[]} tokens @param {number} n
 * @param {"training.query" | "training.key"} unknown */
function named(tokens, n, unknown) {
  return tokens.length > 0 ? word("training.token", { token: visible(tokens[n]), place: n }) : word(unknown, { place: n });
}

/** The mean of the largest weight of each row, and where the largest of all is. @param {Float32Array} weights @param {number} keys */
function peaks(weights, keys) {
  const rows = weights.length / keys;
  let [sum, most] = [0, 0];
  for (let row = 0; row < rows; row++) {
    let best = row * keys;
    for (let n = best; n < (row + 1) * keys; n++) if (weights[n] > weights[best]) best = n;
    sum += weights[best];
    if (weights[best] > weights[most]) most = best;
  }
  return { mean: rows > 0 ? sum / rows : 0, row: Math.floor(most / keys), column: most % keys };
}

/** The figure of a head, which stays the same element while steps go by. */
export class HeadMap {
  #canvas = el("canvas", { class: "whole" });
  #cursor = el("div", { class: "cursor", hidden: true });
  #labels = el("div", { "aria-hidden": "true" });
  #stage = el("div", { class: "stage", tabindex: 0, role: "application", "aria-roledescription": word("atlas.map") }, this.#labels, this.#canvas, this.#cursor);
  #strip = el("div", { class: "strip", "aria-hidden": "true" });
  #title = el("figcaption");
  #told = el("p", { class: "faint" });
  element = el("figure", { class: "map" }, this.#title, this.#stage, this.#strip, this.#told);
  /** @type {Shown | null} */
  #shown = null;
  /** @type {Cell | null} */
  #cell = null;
  #drawn = "";
  #size = { cell: 1, left: 0, top: 0 };

  /** @param {(text: string) => void} tell says what is pointed at @param {(step: number) => void} go to another picture */
  constructor(tell, go) {
    this.tell = tell;
    this.go = go;
    this.#stage.addEventListener("pointermove", (event) => this.#point(this.#under(event)));
    this.#stage.addEventListener("pointerleave", () => this.#point(null));
    this.#stage.addEventListener("focus", () => {
      if (this.#cell === null && this.#stage.matches(":focus-visible")) this.#point({ row: 0, column: 0 });
    });
    this.#stage.addEventListener("blur", () => this.#point(null));
    this.#stage.addEventListener("keydown", (event) => this.#key(event));
  }

  /** @param {Shown} shown @param {string} look what else its colours depend on */
  show(shown, look) {
    this.#shown = shown;
    const { layer, head, about, found, steps, at, range } = shown;
    const name = word("training.head", { layer, head });
    this.#title.replaceChildren(name, " ", el("span", {}, about.name));
    const layout = `${found.queries} ${found.keys} ${about.queries.join()} ${about.keys.join()}`;
    if (layout !== this.#drawn) this.#lay(shown);
    this.#drawn = layout;
    const { cell, left, top } = this.#size;
    paint(this.#canvas, found.pictures[at], found.queries, found.keys, range);
    Object.assign(this.#canvas.style, { left: `${left}px`, top: `${top}px`, width: `${cell * found.keys}px`, height: `${cell * found.queries}px` });
    this.#thumbs(shown, look);
    const { mean, row, column } = peaks(found.pictures[at], found.keys);
    const told = word("training.peaks", { mean: figure(mean) });
    put(this.#told, told);
    this.#stage.setAttribute("aria-label", word("training.map_told", {
      name, layer: about.name, step: steps[at].toLocaleString("en"), told,
      query: named(about.queries, row, "training.query"), key: named(about.keys, column, "training.key"),
      weight: figure(found.pictures[at][row * found.keys + column]),
    }));
    this.#point(this.#cell);
  }

  /** Put the tokens beside the map, where there is room for them. @param {Shown} shown */
  #lay({ about, found }) {
    const long = Math.max(0, ...about.queries.map((token) => visible(token).length));
    const high = Math.max(0, ...about.keys.map((token) => visible(token).length));
    const widest = about.queries.length > 0 ? Math.min(84, 6 + 7.5 * long) : 0;
    const fits = (/** @type {number} */ left) => Math.max(3, Math.min(24, Math.floor((ROOM - left) / found.keys)));
    const labelled = about.queries.length > 0 && Math.min(fits(widest), Math.floor(360 / found.queries)) >= LABELLED;
    const left = labelled ? widest : 0;
    const cell = Math.max(3, Math.min(fits(left), labelled ? Math.floor(360 / found.queries) : 24));
    const top = labelled ? (high <= 1 ? 16 : Math.min(76, 6 + 7.5 * high)) : 0;
    this.#size = { cell, left, top };
    this.#stage.style.width = `${left + cell * found.keys}px`;
    this.#stage.style.height = `${top + cell * found.queries}px`;
    const label = (/** @type {string} */ kind, /** @type {string} */ token, /** @type {string} */ style) =>
      el("span", { class: `label ${kind}`, style, title: visible(token) }, visible(token));
    const side = (/** @type {string} */ token, /** @type {number} */ n) =>
      label("side", token, `left:0;width:${left - 4}px;top:${top + n * cell + (cell - 12) / 2}px`);
    // A letter stands upright, a longer token on its side.
    const above = (/** @type {string} */ token, /** @type {number} */ n) => (visible(token).length <= 1
      ? label("flat", token, `left:${left + n * cell}px;width:${cell}px;top:${top - 14}px`)
      : label("above", token, `left:${left + n * cell + (cell - 12) / 2}px;top:0;height:${top - 4}px`));
    this.#labels.replaceChildren(...(labelled ? [...about.queries.map(side), ...about.keys.map(above)] : []));
  }

  /** @param {Shown} shown @param {string} look */
  #thumbs({ found, steps, at, range }, look) {
    const key = `${look} ${steps.join()}`;
    if (this.#strip.dataset.key !== key) {
      this.#strip.dataset.key = key;
      this.#strip.replaceChildren(...steps.map((step, n) => {
        const canvas = el("canvas", { title: word("training.after", { step: step.toLocaleString("en") }), onclick: () => this.go(step) });
        paint(canvas, found.pictures[n], found.queries, found.keys, range);
        return canvas;
      }));
    }
    [...this.#strip.children].forEach((each, n) => each.classList.toggle("now", n === at));
  }

  // ── one cell ─────────────────────────────────────────────────────────────────────────────────

  /** @param {PointerEvent} event @returns {Cell | null} */
  #under(event) {
    if (this.#shown === null) return null;
    const { queries, keys } = this.#shown.found;
    const box = this.#canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * queries);
    const column = Math.floor(((event.clientX - box.left) / box.width) * keys);
    return row >= 0 && row < queries && column >= 0 && column < keys ? { row, column } : null;
  }

  /** @param {Cell | null} cell */
  #point(cell) {
    const was = this.#cell;
    this.#cell = cell;
    this.#cursor.hidden = cell === null;
    if (cell === null || this.#shown === null) {
      if (was !== null) this.tell("");
      return;
    }
    const { about, found, steps, at, layer, head } = this.#shown;
    const { cell: size, left, top } = this.#size;
    Object.assign(this.#cursor.style, { left: `${left + cell.column * size - 1}px`, top: `${top + cell.row * size - 1}px`, width: `${size + 2}px`, height: `${size + 2}px` });
    this.tell(word("training.cell", {
      head: word("training.head", { layer, head }), step: steps[at].toLocaleString("en"),
      query: named(about.queries, cell.row, "training.query"), key: named(about.keys, cell.column, "training.key"),
      weight: figure(found.pictures[at][cell.row * found.keys + cell.column]),
    }));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (this.#shown === null) return;
    const { queries, keys } = this.#shown.found;
    const { row, column } = this.#cell ?? { row: 0, column: 0 };
    /** @type {Record<string, [number, number]>} */
    const moves = {
      ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
      Home: [row, 0], End: [row, keys - 1],
    };
    if (event.key === "Escape") this.#point(null);
    const to = moves[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.#point({ row: Math.min(queries - 1, Math.max(0, to[0])), column: Math.min(keys - 1, Math.max(0, to[1])) });
  }
}
