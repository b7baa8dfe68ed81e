// A flow that Python has: every question is asked there, and the answers are remembered.

import { figure, piece } from "./arithmetic.js";
import { Refused, ask, numbers, tell } from "./asking.js";
import { lineIn } from "./told.js";
import { word } from "./words.js";

/**
 * @typedef {import("./arithmetic.js").Piece} Piece
 * What is opened: an example, a text (with a model or without), or a run.
 * @typedef {{ example?: string, text?: string, model?: string, run?: string, layer?: number }} Question
 * @typedef {{ step: string, done: number, total: number }} Progress
 */

const MOST = 2000; // answers that are remembered
const OFTEN = 150; // milliseconds between two looks at how far a job is

export class ServedFlow {
  /** @type {Map<string, Promise<any>>} */
  #known = new Map();

  /** @param {string} id @param {any} outline @param {any} [trace] of attention alone, as a whole @param {string} [first] the
   * flow without changes */
  constructor(id, outline, trace, first = id) {
    this.id = id;
    this.outline = outline;
    this.trace = trace;
    this.first = first;
    this.path = `/api/flow/${encodeURIComponent(id)}`;
  }

  /** Open a flow. Of attention alone it has its `trace`, from which a page computes all by itself.
   * @param {Question & Record<string, any>} question @param {(progress: Progress) => void} [progress]
   * @param {AbortSignal} [until] @returns {Promise<ServedFlow>} */
  static async open(question, progress, until) {
    const opened = await tell("/api/flow", question);
    if (opened.job === undefined) return new ServedFlow(opened.id, opened.outline, opened.trace);
    const job = `/api/jobs/${encodeURIComponent(opened.job)}`;
    for (;;) {
      const now = await ask(job);
      if (now.state === "done") return ServedFlow.known(now.result.flow);
      if (now.state === "failed") throw new Refused(now.error, true);
      if (now.state === "cancelled") throw new Refused(word("flow.cancelled"));
      if (until?.aborted) await tell(`${job}/cancel`);
      progress?.(now);
      await new Promise((resolve) => setTimeout(resolve, OFTEN));
    }
  }

  /** A flow that is open. @param {string} id @returns {Promise<ServedFlow>} */
  static async known(id) {
    return new ServedFlow(id, (await ask(`/api/flow/${encodeURIComponent(id)}`)).outline);
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

  /** @param {string} stage @param {number} head */
  picture(stage, head) {
    return this.#once(`picture ${stage} ${head}`, async () => {
      const { values, shape, block } = await numbers(`${this.path}/picture`, { stage, head });
      return { rows: shape[0], columns: shape[1], block: /** @type {[number, number]} */ (block), values };
    });
  }

  /** @param {string} stage @param {number} head @param {[number, number]} rows @param {[number, number]} columns
   * @returns {Promise<ArrayLike<number> | null>} */
  cells(stage, head, rows, columns) {
    const question = {
      stage, head, first_row: rows[0], end_row: rows[1], first_column: columns[0], end_column: columns[1],
    };
    return this.#once(`cells ${Object.values(question)}`, async () =>
      (await numbers(`${this.path}/cells`, question, Float64Array)).values);
  }

  /** @param {string} stage @param {number} head @param {number} row @param {number} column
   * @returns {Promise<Piece[] | null>} */
  explain(stage, head, row, column) {
    const said = new URLSearchParams({ stage, head: String(head), row: String(row), column: String(column) });
    return this.#once(`explain ${said}`, async () => {
      const { line, value } = await ask(`${this.path}/explain?${said}`);
      const result = value === null ? line.split(/[ :]/)[0] : figure(value);
      return line.startsWith(result) ? [piece("result", result), piece("", lineIn(line.slice(result.length)))] : [piece("", lineIn(line))];
    });
  }

  /** @param {number} position @returns {Promise<{ token: string, probability: number }[] | null>} */
  predictions(position) {
    return this.#once(`predictions ${position}`, () => ask(`${this.path}/predictions?position=${position}`));
  }

  /** The steps of one head. @param {string} attention @param {number} head @returns {Promise<any>} */
  steps(attention, head) {
    const said = new URLSearchParams({ stage: attention, head: String(head) });
    return this.#once(`steps ${said}`, () => ask(`${this.path}/steps?${said}`));
  }

  /** The first pass with these changes, and no others. @param {object[]} changes @returns {Promise<ServedFlow>} */
  async changed(changes) {
    if (changes.length === 0) return ServedFlow.known(this.first);
    const { id, outline } = await tell(`/api/flow/${encodeURIComponent(this.first)}/changed`, { changes });
    return new ServedFlow(id, outline, undefined, this.first);
  }
}
