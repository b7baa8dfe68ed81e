// How a reader changes a pass: by dragging, by keys, in a field; and how that is taken back.

import { hasChange, readChanges, withChange, withoutChange, writeChanges } from "./flow_changes.js";
import { Hand, Past } from "./flow_hand.js";
import { changeOf } from "./flow_hit.js";
import { swapField, whyNot, wordAt } from "./flow_swap.js";

/**
 * @typedef {import("./flow_changes.js").Change} Change
 * @typedef {import("./flow_draw.js").Cell} Cell
 * @typedef {import("./flow_draw.js").Scene} Scene
 * @typedef {import("./flow_panes.js").Pane} Pane
 * @typedef {import("./flow_store.js").Store} Store
 *
 * The element, as far as it is asked here.
 * @typedef {object} Host
 * @property {() => string} said the changes of the address
 * @property {(changes: string | null) => void} say others
 * @property {() => Store} store of the pass that is shown
 * @property {() => number} head
 * @property {() => Cell | null} cell
 * @property {() => Pane} pane
 * @property {(pane: Pane) => Scene} scene
 * @property {() => void} settle what is changed is to be computed
 * @property {() => void} draw
 * @property {(text: string) => void} tell
 * @property {import("./flow_answer.js").FlowAnswer["edit"]} field for a number
 */

const CUT = ["weights", "scaled"]; // parts whose cells are links

export class Changer {
  hand = new Hand();
  past = new Past();
  #host;
  #fields = 0;

  /** @param {Host} host */
  constructor(host) {
    this.#host = host;
  }

  /** Changes that are made. */
  get #made() {
    return readChanges(this.#host.said());
  }

  /** The same, with what is in the hand. */
  get all() {
    return this.hand.live ?? this.#made;
  }

  get #outline() {
    return this.#host.store().outline;
  }

  /** A pass of a model takes longer than a frame: it is computed when the hand rests. */
  get #quick() {
    return this.#outline.kind === "attention";
  }

  /** The changes that are to be computed now. */
  get wanted() {
    const { live } = this.hand;
    return live !== null && this.#quick ? live : this.#made;
  }

  /** @param {Change[]} changes @param {string} [doing] "": a step by itself */
  #put(changes, doing = "") {
    this.past.add(this.#host.said(), doing);
    this.#host.say(writeChanges(changes) || null);
  }

  /** @param {Change} change @param {string} [doing] */
  make(change, doing) {
    this.#put(withChange(this.#made, change), doing);
  }

  /** @param {Change} change */
  unmake(change) {
    this.#put(withoutChange(this.#made, change));
  }

  reset() {
    this.#put([]);
  }

  /** @param {boolean} back or forth again */
  undo(back) {
    const found = back ? this.past.back(this.#host.said()) : this.past.forth(this.#host.said());
    if (found !== null) this.#host.say(found || null);
  }

  // ── numbers ────────────────────────────────────────────────────────────────────────────────────

  /** Can the number in a cell be another? @param {Cell | null} cell */
  can(cell) {
    return cell === null ? null : changeOf(this.#outline, cell.stage);
  }

  /** @param {Store} store @param {Cell} cell @returns {boolean} whether it can be dragged */
  grab(store, cell) {
    const kind = this.can(cell);
    return kind !== null && this.hand.take(store, cell, this.#host.head(), kind);
  }

  /** @param {number} up pixels */
  drag(up) {
    this.hand.move(this.#made, up);
    this.#quick ? this.#host.settle() : this.#host.draw();
  }

  /** @param {boolean} kept or left as it was */
  drop(kept) {
    const changes = this.hand.drop();
    if (changes !== null && kept) this.#put(changes);
    else this.#host.settle();
  }

  /** A little more or less in the chosen cell. @param {number} by steps @returns {boolean} whether it can be changed */
  step(by) {
    const cell = this.#host.cell();
    if (cell === null || this.can(cell) === null) return false;
    if (!this.hand.holds(cell)) {
      this.drop(true);
      const own = this.#made.find((each) => (each.kind === "score" || each.kind === "number") && each.stage === cell.stage
        && each.row === cell.row && each.column === cell.column && each.head === this.#host.store().headOf(cell.stage, this.#host.head()));
      if (!this.grab(this.#host.store(), cell)) return true;
      // What was said a moment ago may not be computed yet.
      if (own !== undefined && "value" in own) this.hand.from(own.value);
    }
    this.hand.step(this.#made, by, this.#quick ? null : () => this.drop(true));
    if (this.#quick) this.#put(/** @type {Change[]} */ (this.hand.drop()), `step ${cell.stage} ${cell.row} ${cell.column}`);
    else this.#host.draw();
    return true;
  }

  /** Let another number be written into the chosen cell. @returns {boolean} whether it can be */
  edit() {
    const cell = this.#host.cell();
    const kind = this.can(cell);
    const store = this.#host.store();
    if (cell === null || kind === null) return false;
    const head = store.headOf(cell.stage, this.#host.head());
    const value = store.value(cell.stage, this.#host.head(), cell.row, cell.column);
    if (typeof value !== "number" || head === null) return false;
    const [doing, before] = [`field ${++this.#fields}`, this.#host.said()];
    const set = (/** @type {number} */ next) => this.make({ kind, ...cell, head, value: next }, doing);
    const restore = () => {
      if (this.#host.said() !== before) this.undo(true);
    };
    const pane = this.#host.pane();
    this.#host.field(pane, this.#host.scene(pane), cell, value, { set, restore, each: this.#quick });
    return true;
  }

  // ── links and words ────────────────────────────────────────────────────────────────────────────

  /** A query sees a key no more, or sees it again. @param {Cell | null} cell */
  cut(cell) {
    const { stages, changes } = this.#outline;
    if (cell === null || !CUT.includes(stages[cell.stage].part) || !changes.includes("cut")) return;
    /** @type {Change} */
    const change = { kind: "cut", attention: stages[cell.stage].attention, head: this.#host.head(), row: cell.row, column: cell.column };
    hasChange(this.#made, change) ? this.unmake(change) : this.make(change);
  }

  /** Let another word be written in the place of the one that a row stands for. @param {{ stage: string, row: number }} place */
  swap(place) {
    const now = wordAt(this.#outline, place.stage, place.row, this.#made);
    if (now === null) {
      this.#host.tell(whyNot(this.#outline, place.stage, place.row));
      return;
    }
    const pane = this.#host.pane();
    swapField(pane, this.#host.scene(pane), place, now, (text) => {
      // Another word may have other pieces: then scores and links of a model are no longer where they were.
      const kept = this.#made.filter(({ kind }) => this.#quick || (kind !== "score" && kind !== "cut"));
      this.#put(withChange(kept, { kind: "word", position: now.position, text }));
    });
  }
}
