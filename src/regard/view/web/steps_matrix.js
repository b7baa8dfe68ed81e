// A matrix of numbers that scrolls inside itself: only what can be seen of it is in the document.

import { number } from "./arithmetic.js";
import { el, visible } from "./dom.js";
import { css, inkOn } from "./scale.js";
import { numberField } from "./steps_field.js";

/**
 * @typedef {import("./arithmetic.js").Rows} Rows
 * @typedef {import("./scale.js").Colour} Colour
 *
 * Cells that light up, from a row and a column up to, not including, others; `of` is the colour.
 * @typedef {{ rows: [number, number], columns: [number, number], of: "left" | "right" | "result" }} Band
 * @typedef {{ row: number, column: number }} Place
 *
 * @typedef {object} Look
 * @property {string} name for a screen reader
 * @property {Rows} rows
 * @property {string[]} rowLabels
 * @property {string[]} columnLabels
 * @property {(value: number) => string} write
 * @property {(value: number) => Colour | null} colour
 * @property {Node[]} caption
 * @property {Sizes} sizes
 *
 * Pixels: of a row's height, of letters, of a cell's width, of the labels at the left and above, and
 * of the whole, with its border.
 * @typedef {object} Sizes
 * @property {number} line
 * @property {number} letters of the labels
 * @property {number} figures
 * @property {number} pad at both sides of a figure
 * @property {number} cell
 * @property {number} label
 * @property {number} head
 * @property {boolean} upright labels above are written from bottom to top
 * @property {number} width
 * @property {number} height
 *
 * What the owner hears of.
 * @typedef {object} Ears
 * @property {(place: Place | null) => void} [pointed] by the mouse; null when it has left
 * @property {() => void} [entered] with the keyboard
 * @property {(place: Place) => void} [picked] by a click, or by the keyboard
 * @property {(place: Place, value: number) => void} [edited]
 */

const MARGIN = 18; // pixels for the border, and for a bar to scroll with
const SPARE = 2; // rows and columns around what can be seen, so that scrolling finds them drawn

export const MATRIX_CSS = `
figure { margin: 0; min-width: 0; max-width: 100%; }
figcaption { display: flex; flex-wrap: wrap; gap: 0 10px; align-items: baseline; margin: 0 0 3px; font-size: 13px; }
figcaption b { font-size: 15px; }
.grid { position: relative; overflow: auto; max-width: 100%; border: 1px solid var(--edge); border-radius: 5px;
  background: var(--page); contain: content; overscroll-behavior: auto; }
.grid:focus-visible { outline-offset: 2px; }
.sheet { position: relative; }
.heads { position: sticky; top: 0; z-index: 3; background: var(--raised); }
.row { position: absolute; left: 0; width: 100%; height: var(--row); }
.corner, .side { position: sticky; left: 0; z-index: 2; height: 100%; background: var(--raised); padding: 0 6px;
  line-height: var(--row); font-size: var(--letters); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.above { position: absolute; bottom: 0; text-align: right; font-size: var(--letters); line-height: var(--row);
  padding: 0 5px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.upright .above { writing-mode: vertical-rl; text-orientation: sideways; transform: rotate(180deg); text-align: left; padding: 5px 0; }
.cell { position: absolute; top: 0; height: var(--row); padding: 0 var(--pad); text-align: right;
  font: var(--figures)/var(--row) var(--mono); white-space: pre; cursor: default; }
.picks .cell { cursor: pointer; }
.cell.none { color: var(--faint); }
.band { position: absolute; z-index: 1; pointer-events: none; border: 3px solid; border-radius: 4px;
  box-shadow: 0 0 0 1px var(--page), inset 0 0 0 1px var(--page); }
.band.left { border-color: var(--left); } .band.right { border-color: var(--right); }
.band.result { border-color: var(--ink); }
.side.left, .above.left { color: var(--left); font-weight: 600; }
.side.right, .above.right { color: var(--right); font-weight: 600; }
.side.result, .above.result { font-weight: 700; text-decoration: underline; }
.grid input { position: absolute; z-index: 2; height: var(--row); padding: 0 4px; border-radius: 0;
  font: var(--figures) var(--mono); text-align: right; }
.grid input[aria-invalid="true"] { border-color: var(--error); color: var(--error); }
`;

/** @param {Band["of"]} of @param {Place} place @returns {Band} */
export function cellBand(of, { row, column }) {
  return { rows: [row, row + 1], columns: [column, column + 1], of };
}

let made = 0;

export class Matrix {
  /** @param {Ears} ears */
  constructor(ears) {
    this.ears = ears;
    /** @type {Look | null} */
    this.look = null;
    /** @type {Map<number, { element: HTMLElement, side: HTMLElement, cells: Map<number, HTMLElement> }>} */
    this.rows = new Map();
    /** @type {Map<number, HTMLElement>} */
    this.above = new Map();
    /** @type {Band[]} */
    this.bands = [];
    /** The keyboard's place, which the owner sets. @type {Place | null} */
    this.cursor = null;
    /** The keyboard's place in a matrix whose owner only hears of edits. @type {Place | null} */
    this.own = null;
    this.left = 0;
    this.top = 0;
    this.id = `matrix-${made++}`;
    this.caption = el("figcaption", { id: this.id });
    this.corner = el("div", { class: "corner", role: "presentation" });
    this.heads = el("div", { class: "heads", role: "row", "aria-rowindex": 1 }, this.corner);
    this.lights = el("div", { "aria-hidden": "true" });
    this.sheet = el("div", { class: "sheet", role: "presentation" }, this.heads, this.lights);
    this.grid = el("div", { class: "grid", role: "grid", onscroll: () => this.#scrolled() }, this.sheet);
    this.element = el("figure", {}, this.caption, this.grid);
    this.#listen();
  }

  /** Show these numbers; what was there is used again. @param {Look} look */
  show(look) {
    this.look = look;
    const { sizes } = look;
    this.caption.replaceChildren(...look.caption);
    this.corner.style.width = `${sizes.label}px`;
    this.heads.style.height = `${sizes.head}px`;
    this.heads.classList.toggle("upright", sizes.upright);
    const wide = sizes.label + look.columnLabels.length * sizes.cell;
    const high = sizes.head + look.rowLabels.length * sizes.line;
    this.sheet.style.width = `${wide}px`;
    this.sheet.style.height = `${high}px`;
    this.left = Math.min(this.left, Math.max(0, wide - sizes.width));
    this.top = Math.min(this.top, Math.max(0, high - sizes.height));
    this.grid.style.setProperty("--row", `${sizes.line}px`);
    this.grid.style.setProperty("--letters", `${sizes.letters}px`);
    this.grid.style.setProperty("--figures", `${sizes.figures}px`);
    this.grid.style.setProperty("--pad", `${sizes.pad}px`);
    this.grid.style.width = `${sizes.width}px`;
    this.grid.style.maxHeight = `${sizes.height}px`;
    this.grid.setAttribute("aria-label", look.name);
    this.grid.setAttribute("aria-rowcount", String(look.rowLabels.length + 1));
    this.grid.setAttribute("aria-colcount", String(look.columnLabels.length + 1));
    this.grid.classList.toggle("picks", this.ears.picked !== undefined);
    const { row, column } = this.own ?? { row: 0, column: 0 };
    const holds = row < look.rowLabels.length && column < look.columnLabels.length;
    if (this.ears.edited === undefined || this.ears.picked !== undefined || !holds) this.own = null;
    // Where there is more than can be seen, keys must be able to scroll.
    if (this.#hears || wide > sizes.width || high > sizes.height) this.grid.tabIndex = 0;
    else this.grid.removeAttribute("tabindex");
    this.#draw(true);
    this.light(this.bands, this.cursor);
  }

  /** Light up cells, and put the keyboard's cursor. @param {Band[]} bands @param {Place | null} cursor */
  light(bands, cursor) {
    this.bands = bands;
    this.cursor = cursor ?? this.own;
    if (this.look === null) return;
    const { cell, label, head, line } = this.look.sizes;
    if (this.own !== null) bands = [...bands, cellBand("result", this.own)];
    while (this.lights.children.length > bands.length) this.lights.lastChild?.remove();
    while (this.lights.children.length < bands.length) this.lights.append(el("div"));
    bands.forEach(({ rows, columns, of }, n) => {
      const light = /** @type {HTMLElement} */ (this.lights.children[n]);
      light.className = `band ${of}`;
      light.style.left = `${label + columns[0] * cell}px`;
      light.style.top = `${head + rows[0] * line}px`;
      light.style.width = `${(columns[1] - columns[0]) * cell}px`;
      light.style.height = `${(rows[1] - rows[0]) * line}px`;
    });
    for (const [row, { side }] of this.rows) side.className = `side ${this.#lit("rows", row)}`;
    for (const [column, above] of this.above) above.className = `above ${this.#lit("columns", column)}`;
    if (this.cursor !== null) this.grid.setAttribute("aria-activedescendant", this.#name(this.cursor));
    else this.grid.removeAttribute("aria-activedescendant");
  }

  /** @param {"rows" | "columns"} axis @param {number} place */
  #lit(axis, place) {
    return this.bands.find((band) => band[axis][0] === place && band[axis][1] === place + 1)?.of ?? "";
  }

  /** Scroll by whole cells, if need be, so that a row and a column can be seen.
   * @param {number | null} row @param {number | null} column */
  reveal(row, column) {
    if (this.look === null) return;
    const { cell, label, head, line, width, height } = this.look.sizes;
    const top = row === null ? this.top : nearest(this.top, row, line, height - head - MARGIN);
    const left = column === null ? this.left : nearest(this.left, column, cell, width - label - MARGIN);
    if (top === this.top && left === this.left) return;
    this.grid.scrollTo({ top, left, behavior: "instant" });
    this.#scrolled();
  }

  /** Where it is scrolled to is kept, as to ask for it while drawing would lay the page out again. */
  #scrolled() {
    [this.left, this.top] = [this.grid.scrollLeft, this.grid.scrollTop];
    this.#draw(false);
  }

  /** @param {Place} place */
  #name({ row, column }) {
    return `${this.id}-${row}-${column}`;
  }

  // ── what can be seen ───────────────────────────────────────────────────────────────────────────

  /** @param {boolean} again fill also what is there already */
  #draw(again) {
    const look = this.look;
    if (look === null) return;
    const { cell, label, head, line, width, height } = look.sizes;
    const { left, top } = this;
    const columns = within(left / cell, (left + width - label) / cell, look.columnLabels.length);
    const rows = within(top / line, (top + height - head) / line, look.rowLabels.length);
    drop(this.above, columns, (each) => each.remove());
    drop(this.rows, rows, (each) => each.element.remove());
    for (let column = columns[0]; column < columns[1]; column++) {
      let above = this.above.get(column);
      const fresh = above === undefined;
      if (above === undefined) {
        above = el("div", { role: "columnheader", dir: "auto", "aria-colindex": column + 2 });
        this.above.set(column, above);
        this.heads.append(above);
      }
      if (fresh || again) this.#fillAbove(above, look, column);
    }
    for (let row = rows[0]; row < rows[1]; row++) this.#drawRow(look, row, columns, again);
  }

  /** @param {HTMLElement} above @param {Look} look @param {number} column */
  #fillAbove(above, look, column) {
    const { cell, label, head, upright } = look.sizes;
    above.className = `above ${this.#lit("columns", column)}`;
    above.textContent = visible(look.columnLabels[column]);
    above.title = above.textContent;
    above.style.left = `${label + column * cell}px`;
    above.style.width = `${cell}px`;
    above.style.height = upright ? `${head}px` : "var(--row)";
    above.style.lineHeight = upright ? `${cell}px` : "";
  }

  /** @param {Look} look @param {number} row @param {[number, number]} columns @param {boolean} again */
  #drawRow(look, row, columns, again) {
    let entry = this.rows.get(row);
    const fresh = entry === undefined;
    if (entry === undefined) {
      const side = el("div", { role: "rowheader", dir: "auto" });
      const element = el("div", { class: "row", role: "row", "aria-rowindex": row + 2 }, side);
      entry = { element, side, cells: new Map() };
      this.rows.set(row, entry);
      this.sheet.append(entry.element);
    }
    const { element, side, cells } = entry;
    if (fresh || again) {
      element.style.top = `${look.sizes.head + row * look.sizes.line}px`;
      side.className = `side ${this.#lit("rows", row)}`;
      side.textContent = visible(look.rowLabels[row]);
      side.title = side.textContent;
      side.style.width = `${look.sizes.label}px`;
    }
    drop(cells, columns, (each) => each.remove());
    for (let column = columns[0]; column < columns[1]; column++) {
      let each = cells.get(column);
      const made = each === undefined;
      if (each === undefined) {
        each = el("div", { role: "gridcell", "aria-colindex": column + 2, id: this.#name({ row, column }) });
        each.dataset.row = String(row);
        each.dataset.column = String(column);
        cells.set(column, each);
        element.append(each);
      }
      if (made || again) fillCell(each, look, row, column);
    }
  }

  // ── what the reader does ───────────────────────────────────────────────────────────────────────

  #listen() {
    this.grid.addEventListener("pointerover", (event) => {
      if (event.pointerType === "mouse") this.ears.pointed?.(placeOf(event));
    });
    this.grid.addEventListener("pointerleave", () => this.ears.pointed?.(null));
    this.grid.addEventListener("click", (event) => {
      const place = placeOf(event);
      if (place !== null) this.#pick(place);
    });
    this.grid.addEventListener("dblclick", (event) => {
      const place = placeOf(event);
      if (place !== null) this.edit(place, null);
    });
    this.grid.addEventListener("keydown", (event) => this.#key(event));
    this.grid.addEventListener("focus", () => {
      if (this.grid.matches(":focus-visible")) this.ears.entered?.();
    });
  }

  /** @param {Place} place */
  #pick(place) {
    if (this.ears.picked !== undefined) this.ears.picked(place);
    else if (this.ears.edited !== undefined) {
      this.own = place;
      this.light(this.bands, null);
      this.reveal(place.row, place.column);
    }
  }

  /** Does the owner hear where the keyboard is? */
  get #hears() {
    return this.ears.pointed !== undefined || this.ears.edited !== undefined;
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (this.look === null || event.target !== this.grid || !this.#hears) return;
    const place = this.cursor ?? { row: 0, column: 0 };
    const letter = /^[-−+.\d]$/.test(event.key) && !event.ctrlKey && !event.metaKey && !event.altKey;
    if (this.ears.edited !== undefined && (letter || event.key === "Enter" || event.key === "F2")) {
      this.edit(place, letter ? event.key : null);
      event.preventDefault();
      return;
    }
    const to = moved(place, event, this.look.rowLabels.length - 1, this.look.columnLabels.length - 1);
    if (to === null) return;
    event.preventDefault();
    if (this.cursor === null || to.row !== place.row || to.column !== place.column) this.#pick(to);
  }

  /** Let the reader write another number into a cell. @param {Place} place @param {string | null} begun */
  edit(place, begun) {
    const { look, ears } = this;
    if (look === null || ears.edited === undefined) return;
    const before = number(look.rows[place.row][place.column]);
    const { cell, label, head, line } = look.sizes;
    const name = `${look.rowLabels[place.row]}, ${look.columnLabels[place.column]}`;
    const at = { left: label + place.column * cell, top: head + place.row * line, width: cell };
    const input = numberField(name, begun ?? String(before), at, (value, focused) => {
      if (focused) this.grid.focus({ preventScroll: true });
      if (value !== null && value !== before) ears.edited?.(place, value);
    });
    this.sheet.append(input);
    input.focus({ preventScroll: true });
    if (begun === null) input.select();
  }
}

/** @param {HTMLElement} cell @param {Look} look @param {number} row @param {number} column */
function fillCell(cell, look, row, column) {
  const value = number(look.rows[row][column]);
  const colour = look.colour(value);
  cell.className = colour === null ? "cell none" : "cell";
  cell.textContent = look.write(value);
  cell.style.left = `${look.sizes.label + column * look.sizes.cell}px`;
  cell.style.width = `${look.sizes.cell}px`;
  cell.style.background = colour === null ? "" : css(colour);
  cell.style.color = colour === null ? "" : inkOn(colour);
}

/** @param {Event} event @returns {Place | null} */
function placeOf(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (target.dataset?.row === undefined) return null;
  return { row: Number(target.dataset.row), column: Number(target.dataset.column) };
}

/** Where a key leads to; null if nowhere. @param {Place} place @param {KeyboardEvent} event
 * @param {number} lastRow @param {number} lastColumn @returns {Place | null} */
function moved({ row, column }, event, lastRow, lastColumn) {
  const far = event.ctrlKey || event.metaKey;
  /** @type {Record<string, Place>} */
  const ways = {
    ArrowUp: { row: far ? 0 : Math.max(0, row - 1), column },
    ArrowDown: { row: far ? lastRow : Math.min(lastRow, row + 1), column },
    ArrowLeft: { row, column: far ? 0 : Math.max(0, column - 1) },
    ArrowRight: { row, column: far ? lastColumn : Math.min(lastColumn, column + 1) },
    Home: { row: far ? 0 : row, column: 0 },
    End: { row: far ? lastRow : row, column: lastColumn },
  };
  return ways[event.key] ?? null;
}

/** The nearest place to scroll to from `now`, at the edge of a cell, where cell `n` can be seen.
 * @param {number} now @param {number} n @param {number} size of a cell @param {number} view pixels */
function nearest(now, n, size, view) {
  if (now <= n * size && (n + 1) * size - view <= now) return now;
  return Math.max(0, now > n * size ? n * size : Math.ceil(((n + 1) * size - view) / size) * size);
}

/** @param {number} from @param {number} to @param {number} count @returns {[number, number]} */
function within(from, to, count) {
  return [Math.max(0, Math.floor(from) - SPARE), Math.min(count, Math.ceil(to) + SPARE)];
}

/** @template T @param {Map<number, T>} map @param {[number, number]} range @param {(each: T) => void} remove */
function drop(map, [from, to], remove) {
  for (const [place, each] of map) {
    if (place >= from && place < to) continue;
    remove(each);
    map.delete(place);
  }
}
