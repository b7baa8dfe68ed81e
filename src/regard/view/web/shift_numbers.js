// The numbers of a word's journey: its places by name, how far each move went, how alike words are.

import { word } from "./words.js";

/**
 * @typedef {"start" | "attention" | "feed-forward" | "layer"} Kind of the move that led to a place; the
 *   first place has none
 * @typedef {object} Stage a place on the way
 * @property {Kind} kind
 * @property {string} layer its layer, as "3"; "" for the first place
 * @property {string} title as "layer 3, attention"
 *
 * @typedef {object} Journeys the vectors of words at all places
 * @property {number[]} words positions of the tokens
 * @property {Float32Array[]} vectors of each word: (stages × width)
 * @property {number} width
 *
 * @typedef {{ first: number, second: number, before: number, after: number }} Pair two words, by their
 *   place in the list, and their cosine similarities
 */

/** The places of `info.stages`. @param {string[]} names @returns {Stage[]} */
export function stagesOf(names) {
  const numbers = names.map((name) => /(\d+)$/.exec(name)?.[1] ?? null);
  const clear = numbers.every((number, n) => number === null || numbers.indexOf(number) === n);
  return names.map((name, n) => {
    const part = /^(.*) (attention|feed-forward)$/.exec(name);
    const layer = part?.[1] ?? (clear ? numbers[n] : null) ?? name;
    const whole = /^\d+$/.test(layer) ? word("shift.layer_only", { layer }) : layer === "embedding" ? word("shift.embedding") : layer;
    const title = part === null ? whole
      : word("shift.layer_part", { layer, part: word(part[2] === "attention" ? "shift.attention" : "shift.feed_forward") });
    const kind = n === 0 ? "start" : part === null ? "layer" : /** @type {Kind} */ (part[2]);
    return { kind, layer: n === 0 ? "" : layer, title };
  });
}

/** @param {Float32Array} vector @param {number} width @param {number} stage */
export function lengthAt(vector, width, stage) {
  let sum = 0;
  for (let d = stage * width; d < (stage + 1) * width; d++) sum += vector[d] ** 2;
  return Math.sqrt(sum);
}

/** Cosine similarity of two vectors, each at a place; NaN where one is 0. @param {Float32Array} a
 * @param {number} stageA @param {Float32Array} b @param {number} stageB @param {number} width */
export function cosine(a, stageA, b, stageB, width) {
  let sum = 0;
  for (let d = 0; d < width; d++) sum += a[stageA * width + d] * b[stageB * width + d];
  const lengths = lengthAt(a, width, stageA) * lengthAt(b, width, stageB);
  return lengths === 0 ? NaN : Math.max(-1, Math.min(1, sum / lengths));
}

/** How far the move to a place went, as a share of the vector's length before it; NaN where that is 0.
 * @param {Float32Array} vector @param {number} width @param {number} stage from 1 */
export function moveTo(vector, width, stage) {
  let sum = 0;
  for (let d = stage * width; d < (stage + 1) * width; d++) sum += (vector[d] - vector[d - width]) ** 2;
  const before = lengthAt(vector, width, stage - 1);
  return before === 0 ? NaN : Math.sqrt(sum) / before;
}

/** All pairs of words, at the first place and at another; those that came closer most are first.
 * @param {Journeys} journeys @param {number} stage @returns {Pair[]} */
export function pairs({ vectors, width }, stage) {
  /** @type {Pair[]} */
  const made = [];
  for (let first = 0; first < vectors.length; first++) {
    for (let second = first + 1; second < vectors.length; second++) {
      const [a, b] = [vectors[first], vectors[second]];
      made.push({ first, second, before: cosine(a, 0, b, 0, width), after: cosine(a, stage, b, stage, width) });
    }
  }
  const change = (/** @type {Pair} */ pair) => (Number.isNaN(pair.after - pair.before) ? -9 : pair.after - pair.before);
  return made.sort((a, b) => change(b) - change(a));
}

/** How many times as long as the first the last vectors are, on the whole. @param {Journeys} journeys
 * @param {number} stages */
export function growth({ vectors, width }, stages) {
  const sum = (/** @type {number} */ stage) => vectors.reduce((all, vector) => all + lengthAt(vector, width, stage), 0);
  return sum(0) === 0 ? Infinity : sum(stages - 1) / sum(0);
}

/** All places of all words as points, word by word; of length 1 if only directions count.
 * @param {Journeys} journeys @param {number} stages @param {boolean} directions @returns {Float64Array} */
export function pointsOf({ vectors, width }, stages, directions) {
  const points = new Float64Array(vectors.length * stages * width);
  vectors.forEach((vector, n) => {
    for (let stage = 0; stage < stages; stage++) {
      const unit = directions ? lengthAt(vector, width, stage) || 1 : 1;
      const start = (n * stages + stage) * width;
      for (let d = 0; d < width; d++) points[start + d] = vector[stage * width + d] / unit;
    }
  });
  return points;
}

/** A number with two decimals. @param {number} value @param {boolean} [sign] */
export function two(value, sign = false) {
  if (!Number.isFinite(value)) return "–";
  const text = Math.abs(value).toFixed(2);
  if (Number(text) === 0) return text;
  return `${value < 0 ? "−" : sign ? "+" : ""}${text}`;
}
