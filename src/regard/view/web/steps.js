// <regard-steps>: the steps of a trace as matrices; point at a number to see how it came about.

import { headCount } from "./arithmetic.js";
import { RegardElement } from "./base.js";
import { el, indexed, visible } from "./dom.js";
import { explain } from "./rules.js";
import { css, signed } from "./scale.js";
import { GAP, STEPS_CSS, look } from "./steps_look.js";
import { chosenCell, madeFrom, stepSheet } from "./steps_made.js";
import { Matrix } from "./steps_matrix.js";
import { SMALL, WAYS, largePlan, largeSize, plan, total } from "./steps_sizes.js";
import { columnsIn, formulaIn, meaningOf, titleOf, told } from "./told.js";
import { word } from "./words.js";

/**
 * @typedef {import("./arithmetic.js").TraceJson} TraceJson
 * @typedef {import("./steps_made.js").Sheet} Sheet
 * @typedef {import("./steps_matrix.js").Place} Place
 * @typedef {import("./steps_matrix.js").Ears} Ears
 * @typedef {import("./steps_sizes.js").Room} Room
 * @typedef {Place & { head: number }} Cell
 */

const MOST_BESIDE = 4; // heads; more are in one line that scrolls
const TALLEST = 16; // rows of a matrix that are shown at once
const SHORTEST = 6; // the same, if the window is low
const AROUND = 190; // pixels for what stands between the matrices and below them
const BELOW = 110; // the same, below the last of them

/** @extends {RegardElement<TraceJson>} */
export class RegardSteps extends RegardElement {
  static css = STEPS_CSS;
  static observedAttributes = ["editable"];

  #back = el("button", { "aria-label": word("steps.back"), onclick: () => this.#walk(-1) }, "←");
  #on = el("button", { "aria-label": word("steps.on"), onclick: () => this.#walk(1) }, "→");
  #tabs = el("div", { role: "tablist", "aria-label": word("steps.steps") });
  #nav = el("nav", { "aria-label": word("steps.steps") }, this.#back, this.#tabs, this.#on);
  #heading = el("h2");
  #meaning = el("p");
  #made = el("div", { class: "made" });
  #arrow = el("div", { class: "sign" }, "→");
  #results = el("div", { class: "results" });
  #where = el("p", { class: "faint" });
  #line = el("p", { class: "line", role: "status" });
  #hint = el("p", { class: "hint faint" });
  #flow = el("div", { class: "flow" }, this.#made, this.#arrow, this.#results);
  #panel = el("section", { role: "tabpanel", id: "step" }, this.#heading, this.#meaning, this.#hint, this.#flow,
    el("div", { class: "answer" }, this.#where, this.#line));
  /** @type {Matrix[]} */
  #resultMatrices = [];
  /** @type {Matrix[]} */
  #madeMatrices = [];
  /** @type {Sheet[]} */
  #madeSheets = [];
  /** What the mouse is at. @type {Cell | null} */
  #pointed = null;
  /** What the matrices now show, so that they are not filled again for another cell. @type {unknown[]} */
  #drawn = [];
  #width = 0;
  #large = /** @type {import("./steps_sizes.js").Size | null} */ (null);
  /** @type {Room} */
  #resultRoom = { width: 0, gap: 0, heads: true, tallest: 0, family: "", mono: "", from: 0 };
  #madeRoom = this.#resultRoom;
  #resize = new ResizeObserver(() => {
    if (this.clientWidth !== this.#width) this.changed();
  });

  constructor() {
    super();
    this.root.append(this.#nav, this.#panel);
    this.#tabs.addEventListener("keydown", (event) => this.#tabKey(event));
    this.root.addEventListener("keydown", (event) => this.#pageKey(/** @type {KeyboardEvent} */ (event)));
  }

  connectedCallback() {
    super.connectedCallback();
    this.#resize.observe(this);
  }

  disconnectedCallback() {
    super.disconnectedCallback();
    this.#resize.disconnect();
  }

  attributeChangedCallback() {
    this.#drawn = [];
    this.changed();
  }

  /** The calculation behind one cell, as `Trace.explain` says it. @param {string} step @param {number} row
   * @param {number} column @param {number} [head] @returns {string} */
  explain(step, row, column, head = 0) {
    const trace = /** @type {TraceJson} */ (this.source);
    return explain(trace, step, row, column, head).map((piece) => piece.text).join("");
  }

  /** @param {TraceJson} trace */
  update(trace) {
    this.#width = this.clientWidth;
    const name = this.#step(trace);
    const cell = this.#pinned(trace);
    const drawn = [trace, name, this.#width, this.hasAttribute("editable"), css(signed(1))];
    if (drawn.some((each, n) => each !== this.#drawn[n])) {
      this.#drawn = drawn;
      this.#pointed = null;
      this.#drawTabs(trace, name);
      this.#drawStep(trace, name);
    }
    this.#point(trace, this.#pointed ?? cell, this.#pointed === null);
  }

  // ── where the reader is ────────────────────────────────────────────────────────────────────────

  /** @param {TraceJson} trace */
  #step(trace) {
    const said = this.said("step", "");
    return Object.hasOwn(trace.steps, said) ? said : Object.keys(trace.steps)[0];
  }

  /** The cell of the state, or the one that stands for all. @param {TraceJson} trace @returns {Cell} */
  #pinned(trace) {
    const name = this.#step(trace);
    const step = trace.steps[name];
    const [lastRow, lastColumn] = step.axes.slice(-2).map((axis) => axis.labels.length - 1);
    const found = /^(\d{1,9}),(\d{1,9})$/.exec(this.said("cell", ""));
    const said = found === null ? null : { row: Number(found[1]), column: Number(found[2]) };
    const { row, column } = said ?? chosenCell(trace, name);
    return {
      head: Math.min(this.state.head ?? 0, headCount(step) - 1),
      row: Math.min(row, lastRow), column: Math.min(column, lastColumn),
    };
  }

  /** @param {number} by */
  #walk(by) {
    const trace = this.source;
    if (trace === null) return;
    const names = Object.keys(trace.steps);
    const next = names[names.indexOf(this.#step(trace)) + by];
    if (next !== undefined) this.say({ step: next });
  }

  // ── drawing ────────────────────────────────────────────────────────────────────────────────────

  /** @param {TraceJson} trace @param {string} name */
  #drawTabs(trace, name) {
    const names = Object.keys(trace.steps);
    if (names.join() !== [...this.#tabs.children].map((tab) => tab.id.slice("tab-".length)).join()) {
      this.#tabs.replaceChildren(...names.map((each) => {
        const onclick = () => this.say({ step: each });
        return el("button", { role: "tab", id: `tab-${each}`, "aria-controls": "step", onclick },
          el("span", {}, trace.steps[each].number), ` ${titleOf(each, trace.steps[each])}`);
      }));
    }
    for (const tab of this.#tabs.children) {
      const chosen = tab.id === `tab-${name}`;
      tab.setAttribute("aria-selected", String(chosen));
      /** @type {HTMLElement} */ (tab).tabIndex = chosen ? 0 : -1;
    }
    this.#back.disabled = name === names[0];
    this.#on.disabled = name === names[names.length - 1];
    this.#panel.setAttribute("aria-labelledby", `tab-${name}`);
    const tab = /** @type {HTMLElement} */ (this.#tabs.children[names.indexOf(name)]);
    this.#nav.scrollLeft = tab.offsetLeft - this.#nav.offsetLeft - (this.#nav.clientWidth - tab.offsetWidth) / 2;
  }

  /** @param {TraceJson} trace @param {string} name */
  #drawStep(trace, name) {
    const step = trace.steps[name];
    const count = headCount(step);
    const shape = step.axes.slice(-2).map((axis) => axis.labels.length).join(" × ");
    this.#heading.replaceChildren(`${step.number}  ${titleOf(name, step)}`, el("code", {}, ...indexed(formulaIn(step.formula))),
      el("small", { class: "faint" }, count > 1 ? word("steps.heads", { count, shape }) : shape));
    this.#meaning.replaceChildren(...indexed(meaningOf(name, step)));
    const focused = this.#results.contains(this.root.activeElement);
    const sheets = Array.from({ length: count }, (_, head) => stepSheet(trace, name, head));
    this.#settle(sheets, madeFrom(trace, name, 0, 0));
    this.#results.classList.toggle("many", count > MOST_BESIDE);
    this.#lay(this.#resultMatrices, this.#results, sheets, this.#resultRoom, (sheet) => ({
      pointed: (place) => this.#hover(place === null ? null : { ...place, head: sheet.head }),
      picked: (place) => this.#pick({ ...place, head: sheet.head }),
      entered: () => {
        if (this.#pinned(trace).head !== sheet.head) this.say({ head: sheet.head });
      },
    }));
    this.#madeSheets = [];
    if (focused && !this.#results.contains(this.root.activeElement)) {
      this.#resultMatrices[this.#pinned(trace).head].grid.focus({ preventScroll: true });
    }
    this.#hint.textContent = this.#advice(trace, name);
  }

  /** @param {TraceJson} trace @param {string} name */
  #advice(trace, name) {
    const leads = madeFrom(trace, name, 0, 0).some((sheet) => sheet.step !== null);
    return [
      word(leads ? "steps.hint_leads" : "steps.hint"),
      word("steps.keys"),
      this.hasAttribute("editable") ? word("steps.edit") : "",
    ].filter(Boolean).join(" ");
  }

  /**
   * Put sheets into matrices side by side.
   * @param {Matrix[]} matrices there are so far @param {HTMLElement} box @param {Sheet[]} sheets
   * @param {Room} room
   * @param {(sheet: Sheet) => Ears} ears what each of them is told
   */
  #lay(matrices, box, sheets, room, ears) {
    const plans = this.#plan(sheets, room);
    while (matrices.length < sheets.length) matrices.push(new Matrix({}));
    matrices.length = sheets.length;
    sheets.forEach((sheet, n) => {
      const matrix = matrices[n];
      matrix.ears = ears(sheet);
      const name = sheet.edits;
      if (name !== null && this.hasAttribute("editable")) {
        matrix.ears.edited = (place, value) => this.#edited(name, sheet, place, value);
      }
      matrix.show(look(sheet, plans[n]));
    });
    const children = sheets.flatMap(({ sign }, n) => [
      ...(sign === "" ? [] : [el("div", { class: "sign", "aria-hidden": "true" }, sign)]), matrices[n].element,
    ]);
    const same = children.length === box.children.length && children.every((child, n) =>
      child === box.children[n] || (child.className === "sign" && box.children[n].textContent === child.textContent));
    if (!same) box.replaceChildren(...children);
  }

  /** Decide on sizes, and whether all stands in one line. @param {Sheet[]} results @param {Sheet[]} made */
  #settle(results, made) {
    const letters = getComputedStyle(this);
    const [family, mono] = [letters.fontFamily, letters.getPropertyValue("--mono")];
    const width = this.#width;
    this.#resultRoom = { width, gap: GAP, heads: true, tallest: TALLEST, family, mono, from: 0 };
    this.#madeRoom = { ...this.#resultRoom, gap: 2 * GAP, heads: false };
    const line = { ...this.#madeRoom, width: width - 2 * GAP };
    const above = Math.min(this.#flow.getBoundingClientRect().top + scrollY, innerHeight / 2);
    const room = innerHeight - above - AROUND;
    this.#large = largeSize([...made, ...results], line, room);
    const [high, highest] = [made, results].map((sheets, n) =>
      Math.max(0, ...this.#plan(sheets, n === 0 ? this.#madeRoom : this.#resultRoom).map((each) => each.height)));
    const all = this.#large !== null ? 0 : WAYS.findIndex(({ digits }, from) => {
      // Below one another numbers keep their decimals, if there is room for that.
      if (digits < WAYS[0].digits && high + highest <= room) return false;
      const plans = [this.#plan(made, { ...this.#madeRoom, from }), this.#plan(results, { ...this.#resultRoom, from })];
      return total(plans[0], line.gap) + total(plans[1], line.gap) <= line.width;
    });
    const stacked = made.length > 0 && all < 0;
    if (made.length > 0) this.#resultRoom.from = this.#madeRoom.from = Math.max(0, all);
    const rows = (/** @type {number} */ pixels) =>
      Math.min(TALLEST, Math.max(SHORTEST, Math.floor(pixels / SMALL.line - 0.5)));
    // What is asked for comes first, where not both can be seen.
    const turned = stacked && highest + (SHORTEST + 0.5) * SMALL.line > room;
    if (turned) this.#resultRoom.tallest = rows(innerHeight - above - BELOW - this.#plan(results, this.#resultRoom)[0].head);
    else if (stacked) this.#madeRoom.tallest = rows(room - highest - 2 * SMALL.line);
    this.#flow.classList.toggle("stacked", stacked);
    this.#arrow.classList.toggle("from", turned);
    this.#arrow.textContent = turned ? word("steps.made_from") : stacked ? "↓" : "→";
    this.#arrow.hidden = made.length === 0;
    const order = turned ? [this.#results, this.#arrow, this.#made] : [this.#made, this.#arrow, this.#results];
    if (this.#flow.firstChild !== order[0]) this.#flow.replaceChildren(...order);
  }

  /** @param {Sheet[]} sheets @param {Room} room */
  #plan(sheets, room) {
    return (this.#large !== null ? largePlan(sheets, room, this.#large) : null) ?? plan(sheets, room);
  }

  /** Light a cell, and say how it came about. @param {TraceJson} trace @param {Cell} cell @param {boolean} reveal */
  #point(trace, cell, reveal) {
    const name = this.#step(trace);
    this.#resultMatrices.forEach((matrix, head) => {
      const own = head === cell.head;
      matrix.light(own ? stepSheet(trace, name, head).lit(cell) : [], own ? cell : null);
      if (own && reveal) {
        matrix.reveal(cell.row, cell.column);
        this.#bring(matrix.element);
      }
    });
    const sheets = madeFrom(trace, name, cell.head, cell.column);
    const before = this.#madeSheets;
    const same = (/** @type {Sheet} */ { head, symbol }, /** @type {number} */ n) =>
      before[n].head === head && before[n].symbol === symbol;
    if (before.length !== sheets.length || !sheets.every(same)) {
      this.#lay(this.#madeMatrices, this.#made, sheets, this.#madeRoom, (sheet) => this.#leads(sheet));
    }
    this.#madeSheets = sheets;
    this.#made.hidden = this.#arrow.hidden = sheets.length === 0;
    sheets.forEach((sheet, n) => {
      const bands = sheet.lit(cell);
      this.#madeMatrices[n].light(bands, null);
      for (const { rows, columns } of bands) this.#madeMatrices[n].reveal(alone(rows), alone(columns));
    });
    this.#answer(trace, name, cell);
  }

  /** Scroll the line of many heads so that one can be seen. @param {HTMLElement} head */
  #bring(head) {
    const box = this.#results;
    if (!box.classList.contains("many")) return;
    const left = head.offsetLeft - box.offsetLeft;
    if (left < box.scrollLeft || left + head.offsetWidth > box.scrollLeft + box.clientWidth) box.scrollLeft = left;
  }

  /** A number of a step leads to that step. @param {Sheet} sheet @returns {Ears} */
  #leads({ step, head }) {
    if (step === null) return {};
    return { picked: ({ row, column }) => this.say({ step, cell: `${row},${column}`, head }) };
  }

  /** @param {TraceJson} trace @param {string} name @param {Cell} cell */
  #answer(trace, name, { row, column, head }) {
    const step = trace.steps[name];
    const [rows, columns] = step.axes.slice(-2);
    const between = columns.name === "dimension" ? ", " : " → ";
    const several = this.#resultMatrices.length > 1 ? `, ${told(step.axes[0].labels[head])}` : "";
    this.#where.textContent =
      `${titleOf(name, step)}${several}: ${visible(rows.labels[row])}${between}${visible(columnsIn(columns.labels)[column])}`;
    this.#line.replaceChildren(...explain(trace, name, row, column, head).flatMap(({ text, of }) =>
      of === "" ? indexed(visible(` ${text} `).slice(1, -1)) : [el("span", { class: of }, text)]));
  }

  // ── what the reader does ───────────────────────────────────────────────────────────────────────

  /** @param {Cell | null} cell */
  #hover(cell) {
    this.#pointed = cell;
    if (this.source !== null) this.#point(this.source, cell ?? this.#pinned(this.source), false);
  }

  /** @param {Cell} cell */
  #pick({ row, column, head }) {
    this.#pointed = null;
    this.say({ cell: `${row},${column}`, head });
  }

  /** @param {string} matrix @param {Sheet} sheet @param {Place} place @param {number} value */
  #edited(matrix, sheet, { row, column }, value) {
    const detail = { matrix, head: sheet.head, row, column, value };
    this.dispatchEvent(new CustomEvent("regard-edit", { detail, bubbles: true, composed: true }));
  }

  /** @param {KeyboardEvent} event */
  #tabKey(event) {
    const names = [...this.#tabs.children].map((tab) => tab.id.slice("tab-".length));
    const now = names.indexOf(this.source === null ? "" : this.#step(this.source));
    /** @type {Record<string, number>} */
    const ways = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: names.length - 1 };
    const next = names[ways[event.key]];
    if (next === undefined) return;
    event.preventDefault();
    this.say({ step: next });
    /** @type {HTMLElement} */ (this.#tabs.children[ways[event.key]]).focus();
  }

  /** @param {KeyboardEvent} event */
  #pageKey(event) {
    const by = { PageUp: -1, PageDown: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    this.#walk(by);
  }
}
customElements.define("regard-steps", RegardSteps);

/** What a range holds if it is one only. @param {[number, number]} range */
function alone([from, to]) {
  return to - from === 1 ? from : null;
}
