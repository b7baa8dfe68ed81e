// A number in the hand: dragged up or down, or stepped by keys; what it would become is shown beside it.

import { figure } from "./arithmetic.js";
import { el, visible } from "./dom.js";
import { onScreen } from "./flow_camera.js";
import { withChange } from "./flow_changes.js";
import { labelsOf } from "./flow_source.js";
import { word } from "./words.js";

/**
 * @typedef {import("./flow_changes.js").Change} Change
 * @typedef {import("./flow_draw.js").Cell} Cell
 * @typedef {import("./flow_draw.js").Scene} Scene
 * @typedef {import("./flow_store.js").Store} Store
 */

const STEP = 10; // pixels that a key is worth
const REST = 500; // milliseconds after a key until a pass of a model is computed

export class Hand {
  /** The changes with the one that is being made; null: the hand is empty. @type {Change[] | null} */
  live = null;
  #cell = { stage: "", row: 0, column: 0 };
  #head = 0;
  /** @type {"score" | "number"} */
  #kind = "score";
  #value = 0;
  #now = 0;
  #each = 0; // of a pixel
  #rest = 0;
  /** What it was and is, beside the cell. */
  bubble = el("output", { class: "held", hidden: true });

  /** @param {Store} store @param {Cell} cell @param {number} head @param {"score" | "number"} kind @returns {boolean} whether it can be moved */
  take(store, { stage, row, column }, head, kind) {
    const value = store.value(stage, head, row, column);
    const shades = store.shades(stage, head);
    const own = store.headOf(stage, head);
    if (typeof value !== "number" || !Number.isFinite(value) || shades === null || own === null) return false;
    [this.#cell, this.#head, this.#kind, this.#value] = [{ stage, row, column }, own, kind, value];
    [this.#each, this.#now] = [Math.max(1, shades.most - shades.least) / 100, value];
    return true;
  }

  /** It is another number than what was computed. @param {number} value */
  from(value) {
    this.#value = this.#now = value;
  }

  /** @param {Change[]} changes that are made already @param {number} up pixels from where it was taken */
  move(changes, up) {
    this.#now = Number((this.#value + up * this.#each).toFixed(2));
    this.live = withChange(changes, { kind: this.#kind, ...this.#cell, head: this.#head, value: this.#now });
  }

  /**
   * A key has been pressed: the number goes on from where keys have brought it.
   * @param {Change[]} changes @param {number} by steps @param {(() => void) | null} rested to be called when no other key follows
   */
  step(changes, by, rested) {
    this.move(changes, ((this.#now - this.#value) / this.#each) + by * STEP);
    clearTimeout(this.#rest);
    if (rested !== null) this.#rest = setTimeout(rested, REST);
  }

  /** Is it this cell that is in the hand? @param {Cell} cell */
  holds({ stage, row, column }) {
    return this.live !== null && this.#cell.stage === stage && this.#cell.row === row && this.#cell.column === column;
  }

  /** Lay it down. @returns {Change[] | null} the changes with it */
  drop() {
    const { live } = this;
    clearTimeout(this.#rest);
    this.live = null;
    return live;
  }

  /** Show what is in the hand, above its cell. @param {HTMLElement} parent @param {Scene} scene */
  show(parent, { plan, camera, store, width }) {
    const box = plan.boxes.find((each) => each.stage === this.#cell.stage && each.kind === "matrix");
    this.bubble.hidden = this.live === null || box === undefined;
    if (this.bubble.hidden || box === undefined) return;
    const { rows, columns, row_labels, column_labels } = store.outline.stages[box.stage];
    const area = onScreen(camera, box);
    const { row, column } = this.#cell;
    const label = (/** @type {import("./flow_source.js").Labels} */ labels, /** @type {number} */ count, /** @type {number} */ n) =>
      visible(labelsOf(store.outline, labels, count)[n]);
    this.bubble.textContent = word("flow.held", {
      row: label(row_labels, rows, row), column: label(column_labels, columns, column), before: figure(this.#value), now: figure(this.#now),
    });
    const x = area.x + ((column + 0.5) * area.width) / columns;
    this.bubble.style.left = `${Math.min(Math.max(x, 90), Math.max(90, width - 90))}px`;
    this.bubble.style.top = `${Math.max(34, area.y + (row * area.height) / rows - 6)}px`;
    if (this.bubble.parentElement !== parent) parent.append(this.bubble);
  }
}

/** What was changed before, to be taken back step by step. */
export class Past {
  /** @type {string[]} */
  #before = [];
  /** @type {string[]} */
  #after = [];
  #last = "";

  get empty() {
    return this.#before.length === 0;
  }

  /** Something is about to be changed. @param {string} now the changes so far @param {string} doing "": a step of its own, else one with
   * those that are called the same */
  add(now, doing) {
    if (doing === "" || doing !== this.#last) this.#before.push(now);
    this.#last = doing;
    this.#after = [];
  }

  /** @param {string} now @returns {string | null} the changes from before */
  back(now) {
    return this.#go(this.#before, this.#after, now);
  }

  /** @param {string} now @returns {string | null} what was taken back last */
  forth(now) {
    return this.#go(this.#after, this.#before, now);
  }

  /** @param {string[]} from @param {string[]} to @param {string} now @returns {string | null} */
  #go(from, to, now) {
    const found = from.pop();
    this.#last = "";
    if (found === undefined) return null;
    to.push(now);
    return found;
  }

  forget() {
    [this.#before, this.#after, this.#last] = [[], [], ""];
  }
}
