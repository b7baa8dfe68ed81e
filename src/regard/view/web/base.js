// What every element is: a shadow root, a source of data, a place in the state of the page.

import { el } from "./dom.js";
import { onceAFrame } from "./pause.js";
import { THEME, onTheme, setTheme, sheet } from "./theme.js";
import { word } from "./words.js";

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
  #shown = new AbortController();
  #resized = new ResizeObserver(() => this.resized());

  /** Draw again in the next frame. */
  changed = onceAFrame(() => {
    if (this.isConnected && this.#source !== null) this.#run(this.#source);
  });

  constructor() {
    super();
    /** @type {ShadowRoot} */
    this.root = this.attachShadow({ mode: "open" });
    const own = /** @type {typeof RegardElement} */ (this.constructor).css;
    this.root.adoptedStyleSheets = [shared, sheet(own)];
  }

  connectedCallback() {
    this.#shown = new AbortController();
    onTheme(this.changed, this.#shown.signal);
    this.#resized.observe(this);
    this.changed();
  }

  disconnectedCallback() {
    this.#shown.abort();
    this.#resized.disconnect();
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
    setTheme(state.theme);
    this.changed();
  }

  /** A text of the state that belongs to this element, or what it is unless set.
   * @param {string} name @param {string} otherwise @returns {string} */
  said(name, otherwise) {
    const value = this.#state[name];
    return value === null || value === undefined ? otherwise : String(value);
  }

  /** @param {Source} source */
  async #run(source) {
    try {
      await this.update(source);
      this.drawn();
    } catch (error) {
      this.root.replaceChildren(
        el("p", { class: "error", role: "alert" }, word("base.broken", { why: error })),
      );
      throw error;
    }
  }

  /** Draw. @param {Source} source @returns {void | Promise<void>} */
  update(source) {
    void source;
  }

  /** The element has another width or height now. */
  resized() {}

  /** Tell the page what the reader changed. @param {Partial<State>} change */
  say(change) {
    this.#tell("regard-change", change);
  }

  /** Tell the page that something was drawn that takes longer than `update`. */
  drawn() {
    this.#tell("regard-drawn", null);
  }

  /** @param {string} name @param {Partial<State> | null} detail */
  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true }));
  }
}
