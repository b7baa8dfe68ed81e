// A run that Python has: every question is asked there, and the answers are remembered.

import { ask, numbers, tell } from "./asking.js";

/**
 * @typedef {import("./source.js").RunInfo} RunInfo
 * @typedef {import("./source.js").Row} Row
 * @typedef {import("./source.js").Links} Links
 * @typedef {import("./source.js").Tile} Tile
 */

const MOST = 300; // answers that are remembered; tiles are remembered by the atlas itself

/** A run of the studio. */
export class ServedRun {
  /** @type {Map<string, Promise<any>>} */
  #known = new Map();

  /** @param {string} id @param {RunInfo} info */
  constructor(id, info) {
    this.id = id;
    /** @type {RunInfo} */
    this.info = info;
    this.path = `/api/runs/${id}`;
    /** @type {import("./source.js").RunSource["predictions"]} */
    this.predictions = undefined;
    /** @type {import("./source.js").RunSource["lens"]} */
    this.lens = undefined;
    /** @type {import("./source.js").RunSource["why"]} */
    this.why = undefined;
  }

  /** Let what its model predicts be asked for. @param {boolean} layers after each layer, too */
  foretell(layers) {
    this.predictions = () => this.#once("predictions", () => ask(`${this.path}/predictions`));
    if (!layers) return;
    this.lens = () => this.#once("lens", () => ask(`${this.path}/lens`));
    this.why = (position, token, against) => tell(`${this.path}/why`, { position, token, against });
  }

  /** @param {string} id @returns {Promise<ServedRun>} */
  static async open(id) {
    return new ServedRun(id, await ask(`/api/runs/${encodeURIComponent(id)}`));
  }

  /** Ask once. @template T @param {string} name @param {() => Promise<T>} asking @returns {Promise<T>} */
  #once(name, asking) {
    let found = this.#known.get(name);
    if (found === undefined) {
      found = asking();
      this.#known.set(name, found);
      found.catch(() => this.#known.delete(name));
      const oldest = this.#known.keys().next().value;
      if (this.#known.size > MOST && oldest !== undefined) this.#known.delete(oldest);
    }
    return found;
  }

  /** @param {number} sequence @param {number} layer @param {number | null} head @param {number} query
   * @returns {Promise<Row>} */
  row(sequence, layer, head, query) {
    return this.#once(`row ${sequence} ${layer} ${head} ${query}`, async () => {
      const { values, rest } = await numbers(`${this.path}/row`, { sequence, layer, head, query });
      return { weights: values, rest };
    });
  }

  /** @param {number} sequence @param {number} layer @param {number | null} head @param {number} key
   * @returns {Promise<Row>} */
  column(sequence, layer, head, key) {
    return this.#once(`column ${sequence} ${layer} ${head} ${key}`, async () => {
      const { values, rest } = await numbers(`${this.path}/column`, { sequence, layer, head, key });
      return { weights: values, rest };
    });
  }

  /** @param {number} sequence @param {number} layer @param {number} head @returns {Promise<Links>} */
  links(sequence, layer, head) {
    return this.#once(`links ${sequence} ${layer} ${head}`, async () => {
      const { values, shape } = await numbers(`${this.path}/links`, { sequence, layer, head });
      const count = shape[1] / 2;
      const keys = new Int32Array(shape[0] * count);
      const weights = new Float32Array(shape[0] * count);
      for (let q = 0; q < shape[0]; q++) {
        for (let n = 0; n < count; n++) {
          keys[q * count + n] = values[q * 2 * count + n];
          weights[q * count + n] = values[q * 2 * count + count + n];
        }
      }
      return { count, keys, weights };
    });
  }

  /** @param {number} sequence @param {number} layer @param {number} head @returns {Promise<Tile>} */
  map(sequence, layer, head) {
    return this.#once(`map ${sequence} ${layer} ${head}`, async () => {
      const { values, shape } = await numbers(`${this.path}/map`, { sequence, layer, head });
      return { values, height: shape[0], width: shape[1] };
    });
  }

  /** @param {number} sequence @param {number} layer @param {number} head @param {number} level
   * @param {number} row @param {number} column @param {"mean" | "max"} reduce @returns {Promise<Tile>} */
  async tile(sequence, layer, head, level, row, column, reduce) {
    const question = { sequence, layer, head, level, row, column, reduce };
    const { values, shape } = await numbers(`${this.path}/tile`, question);
    return { values, height: shape[0], width: shape[1] };
  }

  /** @param {number} sequence @returns {Promise<number>} */
  async finest(sequence) {
    void sequence;
    return 0;
  }

  /** @param {number} sequence @param {number} token @returns {Promise<Float32Array>} */
  rollout(sequence, token) {
    return this.#once(`rollout ${sequence} ${token}`, async () => {
      return (await numbers(`${this.path}/rollout`, { sequence, token })).values;
    });
  }

  /** @param {number} sequence @param {number[]} tokens @returns {Promise<Float32Array[]>} */
  async hiddenStates(sequence, tokens) {
    if (tokens.length === 0) return [];
    const { values, shape } = await numbers(`${this.path}/hidden_states`, { sequence, tokens: tokens.join(",") });
    const size = shape[1] * shape[2];
    return tokens.map((_, n) => values.slice(n * size, (n + 1) * size));
  }
}
