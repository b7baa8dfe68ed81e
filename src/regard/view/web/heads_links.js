// The strongest links of one head, found by their query, by their key, and by their weight.

/** @import { Links } from "./source.js" */

/** Weights that links can be asked to have at least. */
export const STEPS = [
  0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1,
];

/** A link is a number n: `weights[n]` from query ⌊n / count⌋ on `keys[n]`, which is −1 if there is none. */
export class HeadLinks {
  /** @param {Links} links @param {number} keys how many there are
   * @param {(query: number) => boolean} counts whether a query is no padding */
  constructor({ count, keys: given, weights }, keys, counts) {
    const found = given.slice();
    this.count = count;
    this.keys = found;
    this.weights = weights;
    /** How many links there are with each of STEPS, at least. */
    this.tally = new Array(STEPS.length).fill(0);
    /** Where the links of each key start in `order`, which has them by key, then by query. */
    this.start = new Int32Array(keys + 1);
    for (let n = 0; n < found.length; n++) {
      if (found[n] < 0) continue;
      if (!counts(Math.floor(n / count))) {
        found[n] = -1;
        continue;
      }
      this.start[found[n] + 1]++;
      for (let step = 0; step < STEPS.length && weights[n] >= STEPS[step]; step++) this.tally[step]++;
    }
    for (let key = 0; key < keys; key++) this.start[key + 1] += this.start[key];
    this.order = new Int32Array(this.start[keys]);
    const next = this.start.slice(0, keys);
    for (let n = 0; n < found.length; n++) if (found[n] >= 0) this.order[next[found[n]]++] = n;
    /** In `order`, the strongest link of the key up to this one, and from this one on. */
    this.strongestUpTo = Int32Array.from(this.order);
    this.strongestFrom = Int32Array.from(this.order);
    for (let key = 0; key < keys; key++) {
      const [first, last] = [this.start[key], this.start[key + 1] - 1];
      for (let n = first + 1; n <= last; n++) this.#keepStronger(this.strongestUpTo, n, n - 1);
      for (let n = last - 1; n >= first; n--) this.#keepStronger(this.strongestFrom, n, n + 1);
    }
  }

  /** @param {Int32Array} list @param {number} at @param {number} other */
  #keepStronger(list, at, other) {
    if (this.weights[list[other]] > this.weights[list[at]]) list[at] = list[other];
  }

  /** @param {number} link */
  query(link) {
    return Math.floor(link / this.count);
  }

  /** How many links have at least this weight. @param {number} least @returns {number} */
  atLeast(least) {
    const step = STEPS.indexOf(least);
    if (step >= 0) return this.tally[step];
    let sum = 0;
    for (const link of this.order) if (this.weights[link] >= least) sum++;
    return sum;
  }

  /** The links of a query. @param {number} query @returns {number[]} */
  ofQuery(query) {
    const found = [];
    for (let n = query * this.count; n < (query + 1) * this.count; n++) if (this.keys[n] >= 0) found.push(n);
    return found;
  }

  /** The links of a key, by query. @param {number} key @returns {Int32Array} */
  ofKey(key) {
    return this.order.subarray(this.start[key], this.start[key + 1]);
  }

  /**
   * Of a key: its links from queries `first` to `end`, without this, and the strongest from those before
   * and from those behind, −1 if there is none.
   * @param {number} key @param {number} first @param {number} end
   */
  around(key, first, end) {
    const own = this.ofKey(key);
    const [from, to] = [this.#firstFrom(own, first), this.#firstFrom(own, end)];
    const at = this.start[key];
    return {
      before: from > 0 ? this.strongestUpTo[at + from - 1] : -1,
      within: own.subarray(from, to),
      behind: to < own.length ? this.strongestFrom[at + to] : -1,
    };
  }

  /** @param {Int32Array} links @param {number} query */
  #firstFrom(links, query) {
    let [low, high] = [0, links.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.query(links[middle]) < query) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
