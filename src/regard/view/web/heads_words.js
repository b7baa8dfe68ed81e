// The words on both sides of the links: as many rows as can be seen, used again as one scrolls.

import { el, figure } from "./dom.js";
import { headColour } from "./scale.js";
import { word } from "./words.js";

/**
 * @import { Line } from "./heads_lines.js"
 * @import { Rows, Way } from "./heads_rows.js"
 * @typedef {{ row: number, way: Way }} Spot a word on the left, or on the right
 * @typedef {{ element: HTMLElement, left: HTMLElement, right: HTMLElement, row: number }} Pooled
 */

/** The height of a row, in pixels. */
export const ROW = 24;

/** How the words look. */
export const WORDS = `
.row { position: absolute; left: 0; right: 0; top: 0; height: ${ROW}px; display: flex;
  justify-content: space-between; pointer-events: none; }
.row[hidden] { display: none; }
.side { width: var(--side); padding: 0 8px; display: flex; gap: 6px; align-items: center; cursor: pointer;
  line-height: ${ROW}px; pointer-events: auto; white-space: nowrap; border-radius: 4px; }
.side.left { flex-direction: row-reverse; }
.side .name { overflow: hidden; text-overflow: ellipsis; min-width: 0; }
.side .at { color: var(--faint); font-size: 11px; margin-left: auto; }
.side.left .at { margin: 0 auto 0 0; }
.side .written { display: inline-flex; gap: 3px; align-items: center; flex: none; font-size: 12px;
  font-variant-numeric: tabular-nums; }
.side.focused { background: var(--mark); font-weight: 600; }
.side.kept { outline: 2px solid var(--accent); outline-offset: -2px; }
.side.cursor { outline: 2px dashed var(--accent); outline-offset: -2px; }
.side.other { opacity: 0.66; }
@media (max-width: 560px) {
  .side { padding: 0 4px; gap: 3px; } .side .written { font-size: 11px; }
  .side .written .dot, .side .written .faint, .side.linked .at { display: none; }
}
`;

export class Words {
  /** @type {Pooled[]} */
  #pool = [];

  /** @param {HTMLElement} window where the rows are put */
  constructor(window) {
    this.window = window;
  }

  /** Other words are in the rows now. */
  forget() {
    for (const each of this.#pool) each.row = -1;
  }

  /**
   * Put the words of the rows in sight in their places.
   * @param {Rows} rows
   * @param {{ first: number, end: number, top: number }} sight
   * @param {{ focus: Spot | null, kept: Spot | null, cursor: Spot | null }} marks the word whose links are
   *   shown alone, that which was clicked, and that which the keys are at
   * @param {Line[]} lines strongest first; their weights are written if they are of one word
   * @returns {string | null} the id of the word that the keys are at
   */
  place(rows, { first, end, top }, { focus, kept, cursor }, lines) {
    this.#grow(end - first + 1);
    /** @type {Map<number, Line[]>} */
    const ends = new Map();
    for (const line of focus === null ? [] : lines) {
      const row = focus?.way === "from" ? line.to : line.from;
      const others = ends.get(row);
      if (others === undefined) ends.set(row, [line]);
      else others.push(line);
    }
    for (const { element, row } of this.#pool) element.hidden = row < first || row >= end;
    let active = null;
    for (let row = first; row < end; row++) {
      const each = this.#pool[row % this.#pool.length];
      each.element.hidden = false;
      each.element.style.transform = `translateY(${row * ROW - top}px)`;
      if (each.row !== row) {
        each.row = row;
        name(each.left, rows, row, "from");
        name(each.right, rows, row, "to");
      }
      for (const [side, way] of /** @type {[HTMLElement, Way][]} */ ([[each.left, "from"], [each.right, "to"]])) {
        const isIt = (/** @type {Spot | null} */ spot) => spot !== null && spot.row === row && spot.way === way;
        const links = focus !== null && focus.way !== way ? (ends.get(row) ?? []) : [];
        side.classList.toggle("focused", isIt(focus));
        side.classList.toggle("linked", links.length > 0);
        side.classList.toggle("other", focus !== null && !isIt(focus) && links.length === 0);
        side.classList.toggle("kept", isIt(kept));
        side.classList.toggle("cursor", isIt(cursor));
        side.setAttribute("aria-selected", String(isIt(kept)));
        if (isIt(cursor)) active = side.id;
        write(/** @type {HTMLElement} */ (side.children[1]), links);
      }
    }
    return active;
  }

  /** Have at least so many rows. @param {number} count */
  #grow(count) {
    if (this.#pool.length >= count) return;
    this.forget();
    while (this.#pool.length < count) {
      const left = el("div", { class: "side left", role: "option" }, ...cells());
      const right = el("div", { class: "side right", role: "option" }, ...cells());
      const element = el("div", { class: "row", role: "none" }, left, right);
      this.window.append(element);
      this.#pool.push({ element, left, right, row: -1 });
    }
  }
}

/** A side of a row: the name, the weights written, the position. */
function cells() {
  return [el("span", { class: "name", dir: "auto" }), el("span", { class: "written" }), el("span", { class: "at" })];
}

/** Let a side of a row show a word. @param {HTMLElement} side @param {Rows} rows @param {number} row
 * @param {Way} way */
function name(side, rows, row, way) {
  const called = rows.name(row, way);
  const place = rows.place(row, way);
  side.id = `${way}-${row}`;
  side.dataset.row = String(row);
  side.dataset.way = way;
  side.title = called;
  side.style.visibility = place < 0 ? "hidden" : "";
  side.setAttribute("aria-label", word(way === "from" ? "heads.word_looks" : "heads.word_looked_at", { word: called }));
  side.setAttribute("aria-posinset", String(row + 1));
  side.setAttribute("aria-setsize", String(rows.count));
  side.children[0].textContent = called;
  side.children[2].textContent = rows.isLong ? String(place) : "";
}

/** Write the strongest weight of a row, and how many more. @param {HTMLElement} cell @param {Line[]} lines */
function write(cell, lines) {
  if (lines.length === 0) {
    if (cell.firstChild !== null) cell.replaceChildren();
    return;
  }
  const [{ head, weight }, ...others] = lines;
  const more = el("span", { class: "faint", title: word("heads.more_heads", { count: others.length }) }, `+${others.length}`);
  cell.replaceChildren(
    el("span", { class: "dot", style: `background:${headColour(head)}` }),
    figure(weight),
    ...(others.length > 0 ? [more] : []),
  );
}
