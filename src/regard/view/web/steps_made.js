// What a step of a trace is made from: its matrices, those it came from, and which cells made a cell.

import { headCount } from "./arithmetic.js";
import { numbersOf, operands } from "./rules.js";
import { cellBand } from "./steps_matrix.js";
import { columnsIn, titleOf, told } from "./told.js";
import { word } from "./words.js";

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
  return {
    symbol: step.symbol,
    name: several ? told(step.axes[0].labels[head]) : titleOf(name, step).toLowerCase(),
    all: heads(step.array),
    head: step.axes[0].name === "head" ? head : 0,
    rowLabels: rows.labels,
    columnLabels: columnsIn(columns.labels),
    shares: name === "weights",
    step: name,
    edits: name === "input" && step.rule.rule === "Given" ? "X" : null,
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
  const own = stepSheet(trace, name, head);
  let all = operands(trace, name, head);
  const several = all.length > 1 && all.every((each) => each.name === all[0].name);
  if (several && all.length > MOST_HEADS) all = [all[Math.floor(column / widthOf(trace, all[0]))]];
  return all.map((operand, n) => {
    const sheet = Object.hasOwn(trace.steps, operand.name)
      ? { ...stepSheet(trace, operand.name, operand.head ?? head), edits: null }
      : given(trace, own, operand, n === 0 ? null : all[0]);
    return { ...sheet, sign: operand.sign ?? "", lit: lights(sheet, operand, several ? widthOf(trace, operand) : 0) };
  });
}

/** @param {TraceJson} trace @param {import("./rules.js").Operand} operand */
function widthOf(trace, { name }) {
  return heads(numbersOf(trace, name))[0][0].length;
}

/** Which cells of an operand made a cell; `width` is that of each head where heads stand side by side.
 * @param {Sheet} sheet @param {import("./rules.js").Operand} operand @param {number} width @returns {Sheet["lit"]} */
function lights({ all, head }, { lit, of, first = 0 }, width) {
  const rows = all[head];
  return ({ row, column }) => {
    if (width > 0) {
      const mine = Math.floor(column / width) === head;
      return mine ? [cellBand(of, { row, column: column % width })] : [];
    }
    switch (lit) {
      case "row": return [rowBand(of, row, rows)];
      case "crossed": return [rowBand(of, column, rows)];
      case "column": return [columnBand(of, column, rows)];
      case "row and cell": return [rowBand(of, row, rows), cellBand(of, { row, column })];
      case "cell": return column >= first && column < first + rows[0].length ? [cellBand(of, { row, column: column - first })] : [];
      case "bias": return [cellBand(of, { row: 0, column })];
      default: return [];
    }
  };
}

/**
 * A matrix that is no step of its own: what was added up or multiplied, or what a matrix was multiplied with.
 * @param {TraceJson} trace @param {Sheet} own of the step @param {import("./rules.js").Operand} operand
 * @param {import("./rules.js").Operand | null} left what it was multiplied with
 * @returns {Sheet}
 */
function given(trace, own, { name, lit }, left) {
  const all = heads(trace.matrices[name]);
  const sheet = { ...own, symbol: told(name), all, head: all.length > 1 ? own.head : 0, shares: false, step: null, edits: null };
  const which = all.length > 1 ? own.name : word("steps.given");
  if (lit === "bias") return { ...sheet, name: which, rowLabels: [word("steps.bias")] };
  if (lit === "column" && left !== null) return { ...sheet, name: which, rowLabels: columnLabels(trace, left.name), edits: name };
  if (lit === "row") return { ...sheet, name: word("steps.given"), columnLabels: columnLabels(trace, name) };
  // What is added up has a letter; what was turned stands in a line with what became of it.
  const part = own.step === "input";
  return part ? { ...sheet, symbol: name[0].toUpperCase(), name: told(name), edits: name === "embeddings" ? "X" : null } : sheet;
}

/** The names of the columns of a step, or of a matrix that stands in place of one.
 * @param {TraceJson} trace @param {string} name */
function columnLabels(trace, name) {
  const step = trace.steps[name];
  if (step !== undefined) return columnsIn(step.axes[step.axes.length - 1].labels);
  return heads(trace.matrices[name])[0][0].map((_, n) => `${name === "Y" ? "y" : "d"}${n + 1}`);
}

/** The cell that stands for the others while none has been chosen. @param {TraceJson} trace @param {string} name
 * @returns {Place} */
export function chosenCell(trace, name) {
  const [rows, columns] = trace.steps[name].axes.slice(-2);
  const [lastRow, lastColumn] = [rows.labels.length - 1, columns.labels.length - 1];
  const causal = Object.values(trace.steps).some(({ rule }) => rule.causal === true);
  const row = causal ? lastRow : Math.min(1, lastRow); // the last row sees every column
  if (columns.name === "dimension") return { row, column: 0 };
  return { row, column: causal ? Math.min(1, lastColumn) : lastColumn };
}
