// The pass before the changes, and the one after them: two stores, or one where nothing is changed.

import { writeChanges } from "./flow_changes.js";
import { Store } from "./flow_store.js";
import { why } from "./told.js";
import { word, wordParts } from "./words.js";

/**
 * @typedef {import("./flow_source.js").FlowSource} FlowSource
 * @typedef {import("./flow_changes.js").Change} Change
 */

export class Passes {
  /** @type {FlowSource | null} */
  #source = null;
  #changes = "";
  /** @type {[Store, Store] | null} */
  #stores = null;
  #asked = 0;
  /** Why the changes could not be made; nothing: they are. @type {(string | Node)[]} */
  refused = [];
  /** Have both passes matrices of the same shapes? */
  alike = true;

  /** @param {() => void} ready something new is there */
  constructor(ready) {
    this.ready = ready;
  }

  get known() {
    return this.#stores !== null;
  }

  get before() {
    return /** @type {[Store, Store]} */ (this.#stores)[0];
  }

  get after() {
    return /** @type {[Store, Store]} */ (this.#stores)[1];
  }

  /** Have both for a source and changes. @param {FlowSource} source @param {Change[]} changes @param {number} head
   * @returns {Promise<boolean>} false: others are wanted by now */
  async settle(source, changes, head) {
    const asked = ++this.#asked;
    const text = writeChanges(changes);
    if (source === this.#source && text === this.#changes) return true;
    const before = source === this.#source && this.#stores !== null ? this.#stores[0] : new Store(source, this.ready);
    /** @type {(string | Node)[]} */
    let refused = [];
    /** @type {FlowSource | null} */
    let changed = source;
    if (changes.length > 0) {
      try {
        changed = await source.changed(changes);
        if (changed === null) refused = [word("flow.no.changes")];
      } catch (error) {
        [changed, refused] = [null, wordParts("flow.refused", { why: why(error) })];
      }
    }
    const after = changed === null || changed === source ? before : new Store(changed, this.ready);
    // What is small is there before it is shown, so that nothing flickers.
    if (source.outline.kind === "attention") await Promise.all([before.warm(head), after.warm(head)]);
    if (asked !== this.#asked) return false;
    [this.#source, this.#changes, this.#stores] = [source, text, [before, after]];
    [this.refused, this.alike] = [refused, before === after || areAlike(before.outline, after.outline)];
    return true;
  }
}

/** @param {import("./flow_source.js").Outline} one @param {import("./flow_source.js").Outline} other */
function areAlike(one, other) {
  return Object.entries(one.stages).every(([name, { rows, columns, heads }]) => {
    const found = other.stages[name];
    return found !== undefined && found.rows === rows && found.columns === columns && found.heads === heads;
  });
}
