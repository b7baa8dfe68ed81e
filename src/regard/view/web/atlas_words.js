// What an atlas says in words: the tokens that are pointed at and their weight; what a file does not have.

import { figure, many, visible } from "./dom.js";
import { TILE } from "./source.js";
import { masked } from "./atlas_tiles.js";

/**
 * @import { RunSource } from "./source.js"
 * @import { Spot } from "./atlas_view.js"
 * @import { Kept, Mask } from "./atlas_tiles.js"
 * @import { Cell } from "./atlas_axes.js"
 * @typedef {{ sequence: number, layer: number, head: number, reduce: "mean" | "max", log: boolean,
 *   mask: Mask }} Choice what of a run is shown, and how
 * @typedef {{ finest: number | null, base: number | null }} Reach the finest level that is known
 *   everywhere; where there is none, the level that the head's small map is like
 */

/** How tokens are called. @param {RunSource} source @param {number} sequence @param {number} layer */
export function namesOf(source, sequence, layer) {
  const { named, position } = source.info.layers[layer];
  const tokens = named ? source.info.sequences[sequence]?.tokens : null;
  const key = (/** @type {number} */ n) => (tokens ? (tokens[n]?.text ?? "") : String(n));
  return { key, query: (/** @type {number} */ n) => (tokens ? key(n + position) : String(n)) };
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
    return ["Point at the map", "to read which token looks at which, and how much."];
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
    const out = isMasked(mask, level, query, key) ? " (left out of the colours)" : "";
    if (level === 0) return [`${pair}: ${figure(weight)}${out}`, `query ${many(query)}, key ${many(key)}`];
    const [[top, bottom], [left, right]] = [ends(query, level, queries), ends(key, level, keys)];
    const where = `${span(top, bottom, "query", "queries")} × ${span(left, right, "key", "keys")}`;
    const block = `${where}: ${reduce === "max" ? "maximum" : "mean"} ${figure(weight)}${out}`;
    if (unknown) return [`${pair}: not in this file`, block];
    const from = passage(source, sequence, layer, top + position, bottom + position);
    const at = passage(source, sequence, layer, left, right);
    return [block, from && at ? `“${from}” looks at “${at}”` : ""];
  }
  return [unknown ? `${pair}: not in this file` : "…", ""];
}

/** What this file does not have, of what would be seen. @param {RunSource} source @param {Reach} reach
 * @param {number} level the finest that is drawn */
export function lacking(source, { finest, base }, level) {
  const { top } = source.info;
  const strongest = top > 0 ? `of single weights the ${top} strongest of each query` : "no single weights";
  if (finest === 0) return "";
  if (finest === null && base === null) {
    if (top > 0) return `This file has ${strongest}, and no map of the rest: come nearer to see them.`;
    return "This file has no map of this head: a run with q and k would.";
  }
  const known = finest ?? base ?? 0;
  const size = Math.round(2 ** known);
  const has = `This file has blocks of ${finest === null ? "about " : ""}${size} × ${size} weights, and ${strongest}.`;
  if (level >= known) return finest === null ? has : "";
  return `${has} Where a weight is not in it, its block's mean is shown hatched.`;
}

/** @param {number} first @param {number} last @param {string} one @param {string} several */
function span(first, last, one, several) {
  return first === last ? `${one} ${many(first)}` : `${several} ${many(first)}–${many(last)}`;
}

/** The first and last of the weights that are in a block with this one. @param {number} at
 * @param {number} level @param {number} count @returns {[number, number]} */
function ends(at, level, count) {
  const size = 2 ** level;
  const block = Math.floor(at / size + 1e-9);
  return [Math.ceil(block * size - 1e-9), Math.min(count, Math.ceil((block + 1) * size - 1e-9)) - 1];
}
