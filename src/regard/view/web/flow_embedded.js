// A pass of a model that is in the page itself: every stage in blocks, one band whole.

import { figure, piece } from "./arithmetic.js";
import { part } from "./embedded.js";
import { headTrace } from "./flow_heads.js";
import { explain } from "./rules.js";
import { word } from "./words.js";

/**
 * @typedef {import("./arithmetic.js").Piece} Piece
 * @typedef {import("./embedded.js").PartInfo} PartInfo
 *
 * @typedef {{ part: string, at: number, sizes: number[], rows: number, columns: number, block: [number, number] }} PictureInfo
 * A step of the band that is held whole; `part` is missing where it follows from others, and `same`
 * names the step whose numbers it has.
 * @typedef {{ rule: { rule: string } & Record<string, any>, shape: number[], part?: string, same?: string }} StepInfo
 * @typedef {object} FlowContent
 * @property {any} outline
 * @property {Record<string, PictureInfo>} pictures
 * @property {Record<string, StepInfo>} steps
 * @property {Record<string, { part: string, shape: number[] }>} matrices
 * @property {[string, number][][] | null} predictions
 * @property {Record<string, import("./flow_heads.js").HeadInfo>} heads of the attentions that are held whole
 */

const HALF = 32767; // what the number of the largest size in a picture is kept as

/** The numbers of a part; of two bytes each if no more are in use. @param {Record<string, PartInfo>} parts
 * @param {string} name @returns {Promise<Float32Array>} */
async function floats(parts, name) {
  const { data } = await part(parts, name);
  if (data instanceof Float32Array) return data;
  return new Float32Array(Uint32Array.from(data, (bits) => bits << 16).buffer);
}

/** A flow whose numbers are parts of this page. */
export class EmbeddedFlow {
  #content;
  #parts;
  /** One head of a step, or a matrix, by name. @type {Map<string, Promise<number[][]>>} */
  #rows = new Map();

  /** @param {{ flow: FlowContent, parts: Record<string, PartInfo> }} content */
  constructor({ flow, parts }) {
    this.#content = flow;
    this.#parts = parts;
    this.outline = flow.outline;
  }

  /** @param {string} stage @param {number} head */
  async picture(stage, head) {
    const found = this.#content.pictures[stage];
    if (found === undefined || !(head in found.sizes)) return null;
    const { rows, columns, block, sizes } = found;
    const { data } = await part(this.#parts, found.part);
    const first = found.at + head * rows * columns;
    const unit = sizes[head] / HALF;
    const values = Float32Array.from(data.subarray(first, first + rows * columns),
      (code) => (code === 0 ? -Infinity : (code - HALF - 1) * unit));
    return { rows, columns, block, values };
  }

  /** @param {string} stage @param {number} head @param {[number, number]} rows @param {[number, number]} columns
   * @returns {Promise<ArrayLike<number> | null>} */
  async cells(stage, head, rows, columns) {
    if (this.#content.steps[stage] === undefined) return null;
    return (await this.#head(stage, head)).slice(...rows).flatMap((row) => row.slice(...columns));
  }

  /** @param {string} stage @param {number} head @param {number} row @param {number} column
   * @returns {Promise<Piece[] | null>} */
  async explain(stage, head, row, column) {
    const info = this.#content.steps[stage];
    if (info === undefined) return null;
    const own = this.#ownHead(stage, head);
    const value = (await this.#head(stage, head))[row][column];
    const { rule } = info;
    if (!(await this.#has(rule))) {
      return [piece("result", figure(value)), piece("", word("flow.not_here"))];
    }
    /** @type {Record<string, any>} */
    const steps = { [stage]: this.#step(stage, await this.#head(stage, head)) };
    /** @type {Record<string, any>} */
    const matrices = {};
    for (const name of named(rule)) {
      if (name === stage) continue;
      if (this.#content.steps[name] !== undefined) steps[name] = this.#step(name, await this.#head(name, head));
      else if (this.#content.matrices[name] !== undefined) matrices[name] = await this.#matrix(name);
    }
    const trace = /** @type {any} */ ({ title: "", note: "", sequences: this.outline.sequences, matrices, steps });
    return explain(trace, stage, row, column, own);
  }

  /** @param {number} position */
  async predictions(position) {
    const found = this.#content.predictions?.[position];
    return found?.map(([token, probability]) => ({ token, probability })) ?? null;
  }

  /** @param {string} attention @param {number} head */
  async steps(attention, head) {
    const info = this.#content.heads[attention];
    if (info === undefined) return null;
    return headTrace(info, head, { step: (name) => this.#head(name, head), matrix: (name) => this.#matrix(name) });
  }

  async changed() {
    return null;
  }

  /** Is all here that a rule names? @param {StepInfo["rule"]} rule */
  async #has(rule) {
    if (["Given", "Copied", "Joined"].includes(rule.rule)) return true;
    return named(rule).every((name) => name in this.#content.steps || name in this.#content.matrices || name === rule.table);
  }

  /** As a trace has it. @param {string} name @param {number[][]} array of one head */
  #step(name, array) {
    const stage = this.outline.stages[name];
    const info = this.#content.steps[name];
    const labels = (/** @type {string | string[] | null | undefined} */ given, /** @type {number} */ count) => {
      if (Array.isArray(given)) return given;
      if (typeof given === "string") return this.outline.sequences[given];
      const letter = (stage?.symbol ?? "x")[0].toLowerCase();
      return Array.from({ length: count }, (_, n) => `${letter}${n + 1}`);
    };
    const [rows, columns] = info.shape.slice(-2);
    const heads = info.shape.length === 3 ? [{ name: "head", labels: Array.from({ length: info.shape[0] }, (_, n) => `head ${n + 1}`) }] : [];
    const axes = [
      ...heads, { name: "token", labels: labels(stage?.row_labels, rows) },
      { name: "dimension", labels: this.#columns(name, labels(stage?.column_labels, columns)) },
    ];
    return { title: "", symbol: "", formula: "", meaning: "", number: 0, axes, array, rule: info.rule };
  }

  /** The columns of heads side by side have names of their own. @param {string} name @param {string[]} labels */
  #columns(name, labels) {
    const { rule } = this.#content.steps[name];
    if (rule.rule !== "Joined" || Array.isArray(this.outline.stages[name]?.column_labels)) return labels;
    const width = this.#content.steps[rule.of]?.shape[2] ?? labels.length;
    return labels.map((_, n) => `head ${Math.floor(n / width) + 1} z${(n % width) + 1}`);
  }

  /** The head of a step itself: a key head may serve several. @param {string} name @param {number} head */
  #ownHead(name, head) {
    const { shape } = this.#content.steps[name];
    const heads = this.outline.stages[name]?.heads ?? shape[0];
    return shape.length < 3 ? 0 : shape[0] < heads ? Math.floor((head * shape[0]) / heads) : head;
  }

  /** One head of a step. @param {string} name @param {number} head @returns {Promise<number[][]>} */
  #head(name, head) {
    const info = this.#content.steps[name];
    const own = this.#ownHead(name, head);
    const key = `${name} ${own}`;
    let found = this.#rows.get(key);
    if (found === undefined) {
      found = info.part === undefined && !info.same ? this.#computed(info.rule, head)
        : info.part === undefined ? this.#head(/** @type {string} */ (info.same), head)
          : this.#unpacked(info.part, info.shape, own);
      this.#rows.set(key, found);
    }
    return found;
  }

  /** @param {string} name @param {number[]} shape @param {number} head */
  async #unpacked(name, shape, head) {
    const [rows, columns] = shape.slice(-2);
    const data = await floats(this.#parts, name);
    const first = shape.length === 3 ? head * rows * columns : 0;
    return Array.from({ length: rows }, (_, n) => Array.from(data.subarray(first + n * columns, first + (n + 1) * columns)));
  }

  /** @param {string} name @returns {Promise<number[][]>} */
  #matrix(name) {
    let found = this.#rows.get(name);
    if (found === undefined) {
      const { part: packed, shape } = this.#content.matrices[name];
      found = this.#unpacked(packed, shape, 0);
      this.#rows.set(name, found);
    }
    return found;
  }

  /** What follows from others, of one head: turned, scored, scaled, weighed; heads joined; sums.
   * @param {StepInfo["rule"]} rule @param {number} head @returns {Promise<number[][]>} */
  async #computed(rule, head) {
    if (rule.rule === "Scored") {
      const [queries, keys] = [await this.#head(rule.query, head), await this.#head(rule.key, head)];
      return queries.map((query) => keys.map((key) => query.reduce((sum, x, n) => sum + x * key[n], 0)));
    }
    if (rule.rule === "Scaled") {
      const scores = await this.#head(rule.scores, head);
      return scores.map((row, i) => row.map((score, j) =>
        (rule.causal && j > i + row.length - scores.length ? -Infinity : score / rule.divisor)));
    }
    if (rule.rule === "Turned") {
      const [cosines, sines] = [await this.#matrix(rule.cosine), await this.#matrix(rule.sine)];
      const width = cosines[0].length;
      return (await this.#head(rule.of, head)).map((row, i) => row.map((x, j) => {
        if (j >= width) return x;
        const partner = rule.halves ? (j + Math.floor(width / 2)) % width : j ^ 1;
        return Math.fround(x * cosines[i][j] + row[partner] * sines[i][j]);
      }));
    }
    if (rule.rule === "Joined") {
      const count = this.#content.steps[rule.of].shape[0];
      const heads = await Promise.all(Array.from({ length: count }, (_, n) => this.#head(rule.of, n)));
      return heads[0].map((_, row) => heads.flatMap((each) => each[row]));
    }
    if (rule.rule === "Summed") {
      const [one, other] = [await this.#head(rule.of[0], head), await this.#head(rule.of[1], head)];
      return one.map((row, i) => row.map((x, j) => Math.fround(x + other[i][j])));
    }
    return (await this.#head(rule.scaled, head)).map((row) => {
      const largest = row.reduce((a, b) => Math.max(a, b), -Infinity);
      const powers = row.map((score) => (largest === -Infinity ? 0 : Math.exp(score - largest)));
      const total = powers.reduce((a, b) => a + b, 0) || 1;
      return powers.map((power) => power / total);
    });
  }
}

/** The names in a rule. @param {StepInfo["rule"]} rule @returns {string[]} */
function named(rule) {
  const beside = ["rule", "words", "function", "table"];
  return Object.entries(rule).filter(([name]) => !beside.includes(name)).map(([, value]) => value).flat()
    .filter((value) => typeof value === "string");
}
