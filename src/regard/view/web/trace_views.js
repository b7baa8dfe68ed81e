// The views of a trace: the whole pass in one picture, and its steps one by one.

import { el, refill } from "./dom.js";
import { readChanges, withChange, withoutChange, writeChanges } from "./flow_changes.js";
import { startOf } from "./flow_compute.js";
import { resetButton, switches } from "./flow_controls.js";
import { TraceFlow } from "./flow_source.js";
import { toldChanges } from "./flow_told.js";
import { why } from "./told.js";
import { word, wordParts } from "./words.js";

/**
 * @typedef {import("./base.js").State} State
 * @typedef {import("./base.js").RegardElement<any>} AnyElement
 * @typedef {import("./arithmetic.js").TraceJson} TraceJson
 */

const VIEWS = /** @type {const} */ (["flow", "steps"]);
const ELEMENTS = /** @type {const} */ (["flow", "steps", "head"]);

/** Both elements, one at a time in `panel`, by `tabs`; `say` is told what the reader changed, and puts it into `state`. */
export class TraceViews {
  /** @type {State | null} */
  #state = null;
  /** The trace, as it is without changes. @type {TraceFlow | null} */
  #first = null;
  /** The changes that the steps show. */
  #changes = "";
  #asked = 0;
  #edits = false;
  /** What is changed, above the steps; the flow has it itself. */
  #bar = el("div", { class: "bar" });
  tabs = el("div", { role: "tablist", "aria-label": word("trace.views") });
  panel = el("section", { role: "tabpanel", id: "panel" });
  #made = /** @type {Record<string, AnyElement>} */ (Object.fromEntries(ELEMENTS.map((name) => [name, document.createElement(`regard-${name}`)])));

  /** @param {(changed: Partial<State>) => void} say */
  constructor(say) {
    this.say = say;
    this.panel.addEventListener("regard-change", (event) => say(/** @type {CustomEvent} */ (event).detail));
    this.tabs.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      say({ view: VIEWS[1 - VIEWS.indexOf(this.name)] });
      /** @type {HTMLElement | null} */ (this.tabs.querySelector('[aria-selected="true"]'))?.focus();
    });
    this.tabs.append(...VIEWS.map((name) => el("button", {
      role: "tab", id: `tab-${name}`, "aria-controls": "panel", onclick: () => say({ view: name }),
    }, word(/** @type {import("./words.js").Key} */ (`trace.${name}`)))));
  }

  /** Let the steps be changed, too, and have their switches. */
  edit() {
    this.#edits = true;
    this.#made.steps.setAttribute("editable", "");
    this.panel.addEventListener("regard-edit", (event) => {
      const { matrix, head, row, column, value } = /** @type {CustomEvent} */ (event).detail;
      const stage = matrix === "X" && this.#first !== null ? startOf(this.#first.trace) ?? "input" : matrix;
      this.#change(withChange(readChanges(this.#changes), { kind: "number", stage, head, row, column, value }));
    });
  }

  /** The view that is shown. */
  get name() {
    return this.#state?.view === "steps" && !this.tabs.hidden ? "steps" : "flow";
  }

  /** Its element; the steps of a model are those of one head. */
  get shown() {
    return this.#made[this.name === "steps" && this.#first === null ? "head" : this.name];
  }

  /** @param {TraceJson} trace @param {((text: string) => Promise<number[]>) | null} [vector] the numbers of any word */
  show(trace, vector = null) {
    this.#first = new TraceFlow(trace, vector);
    this.tabs.hidden = false;
    this.#made.flow.source = this.#first;
    this.#compute(this.#first);
  }

  /** @param {import("./flow_changes.js").Change[]} changes */
  #change(changes) {
    this.say({ changes: writeChanges(changes) || null });
  }

  /** Let the steps be those of the changed pass. @param {TraceFlow} first */
  async #compute(first) {
    const asked = ++this.#asked;
    const changes = readChanges(this.#changes);
    let flow = first;
    /** @type {(string | Node)[]} */
    let refused = [];
    try {
      if (changes.length > 0) flow = await first.changed(changes);
    } catch (error) {
      refused = wordParts("flow.refused", { why: why(error) });
    }
    if (asked !== this.#asked) return;
    this.#made.steps.source = flow.trace;
    refill(this.#bar, changes.length === 0 && !this.#edits ? [] : [
      ...switches(first.outline, changes, (change) => this.#change(withChange(changes, change))),
      ...toldChanges(first.outline, flow.outline, changes, (change) => this.#change(withoutChange(changes, change))),
      ...(changes.length === 0 ? [] : [resetButton(() => this.#change([]))]),
      ...(refused.length === 0 ? [] : [el("span", { class: "error", role: "alert" }, ...refused)]),
    ]);
  }

  /** A pass of a model. @param {import("./flow_source.js").FlowSource} source */
  set flow(source) {
    this.#first = null;
    this.#made.flow.source = this.#made.head.source = source;
    this.tabs.hidden = source.steps === undefined;
  }

  get state() {
    return /** @type {State} */ (this.#state);
  }

  set state(state) {
    this.#state = state;
    const changes = String(state.changes ?? "");
    if (changes !== this.#changes) {
      this.#changes = changes;
      if (this.#first !== null) this.#compute(this.#first);
    }
    for (const tab of this.tabs.children) {
      const chosen = tab.id === `tab-${this.name}`;
      tab.setAttribute("aria-selected", String(chosen));
      /** @type {HTMLElement} */ (tab).tabIndex = chosen ? 0 : -1;
    }
    this.panel.setAttribute("aria-labelledby", `tab-${this.name}`);
    this.shown.state = state;
    if (this.panel.lastChild !== this.shown) this.panel.replaceChildren(...(this.shown === this.#made.steps ? [this.#bar] : []), this.shown);
  }
}
