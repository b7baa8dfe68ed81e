// What a flow is asked, and the answers of a trace of attention, whose numbers are all in the page.

import { figure, headCount, number, ofHead, piece, plainly } from "./arithmetic.js";
import { possibleChanges } from "./flow_changes.js";
import { computed, startOf } from "./flow_compute.js";
import { explain, numbersOf, operands } from "./rules.js";
import { columnsIn, told } from "./told.js";
import { word } from "./words.js";

/**
 * @typedef {import("./arithmetic.js").TraceJson} TraceJson
 * @typedef {import("./arithmetic.js").Piece} Piece
 * @typedef {import("./flow_changes.js").Change} Change
 *
 * The labels of an axis: those of a sequence by its name, their own, or none.
 * @typedef {string | string[] | null} Labels
 *
 * @typedef {object} Stage
 * @property {string} title
 * @property {string} symbol
 * @property {string} formula
 * @property {string} meaning
 * @property {string} part what it is: "query", "scores", "residual", …; "matrix" for what it is multiplied with
 * @property {string} [kind] whose title and meaning it has, if not those of its part
 * @property {string} attention the attention that it belongs to, or ""
 * @property {number} heads
 * @property {number} rows
 * @property {number} columns
 * @property {Labels} row_labels
 * @property {Labels} column_labels
 * @property {string[]} from the stages that it was made from
 * @property {"whole" | "pooled"} held
 * @property {boolean} [plain] of scaled scores: they are not divided
 * @property {boolean} [causal] of scaled scores: no token sees a later one
 * @property {boolean} [editable] its numbers are given, and can be changed
 *
 * @typedef {{ id: string, title: string, layer: number | null, stack: string, cross?: boolean, stages: string[] }} Band
 *
 * @typedef {object} Outline
 * @property {string} title
 * @property {string} note
 * @property {string} model
 * @property {"attention" | "model"} kind
 * @property {Record<string, string[]>} sequences
 * @property {Record<string, (number | null)[]>} [words] of each token the place by which its word is called, if it can be another
 * @property {string[]} [vocabulary] the words that can be put into another's place, if not all can
 * @property {Band[]} bands
 * @property {Record<string, Stage>} stages
 * @property {string[]} changes the kinds that can be made
 * @property {string} chosen
 * @property {string} lacks
 * @property {boolean} predictions
 *
 * A stage in blocks of `block` rows and columns each, row by row: `rows` × `columns` of them.
 * @typedef {{ rows: number, columns: number, block: [number, number], values: ArrayLike<number> }} Picture
 * @typedef {{ token: string, probability: number }} Prediction
 *
 * @typedef {object} FlowSource
 * @property {Outline} outline
 * @property {(stage: string, head: number) => Promise<Picture | null>} picture
 * @property {(stage: string, head: number, rows: [number, number], columns: [number, number]) => Promise<ArrayLike<number> | null>} cells
 *   a rectangle of exact numbers, row by row; ends are not part of it; null where there are none
 * @property {(stage: string, head: number, row: number, column: number) => Promise<Piece[] | null>} explain
 * @property {(position: number) => Promise<Prediction[] | null>} predictions
 * @property {(changes: Change[]) => Promise<FlowSource | null>} changed
 * @property {(attention: string, head: number) => Promise<TraceJson | null>} [steps] of one head of an attention of a model;
 *   null where they are not held
 */

export const BLOCKS = 64; // of a picture, in each direction
const GIVEN = 12; // rows and columns that a matrix of weights may have to be drawn

/** The labels of an axis of a stage, one by one. @param {Outline} outline @param {Labels} labels @param {number} count
 * @returns {string[]} */
export function labelsOf({ sequences }, labels, count) {
  if (Array.isArray(labels)) return columnsIn(labels);
  if (labels !== null && Object.hasOwn(sequences, labels)) return sequences[labels];
  return Array.from({ length: count }, (_, n) => String(n + 1));
}

/**
 * Numbers in blocks, each with the one of the largest size in it; of weights what a row gets of the block.
 * @param {number[][]} rows @param {boolean} shares @returns {Picture}
 */
export function pooled(rows, shares) {
  const [height, width] = [rows.length, rows[0].length];
  /** @type {[number, number]} */
  const block = [Math.ceil(height / BLOCKS), Math.ceil(width / BLOCKS)];
  const [down, across] = [Math.ceil(height / block[0]), Math.ceil(width / block[1])];
  const values = new Float32Array(down * across);
  for (let i = 0; i < down; i++) {
    const last = Math.min(height, (i + 1) * block[0]);
    for (let j = 0; j < across; j++) {
      let [most, sum, masked] = [0, 0, true];
      for (let row = i * block[0]; row < last; row++) {
        for (let column = j * block[1]; column < Math.min(width, (j + 1) * block[1]); column++) {
          const value = rows[row][column];
          if (value === -Infinity) continue;
          masked = false;
          sum += value;
          if (!(Math.abs(value) <= Math.abs(most))) most = value;
        }
      }
      values[i * across + j] = masked ? -Infinity : shares ? sum / (last - i * block[0]) : most;
    }
  }
  return { rows: down, columns: across, block, values };
}

/** A trace of attention alone, as `Trace.to_json` writes it. */
export class TraceFlow {
  /** @type {Change[]} */
  #changes;
  #first;
  /** The numbers of any word, where somebody has them. @type {((text: string) => Promise<number[]>) | null} */
  #vector;

  /** @param {TraceJson} trace @param {((text: string) => Promise<number[]>) | null} [vector] of a word
   * @param {Change[]} [changes] that made it @param {TraceJson} [first] without them */
  constructor(trace, vector = null, changes = [], first = trace) {
    this.trace = trace;
    this.#vector = vector;
    this.#changes = changes;
    this.#first = first;
    this.outline = outlineOf(trace);
    const known = startOf(first) === null ? [] : [...new Set(first.sequences.input)];
    if (known.length < 2 && (vector === null || known.length === 0)) return;
    this.outline.changes.push("word");
    this.outline.words = { input: trace.sequences.input.map((_, n) => n) };
    if (vector === null) this.outline.vocabulary = known;
  }

  /** @param {string} stage @param {number} head @returns {number[][] | null} */
  #rows(stage, head) {
    const array = numbersOf(this.trace, stage);
    const heads = Array.isArray(array[0][0]) ? array.length : 1;
    return head < heads || heads === 1 && this.outline.stages[stage].heads === 1 && head === 0
      ? ofHead(array, head).map((row) => row.map(number)) : null;
  }

  /** @param {string} stage @param {number} head @returns {Promise<Picture | null>} */
  async picture(stage, head) {
    const rows = this.#rows(stage, head);
    return rows === null ? null : pooled(rows, stage === "weights");
  }

  /** @param {string} stage @param {number} head @param {[number, number]} rows @param {[number, number]} columns
   * @returns {Promise<ArrayLike<number> | null>} */
  async cells(stage, head, rows, columns) {
    return this.#rows(stage, head)?.slice(...rows).flatMap((row) => row.slice(...columns)) ?? null;
  }

  /** @param {string} stage @param {number} head @param {number} row @param {number} column
   * @returns {Promise<Piece[] | null>} */
  async explain(stage, head, row, column) {
    const value = number(ofHead(numbersOf(this.trace, stage), head)[row][column]);
    const set = value !== -Infinity && this.#changes.some((each) => (each.kind === "score" || each.kind === "number") && each.stage === stage
      && each.head === head && each.row === row && each.column === column);
    if (set) {
      const was = number(ofHead(numbersOf(this.#first, stage), head)[row][column]);
      return [...plainly(value, word("flow.changed.line")), piece("", figure(was))];
    }
    if (!Object.hasOwn(this.trace.steps, stage)) return plainly(value, word("flow.given.line", { name: told(stage) }));
    const off = this.trace.steps[stage].rule.rule === "Mixed"
      && this.#changes.some((each) => each.kind === "head" && each.head === head);
    return off ? plainly(value, word("flow.switched.line")) : explain(this.trace, stage, row, column, head);
  }

  async predictions() {
    return null;
  }

  /** Raises an error that says why, if a word has no numbers. @param {Change[]} changes @returns {Promise<TraceFlow>} */
  async changed(changes) {
    const own = possibleChanges(this.outline, changes);
    const first = this.#first;
    const vectors = new Map();
    for (const change of own) {
      if (change.kind === "word" && !vectors.has(change.text)) vectors.set(change.text, await this.#numbersOf(change.text));
    }
    return new TraceFlow(computed(first, own, vectors), this.#vector, own, first);
  }

  /** The numbers that a word starts with. @param {string} text @returns {Promise<number[]>} */
  async #numbersOf(text) {
    const known = this.#first.sequences.input;
    const start = /** @type {string} */ (startOf(this.#first));
    if (known.includes(text)) return ofHead(numbersOf(this.#first, start), 0)[known.indexOf(text)].map(number);
    if (this.#vector !== null) return this.#vector(text);
    throw new Error(word("flow.swap.unknown", { text, words: [...new Set(known)].join(", ") }));
  }
}

/** @param {TraceJson} trace @returns {Outline} */
function outlineOf(trace) {
  const names = Object.keys(trace.steps);
  const rules = Object.fromEntries(names.map((name) => [name, trace.steps[name].rule]));
  /** @type {Record<string, Stage>} */
  const stages = {};
  for (const name of names) {
    const step = trace.steps[name];
    const [rows, columns] = step.axes.slice(-2);
    const made = [...new Set(operands(trace, name, 0).map((operand) => operand.name))];
    stages[name] = {
      title: step.title, symbol: step.symbol, formula: step.formula, meaning: step.meaning, kind: step.kind,
      part: name, attention: name === "input" ? "" : "attention", heads: headCount(step),
      rows: rows.labels.length, columns: columns.labels.length,
      row_labels: named(trace, rows), column_labels: columns.name === "dimension" ? columns.labels : named(trace, columns),
      from: made.filter((other) => Object.hasOwn(trace.steps, other) || drawn(trace, other)), held: "whole",
      plain: rules[name].plain === true, causal: rules[name].causal === true,
      editable: rules[name].rule === "Given",
    };
  }
  for (const name of names) {
    for (const other of stages[name].from) if (!Object.hasOwn(stages, other)) stages[other] = given(trace, other, stages[name]);
  }
  // What was turned, or comes from another text, is not here as X and W made it.
  const whole = !names.some((name) => rules[name].rule === "Turned");
  const scored = Object.hasOwn(rules, "scaled");
  const mixed = rules.head_output?.rule === "Mixed";
  if (!whole) for (const stage of Object.values(stages)) stage.editable = false;
  return {
    title: trace.title, note: trace.note, model: "", kind: "attention", sequences: trace.sequences,
    bands: [{ id: "attention", title: trace.title, layer: null, stack: "", stages: names }], stages,
    changes: [...(scored ? ["score", "cut", "scale", "causal"] : []), ...(mixed ? ["head"] : []), ...(whole ? ["number"] : [])],
    chosen: "attention", lacks: "", predictions: false,
  };
}

/** The sequence that an axis runs along. @param {TraceJson} trace @param {import("./arithmetic.js").Axis} axis @returns {Labels} */
function named({ sequences }, { labels }) {
  return Object.keys(sequences).find((name) => sequences[name].join("\n") === labels.join("\n")) ?? labels;
}

/** Is a matrix small enough to be drawn? @param {TraceJson} trace @param {string} name */
function drawn(trace, name) {
  const array = trace.matrices[name];
  const rows = ofHead(array, 0);
  return rows.length <= GIVEN && rows[0].length <= GIVEN && rows.length > 1;
}

/** A matrix that a stage was made with. @param {TraceJson} trace @param {string} name @param {Stage} made @returns {Stage} */
function given(trace, name, made) {
  const array = trace.matrices[name];
  const rows = ofHead(array, 0);
  const weights = /^[WV]_/.test(name);
  return {
    title: name, symbol: weights ? name : name[0].toUpperCase(), formula: name, meaning: "", part: "matrix", attention: made.attention,
    heads: Array.isArray(array[0][0]) ? array.length : 1, rows: rows.length, columns: rows[0].length,
    row_labels: weights ? rows.map((_, n) => String(n + 1)) : made.row_labels, column_labels: made.column_labels,
    from: [], held: "whole", editable: name !== "positions",
  };
}
