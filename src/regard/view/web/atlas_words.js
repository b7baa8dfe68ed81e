// What an atlas says in words: the tokens that are pointed at and their weight; what a file does not have.

import { figure, many, visible } from "./dom.js";
import { TILE, tokensOf } from "./source.js";
import { masked } from "./atlas_tiles.js";
import { names } from "./text_pieces.js";
import { word } from "./words.js";

/**
 * @import { RunSource, Token } from "./source.js"
 * @import { Spot } from "./atlas_view.js"
 * @import { Kept, Mask } from "./atlas_tiles.js"
 * @import { Cell } from "./atlas_axes.js"
 * @import { Key } from "./words.js"
 * @typedef {{ sequence: number, layer: number, head: number, reduce: "mean" | "max", log: boolean,
 *   mask: Mask }} Choice what of a run is shown, and how
 * @typedef {{ finest: number | null, base: number | null }} Reach the finest level that is known
 *   everywhere; where there is none, the level that the head's small map is like
 */

/** How tokens are called. @param {RunSource} source @param {number} sequence @param {number} layer */
export function namesOf(source, sequence, layer) {
  const { cross, position } = source.info.layers[layer];
  const { from, to } = tokensOf(source.info, sequence, layer);
  const [queries, keys] = [from && labelsOf(from), to && labelsOf(to)];
  const key = (/** @type {number} */ n) => (keys ? (keys[n] ?? "") : String(n));
  return { key, query: (/** @type {number} */ n) => (queries ? (queries[cross ? n : n + position] ?? "") : String(n)) };
}

/** @type {WeakMap<Token[], string[]>} */
const labels = new WeakMap();

/** Tokens as they are; of those that share a letter, which piece of it each is. @param {Token[]} tokens */
export function labelsOf(tokens) {
  let found = labels.get(tokens);
  if (found === undefined) {
    const called = names(tokens);
    found = tokens.map(({ text }, n) => (called[n].startsWith(`${visible(text.trim())} (`) ? called[n] : text));
    labels.set(tokens, found);
  }
  return found;
}

/** @type {{ text: string, letters: string[] }} */
let spelled = { text: "", letters: [] };

/** The beginning of the text from one key to another; empty where it is not known.
 * @param {RunSource} source @param {number} sequence @param {number} layer @param {number} first
 * @param {number} last */
function passage(source, sequence, layer, first, last) {
  const { text, tokens } = source.info.sequences[sequence] ?? { text: null, tokens: null };
  if (!tokens || text === null || !source.info.layers[layer].named) return "";
  const inside = tokens.slice(first, last + 1).filter(({ start }) => start >= 0);
  if (inside.length === 0) return "";
  if (spelled.text !== text) spelled = { text, letters: Array.from(text) };
  const found = spelled.letters.slice(inside[0].start, inside[inside.length - 1].end);
  const words = found.slice(0, 60).join("").replace(/\s+/g, " ").trim();
  return visible(words) + (found.length > 60 ? " …" : "");
}

/** Is the block that holds a weight masked? @param {Mask} mask @param {number} level
 * @param {number} query @param {number} key */
export function isMasked(mask, level, query, key) {
  const size = 2 ** level;
  return masked({ level, row: 0, column: 0 }, Math.floor(query / size), mask)(Math.floor(key / size));
}

/** What is pointed at, and more about it. @param {RunSource} source @param {Choice} choice
 * @param {number[]} levels that are drawn, the coarsest first @param {(spot: Spot) => Kept | undefined} find
 * @param {Cell} pointed @returns {[string, string]} */
export function reading(source, choice, levels, find, { query, key }) {
  if (query === null || key === null) {
    return [word("atlas.point"), word("atlas.point_why")];
  }
  const { sequence, layer, mask, reduce } = choice;
  const { queries, keys, position } = source.info.layers[layer];
  const names = namesOf(source, sequence, layer);
  const pair = `${visible(names.query(query))} → ${visible(names.key(key))}`;
  let unknown = false;
  for (const level of [...levels].reverse()) {
    const size = TILE * 2 ** level;
    const kept = find({ level, row: Math.floor(query / size), column: Math.floor(key / size) });
    if (kept === undefined) continue;
    const weight = kept.at(query, key);
    if (Number.isNaN(weight)) {
      unknown = true;
      continue;
    }
    const out = isMasked(mask, level, query, key) ? word("atlas.out") : "";
    if (level === 0) return [`${pair}: ${figure(weight)}${out}`, word("atlas.pair", { query: many(query), key: many(key) })];
    const [[top, bottom], [left, right]] = [ends(query, level, queries), ends(key, level, keys)];
    const where = `${span(top, bottom, "atlas.query", "atlas.queries")} × ${span(left, right, "atlas.key", "atlas.keys")}`;
    const block = `${where}: ${word(reduce === "max" ? "atlas.maximum" : "atlas.mean")} ${figure(weight)}${out}`;
    if (unknown) return [word("atlas.missing", { pair }), block];
    const from = passage(source, sequence, layer, top + position, bottom + position);
    const at = passage(source, sequence, layer, left, right);
    return [block, from && at ? word("atlas.passages", { from, to: at }) : ""];
  }
  return [unknown ? word("atlas.missing", { pair }) : "…", ""];
}

/** What this file does not have, of what would be seen. @param {RunSource} source @param {Reach} reach
 * @param {number} level the finest that is drawn */
export function lacking(source, { finest, base }, level) {
  const { top } = source.info;
  const strongest = top > 0 ? word("atlas.strongest", { top }) : word("atlas.none");
  if (finest === 0) return "";
  if (finest === null && base === null) {
    if (top > 0) return word("atlas.only_strongest", { strongest });
    return word("atlas.no_map");
  }
  const known = finest ?? base ?? 0;
  const size = Math.round(2 ** known);
  const has = word(finest === null ? "atlas.has_about" : "atlas.has", { size, strongest });
  if (level >= known) return finest === null ? has : "";
  return `${has} ${word("atlas.hatched")}`;
}

/** @param {number} first @param {number} last @param {Key} one @param {Key} several */
function span(first, last, one, several) {
  return word(first === last ? one : several, { first: many(first), last: many(last) });
}

/** The first and last of the weights that are in a block with this one. @param {number} at
 * @param {number} level @param {number} count @returns {[number, number]} */
function ends(at, level, count) {
  const size = 2 ** level;
  const block = Math.floor(at / size + 1e-9);
  return [Math.ceil(block * size - 1e-9), Math.min(count, Math.ceil((block + 1) * size - 1e-9)) - 1];
}
