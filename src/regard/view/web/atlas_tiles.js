// The tiles of an atlas: asked for once, a few at a time, kept while they are used, painted once.

import { TILE } from "./source.js";
import { paint } from "./scale.js";

/**
 * @import { Tile } from "./source.js"
 * @import { Range } from "./scale.js"
 * @import { Spot } from "./atlas_view.js"
 * @typedef {{ key: string, spot: Spot, ask: () => Promise<Tile> }} Wanted
 * @typedef {{ diagonal: number | null, sink: number | null }} Mask what is left out: keys that stand
 *   so many places after their query; one key
 */

/** A tile that is here, and its picture. */
export class Kept {
  #painted = "";
  /** @type {Map<string, number>} */
  #most = new Map();
  /** @type {HTMLCanvasElement | null} */
  #canvas = null;
  /** Whether something is left open in its picture. */
  holes = false;

  /** @param {Tile} tile @param {Spot} spot */
  constructor({ values, height, width }, spot) {
    this.values = values;
    this.height = height;
    this.width = width;
    this.spot = spot;
  }

  /** The weight of the block that holds (query, key); NaN where it is not known.
   * @param {number} query @param {number} key */
  at(query, key) {
    const { level, row, column } = this.spot;
    const [r, c] = [Math.floor(query / 2 ** level) - row * TILE, Math.floor(key / 2 ** level) - column * TILE];
    return r < 0 || c < 0 || r >= this.height || c >= this.width ? NaN : this.values[r * this.width + c];
  }

  /** The largest weight that is not masked. @param {Mask} mask */
  most(mask) {
    const name = `${mask.diagonal} ${mask.sink}`;
    let most = this.#most.get(name);
    if (most === undefined) {
      most = 0;
      for (let r = 0; r < this.height; r++) {
        const skip = masked(this.spot, r, mask);
        for (let c = 0; c < this.width; c++) {
          const weight = this.values[r * this.width + c];
          if (weight > most && !skip(c)) most = weight;
        }
      }
      this.#most.set(name, most);
    }
    return most;
  }

  /** Is there a picture of these colours already? @param {string} look */
  isPainted(look) {
    return this.#painted === look;
  }

  /** The last picture, of whichever colours; null before the first. */
  get picture() {
    return this.#canvas;
  }

  /** A picture of one pixel a cell; nothing where the weight is masked or not known.
   * @param {string} look names all that the picture depends on @param {Range} range @param {Mask} mask
   * @param {Uint8ClampedArray} colours */
  paint(look, range, mask, colours) {
    this.#canvas ??= document.createElement("canvas");
    const leftOut = (/** @type {number} */ row) => masked(this.spot, row, mask);
    this.holes = paint(this.#canvas, this.values, this.height, this.width, range, colours, leftOut);
    this.#painted = look;
  }
}

/** Which cells of a row of a tile hold a masked weight. @param {Spot} spot @param {number} r
 * @param {Mask} mask @returns {(c: number) => boolean} */
export function masked({ level, row, column }, r, { diagonal, sink }) {
  const size = 2 ** level;
  const query = (row * TILE + r) * size;
  const start = column * TILE;
  const from = diagonal === null ? Infinity : Math.floor((query + diagonal) / size) - start;
  const to = diagonal === null ? -Infinity : Math.floor((query + size - 1 + diagonal) / size) - start;
  const first = sink === null ? NaN : Math.floor(sink / size) - start;
  return (c) => (c >= from && c <= to) || c === first;
}

/** What was asked for: kept up to a number, the longest unused given away first. */
export class Tiles {
  /** @type {Map<string, Kept>} */
  #kept = new Map();
  /** @type {Set<string>} */
  #asked = new Set();
  /** @type {Map<string, unknown>} */
  #failed = new Map();
  /** @type {Wanted[]} */
  #queue = [];

  /** @param {() => void} ready called when a tile has come @param {number} limit @param {number} atOnce */
  constructor(ready, limit = 256, atOnce = 4) {
    this.ready = ready;
    this.limit = limit;
    this.atOnce = atOnce;
  }

  /** @param {string} key @returns {Kept | undefined} */
  find(key) {
    const found = this.#kept.get(key);
    if (found !== undefined) {
      this.#kept.delete(key);
      this.#kept.set(key, found);
    }
    return found;
  }

  /** How many are here. */
  get size() {
    return this.#kept.size;
  }

  /** Is something still to come of what is wanted? */
  get waiting() {
    return this.#queue.length > 0 || this.#asked.size > 0;
  }

  /** Why a tile did not come; null if all did. @returns {unknown} */
  get problem() {
    return this.#failed.size > 0 ? [...this.#failed.values()][0] : null;
  }

  /** Ask again for those that did not come. */
  retry() {
    this.#failed.clear();
  }

  /** What is wanted now, the most urgent first; what was wanted before and not asked for is forgotten.
   * @param {Wanted[]} wanted */
  want(wanted) {
    const missing = wanted.filter(({ key }) => !this.#kept.has(key) && !this.#asked.has(key) && !this.#failed.has(key));
    this.#queue = [...new Map(missing.map((each) => [each.key, each])).values()];
    while (this.#asked.size < this.atOnce) {
      const next = this.#queue.shift();
      if (next === undefined) return;
      this.#load(next);
    }
  }

  /** @param {Wanted} wanted */
  async #load({ key, spot, ask }) {
    this.#asked.add(key);
    try {
      this.#kept.set(key, new Kept(await ask(), spot));
      for (const oldest of this.#kept.keys()) {
        if (this.#kept.size <= this.limit) break;
        this.#kept.delete(oldest);
      }
    } catch (error) {
      this.#failed.set(key, error);
    }
    this.#asked.delete(key);
    this.want(this.#queue);
    this.ready();
  }
}
