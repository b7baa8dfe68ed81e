// What the page knows of each rule by which a step was made: its operands, and the line of a cell.

import { MINUS, dot, equals, factor, figure, number, ofHead, piece, plainly, summed } from "./arithmetic.js";
import { AROUND } from "./rules_around.js";
import { told } from "./told.js";
import { word } from "./words.js";

/**
 * @typedef {import("./arithmetic.js").TraceJson} TraceJson
 * @typedef {import("./arithmetic.js").Piece} Piece
 * @typedef {import("./arithmetic.js").Rows} Rows
 *
 * A rule as `Rule.to_dict` writes it: its name, and the names of what it was made from.
 * @typedef {{ rule: string } & Record<string, any>} RuleJson
 *
 * One of the matrices that a cell was made from: a step, or a matrix of that name. `lit` says which
 * cells of it: those of the cell's row or column, those of the row that its column names, the cell
 * itself, its row and it, or its place in a row of biases.
 * @typedef {object} Operand
 * @property {string} name
 * @property {"row" | "column" | "crossed" | "cell" | "row and cell" | "bias" | "none"} lit
 * @property {"left" | "right"} of
 * @property {string} [sign] what stands before it
 * @property {number} [head] if it is not the one of the cell
 * @property {number} [first] the column of the cell that its first column stands for
 *
 * A cell of a step: its number, its place, and what its rule names, in the same head.
 * @typedef {object} At
 * @property {TraceJson} trace
 * @property {RuleJson} rule
 * @property {import("./arithmetic.js").StepJson} step
 * @property {number} value
 * @property {number} row
 * @property {number} column
 * @property {number} head
 * @property {(name: string) => Rows} rows of a step, or of a matrix
 *
 * @typedef {{ operands: (rule: RuleJson, trace: TraceJson, head: number) => Operand[], line: (at: At) => Piece[] }} Known
 */

/** The numbers of a step, or of a matrix where no step has that name. @param {TraceJson} trace @param {string} name */
export function numbersOf(trace, name) {
  return Object.hasOwn(trace.steps, name) ? trace.steps[name].array : trace.matrices[name];
}

/** @param {Rows} rows @param {number} column */
const columnOf = (rows, column) => rows.map((row) => row[column]);

/** How many columns a step has. @param {TraceJson} trace @param {string} name */
const widthOf = (trace, name) => ofHead(numbersOf(trace, name), 0)[0].length;

/** How many heads weights were computed for. @param {RuleJson} rule @param {TraceJson} trace */
const knownHeads = ({ weights }, trace) => trace.steps[weights].axes[0].labels.length;

/** @type {Record<string, Known>} */
const RULES = {
  ...AROUND,
  Given: {
    operands: () => [],
    line: ({ value, rule }) => plainly(value, word(rule.words === "" ? "rule.given" : "rule.given_as", { words: told(rule.words) })),
  },
  Copied: {
    operands: ({ of }) => [{ name: of, lit: "cell", of: "left" }],
    line: ({ value, rule }) => plainly(value, word("rule.copied", { words: told(rule.words) || rule.of })),
  },
  Joined: {
    operands: ({ of }, trace) => trace.steps[of].axes[0].labels.map((_, head) =>
      ({ name: of, lit: "cell", of: "left", head })),
    line: ({ value, step, column }) => plainly(value, word("rule.copied", { words: told(step.axes[1].labels[column]) })),
  },
  OneJoined: {
    operands: ({ of, head }, trace) => [{ name: of, lit: "cell", of: "left", head: 0, first: head * widthOf(trace, of) }],
    line: ({ value, step, column }) => plainly(value, word("rule.copied", { words: told(step.axes[1].labels[column]) })),
  },
  Summed: {
    operands: ({ of }) => of.map((/** @type {string} */ name, /** @type {number} */ n) =>
      (n === 0 ? { name, lit: "cell", of: "left" } : { name, lit: "cell", of: "right", sign: "+" })),
    line: ({ value, rule, row, column, rows }) => {
      const added = rule.of.map((/** @type {string} */ name) => number(rows(name)[row][column]));
      const terms = added.map((/** @type {number} */ x, /** @type {number} */ n) =>
        (n === 0 ? piece("left", figure(x)) : piece("right", factor(x))));
      return [
        ...plainly(value, ` ${equals(value, added.map((/** @type {number} */ x) => [x]))} `),
        ...terms.flatMap((/** @type {Piece} */ term, /** @type {number} */ n) => (n === 0 ? [term] : [piece("", " + "), term])),
        piece("", ` (${told(rule.words) || rule.of.join(" + ")})`),
      ];
    },
  },
  Product: {
    operands: ({ left, weight, bias }) => [
      { name: left, lit: "row", of: "left" },
      { name: weight, lit: "column", of: "right", sign: "·" },
      .../** @type {Operand[]} */ (bias === null ? [] : [{ name: bias, lit: "bias", of: "right", sign: "+" }]),
    ],
    line: ({ value, rule, row, column, rows }) => dot(value, rows(rule.left)[row], columnOf(rows(rule.weight), column),
      rule.bias === null ? undefined : rows(rule.bias)[0][column]),
  },
  Scored: {
    operands: ({ query, key }) => [
      { name: query, lit: "row", of: "left" }, { name: key, lit: "crossed", of: "right", sign: "·" },
    ],
    line: ({ value, rule, row, column, rows }) => dot(value, rows(rule.query)[row], rows(rule.key)[column]),
  },
  Mixed: {
    // A head that is known by its result was made from nothing that is here.
    operands: (rule, trace, head) => {
      const known = head < knownHeads(rule, trace);
      const which = known ? head : 0;
      return [
        { name: rule.weights, lit: known ? "row" : "none", of: "left", head: which },
        { name: rule.values, lit: known ? "column" : "none", of: "right", sign: "·", head: which },
      ];
    },
    line: ({ value, rule, trace, row, column, head, rows }) => {
      if (head >= knownHeads(rule, trace)) return plainly(value, word("rule.known"));
      return dot(value, rows(rule.weights)[row], columnOf(rows(rule.values), column));
    },
  },
  Turned: {
    operands: ({ of }) => [{ name: of, lit: "cell", of: "left" }],
    line: ({ value, rule, row, column, rows }) => {
      const [cosines, sines] = [rows(rule.cosine)[row], rows(rule.sine)[row]];
      const width = cosines.length;
      if (column >= width) return plainly(value, word("rule.not_turned"));
      const partner = rule.halves ? (column + Math.floor(width / 2)) % width : column ^ 1;
      const before = rows(rule.of)[row];
      const [x, cosine, other, sine] = [before[column], cosines[column], before[partner], sines[column]].map(number);
      return [
        ...plainly(value, ` ${equals(value, [[x, cosine], [other, sine]])} `), piece("left", factor(x)),
        piece("", `·${factor(cosine)} ${sine < 0 ? MINUS : "+"} `), piece("left", factor(other)),
        piece("", `·${figure(Math.abs(sine))} (${word("rule.turned")})`),
      ];
    },
  },
  Scaled: {
    operands: ({ scores, bias }) => [
      { name: scores, lit: "cell", of: "left" },
      .../** @type {Operand[]} */ (bias === null ? [] : [{ name: bias, lit: "cell", of: "right", sign: "+" }]),
    ],
    line: scaled,
  },
  Softmaxed: {
    operands: (rule) => [{ name: rule.scaled, lit: "row and cell", of: "left" }],
    line: ({ value, rule, row, column, rows }) => softmaxed(value, rows(rule.scaled)[row].map(number), column),
  },
};

/**
 * What a cell is made from, in the order of the formula.
 * @param {TraceJson} trace @param {string} name of the step @param {number} head @returns {Operand[]}
 */
export function operands(trace, name, head) {
  const { rule } = trace.steps[name];
  return RULES[rule.rule].operands(rule, trace, head);
}

/**
 * The calculation behind one cell, in pieces; together they are what `Trace.explain` says.
 * @param {TraceJson} trace @param {string} name of the step
 * @param {number} row @param {number} column @param {number} head
 * @returns {Piece[]}
 */
export function explain(trace, name, row, column, head) {
  const step = trace.steps[name];
  const rows = (/** @type {string} */ other) => ofHead(numbersOf(trace, other), head);
  const value = number(ofHead(step.array, head)[row][column]);
  return RULES[step.rule.rule].line({ trace, rule: step.rule, step, value, row, column, head, rows });
}

/** @param {At} at @returns {Piece[]} */
function scaled({ value, rule, step, row, column, rows }) {
  if (value === -Infinity) {
    const [queries, keys] = step.axes.slice(-2).map((axis) => axis.labels);
    const later = rule.causal && column > row + keys.length - queries.length;
    return plainly(value, word(later ? "rule.later" : "rule.masked", { key: keys[column], query: queries[row] }));
  }
  const score = number(rows(rule.scores)[row][column]);
  const own = piece("left", figure(score));
  const bias = rule.bias === null ? undefined : number(rows(rule.bias)[row][column]);
  const more = bias === undefined ? [] : [piece("", " + "), piece("right", factor(bias)), piece("", ` (${word("rule.bias")})`)];
  if (rule.plain) {
    const sign = bias === undefined ? "=" : equals(value, [[score], [bias]]);
    return [...plainly(value, ` ${sign} `), own, ...more, piece("", word("rule.not_scaled"))];
  }
  const { divisor } = rule;
  // Only a root that is a whole number gives a score other than 0 an exact quotient.
  const products = [[value, divisor], ...(bias === undefined ? [] : [[-bias, divisor]])];
  const sign = Number.isInteger(divisor) || score === 0 ? equals(score, products) : "≈";
  const root = figure(divisor * divisor).replace(/\.0$/, "");
  return [...plainly(value, ` ${sign} `), own, piece("", ` / √${root}`), ...more];
}

/** @param {number} value @param {number[]} scores of its row @param {number} column @returns {Piece[]} */
function softmaxed(value, scores, column) {
  let own = scores[column];
  let allowed = scores.filter((score) => score !== -Infinity);
  if (own === -Infinity) return [piece("result", "0.0"), piece("", ` = e^${MINUS}∞ / …${word("rule.no_attention")}`)];
  const largest = allowed.reduce((a, b) => Math.max(a, b));
  let remark = "";
  // e^±100 is past what a reader, and e^±710 what a float, can hold.
  if (Math.abs(largest) > 100) {
    [own, allowed] = [own - largest, allowed.map((score) => score - largest)];
    remark = word("rule.largest_off");
  }
  const total = allowed.reduce((sum, score) => sum + Math.exp(score), 0);
  return [
    ...plainly(value, " ≈ "), piece("left", `e^${figure(own)}`), piece("", " / ("),
    ...summed(allowed.map((score) => [piece("left", `e^${figure(score)}`)])), piece("", ") ≈ "),
    piece("", `${figure(Math.exp(own))} / ${figure(total)}${remark}`),
  ];
}
