// How an atlas is moved: by mouse, by fingers, by keys; what each does to the view, and what is pointed at.

import { corner, isWhole, moved, within, zoomed } from "./atlas_view.js";

/**
 * @import { Frame, View } from "./atlas_view.js"
 * @import { Cell } from "./atlas_axes.js"
 * @typedef {{ x: number, y: number }} Pixel of the map, from its upper left corner
 *
 * @typedef {object} Place what is moved
 * @property {() => View} view what is seen now
 * @property {() => Frame} frame
 * @property {() => { left: number, top: number }} margins
 * @property {() => Cell} pointed
 * @property {() => number} block weights along the edge of a cell as it is drawn
 * @property {(view: View | null) => void} go stand elsewhere; null: show all
 * @property {(cell: Cell) => void} point
 * @property {(cell: Cell) => void} pick
 * @property {() => void} drop nothing is chosen any more
 */

/** @type {Cell} */
const NOWHERE = { query: null, key: null };
const STILL = 4; // pixels that a finger may move in a click
/** @type {Record<string, [number, number]>} right, down */
const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Listens on a map and on its overview. */
export class Hands {
  /** @type {Map<number, Pixel>} */
  #fingers = new Map();
  #dragged = 0;
  #pinched = { query: 0, key: 0, scale: 1, apart: 1 };

  /** @param {HTMLCanvasElement} map @param {HTMLCanvasElement} overview @param {Place} place */
  constructor(map, overview, place) {
    this.map = map;
    this.place = place;
    this.#listen();
    this.#listenTo(overview);
  }

  /** The pixel of the map at a pixel of the window. @param {MouseEvent} event @returns {Pixel} */
  #pixel({ clientX, clientY }) {
    const box = this.map.getBoundingClientRect();
    const { left, top } = this.place.margins();
    return { x: clientX - box.left - left, y: clientY - box.top - top };
  }

  /** @param {Pixel} pixel @returns {Cell} */
  #cell({ x, y }) {
    const [view, frame] = [this.place.view(), this.place.frame()];
    const start = corner(view, frame);
    const [query, key] = [Math.floor(start.query + y / view.scale), Math.floor(start.key + x / view.scale)];
    const inside = x >= 0 && y >= 0 && x < frame.width && y < frame.height;
    return inside && query < frame.queries && key < frame.keys ? { query, key } : NOWHERE;
  }

  #listen() {
    const { map, place } = this;
    map.addEventListener("wheel", (event) => this.#turn(event), { passive: false });
    map.addEventListener("dblclick", (event) => {
      const { x, y } = this.#pixel(event);
      place.go(zoomed(place.view(), place.frame(), 2, x, y));
    });
    map.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      if (this.#fingers.size === 0) this.#dragged = 0;
      this.#fingers.set(event.pointerId, this.#pixel(event));
      if (this.#fingers.size === 2) this.#pinch();
      map.setPointerCapture(event.pointerId);
    });
    map.addEventListener("pointermove", (event) => this.#drag(event));
    map.addEventListener("pointerup", (event) => {
      const one = this.#fingers.size === 1 && this.#fingers.has(event.pointerId);
      this.#lift(event);
      if (!one || this.#dragged > STILL) return;
      const cell = this.#cell(this.#pixel(event));
      place.point(cell);
      place.pick(cell);
    });
    map.addEventListener("pointercancel", (event) => this.#lift(event));
    map.addEventListener("pointerleave", () => this.#fingers.size === 0 && place.point(NOWHERE));
    map.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (this.press(event.key, event.shiftKey)) event.preventDefault();
    });
  }

  /** @param {HTMLCanvasElement} overview */
  #listenTo(overview) {
    const jump = (/** @type {MouseEvent} */ event) => {
      const box = overview.getBoundingClientRect();
      const frame = this.place.frame();
      const query = ((event.clientY - box.top) / box.height) * frame.queries;
      const key = ((event.clientX - box.left) / box.width) * frame.keys;
      this.place.go(within({ query, key, scale: this.place.view().scale }, frame));
    };
    overview.addEventListener("pointerdown", (event) => {
      overview.setPointerCapture(event.pointerId);
      jump(event);
    });
    overview.addEventListener("pointermove", (event) => event.buttons === 1 && jump(event));
  }

  /** @param {WheelEvent} event */
  #turn(event) {
    const { place } = this;
    const far = event.deltaY * (event.deltaMode === 1 ? 20 : 1);
    const factor = Math.exp(-Math.max(-200, Math.min(200, far)) * 0.0025);
    // At the end of its range the wheel scrolls the page, as elsewhere.
    if (factor < 1 && isWhole(place.view(), place.frame())) return;
    event.preventDefault();
    const { x, y } = this.#pixel(event);
    place.go(zoomed(place.view(), place.frame(), factor, x, y));
    place.point(this.#cell({ x, y }));
  }

  /** @param {PointerEvent} event */
  #drag(event) {
    const { place } = this;
    const pixel = this.#pixel(event);
    const before = this.#fingers.get(event.pointerId);
    if (before === undefined) {
      place.point(this.#cell(pixel));
      return;
    }
    this.#dragged += Math.hypot(pixel.x - before.x, pixel.y - before.y);
    this.#fingers.set(event.pointerId, pixel);
    if (this.#dragged <= STILL) return;
    this.map.classList.add("drags");
    const frame = place.frame();
    if (this.#fingers.size === 1) {
      place.go(moved(place.view(), frame, before.x - pixel.x, before.y - pixel.y));
      place.point(this.#cell(pixel));
      return;
    }
    // The weight that was between two fingers stays between them.
    const { x, y, apart } = this.#between();
    const { query, key } = this.#pinched;
    const scale = this.#pinched.scale * (apart / this.#pinched.apart);
    const [right, down] = [(x - frame.width / 2) / scale, (y - frame.height / 2) / scale];
    place.go(within({ query: query - down, key: key - right, scale }, frame));
    place.point(NOWHERE);
  }

  /** The middle of two fingers, and how far they are apart. */
  #between() {
    const [a, b] = [...this.#fingers.values()];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, apart: Math.max(10, Math.hypot(a.x - b.x, a.y - b.y)) };
  }

  /** Two fingers are down: what is between them. */
  #pinch() {
    const { x, y, apart } = this.#between();
    const { scale } = this.place.view();
    const start = corner(this.place.view(), this.place.frame());
    this.#pinched = { query: start.query + y / scale, key: start.key + x / scale, scale, apart };
  }

  /** @param {PointerEvent} event */
  #lift(event) {
    this.#fingers.delete(event.pointerId);
    this.map.classList.remove("drags");
  }

  // ── keys ──────────────────────────────────────────────────────────────────────────────────────

  /** What a key does; false if it does nothing here. @param {string} key @param {boolean} stepwise */
  press(key, stepwise = false) {
    const { place } = this;
    if (key in WAYS) this.#arrow(...WAYS[key], stepwise);
    else if (key === "+" || key === "=") this.#nearer(1.5);
    else if (key === "-" || key === "_") this.#nearer(1 / 1.5);
    else if (key === "0") place.go(null);
    else if (key === "Home") {
      place.go(within({ query: 0, key: 0, scale: place.view().scale }, place.frame()));
      place.point({ query: 0, key: 0 });
    } else if (key === "Enter") place.pick(place.pointed());
    else if (key === "Escape") {
      if (place.pointed().query === null) place.drop();
      place.point(NOWHERE);
    } else return false;
    return true;
  }

  /** @param {number} right @param {number} down @param {boolean} stepwise */
  #arrow(right, down, stepwise) {
    const [view, frame] = [this.place.view(), this.place.frame()];
    const [count, pixels] = right !== 0 ? [frame.keys, frame.width] : [frame.queries, frame.height];
    if (stepwise || count * view.scale <= pixels + 1) {
      this.#step(right, down);
      return;
    }
    const far = Math.max(view.scale, Math.min(frame.width, frame.height) / 8);
    this.place.go(moved(view, frame, right * far, down * far));
    this.place.point(this.#middle());
  }

  /** @param {number} factor */
  #nearer(factor) {
    const { place } = this;
    const [view, frame] = [place.view(), place.frame()];
    const { query, key } = place.pointed().query === null ? this.#middle() : place.pointed();
    const start = corner(view, frame);
    const x = ((key ?? 0) + 0.5 - start.key) * view.scale;
    const y = ((query ?? 0) + 0.5 - start.query) * view.scale;
    place.go(zoomed(view, frame, factor, x, y));
  }

  /** @returns {{ query: number, key: number }} */
  #middle() {
    const [{ query, key }, { queries, keys }] = [this.place.view(), this.place.frame()];
    return { query: Math.min(queries - 1, Math.floor(query)), key: Math.min(keys - 1, Math.floor(key)) };
  }

  /** Point at the next cell, and keep it in sight. @param {number} right @param {number} down */
  #step(right, down) {
    const { place } = this;
    const [view, frame, size, from] = [place.view(), place.frame(), place.block(), place.pointed()];
    if (from.query === null || from.key === null) {
      place.point(this.#middle());
      return;
    }
    const query = Math.min(frame.queries - 1, Math.max(0, from.query + down * size));
    const key = Math.min(frame.keys - 1, Math.max(0, from.key + right * size));
    place.point({ query, key });
    const near = (/** @type {number} */ middle, /** @type {number} */ at, /** @type {number} */ half) =>
      Math.min(Math.max(middle, at + size - half), at + half);
    const next = within({
      query: near(view.query, query, frame.height / view.scale / 2),
      key: near(view.key, key, frame.width / view.scale / 2),
      scale: view.scale,
    }, frame);
    if (next.query !== view.query || next.key !== view.key) place.go(next);
  }
}
