// What the page knows of the rules of steps around attention: looked up, multiplied, normed, activated.

import { MINUS, dot, equals, exponential, factor, figure, number, piece, plainly, summed } from "./arithmetic.js";
import { word } from "./words.js";

/**
 * @typedef {import("./arithmetic.js").Piece} Piece
 * @typedef {import("./rules.js").At} At
 * @typedef {import("./rules.js").Known} Known
 * @typedef {import("./rules.js").Operand} Operand
 */

/** As Python's `f"{value:g}"`, with a true minus, of what a model has as ε or a base. @param {number} value */
export function general(value) {
  if (value === 0) return "0";
  const power = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(6)))));
  const text = power < -4 || power >= 6
    ? exponential(value, 5).replace(/\.?0+e/, "e") : value.toPrecision(6).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
  return text.replaceAll("-", MINUS);
}

/** ½(1 + erf(x / √2)): how much of a normal distribution lies below x. @param {number} x */
export function below(x) {
  const z = Math.abs(x) / Math.SQRT2;
  let share = 0; // of erfc
  if (z < 3) {
    let [term, sum] = [z, z];
    for (let n = 1; Math.abs(term) > 1e-17 * sum && n < 200; n++) {
      term *= -z * z / n;
      sum += term / (2 * n + 1);
    }
    share = 1 - 2 / Math.sqrt(Math.PI) * sum;
  } else {
    let fraction = 0;
    for (let n = 60; n > 0; n--) fraction = n / 2 / (z + fraction);
    share = Math.exp(-z * z) / Math.sqrt(Math.PI) / (z + fraction);
  }
  return x > 0 ? 1 - share / 2 : share / 2;
}

/** @param {number} x */
const sigmoid = (x) => (x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x)));

/** What each number is multiplied by. @type {Record<string, [(x: string) => string, (x: number) => number]>} */
const SHARES = {
  gelu: [(x) => `Φ(${x})`, below],
  gelu_tanh: [() => "½(1 + tanh(√(2/π)(x + 0.044715 x³)))",
    (x) => 0.5 * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))],
  silu: [(x) => `σ(${x})`, sigmoid],
};

/** @param {(string | null)[]} names @returns {Operand[]} */
const cells = (names) => names.filter((name) => name !== null).map((name) =>
  /** @type {Operand} */ ({ name, lit: "cell", of: "left" }));

/** @param {ArrayLike<number | string>} row @returns {number[]} */
const numbers = (row) => Array.from(row, number);

/** How far the key stands before the query. @param {At} at */
function before({ step, row, column }) {
  const [queries, keys] = step.axes.slice(-2).map((axis) => axis.labels.length);
  return row + keys - queries - column;
}

/** @type {Record<string, Known>} */
export const AROUND = {
  Linear: {
    operands: ({ left, weight, bias }) => [
      { name: left, lit: "row", of: "left" },
      { name: weight, lit: "crossed", of: "right", sign: "·" },
      .../** @type {Operand[]} */ (bias === null ? [] : [{ name: bias, lit: "bias", of: "right", sign: "+" }]),
    ],
    line: ({ value, rule, step, row, column, head, rows }) => {
      const at = head * step.axes[step.axes.length - 1].labels.length + column; // among the columns of all heads
      const right = numbers(rows(rule.weight)[at]);
      const whole = numbers(rows(rule.left)[row]);
      const left = rule.sliced ? whole.slice(head * right.length, (head + 1) * right.length) : whole;
      return dot(value, left, right, rule.bias === null ? undefined : number(rows(rule.bias).flat()[at]));
    },
  },
  LookedUp: {
    operands: () => [],
    line: ({ value, rule, row, column, rows, step }) => {
      let at = rule.row < 0 ? row : rule.row;
      if (rule.ids !== null) at = number(rows(rule.ids)[row][0]);
      const place = word("rule.row", { row: at, table: rule.table });
      if (rule.rows === null) return plainly(value, word("rule.looked_up", { place }));
      const width = step.axes[step.axes.length - 1].labels.length;
      const [own, root] = [number(rows(rule.rows)[row][column]), Math.sqrt(width)];
      const sign = Number.isInteger(root) ? equals(value, [[own, root]]) : "≈";
      return [...plainly(value, ` ${sign} `), piece("left", factor(own)), piece("", `·√${width} (${place})`)];
    },
  },
  Wave: {
    operands: () => [],
    line: ({ value, rule, step, row, column }) => {
      const width = step.axes[step.axes.length - 1].labels.length;
      const half = Math.floor((width + 1) / 2);
      const second = rule.halves ? column >= half : column % 2 === 1;
      const i = rule.halves ? (second ? column - half : column) : Math.floor(column / 2);
      const name = second ? "cos" : "sin";
      const angle = row * rule.base ** (-2 * i / width);
      return plainly(value, ` ≈ ${name}(${row} / ${general(rule.base)}^(${2 * i}/${width})) ≈ ${name}(${figure(angle)})`);
    },
  },
  Sloped: {
    operands: () => [],
    line: (at) => {
      const slope = number(at.rows(at.rule.slopes).flat()[at.head]);
      return [...dot(at.value, [-slope], [Math.abs(before(at))]), piece("", word("rule.slope"))];
    },
  },
  Bucket: {
    operands: () => [],
    line: (at) => {
      const far = before(at);
      const where = far > 0 ? word("rule.before", { far }) : far < 0 ? word("rule.after", { far: -far }) : word("rule.itself");
      const bucket = number(at.rows(at.rule.buckets)[at.row][at.column]);
      return plainly(at.value, word("rule.looked_up_key", { row: bucket, table: at.rule.table, where }));
    },
  },
  LayerNormed: {
    operands: ({ of }) => [{ name: of, lit: "row and cell", of: "left" }],
    line: ({ value, rule, row, column, rows }) => {
      const all = numbers(rows(rule.of)[row]);
      const mean = all.reduce((sum, x) => sum + x, 0) / all.length;
      const spread = all.reduce((sum, x) => sum + (x - mean) ** 2, 0) / all.length;
      const own = (/** @type {string | null} */ name) => (name === null ? null : number(rows(name).flat()[column]));
      const [weight, bias] = [own(rule.weight), own(rule.bias)];
      return [
        ...plainly(value, " ≈ ("), piece("left", figure(all[column])),
        piece("", ` ${MINUS} ${factor(mean)}) / √(${figure(spread)} + ${general(rule.eps)})`),
        ...(weight === null ? [] : [piece("", "·"), piece("right", factor(weight))]),
        ...(bias === null ? [] : [piece("", ` + ${factor(bias)}`)]),
      ];
    },
  },
  RmsNormed: {
    operands: ({ of }) => [{ name: of, lit: "row and cell", of: "left" }],
    line: ({ value, rule, row, column, rows }) => {
      const all = numbers(rows(rule.of)[row]);
      const square = all.reduce((sum, x) => sum + x * x, 0) / all.length;
      const own = number(rows(rule.weight).flat()[column]);
      return [
        ...plainly(value, " ≈ "), piece("left", figure(all[column])),
        piece("", ` / √(${figure(square)} + ${general(rule.eps)})·`), piece("right", factor(own)),
      ];
    },
  },
  Activated: {
    operands: ({ of }) => cells([of]),
    line: ({ value, rule, row, column, rows }) => {
      const x = number(rows(rule.of)[row][column]);
      if (rule.function === "relu") return plainly(value, ` = max(0, ${figure(x)})`);
      if (rule.function === "tanh") return plainly(value, ` ≈ tanh(${figure(x)})`);
      const [words, share] = SHARES[rule.function];
      return [
        ...plainly(value, " ≈ "), piece("left", factor(x)),
        piece("", `·${words(figure(x))} ≈ ${factor(x)}·${figure(share(x))}`),
      ];
    },
  },
  Gated: {
    operands: ({ gate, hidden }) => cells([gate, hidden]),
    line: ({ value, rule, row, column, rows }) => {
      const [gate, hidden] = [rule.gate, rule.hidden].map((name) => number(rows(name)[row][column]));
      const share = sigmoid(gate);
      return [
        ...plainly(value, " ≈ "), piece("left", factor(gate)), piece("", `·σ(${figure(gate)})·`),
        piece("right", factor(hidden)),
        piece("", ` ≈ ${factor(gate)}·${figure(share)}·${factor(hidden)}${word("rule.gate")}`),
      ];
    },
  },
  Mean: {
    operands: ({ of }) => [{ name: of, lit: "column", of: "left" }],
    line: ({ value, rule, column, rows }) => {
      const all = rows(rule.of).map((row) => number(row[column]));
      const sign = equals(value * all.length, all.map((x) => [x]));
      return [
        ...plainly(value, ` ${sign} (`),
        ...summed(all.map((x, n) => [piece("left", n === 0 ? figure(x) : factor(x))])),
        piece("", word("rule.mean", { count: all.length, of: rule.of })),
      ];
    },
  },
};
