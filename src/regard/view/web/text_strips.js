// The texts that a layer is about: one, or that which looks and that which is looked at; and the names of their tokens.

import { tokensOf } from "./source.js";
import { names, numbers, pieces, spoken } from "./text_pieces.js";
import { word } from "./words.js";

/**
 * @import { RunInfo } from "./source.js"
 * @import { Block } from "./text_pieces.js"
 * A text with its title, whose tokens are places from `first` on.
 * @typedef {{ title: string, blocks: Block[], first: number }} Strip
 */

/** @param {RunInfo} info @param {number} sequence @param {number} layer @returns {{ strips: Strip[], called: string[] }} */
export function stripsOf(info, sequence, layer) {
  const { cross, named, queries, keys, real } = info.layers[layer];
  const { from, to } = tokensOf(info, sequence, layer);
  const read = info.sequences[sequence];
  const isReal = real[sequence] ?? null;
  const positions = Array.from({ length: keys }, (_, n) => n).filter((n) => isReal === null || isReal[n]);
  const counted = (/** @type {string} */ what, /** @type {number} */ count) =>
    Array.from({ length: count }, (_, n) => `${what}${n}`);
  if (cross) {
    return {
      strips: [
        { title: word("text.queries"), blocks: from === null ? numbers(queries) : spoken(from), first: 0 },
        { title: word("text.keys"), blocks: to === null ? numbers(keys) : pieces(read, positions), first: queries },
      ],
      called: [
        ...(from === null ? counted(word("text.query"), queries) : names(from)),
        ...(to === null ? counted(word("text.key"), keys) : names(to, read.text)),
      ],
    };
  }
  return {
    strips: [{ title: "", blocks: to === null ? numbers(keys) : named ? pieces(read, positions) : spoken(to), first: 0 }],
    called: to === null ? counted("", keys) : names(to, named ? read.text : null),
  };
}
