// What every element is: a shadow root, a source of data, a place in the state of the page.

import { el } from "./dom.js";
import { THEME, sheet } from "./theme.js";

/**
 * Where the reader is. Elements use what concerns them, and say what the reader changed by a
 * `regard-change` event whose detail has the changed names only; the page puts it together, keeps
 * it in the URL, and hands it back. An element never changes its own state by itself.
 *
 * `sequence` of the batch; `layer`; `head`, null for all; `token`, null for none: a position of the
 * sequence. Every other name belongs to one element, and holds a text.
 * @typedef {{ sequence: number, layer: number, head: number | null, token: number | null }} Place
 * @typedef {Place & Record<string, string | number | null>} State
 */

/** @returns {State} */
export function start() {
  return { sequence: 0, layer: 0, head: null, token: null };
}

const shared = sheet(THEME);

/**
 * The base of all elements. A subclass sets `static css`, and draws itself in `update()`, which is
 * called once a frame at most, after its source or its state has changed.
 * @template Source
 */
export class RegardElement extends HTMLElement {
  static css = "";

  /** @type {Source | null} */
  #source = null;
  /** @type {State} */
  #state = start();
  #waiting = false;
  #dark = matchMedia("(prefers-color-scheme: dark)");
  #again = () => this.changed();

  constructor() {
    super();
    /** @type {ShadowRoot} */
    this.root = this.attachShadow({ mode: "open" });
    const own = /** @type {typeof RegardElement} */ (this.constructor).css;
    this.root.adoptedStyleSheets = [shared, sheet(own)];
  }

  connectedCallback() {
    this.#dark.addEventListener("change", this.#again);
    this.changed();
  }

  disconnectedCallback() {
    this.#dark.removeEventListener("change", this.#again);
  }

  /** @returns {Source | null} */
  get source() {
    return this.#source;
  }

  set source(source) {
    this.#source = source;
    this.changed();
  }

  get state() {
    return this.#state;
  }

  set state(state) {
    this.#state = state;
    this.changed();
  }

  /** A text of the state that belongs to this element, or what it is unless set.
   * @param {string} name @param {string} otherwise @returns {string} */
  said(name, otherwise) {
    const value = this.#state[name];
    return value === null || value === undefined ? otherwise : String(value);
  }

  /** Draw again in the next frame. */
  changed() {
    if (this.#waiting) return;
    this.#waiting = true;
    requestAnimationFrame(() => {
      this.#waiting = false;
      if (!this.isConnected || this.#source === null) return;
      this.#run(this.#source);
    });
  }

  /** @param {Source} source */
  async #run(source) {
    try {
      await this.update(source);
      this.dispatchEvent(new CustomEvent("regard-drawn", { bubbles: true, composed: true }));
    } catch (error) {
      this.root.replaceChildren(
        el("p", { class: "error", role: "alert" }, `This view could not be drawn: ${error}`),
      );
      throw error;
    }
  }

  /** Draw. @param {Source} source @returns {void | Promise<void>} */
  update(source) {
    void source;
  }

  /** Tell the page what the reader changed. @param {Partial<State>} change */
  say(change) {
    this.dispatchEvent(
      new CustomEvent("regard-change", { detail: change, bubbles: true, composed: true }),
    );
  }
}
