// The views of a trace: the whole pass in one picture, and its steps one by one.

import { el } from "./dom.js";
import { readChanges } from "./flow_changes.js";
import { computed } from "./flow_compute.js";
import { TraceFlow } from "./flow_source.js";
import { word } from "./words.js";

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
  /** @type {TraceJson | null} */
  #trace = null;
  /** The changes that the steps show. */
  #changes = "";
  tabs = el("div", { role: "tablist", "aria-label": word("trace.views") });
  panel = el("section", { role: "tabpanel", id: "panel" });
  #made = /** @type {Record<string, AnyElement>} */ (Object.fromEntries(ELEMENTS.map((name) => [name, document.createElement(`regard-${name}`)])));

  /** @param {(changed: Partial<State>) => void} say */
  constructor(say) {
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

  /** The view that is shown. */
  get name() {
    return this.#state?.view === "steps" && !this.tabs.hidden ? "steps" : "flow";
  }

  /** Its element; the steps of a model are those of one head. */
  get shown() {
    return this.#made[this.name === "steps" && this.#trace === null ? "head" : this.name];
  }

  /** @param {string} name */
  view(name) {
    return this.#made[name];
  }

  /** @param {TraceJson} trace */
  set trace(trace) {
    this.#trace = trace;
    this.tabs.hidden = false;
    this.#made.flow.source = new TraceFlow(trace);
    this.#made.steps.source = computed(trace, readChanges(this.#changes));
  }

  /** A pass of a model. @param {import("./flow_source.js").FlowSource} source */
  set flow(source) {
    this.#trace = null;
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
      if (this.#trace !== null) this.#made.steps.source = computed(this.#trace, readChanges(changes));
    }
    for (const tab of this.tabs.children) {
      const chosen = tab.id === `tab-${this.name}`;
      tab.setAttribute("aria-selected", String(chosen));
      /** @type {HTMLElement} */ (tab).tabIndex = chosen ? 0 : -1;
    }
    this.panel.setAttribute("aria-labelledby", `tab-${this.name}`);
    this.shown.state = state;
    if (this.panel.firstChild !== this.shown) this.panel.replaceChildren(this.shown);
  }
}
