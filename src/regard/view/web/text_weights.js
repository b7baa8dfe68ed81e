// The weights that go with a token of a text: of a head, a layer, all layers, or by rollout.

import { pause } from "./pause.js";
import { word } from "./words.js";

/**
 * @import { RunInfo, RunSource } from "./source.js"
 * @import { State } from "./base.js"
 *
 * @typedef {"head" | "layer" | "all" | "rollout"} Of whose weights they are
 * @typedef {{ of: Of, way: "from" | "to", log: boolean }} Choice
 *
 * The weight that goes with each place of the text. A place is a position of the sequence; or, where
 * queries and keys are of different sequences, a query, or a key behind all queries.
 * @typedef {object} Answer
 * @property {Float64Array} weights 0 where it is not known
 * @property {number} rest how much of the weight is on places that are not known; NaN: that neither
 * @property {boolean} least whether a weight may be more than it says, as some of it is not known
 */

/**
 * The weights of the token that is chosen, or null if they are not wanted any more.
 * @param {RunSource} source
 * @param {State} state
 * @param {Choice} choice
 * @param {() => boolean} wanted
 * @param {(progress: string) => void} tell
 * @returns {Promise<Answer | null>}
 */
export async function weigh(source, state, { of, way }, wanted, tell) {
  const { info } = source;
  const { sequence, layer, head } = state;
  const token = state.token ?? 0;
  const { cross: crosses, queries: all, keys } = info.layers[layer];
  const weights = new Float64Array(crosses ? all + keys : keys);
  if (of === "rollout") {
    tell(word("text.following"));
    weights.set(await source.rollout(sequence, token));
    return { weights, rest: 0, least: false };
  }
  const layers = of === "all" ? alike(info, layer).filter((n) => way === "to" || hasQuery(info, n, token)) : [layer];
  const heads = headsOf(info, layers);
  let rest = 0;
  for (const [turn, n] of layers.entries()) {
    if (of === "all") tell(word("text.reading", { layer: turn + 1, layers: layers.length }));
    const { cross, position, queries, heads: own } = info.layers[n];
    const query = cross ? token : token - position;
    const one = of === "head" ? head : null;
    const row = await (way === "from" ? source.row(sequence, n, one, query) : source.column(sequence, n, one, token));
    if (of === "all") await pause();
    if (!wanted()) return null;
    const first = way === "from" ? (cross ? queries : 0) : cross ? 0 : position;
    const part = own / heads;
    for (let k = 0; k < row.weights.length; k++) weights[first + k] += row.weights[k] * part;
    rest += row.rest * part;
  }
  return { weights, rest, least: of !== "head" && !info.whole };
}

/** The layers whose weights are of the same places. @param {RunInfo} info @param {number} layer
 * @returns {number[]} */
export function alike(info, layer) {
  const { keys, cross } = info.layers[layer];
  return Array.from(info.layers.keys()).filter((n) => info.layers[n].keys === keys && info.layers[n].cross === cross);
}

/** How many heads these layers have. @param {RunInfo} info @param {number[]} layers */
export function headsOf(info, layers) {
  return layers.reduce((sum, n) => sum + info.layers[n].heads, 0);
}

/** @param {RunInfo} info @param {number} layer @param {number} token */
function hasQuery(info, layer, token) {
  const { cross, position, queries } = info.layers[layer];
  const query = cross ? token : token - position;
  return query >= 0 && query < queries;
}

/** Why there are no weights of a token; nothing if there are. @param {RunInfo} info @param {number} layer
 * @param {number} token @param {Choice} choice @returns {string} */
export function reasonAgainst(info, layer, token, { of, way }) {
  if (!info.whole && info.top === 0) return word("text.no_weights");
  if (of === "rollout" || way === "to" || hasQuery(info, layer, token)) return "";
  if (of === "all" && alike(info, layer).some((n) => hasQuery(info, n, token))) return "";
  return word("text.before");
}

/** The places of the largest weights, largest first. @param {Float64Array} weights @param {number} count
 * @param {(place: number) => boolean} counts @returns {number[]} */
export function strongest(weights, count, counts) {
  /** @type {number[]} */
  const best = [];
  weights.forEach((weight, place) => {
    if (!(weight > 0) || (best.length === count && weight <= weights[best[count - 1]]) || !counts(place)) return;
    const at = best.findIndex((other) => weights[other] < weight);
    best.splice(at < 0 ? best.length : at, 0, place);
    best.length = Math.min(best.length, count);
  });
  return best;
}
