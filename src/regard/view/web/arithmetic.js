// Figures as they are shown, whether they add up, and lines of them: as Python writes them, letter by letter.

import { word } from "./words.js";

/**
 * A trace as `Trace.to_json` writes it; a number that is not finite stands there as a word.
 * @typedef {number | string} Cell
 * @typedef {Cell[][]} Rows
 * @typedef {{ name: string, labels: string[] }} Axis
 * @typedef {object} StepJson
 * @property {number} number among the ten
 * @property {string} title
 * @property {string} symbol
 * @property {string} formula
 * @property {string} meaning
 * @property {Axis[]} axes
 * @property {Rows | Rows[]} array
 * @property {import("./rules.js").RuleJson} rule how its cells came about
 * @property {string} [kind] whose title and meaning it has, if not those of its name
 * @typedef {object} TraceJson
 * @property {string} title
 * @property {string} note
 * @property {Record<string, string[]>} sequences
 * @property {Record<string, Rows | Rows[]>} matrices
 * @property {Record<string, StepJson>} steps
 *
 * A part of a line: `of` says where its figure stands, in the result or in the first or second
 * matrix that it was made from; "" is what stands between.
 * @typedef {{ text: string, of: "" | "result" | "left" | "right" }} Piece
 */

export const MINUS = "−";
/** @type {Record<string, number>} */
const WORDS = { nan: NaN, inf: Infinity, "-inf": -Infinity };

/** The number in a cell. @param {Cell} cell @returns {number} */
export function number(cell) {
  return typeof cell === "number" ? cell : WORDS[cell];
}

/** One matrix of a step or of the given ones. @param {Rows | Rows[]} array @param {number} head @returns {Rows} */
export function ofHead(array, head) {
  return Array.isArray(array[0][0]) ? /** @type {Rows[]} */ (array)[head] : /** @type {Rows} */ (array);
}

/** @param {StepJson} step */
export function headCount(step) {
  return step.axes[0].name === "head" ? step.axes[0].labels.length : 1;
}

// ── figures ──────────────────────────────────────────────────────────────────────────────────────

/**
 * The size of a number times 10^decimals, as the nearest whole number, the even one of two: computed
 * without rounding, as Python does. `toFixed` and `toExponential` take the larger of two.
 * @param {number} value @param {number} decimals @returns {bigint}
 */
function whole(value, decimals) {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, Math.abs(value));
  const all = bits.getBigUint64(0);
  const power = Number(all >> 52n);
  // The number is digits · 2^twos, and where twos is below 0 that is digits · 5^−twos · 10^twos.
  const digits = (all & 0xfffffffffffffn) | (power === 0 ? 0n : 1n << 52n);
  const twos = Math.max(power, 1) - 1075;
  const top = (twos < 0 ? digits * 5n ** BigInt(-twos) : digits << BigInt(twos)) * 10n ** BigInt(Math.max(decimals, 0));
  const bottom = 10n ** BigInt(Math.max(-twos, 0) + Math.max(-decimals, 0));
  const twice = 2n * (top % bottom);
  const below = top / bottom;
  return twice > bottom || (twice === bottom && below % 2n === 1n) ? below + 1n : below;
}

/** @param {bigint} count @param {number} decimals */
function pointed(count, decimals) {
  const text = String(count).padStart(decimals + 1, "0");
  return decimals === 0 ? text : `${text.slice(0, -decimals)}.${text.slice(-decimals)}`;
}

/** As Python's `f"{value:.{decimals}f}"`, with a true minus. @param {number} value @param {number} decimals */
export function fixed(value, decimals) {
  const count = whole(value, decimals);
  return (value < 0 && count !== 0n ? MINUS : "") + pointed(count, decimals);
}

/** As Python's `f"{value:.{decimals}e}"`, with a true minus. @param {number} value @param {number} decimals */
export function exponential(value, decimals) {
  let power = value === 0 ? 0 : Number(value.toExponential().split("e")[1]);
  let count = whole(value, decimals - power);
  if (String(count).length > decimals + 1) count = whole(value, decimals - ++power);
  const sign = power < 0 ? MINUS : "+";
  return `${value < 0 ? MINUS : ""}${pointed(count, decimals)}e${sign}${String(Math.abs(power)).padStart(2, "0")}`;
}

/** A number as it is shown: four digits after the point at most, at least one.
 * @param {number} value @returns {string} */
export function figure(value) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : `${MINUS}∞`;
  const size = Math.abs(value);
  if (value !== 0 && !(size >= 1e-4 && size < 1e6)) return exponential(value, 3);
  const text = fixed(value, 4).replace(/0+$/, "");
  return text.endsWith(".") ? `${text}0` : text;
}

/**
 * What is to be known of matrices that are written alike: their ends, the size of their smallest
 * number that is not 0, how many decimals they need (4 at most), and whether all are finite.
 * @typedef {{ least: number, most: number, size: number, tiny: number, decimals: number, finite: boolean }} Facts
 * @type {WeakMap<Rows, Facts>}
 */
const known = new WeakMap();

/** @param {Rows[]} matrices of one array @returns {Facts} */
export function facts(matrices) {
  let found = known.get(matrices[0]);
  if (found === undefined) {
    found = { ...ends(matrices), decimals: decimalsOf(matrices) };
    known.set(matrices[0], found);
  }
  return found;
}

/** @param {Rows[]} matrices */
function ends(matrices) {
  let [least, most, tiny, finite] = [0, 0, Infinity, true];
  for (const rows of matrices) {
    for (const row of rows) {
      for (const cell of row) {
        const value = number(cell);
        if (!Number.isFinite(value)) finite = false;
        else {
          least = Math.min(least, value);
          most = Math.max(most, value);
          if (value !== 0) tiny = Math.min(tiny, Math.abs(value));
        }
      }
    }
  }
  return { least, most, size: Math.max(most, -least), tiny, finite };
}

/** @param {Rows[]} matrices */
function decimalsOf(matrices) {
  // Not exact equality: 1.0·1.2 + 0.9·0.6 is a few last bits away from 1.74.
  const near = (/** @type {number} */ value, /** @type {number} */ unit) => {
    const rounded = Math.round(value * unit) / unit;
    return Math.abs(value - rounded) <= 1e-12 + 1e-12 * Math.abs(rounded);
  };
  for (let decimals = 1; decimals < 4; decimals++) {
    const unit = 10 ** decimals;
    const enough = (/** @type {Cell} */ cell) => !Number.isFinite(number(cell)) || near(number(cell), unit);
    if (matrices.every((rows) => rows.every((row) => row.every(enough)))) return decimals;
  }
  return 4;
}

/**
 * How the cells of matrices are written: with one common number of decimals, at most `digits`.
 * @param {Facts} facts @param {number} digits @returns {(value: number) => string}
 */
export function figures({ size, decimals }, digits) {
  const powers = size >= 1e6 || (size > 0 && size < Number(`1e-${digits}`));
  const shown = Math.min(decimals, digits);
  return (value) => {
    if (!Number.isFinite(value)) return figure(value);
    return powers ? exponential(value, 2) : fixed(value, shown);
  };
}

// ── whether the figures shown add up ─────────────────────────────────────────────────────────────

/**
 * The number that a reader of `figure(value)` sees, count · 10^−places.
 * @param {number} value @returns {{ count: bigint, places: number }}
 */
function shown(value) {
  const [digits, power = "0"] = figure(value).replaceAll(MINUS, "-").split("e");
  const [units, decimals = ""] = digits.split(".");
  return { count: BigInt(units + decimals), places: decimals.length - Number(power) };
}

/**
 * “=” if the figures shown, multiplied and added, give the figure shown; “≈” if not.
 * @param {number} value @param {number[][]} products
 */
export function equals(value, products) {
  if (![value, ...products.flat()].every(Number.isFinite)) return "≈";
  const terms = products.map((factors) => factors.map(shown).reduce((a, b) => ({
    count: a.count * b.count, places: a.places + b.places,
  })));
  const result = shown(value);
  const places = Math.max(result.places, ...terms.map((term) => term.places));
  const scaled = (/** @type {{ count: bigint, places: number }} */ { count, places: own }) =>
    count * 10n ** BigInt(places - own);
  return terms.reduce((sum, term) => sum + scaled(term), 0n) === scaled(result) ? "=" : "≈";
}

/** @param {number} value */
export function factor(value) {
  return value < 0 && figure(value) !== "0.0" ? `(${figure(value)})` : figure(value);
}

// ── lines ────────────────────────────────────────────────────────────────────────────────────────

/** @param {Piece["of"]} of @param {string} text @returns {Piece} */
export function piece(of, text) {
  return { of, text };
}

/** @param {number} value @param {string} words @returns {Piece[]} */
export function plainly(value, words) {
  return [piece("result", figure(value)), piece("", words)];
}

/** Terms with a plus between them; of more than 16, the first eight and the last two.
 * @param {Piece[][]} terms @returns {Piece[]} */
export function summed(terms) {
  const more = [piece("", word("number.more", { count: terms.length - 10 }))];
  const kept = terms.length > 16 ? [...terms.slice(0, 8), more, ...terms.slice(-2)] : terms;
  if (kept.length === 0) return [piece("", "0.0")];
  return kept.flatMap((term, n) => (n === 0 ? term : [piece("", " + "), ...term]));
}

/** @param {number} value @param {Cell[]} left @param {Cell[]} right @param {Cell} [bias] @returns {Piece[]} */
export function dot(value, left, right, bias) {
  const terms = left.map((cell, n) => [number(cell), number(right[n])]);
  const products = terms.map(([a, b]) => [piece("left", factor(a)), piece("", "·"), piece("right", factor(b))]);
  const all = bias === undefined ? terms : [...terms, [number(bias)]];
  const line = [...plainly(value, ` ${equals(value, all)} `), ...summed(products)];
  return bias === undefined ? line : [...line, piece("", ` + ${factor(number(bias))} (${word("rule.bias")})`)];
}
