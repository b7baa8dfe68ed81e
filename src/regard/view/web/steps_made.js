// What a step of a trace is made from: its matrices, those it came from, and which cells made a cell.

import { headCount, ofHead, projection } from "./arithmetic.js";
import { cellBand } from "./steps_matrix.js";

/**
 * @typedef {import("./arithmetic.js").TraceJson} TraceJson
 * @typedef {import("./arithmetic.js").Rows} Rows
 * @typedef {import("./steps_matrix.js").Band} Band
 * @typedef {import("./steps_matrix.js").Place} Place
 *
 * A matrix on the page. Numbers and shades are written alike in `all`, the matrices of every head.
 * @typedef {object} Sheet
 * @property {string} symbol
 * @property {string} name
 * @property {Rows[]} all
 * @property {number} head which of them
 * @property {string[]} rowLabels
 * @property {string[]} columnLabels
 * @property {boolean} shares whether these are weights, from 0 to 1
 * @property {string | null} step that it is; null: it is given
 * @property {string | null} edits the name under which its numbers can be changed
 * @property {string} sign what stands before it
 * @property {(place: Place) => Band[]} lit the cells of it that made a cell
 */

/** The titles of the steps, in their order. @type {Record<string, string>} */
export const TITLES = {
  input: "Input", query: "Query", key: "Key", value: "Value", scores: "Scores", scaled: "Scaled scores",
  weights: "Weights", head_output: "Head output", concatenated: "Concatenated", output: "Output",
};
const MOST_HEADS = 4; // whose outputs are shown beside what they are put together to

/** @param {Band["of"]} of @param {number} row @param {Rows} rows @returns {Band} */
const rowBand = (of, row, rows) => ({ rows: [row, row + 1], columns: [0, rows[0].length], of });
/** @param {Band["of"]} of @param {number} column @param {Rows} rows @returns {Band} */
const columnBand = (of, column, rows) => ({ rows: [0, rows.length], columns: [column, column + 1], of });

/** The matrices of all heads. @param {Rows | Rows[]} array @returns {Rows[]} */
function heads(array) {
  return Array.isArray(array[0][0]) ? /** @type {Rows[]} */ (array) : [/** @type {Rows} */ (array)];
}

/** The matrix of a step in one head. @param {TraceJson} trace @param {string} name @param {number} head
 * @returns {Sheet} */
export function stepSheet(trace, name, head) {
  const step = trace.steps[name];
  const [rows, columns] = step.axes.slice(-2);
  const several = step.axes[0].name === "head" && headsOf(trace) > 1;
  const given = name === "input" && step.parts.positions === undefined;
  return {
    symbol: step.symbol,
    name: several ? step.axes[0].labels[head] : TITLES[name].toLowerCase(),
    all: heads(step.array),
    head: step.axes[0].name === "head" ? head : 0,
    rowLabels: rows.labels,
    columnLabels: columns.labels,
    shares: name === "weights",
    step: name,
    edits: given ? "X" : null,
    sign: "",
    lit: (place) => [cellBand("result", place)],
  };
}

/** How many heads there are, with those that are known by their output only. @param {TraceJson} trace */
function headsOf(trace) {
  return Math.max(...Object.values(trace.steps).map(headCount));
}

/**
 * What a cell is made from, in the order of the formula.
 * @param {TraceJson} trace @param {string} name of the step
 * @param {number} head @param {number} column
 * @returns {Sheet[]}
 */
export function madeFrom(trace, name, head, column) {
  const { steps } = trace;
  const of = (/** @type {string} */ other, /** @type {Sheet["lit"]} */ lit, sign = "", which = head) =>
    ({ ...stepSheet(trace, other, which), sign, lit, edits: null });
  const rows = (/** @type {string} */ other) => ofHead(steps[other].array, head);
  switch (name) {
    case "input":
      return inputParts(trace);
    case "query":
    case "key":
    case "value":
      return projected(trace, name, head);
    case "scores":
      return [
        of("query", ({ row }) => [rowBand("left", row, rows("query"))]),
        of("key", (place) => [rowBand("right", place.column, rows("key"))], "·"),
      ];
    case "scaled":
      return [of("scores", (place) => [cellBand("left", place)]), ...biases(trace, head)];
    case "weights":
      if (steps.scaled === undefined) return [];
      return [of("scaled", (place) => [rowBand("left", place.row, rows("scaled")), cellBand("left", place)])];
    case "head_output": {
      const known = headCount(steps.weights);
      // A head that is known by its result was made from nothing that is here.
      const [which, lights] = head < known ? [head, true] : [0, false];
      const [a, v] = ["weights", "value"].map((other) => ofHead(steps[other].array, which));
      return [
        of("weights", ({ row }) => (lights ? [rowBand("left", row, a)] : []), "", which),
        of("value", (place) => (lights ? [columnBand("right", place.column, v)] : []), "·", which),
      ];
    }
    case "concatenated": {
      const width = ofHead(steps.head_output.array, 0)[0].length;
      const own = Math.floor(column / width);
      const count = headCount(steps.head_output);
      const all = count > MOST_HEADS ? [own] : Array.from({ length: count }, (_, h) => h);
      const lit = (/** @type {Place} */ place, /** @type {number} */ h) =>
        Math.floor(place.column / width) === h ? [cellBand("left", { ...place, column: place.column % width })] : [];
      return all.map((h) => of("head_output", (place) => lit(place, h), "", h));
    }
    default:
      if (trace.matrices.W_O === undefined) return [of("concatenated", (place) => [cellBand("left", place)])];
      return [
        of("concatenated", ({ row }) => [rowBand("left", row, rows("concatenated"))]),
        given(trace, "W_O", columnLabels(trace, "concatenated"), name, 0),
        ...bias(trace, "b_O", name, 0),
      ];
  }
}

/** The names of a step's columns. @param {TraceJson} trace @param {string} name */
function columnLabels(trace, name) {
  return /** @type {string[]} */ (trace.steps[name].axes.at(-1)?.labels);
}

/** What a query, a key or a value is made from. @param {TraceJson} trace @param {string} name
 * @param {number} head @returns {Sheet[]} */
function projected(trace, name, head) {
  const { parts, symbol } = trace.steps[name];
  const own = stepSheet(trace, name, head);
  if (parts.straight !== undefined) {
    const sheet = { ...own, symbol: `${symbol} before it is turned`, all: heads(parts.straight), step: null };
    return [{ ...sheet, lit: (/** @type {Place} */ place) => [cellBand("left", place)] }];
  }
  const made = projection(trace, name);
  if (made === null) return [];
  const left = ofHead(made.left, head);
  const lit = (/** @type {Place} */ { row }) => [rowBand("left", row, left)];
  let between = columnLabels(trace, "input");
  let sheet = { ...stepSheet(trace, "input", head), edits: null };
  if (made.of !== "X") {
    const all = heads(made.left);
    between = left[0].map((_, n) => `${made.of === "Y" ? "y" : "d"}${n + 1}`);
    sheet = {
      ...own, symbol: made.of, name: "given", all, head: all.length > 1 ? head : 0, columnLabels: between, step: null,
      edits: null,
    };
  }
  return [{ ...sheet, lit }, given(trace, made.by, between, name, head), ...bias(trace, `b_${symbol}`, name, head)];
}

/** What is added to a product. @param {TraceJson} trace @param {string} matrix @param {string} after
 * @param {number} head @returns {Sheet[]} */
function bias(trace, matrix, after, head) {
  if (trace.matrices[matrix] === undefined) return [];
  const lit = (/** @type {Place} */ { column }) => [cellBand("right", { row: 0, column })];
  return [{ ...given(trace, matrix, ["bias"], after, head), edits: null, sign: "+", lit }];
}

/** What is added to the scaled scores. @param {TraceJson} trace @param {number} head @returns {Sheet[]} */
function biases(trace, head) {
  const { parts } = trace.steps.scaled;
  if (parts.bias === undefined) return [];
  const sheet = { ...stepSheet(trace, "scaled", head), symbol: "B", all: heads(parts.bias), step: null, sign: "+" };
  return [{ ...sheet, lit: (/** @type {Place} */ place) => [cellBand("right", place)] }];
}

/** A matrix that a step was multiplied by. @param {TraceJson} trace @param {string} matrix
 * @param {string[]} rowLabels @param {string} after the step
 * @param {number} head @returns {Sheet} */
function given(trace, matrix, rowLabels, after, head) {
  const all = heads(trace.matrices[matrix]);
  const own = all[head];
  return {
    ...stepSheet(trace, after, head),
    symbol: matrix,
    name: all.length > 1 ? trace.steps[after].axes[0].labels[head] : "given",
    all,
    rowLabels,
    shares: false,
    step: null,
    edits: matrix,
    sign: "·",
    lit: ({ column }) => [columnBand("right", column, own)],
  };
}

/** What the input is the sum of. @param {TraceJson} trace @returns {Sheet[]} */
function inputParts(trace) {
  const { parts } = trace.steps.input;
  if (parts.positions === undefined) return [];
  const part = { ...stepSheet(trace, "input", 0), step: null };
  const lit = (/** @type {Band["of"]} */ of) => (/** @type {Place} */ place) => [cellBand(of, place)];
  return [
    { ...part, symbol: "E", name: "embeddings", all: heads(parts.embeddings), edits: "X", lit: lit("left") },
    { ...part, symbol: "P", name: "positions", all: heads(parts.positions), sign: "+", lit: lit("right") },
  ];
}

/** The cell that stands for the others while none has been chosen. @param {TraceJson} trace @param {string} name
 * @returns {Place} */
export function chosenCell(trace, name) {
  const [rows, columns] = trace.steps[name].axes.slice(-2);
  const [lastRow, lastColumn] = [rows.labels.length - 1, columns.labels.length - 1];
  const row = trace.causal ? lastRow : Math.min(1, lastRow); // the last row sees every column
  if (columns.name === "dimension") return { row, column: 0 };
  return { row, column: trace.causal ? Math.min(1, lastColumn) : lastColumn };
}
