// A run that is in the page itself: its parts are packed bytes, unpacked when they are asked for.

import { inPieces, pause } from "./pause.js";
import { TILE } from "./source.js";

/**
 * @import { Links, RunInfo, RunSource, Tile } from "./source.js"
 * @typedef {{ type: "u1" | "u2" | "i4" | "f4", shape: number[] }} PartInfo
 * @typedef {{ data: Uint8Array | Uint16Array | Int32Array | Float32Array, shape: number[] }} Part
 */

/** The manifest of a page, without its parts. @returns {any} */
export function manifest() {
  return JSON.parse(document.getElementById("regard-data")?.textContent ?? "null");
}

/** @type {Map<string, Promise<Part>>} */
const unpacked = new Map();

/** @param {Record<string, PartInfo>} parts @param {string} name @returns {Promise<Part>} */
export function part(parts, name) {
  let found = unpacked.get(name);
  if (found === undefined) {
    found = unpack(parts[name], name);
    unpacked.set(name, found);
  }
  return found;
}

/** @param {PartInfo} info @param {string} name @returns {Promise<Part>} */
async function unpack(info, name) {
  const text = document.getElementById(`regard-part-${name}`)?.textContent ?? "";
  const bytes = await decoded(text.trim());
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const types = { u1: Uint8Array, u2: Uint16Array, i4: Int32Array, f4: Float32Array };
  return { data: new types[info.type](buffer), shape: info.shape };
}

/** The bytes of a text in base 64, in pieces. @param {string} text @returns {Promise<Uint8Array<ArrayBuffer>>} */
async function decoded(text) {
  const piece = 1 << 18;
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const bytes = new Uint8Array((text.length / 4) * 3 - padding);
  const decode = (/** @type {number} */ n) => {
    const letters = atob(text.slice(n * piece, (n + 1) * piece));
    const start = ((n * piece) / 4) * 3;
    for (let k = 0; k < letters.length; k++) bytes[start + k] = letters.charCodeAt(k);
  };
  await inPieces(Math.ceil(text.length / piece), decode, () => true);
  return bytes;
}

/** A run that is whole in this page, or the strongest part of it. */
export class EmbeddedRun {
  /** @param {{ info: RunInfo, parts: Record<string, PartInfo> }} content */
  constructor({ info, parts }) {
    /** @type {RunInfo} */
    this.info = info;
    this.parts = parts;
    const predictions = info.predictions ?? null;
    /** @type {RunSource["predictions"]} */
    this.predictions = predictions === null ? undefined : async () => predictions;
    const lens = info.lens ?? null;
    /** @type {RunSource["lens"]} */
    this.lens = lens === null ? undefined : async () => lens;
    /** @type {RunSource["why"]} */
    this.why = undefined;
  }

  /** A weight of whole numbers, as they are kept. @param {Part["data"]} data */
  static #unit(data) {
    return data instanceof Uint16Array ? 1 / 65535 : data instanceof Uint8Array ? 1 / 255 : 1;
  }

  /** The weights of one head, of a part (sequences × heads × …). @param {Part} part @param {number} sequence
   * @param {number} head */
  static #ofHead({ data, shape }, sequence, head) {
    const size = shape[2] * shape[3];
    const start = (sequence * shape[1] + head) * size;
    const unit = EmbeddedRun.#unit(data);
    return Float32Array.from(data.subarray(start, start + size), (x) => x * unit);
  }

  /** All weights of one head, (queries × keys). @param {number} sequence @param {number} layer
   * @param {number} head */
  async #weights(sequence, layer, head) {
    return EmbeddedRun.#ofHead(await part(this.parts, `weights-${layer}`), sequence, head);
  }

  /** @param {number} layer @param {number | null} head */
  #heads(layer, head) {
    return head === null ? Array.from({ length: this.info.layers[layer].heads }, (_, n) => n) : [head];
  }

  /** @type {RunSource["row"]} */
  row = async (sequence, layer, head, query) => {
    const { keys } = this.info.layers[layer];
    const weights = new Float32Array(keys);
    const heads = this.#heads(layer, head);
    if (this.info.whole) {
      const { data, shape } = await part(this.parts, `weights-${layer}`);
      const unit = EmbeddedRun.#unit(data) / heads.length;
      for (const one of heads) {
        const start = ((sequence * shape[1] + one) * shape[2] + query) * keys;
        for (let k = 0; k < keys; k++) weights[k] += data[start + k] * unit;
      }
      return { weights, rest: 0 };
    }
    const { which, kept, none } = await this.#linkParts(layer);
    const count = which.shape[3];
    const unit = EmbeddedRun.#unit(kept.data) / heads.length;
    let known = 0;
    for (const one of heads) {
      const start = ((sequence * which.shape[1] + one) * which.shape[2] + query) * count;
      for (let n = start; n < start + count; n++) {
        if (which.data[n] === none) continue;
        weights[which.data[n]] += kept.data[n] * unit;
        known += kept.data[n] * unit;
      }
    }
    return { weights, rest: Math.max(0, 1 - known) };
  };

  /** @type {RunSource["column"]} */
  column = async (sequence, layer, head, key) => {
    const { queries, keys } = this.info.layers[layer];
    const weights = new Float32Array(queries);
    const heads = this.#heads(layer, head);
    if (this.info.whole) {
      const { data, shape } = await part(this.parts, `weights-${layer}`);
      const unit = EmbeddedRun.#unit(data) / heads.length;
      for (const one of heads) {
        const start = (sequence * shape[1] + one) * queries * keys + key;
        for (let q = 0; q < queries; q++) weights[q] += data[start + q * keys] * unit;
      }
      return { weights, rest: 0 };
    }
    const { which, kept } = await this.#linkParts(layer);
    const count = which.shape[3];
    const unit = EmbeddedRun.#unit(kept.data) / heads.length;
    for (const one of heads) {
      const start = (sequence * which.shape[1] + one) * queries * count;
      for (let n = 0; n < queries * count; n++) {
        if (which.data[start + n] === key) weights[Math.floor(n / count)] += kept.data[start + n] * unit;
      }
    }
    return { weights, rest: NaN };
  };

  /** The links of a layer as they are kept, and what stands for no key. @param {number} layer */
  async #linkParts(layer) {
    const [which, kept] = await Promise.all([
      part(this.parts, `link-keys-${layer}`),
      part(this.parts, `link-weights-${layer}`),
    ]);
    return { which, kept, none: which.data instanceof Uint16Array ? 65535 : -1 };
  }

  /** @type {RunSource["links"]} */
  links = async (sequence, layer, head) => {
    const { queries, keys } = this.info.layers[layer];
    if (this.info.whole) return strongest(await this.#weights(sequence, layer, head), queries, keys, this.info.top);
    const { which, kept, none } = await this.#linkParts(layer);
    const count = which.shape[3];
    const start = (sequence * which.shape[1] + head) * queries * count;
    return {
      count,
      keys: Int32Array.from(which.data.subarray(start, start + queries * count), (x) => (x === none ? -1 : x)),
      weights: EmbeddedRun.#ofHead(kept, sequence, head),
    };
  };

  /** @type {RunSource["map"]} */
  map = async (sequence, layer, head) => {
    const map = await part(this.parts, `map-${layer}`);
    return { values: EmbeddedRun.#ofHead(map, sequence, head), height: map.shape[2], width: map.shape[3] };
  };

  /** @type {RunSource["tile"]} */
  tile = async (sequence, layer, head, level, row, column, reduce) => {
    const { queries, keys } = this.info.layers[layer];
    const size = 2 ** level;
    const [top, left] = [row * TILE * size, column * TILE * size];
    const height = Math.max(0, Math.min(TILE, Math.ceil((queries - top) / size)));
    const width = Math.max(0, Math.min(TILE, Math.ceil((keys - left) / size)));
    if (!this.info.whole) return this.#partly(sequence, layer, head, level, top, left, height, width, reduce);
    const all = await this.#weights(sequence, layer, head);
    const values = new Float32Array(height * width);
    for (let r = 0; r < height; r++) {
      for (let c = 0; c < width; c++) {
        values[r * width + c] = block(all, keys, top + r * size, left + c * size, Math.min(queries, top + (r + 1) * size), Math.min(keys, left + (c + 1) * size), reduce);
      }
    }
    return { values, height, width };
  };

  /** A tile from the levels that the page has; finer than those, from the links alone.
   * @param {number} sequence @param {number} layer @param {number} head @param {number} level
   * @param {number} top @param {number} left @param {number} height @param {number} width
   * @param {"mean" | "max"} reduce @returns {Promise<Tile>} */
  async #partly(sequence, layer, head, level, top, left, height, width, reduce) {
    const { queries, keys } = this.info.layers[layer];
    const size = 2 ** level;
    const values = new Float32Array(height * width).fill(NaN);
    const finest = await this.finest(sequence);
    const levels = this.parts[`level-${reduce}-${layer}`];
    if (level >= finest && levels) {
      const { data, shape } = await part(this.parts, `level-${reduce}-${layer}`);
      const [rows, columns] = shape.slice(2);
      const start = (sequence * shape[1] + head) * rows * columns;
      const unit = EmbeddedRun.#unit(data);
      const step = 2 ** (level - finest);
      const cell = 2 ** finest;
      for (let r = 0; r < height; r++) {
        for (let c = 0; c < width; c++) {
          const [r0, c0] = [(top / size + r) * step, (left / size + c) * step];
          let [sum, area, most] = [0, 0, 0];
          for (let y = r0; y < Math.min(rows, r0 + step); y++) {
            for (let x = c0; x < Math.min(columns, c0 + step); x++) {
              // A share of a map's row is the mean of its block times the keys in it.
              const tall = Math.min(queries, (y + 1) * cell) - y * cell;
              const wide = Math.min(keys, (x + 1) * cell) - x * cell;
              const value = data[start + y * columns + x] * unit;
              sum += reduce === "mean" ? value * tall : 0;
              area += tall * wide;
              most = Math.max(most, value);
            }
          }
          values[r * width + c] = reduce === "mean" ? sum / area : most;
        }
      }
      return { values, height, width };
    }
    if (level > 0) return { values, height, width };
    const links = await this.links(sequence, layer, head);
    for (let r = 0; r < height; r++) {
      for (let n = (top + r) * links.count; n < (top + r + 1) * links.count; n++) {
        const c = links.keys[n] - left;
        if (links.keys[n] >= 0 && c >= 0 && c < width) values[r * width + c] = links.weights[n];
      }
    }
    return { values, height, width };
  }

  /** @type {RunSource["finest"]} */
  finest = async () => (this.info.whole ? 0 : /** @type {any} */ (this.info).level);

  /** From the weights of all layers: r ← (r + r · mean W) / 2, last to first. @type {RunSource["rollout"]} */
  rollout = async (sequence, token) => {
    const layers = this.info.layers.map((layer, n) => ({ ...layer, n })).filter((layer) => !layer.cross);
    const size = layers[0].keys;
    let shares = new Float64Array(size);
    shares[token] = 1;
    for (const { n, heads } of layers.reverse()) {
      const next = Float64Array.from(shares, (x) => x / 2);
      for (let head = 0; head < heads; head++) {
        const weights = await this.#weights(sequence, n, head);
        await pause();
        for (let q = 0; q < size; q++) {
          if (shares[q] === 0) continue;
          for (let k = 0; k < size; k++) next[k] += (shares[q] * weights[q * size + k]) / (2 * heads);
        }
      }
      shares = next;
    }
    return Float32Array.from(shares);
  };

  /** @type {RunSource["hiddenStates"]} */
  hiddenStates = async (sequence, tokens) => {
    const { data, shape } = await part(this.parts, "hidden_states");
    const size = shape[2] * shape[3];
    return tokens.map((token) => {
      const start = (sequence * shape[1] + token) * size;
      return Float32Array.from(data.subarray(start, start + size));
    });
  };
}

/** The mean or the maximum of a rectangle of weights. @param {Float32Array} all @param {number} keys
 * @param {number} top @param {number} left @param {number} bottom @param {number} right
 * @param {"mean" | "max"} reduce */
function block(all, keys, top, left, bottom, right, reduce) {
  let [sum, most] = [0, 0];
  for (let q = top; q < bottom; q++) {
    for (let k = left; k < right; k++) {
      sum += all[q * keys + k];
      most = Math.max(most, all[q * keys + k]);
    }
  }
  return reduce === "max" ? most : sum / ((bottom - top) * (right - left));
}

/** The strongest keys of each query. @param {Float32Array} weights @param {number} queries
 * @param {number} keys @param {number} top @returns {Links} */
function strongest(weights, queries, keys, top) {
  const count = Math.min(top, keys);
  const found = { count, keys: new Int32Array(queries * count).fill(-1), weights: new Float32Array(queries * count) };
  for (let q = 0; q < queries; q++) {
    const row = weights.subarray(q * keys, (q + 1) * keys);
    const order = Array.from(row.keys()).sort((a, b) => row[b] - row[a]).slice(0, count);
    order.forEach((key, n) => {
      if (row[key] <= 0) return;
      found.keys[q * count + n] = key;
      found.weights[q * count + n] = row[key];
    });
  }
  return found;
}
