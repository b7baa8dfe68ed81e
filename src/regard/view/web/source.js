// Where the elements get a run from: the one set of questions that a file and the studio answer.

import { word } from "./words.js";

/**
 * @typedef {{ text: string, start: number, end: number }} Token `start` and `end` count the
 *   characters of the text (code points); both −1 for a token that does not stand in it
 *
 * @typedef {object} Sequence one text of the batch
 * @property {string | null} text
 * @property {Token[] | null} tokens one a position; null where they are not known
 *
 * @typedef {object} LayerInfo
 * @property {string} name
 * @property {boolean} cross keys are of another sequence than queries
 * @property {boolean} causal
 * @property {number} heads
 * @property {number} queries how many there are in each sequence
 * @property {number} keys
 * @property {number} position query i stands where key i + position does
 * @property {boolean} named whether the tokens of the sequence are those of its keys
 * @property {(boolean[] | null)[]} real of each sequence, which keys are no padding; null: all
 *
 * @typedef {object} HeadInfo means over all real queries; null where it was not measured
 * @property {number} layer
 * @property {number} head
 * @property {string} kind
 * @property {number | null} score the share, or spread, that makes it of this kind
 * @property {number | null} entropy in nats
 * @property {number | null} spread
 * @property {number | null} distance in tokens
 * @property {number | null} first
 * @property {number | null} self
 * @property {number | null} previous
 * @property {number | null} induction
 *
 * @typedef {object} RunInfo
 * @property {string} model
 * @property {[number, number][]} ablated layers and heads whose output was 0
 * @property {{ layer: number, head: number, token: number } | null} opening what stands out, where a view begins
 * @property {Sequence[]} sequences
 * @property {Token[][] | null} [written] of each sequence what a model wrote that reads one text and writes another
 * @property {LayerInfo[]} layers
 * @property {HeadInfo[]} heads in the order of layers and heads
 * @property {string[]} notes what could not be seen, or is not in this file
 * @property {boolean} whole whether every weight can be had
 * @property {number} top how many of the strongest keys of a query can be had at least
 * @property {number} bits with how many bits a weight is kept
 * @property {boolean} rollout whether there is an attention rollout
 * @property {string[] | null} stages the names of the places at which there are hidden states of tokens,
 *   first to last: "embedding", then "0 attention", "0 feed-forward", … or "0", "1", …; null: none
 * @property {string} [no_stages] why a file has none that the run had
 * @property {[string, number][][] | null} [predictions] of each position the likeliest tokens and how likely they are
 * @property {Lens | null} [lens] the same after each layer, as if the model ended there
 * @property {WhyInfo | null} [why] where a logit comes from, of which Python was asked
 *
 * @typedef {[string, number][][][]} Lens by layer and position the likeliest tokens and how likely they are
 *
 * @typedef {{ text: string, id: number, logit: number, probability: number }} Guess
 * @typedef {{ layer: number, head: number, share: number, lost: number,
 *   verdict: "holds" | "less" | "more" | "opposite" }} AblatedHead what is really lost without a head
 * @typedef {object} WhyInfo the parts of a logit, or of the difference of two, which add up to `total`
 * @property {number} position
 * @property {Guess} token
 * @property {Guess | null} against
 * @property {number} total
 * @property {number} rounding
 * @property {number | null} softcap
 * @property {number[][]} heads by layer and head
 * @property {number[]} feed_forward by layer
 * @property {Record<string, number>} embeddings
 * @property {Record<string, number>} biases
 * @property {AblatedHead[]} ablated
 *
 * @typedef {object} Row the weights of one query on all keys (or, `received`, on one key of all
 *   queries)
 * @property {Float32Array} weights 0 where it is not known
 * @property {number} rest how much weight is on keys that are not known; 0 if all are
 *
 * @typedef {object} Links the strongest keys of each query of one head
 * @property {number} count for each query
 * @property {Int32Array} keys (queries × count), strongest first; −1 where there are fewer
 * @property {Float32Array} weights
 *
 * @typedef {object} Tile one tile of a picture of a head's weights
 * @property {Float32Array} values (height × width), row by row; NaN where it is not known
 * @property {number} height
 * @property {number} width
 */

/** A tile has at most this many cells in height and in width. */
export const TILE = 256;

/**
 * What a run can be asked. All answers are of one `sequence` of the batch. `head` null is the mean
 * of all heads of the layer.
 * @typedef {object} RunSource
 * @property {RunInfo} info
 * @property {(sequence: number, layer: number, head: number | null, query: number) => Promise<Row>} row
 * @property {(sequence: number, layer: number, head: number | null, key: number) => Promise<Row>} column
 * @property {(sequence: number, layer: number, head: number) => Promise<Links>} links
 * @property {(sequence: number, layer: number, head: number) => Promise<Tile>} map a small picture
 *   of all weights, each cell the mean over its rectangle, multiplied by its number of keys (so that
 *   rows sum to 1)
 * @property {(sequence: number, layer: number, head: number, level: number, row: number,
 *   column: number, reduce: "mean" | "max") => Promise<Tile>} tile where a cell is a block of
 *   2^level × 2^level weights; tile (row, column) starts at weight (row · 256 · 2^level, column · …)
 * @property {(sequence: number) => Promise<number>} finest the smallest level of `tile` that is known
 *   everywhere; 0 if every weight is
 * @property {(sequence: number, token: number) => Promise<Float32Array>} rollout
 * @property {(sequence: number, tokens: number[]) => Promise<Float32Array[]>} hiddenStates of each token:
 *   (stages × width)
 * @property {() => Promise<[string, number][][] | null>} [predictions] at each position of the first text, the likeliest
 *   tokens and how likely they are; null, or missing, where there are none
 * @property {() => Promise<Lens | null>} [lens] the same after each layer
 * @property {(position: number, token: string, against: string | null) => Promise<WhyInfo>} [why] where the logit of a
 *   token comes from; missing where nobody can be asked
 */

/** The tokens of a layer by position: those that look, and those that are looked at; null where they are not known.
 * @param {RunInfo} info @param {number} sequence @param {number} layer
 * @returns {{ from: Token[] | null, to: Token[] | null }} */
export function tokensOf(info, sequence, layer) {
  const { cross, named, queries, keys } = info.layers[layer];
  const read = info.sequences[sequence]?.tokens ?? null;
  const written = info.written?.[sequence] ?? null;
  const fitting = (/** @type {Token[] | null} */ tokens, /** @type {number} */ count) => (tokens?.length === count ? tokens : null);
  if (cross) return { from: fitting(written, queries), to: written === null ? null : fitting(read, keys) };
  const own = named ? read : fitting(written, keys);
  return { from: own, to: own };
}

/** Why words have numbers for names, if they have. @param {boolean} cross @param {boolean} named
 * @returns {string[]} */
export function whyNumbers(cross, named) {
  if (named) return [];
  return [word(cross ? "numbers.cross" : "numbers.unknown")];
}

/** A map with a row a query and a column a key at most: query i is in row ⌊i · rows / queries⌋, so a map
 * with more rows than queries has some that are empty.
 * @param {Tile} tile @param {number} queries @param {number} keys @returns {Tile} */
export function compact(tile, queries, keys) {
  if (tile.height <= queries && tile.width <= keys) return tile;
  const [height, width] = [Math.min(tile.height, queries), Math.min(tile.width, keys)];
  const values = new Float32Array(height * width);
  for (let r = 0; r < height; r++) {
    const row = Math.floor((r * tile.height) / height);
    for (let c = 0; c < width; c++) {
      values[r * width + c] = tile.values[row * tile.width + Math.floor((c * tile.width) / width)];
    }
  }
  return { values, height, width };
}
