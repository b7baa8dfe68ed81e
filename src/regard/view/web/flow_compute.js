// A trace of attention computed anew, in float64, after changes: each step by the rule that made it.

import { number, ofHead } from "./arithmetic.js";
import { numbersOf } from "./rules.js";
import { word } from "./words.js";

/**
 * @typedef {import("./arithmetic.js").TraceJson} TraceJson
 * @typedef {import("./arithmetic.js").Rows} Rows
 * @typedef {import("./arithmetic.js").StepJson} StepJson
 * @typedef {import("./rules.js").RuleJson} RuleJson
 * @typedef {import("./flow_changes.js").Change} Change
 * @typedef {number[][]} Matrix
 *
 * @typedef {object} Work
 * @property {TraceJson} before
 * @property {TraceJson} trace that is being made
 * @property {Change[]} changes
 * @property {(name: string, head: number) => Matrix} rows of what is made already, or of a matrix
 */

/** @param {Rows} rows @returns {Matrix} */
const plain = (rows) => rows.map((row) => row.map(number));
/** @param {ArrayLike<number>} a @param {(n: number) => number} b */
const dot = (a, b) => {
  let sum = 0;
  for (let n = 0; n < a.length; n++) sum += a[n] * b(n);
  return sum;
};

/** May a query not see a key, as it comes later? @param {number} row @param {number} column @param {number} queries @param {number} keys */
export const isLater = (row, column, queries, keys) => column > row + keys - queries;

/** A row of scores as shares of 1; of a row without any, 0. @param {number[]} scores */
export function softmax(scores) {
  const largest = scores.reduce((a, b) => Math.max(a, b), -Infinity);
  if (largest === -Infinity) return scores.map(() => 0);
  const powers = scores.map((score) => Math.exp(score - largest));
  const total = powers.reduce((a, b) => a + b, 0);
  return powers.map((power) => power / total);
}

/** softmax(q kᵀ / √dₖ) v, every query seeing every key. @param {Matrix} q @param {Matrix} k @param {Matrix} v @returns {Matrix} */
export function attend(q, k, v) {
  const root = Math.sqrt(k[0].length);
  return q.map((row) => {
    const weights = softmax(k.map((key) => dot(row, (n) => key[n]) / root));
    return v[0].map((_, j) => dot(weights, (n) => v[n][j]));
  });
}

/** @type {Record<string, (work: Work, rule: any, step: StepJson, head: number) => Matrix>} */
const RULES = {
  Given: ({ rows }, _, __, head) => rows("", head),
  Copied: ({ rows }, { of }, _, head) => rows(of, head).map((row) => [...row]),
  Joined: ({ trace }, { of }) => {
    const heads = /** @type {Matrix[]} */ (trace.steps[of].array);
    return heads[0].map((_, row) => heads.flatMap((each) => each[row]));
  },
  Summed: ({ rows }, { of: [a, b] }, _, head) => {
    const other = rows(b, head);
    return rows(a, head).map((row, i) => row.map((value, j) => value + other[i][j]));
  },
  Product: ({ rows }, { left, weight, bias }, _, head) => {
    const [w, b] = [rows(weight, head), bias === null ? null : rows(bias, head)[0]];
    return rows(left, head).map((row) => w[0].map((_, j) => dot(row, (n) => w[n][j]) + (b === null ? 0 : b[j])));
  },
  Scored: scored,
  Turned: ({ rows }, { of, cosine, sine, halves }, _, head) => {
    const [cosines, sines] = [rows(cosine, head), rows(sine, head)];
    const width = cosines[0].length;
    return rows(of, head).map((row, i) => row.map((value, j) => {
      if (j >= width) return value;
      const partner = halves ? (j + Math.floor(width / 2)) % width : j ^ 1;
      return value * cosines[i][j] + row[partner] * sines[i][j];
    }));
  },
  Scaled: scaled,
  Softmaxed: ({ rows }, { scaled: name }, _, head) => rows(name, head).map(softmax),
  Mixed: (work, { weights, values }, step, head) => {
    const known = work.trace.steps[weights].array.length;
    const before = plain(ofHead(step.array, head));
    if (work.changes.some((each) => each.kind === "head" && each.head === head)) return before.map((row) => row.map(() => 0));
    if (head >= known) return before;
    const v = work.rows(values, head);
    return work.rows(weights, head).map((row) => v[0].map((_, j) => {
      // What is not attended to is left out, whatever it holds.
      let sum = 0;
      row.forEach((weight, n) => (sum += weight === 0 ? 0 : weight * v[n][j]));
      return sum;
    }));
  },
};

/** @param {Work} work @param {RuleJson} rule already changed @param {StepJson} step @param {number} head @returns {Matrix} */
function scaled(work, rule, step, head) {
  const was = ofHead(step.array, head);
  const bias = rule.bias === null ? null : work.rows(rule.bias, head);
  const made = work.rows(rule.scores, head).map((row, i) => row.map((score, j) => {
    const later = isLater(i, j, was.length, row.length);
    const masked = number(was[i][j]) === -Infinity && !(step.rule.causal && later);
    if (masked || (rule.causal && later)) return -Infinity;
    return score / rule.divisor + (bias === null ? 0 : bias[i][j]);
  }));
  for (const change of work.changes) {
    if (change.kind === "score" && change.stage === "scaled" && change.head === head) made[change.row][change.column] = change.value;
    if (change.kind === "cut" && (change.head ?? head) === head) made[change.row][change.column] = -Infinity;
  }
  return made;
}

/** @param {Work} work @param {RuleJson} rule @param {StepJson} _ @param {number} head @returns {Matrix} */
function scored({ rows, changes }, { query, key }, _, head) {
  const keys = rows(key, head);
  const made = rows(query, head).map((row) => keys.map((each) => dot(row, (n) => each[n])));
  for (const change of changes) {
    if (change.kind === "score" && change.stage === "scores" && change.head === head) made[change.row][change.column] = change.value;
  }
  return made;
}

/** The rule of a step, with √d_k and the mask as the changes want them. @param {TraceJson} trace @param {RuleJson} rule
 * @param {Change[]} changes @returns {RuleJson} */
function changedRule(trace, rule, changes) {
  if (rule.rule !== "Scaled") return rule;
  const made = { ...rule };
  for (const change of changes) {
    if (change.kind === "causal") made.causal = change.on;
    if (change.kind === "scale" && change.on === made.plain) {
      const width = /** @type {Rows[]} */ (trace.steps[trace.steps[rule.scores].rule.query].array)[0][0].length;
      made.plain = !change.on;
      made.divisor = !change.on ? 1 : rule.plain ? Math.sqrt(width) : rule.divisor;
    }
  }
  return made;
}

/** The formula of scaled scores, as Python writes it, for a rule that is changed. @param {StepJson} step @param {RuleJson} rule */
function formulaOf({ formula, rule: before }, rule) {
  let made = formula;
  if (rule.plain !== before.plain) {
    made = rule.plain ? made.replace(/^S′ = S \/ [^ ,]+/, word("flow.formula.plain")) : made.replace(word("flow.formula.plain"), word("flow.formula.divided"));
  }
  if (rule.causal !== before.causal) made = rule.causal ? made + word("flow.formula.later") : made.replace(word("flow.formula.later"), "");
  return made;
}

/** The name of the numbers that the words of a trace have, or null: it does not start from them alone.
 * @param {TraceJson} trace @returns {string | null} */
export function startOf({ matrices, sequences, steps }) {
  if (!Object.hasOwn(matrices, "W_Q") || Object.keys(sequences).join() !== "input") return null;
  return Object.hasOwn(matrices, "embeddings") ? "embeddings" : steps.input?.rule.rule === "Given" ? "input" : null;
}

/** The trace with other words, and their numbers, in some places. @param {TraceJson} trace @param {Change[]} changes
 * @param {Map<string, number[]>} vectors of words @returns {TraceJson} */
function reworded(trace, changes, vectors) {
  const start = startOf(trace);
  const swaps = changes.filter((each) => each.kind === "word");
  if (start === null || swaps.length === 0) return trace;
  const tokens = [...trace.sequences.input];
  const x = [...ofHead(numbersOf(trace, start), 0)];
  for (const { position, text } of swaps) [tokens[position], x[position]] = [text, vectors.get(text) ?? x[position]];
  const before = trace.sequences.input.join("\n");
  const steps = Object.fromEntries(Object.entries(trace.steps).map(([name, step]) => [name, {
    ...step, axes: step.axes.map((axis) => (axis.labels.join("\n") === before ? { ...axis, labels: tokens } : axis)),
    ...(name === start ? { array: x } : {}),
  }]));
  const matrices = start === "input" ? trace.matrices : { ...trace.matrices, [start]: x };
  return { ...trace, sequences: { input: tokens }, matrices, steps };
}

/** The trace after changes, which must be of places that are there; without any it is the one before.
 * @param {TraceJson} first @param {Change[]} changes @param {Map<string, number[]>} [vectors] of words that are put into it
 * @returns {TraceJson} */
export function computed(first, changes, vectors = new Map()) {
  if (changes.length === 0) return first;
  const before = reworded(first, changes, vectors);
  const matrices = Object.fromEntries(Object.entries(before.matrices).map(([name, array]) => [name, edited(name, array, changes)]));
  /** @type {TraceJson} */
  const trace = { ...before, matrices, steps: {} };
  for (const [name, step] of Object.entries(before.steps)) {
    const rule = changedRule(before, step.rule, changes);
    const several = Array.isArray(/** @type {any} */ (step.array)[0][0]);
    const given = rule.rule === "Given" ? edited(name, step.array, changes) : step.array;
    /** @type {Work} */
    const work = {
      before, trace, changes,
      rows: (other, head) => plain(ofHead(other === "" ? given : numbersOf(trace, other), head)),
    };
    const make = (/** @type {number} */ head) => RULES[rule.rule](work, rule, step, head);
    const array = several ? step.array.map((_, head) => make(head)) : make(0);
    trace.steps[name] = { ...step, rule, array, formula: rule === step.rule ? step.formula : formulaOf(step, rule) };
  }
  return trace;
}

/** Given numbers with those that were changed. @param {string} name @param {Rows | Rows[]} array @param {Change[]} changes */
function edited(name, array, changes) {
  const own = changes.filter((each) => each.kind === "number" && each.stage === name);
  if (own.length === 0) return array;
  const copy = structuredClone(array);
  for (const change of own) {
    if (change.kind !== "number") continue;
    const rows = ofHead(copy, change.head);
    if (change.row < rows.length && change.column < rows[0].length) rows[change.row][change.column] = change.value;
  }
  return copy;
}
