// How far down an atlas reaches: which levels its source has, and what stands in for those it has not.

import { TILE, compact } from "./source.js";
import { levelFor, topLevel } from "./atlas_view.js";

/**
 * @import { RunSource, Tile } from "./source.js"
 * @import { Spot } from "./atlas_view.js"
 * @import { Choice, Reach } from "./atlas_words.js"
 */

const SINGLE = 4; // pixels of a weight from which on a few single ones tell more than the mean of all

/** @param {RunSource} source @param {Choice} choice @returns {Promise<Reach>} */
export async function reached(source, { sequence, layer, head }) {
  const finest = await source.finest(sequence);
  if (finest !== null && finest !== undefined) return { finest, base: null };
  const { queries, keys } = source.info.layers[layer];
  const none = { finest: null, base: null };
  try {
    const map = compact(await source.map(sequence, layer, head), queries, keys);
    return queries === keys && map.height === map.width ? { ...none, base: Math.log2(keys / map.width) } : none;
  } catch {
    return none;
  }
}

/** The coarsest level: one tile of it holds all weights. @param {Reach} reach @param {number} queries
 * @param {number} keys */
export function coarsest({ finest, base }, queries, keys) {
  return base ?? Math.max(finest ?? 0, topLevel(queries, keys));
}

/** The levels to draw at a scale, the coarsest first: two where single weights are known in part.
 * @param {Reach} reach @param {number} scale @param {number} top @param {number} links how many of a query
 * are known @returns {number[]} */
export function levelsAt({ finest, base }, scale, top, links) {
  const level = levelFor(scale, top);
  if (finest !== null && level >= finest) return [level];
  const known = finest ?? base;
  if (known === 0) return [0];
  return [...(known === null ? [] : [known]), ...(scale >= SINGLE && links > 0 ? [0] : [])];
}

/** @param {RunSource} source @param {Reach} reach @param {Choice} choice @param {Spot} spot
 * @returns {Promise<Tile>} */
export async function tileOf(source, reach, choice, { level, row, column }) {
  const { sequence, layer, head } = choice;
  if (reach.finest === null && level === reach.base) return meansOf(source, choice);
  const reduce = level === 0 ? "mean" : choice.reduce;
  const tile = await source.tile(sequence, layer, head, level, row, column, reduce);
  const { causal, position } = source.info.layers[layer];
  if (!causal || level > 0 || reach.finest === 0) return tile;
  // What a query may not look at is known to be nothing, also where only links are.
  const values = tile.values.slice();
  for (let r = 0; r < tile.height; r++) {
    const beyond = row * TILE + r + position + 1 - column * TILE;
    for (let c = Math.max(0, beyond); c < tile.width; c++) values[r * tile.width + c] = 0;
  }
  return { ...tile, values };
}

/** The small map of a head, as means of weights. @param {RunSource} source @param {Choice} choice
 * @returns {Promise<Tile>} */
async function meansOf(source, { sequence, layer, head }) {
  const { queries, keys } = source.info.layers[layer];
  const { values, height, width } = compact(await source.map(sequence, layer, head), queries, keys);
  const size = keys / width;
  const means = values.map((value, n) => {
    const c = n % width;
    return value / Math.max(1, Math.ceil((c + 1) * size) - Math.ceil(c * size));
  });
  return { values: means, height, width };
}
