// The canvases of a flow: one, or two side by side, before and after the changes.

import { el } from "./dom.js";
import { Layers } from "./flow_layers.js";
import { word } from "./words.js";

/**
 * @typedef {{ figure: HTMLElement, caption: HTMLElement, canvas: HTMLCanvasElement, layers: Layers, first: boolean }} Pane
 * @typedef {import("./flow_camera.js").Room} Room
 */

const GAP = 8; // pixels between two
const BELOW = 118; // pixels for what stands below the picture
const [SHORTEST, TALLEST] = [320, 1200]; // pixels of a picture

export class Panes {
  element = el("div", { class: "pictures" });
  /** @type {Pane[]} */
  #made = [];
  #count = 1;

  /** @param {(pane: Pane) => void} listen to a new one */
  constructor(listen) {
    this.listen = listen;
  }

  get shown() {
    return this.#made.slice(0, this.#count);
  }

  /** @param {number} count @param {string} label what they show */
  show(count, label) {
    this.#count = count;
    while (this.#made.length < count) this.#made.push(this.#make());
    if (this.element.childElementCount !== count) this.element.replaceChildren(...this.shown.map(({ figure }) => figure));
    for (const { caption, canvas, first } of this.shown) {
      caption.textContent = count === 1 ? "" : word(first ? "flow.before" : "flow.after");
      canvas.setAttribute("aria-label", count === 1 ? label : `${label}, ${caption.textContent}`);
    }
  }

  /** @returns {Pane} */
  #make() {
    const caption = el("figcaption");
    const canvas = el("canvas", { tabindex: 0, role: "application", "aria-roledescription": word("flow.role") });
    const pane = { figure: el("figure", {}, canvas, caption), caption, canvas, layers: new Layers(), first: this.#made.length === 0 };
    this.listen(pane);
    return pane;
  }

  /** What there is for each. @param {boolean} all whether they fill their element @returns {Room} */
  room(all) {
    const top = this.element.getBoundingClientRect().top + scrollY;
    const left = innerHeight - Math.min(top, innerHeight / 2) - BELOW;
    return {
      width: Math.max(200, (this.element.clientWidth - (this.#count - 1) * GAP) / this.#count - 2),
      height: all ? this.element.clientHeight : Math.min(TALLEST, Math.max(SHORTEST, left)),
    };
  }

  /** @param {number} height @param {boolean} scrolled by a finger */
  resize(height, scrolled) {
    for (const { canvas } of this.shown) {
      canvas.style.height = `${height}px`;
      canvas.classList.toggle("tall", scrolled);
    }
  }
}
