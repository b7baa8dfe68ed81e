// Which word stands in which row, on the left as a query, on the right as a key.

import { tokensOf } from "./source.js";
import { names } from "./text_pieces.js";

/**
 * @import { RunInfo } from "./source.js"
 * @typedef {"from" | "to"} Way on the left, where links are from; on the right, where they lead to
 */

/** The rows of one layer and one sequence: a word is in the same row on both sides, padding in none. */
export class Rows {
  /** @param {RunInfo} info @param {number} sequence @param {number} layer */
  constructor(info, sequence, layer) {
    const { cross, queries, keys, position, real } = info.layers[layer];
    const isReal = real[sequence] ?? null;
    const shown = Array.from({ length: keys }, (_, n) => n).filter((n) => isReal === null || isReal[n]);
    const { from, to } = tokensOf(info, sequence, layer);
    this.cross = cross;
    this.position = cross ? 0 : position;
    this.named = from !== null && to !== null;
    this.count = cross ? Math.max(queries, shown.length) : shown.length;
    /** The query and the key of each row, −1 if there is none, and the rows of these. */
    this.queryOf = new Int32Array(this.count).fill(-1);
    this.keyOf = new Int32Array(this.count).fill(-1);
    this.ofQuery = new Int32Array(queries).fill(-1);
    this.ofKey = new Int32Array(keys).fill(-1);
    for (let row = 0; row < this.count; row++) {
      const key = row < shown.length ? shown[row] : -1;
      const query = cross ? row : key - position;
      if (key >= 0) [this.keyOf[row], this.ofKey[key]] = [key, row];
      if (query >= 0 && query < queries) [this.queryOf[row], this.ofQuery[query]] = [query, row];
    }
    /** @type {Record<Way, string[] | null>} */
    this.names = { from: from && names(from), to: to && names(to) };
  }

  /** Whether words need numbers to be found. */
  get isLong() {
    return this.count > 40;
  }

  /** The position in its sequence of the word in a row; −1: there is none. @param {number} row @param {Way} way */
  place(row, way) {
    if (way === "to") return this.keyOf[row];
    return this.queryOf[row] < 0 ? -1 : this.queryOf[row] + this.position;
  }

  /** What the word in a row is called. @param {number} row @param {Way} way @returns {string} */
  name(row, way) {
    const place = this.place(row, way);
    return place < 0 ? "" : (this.names[way]?.[place] ?? String(place));
  }

  /** The row of a position; −1: there is none. @param {number} place @param {Way} way @returns {number} */
  at(place, way) {
    return (way === "to" ? this.ofKey[place] : this.ofQuery[place - this.position]) ?? -1;
  }
}
