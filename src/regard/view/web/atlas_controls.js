// What can be chosen about an atlas: what a block shows, its colours, what is left out.

import { field, toggle } from "./dom.js";

/**
 * @import { Choice } from "./atlas_words.js"
 * @typedef {Record<string, string | null>} Change of the state
 */

/** @param {Choice} choice @param {string[]} reduces what a block can show; fewer than one: nothing is said
 * @param {boolean} cross there is no diagonal @param {(change: Change) => void} say
 * @returns {HTMLElement[]} */
export function atlasControls({ reduce, log, mask }, reduces, cross, say) {
  const button = (
    /** @type {string} */ name, /** @type {boolean} */ on, /** @type {Change} */ change, /** @type {string} */ title,
    possible = true,
  ) => toggle(name, on, title, () => say(change), possible);
  const [diagonal, first] = [mask.diagonal !== null, mask.sink !== null];
  const out = (/** @type {boolean} */ a, /** @type {boolean} */ b) => ({
    "atlas-mask": [a && "diagonal", b && "first"].filter(Boolean).join(" ") || null,
  });
  const most = reduces.includes("max");
  const blocks = field("A block shows its", "What a block of weights shows",
    button("mean", reduce === "mean", { "atlas-reduce": null }, "The mean of the block's weights"),
    button("maximum", reduce === "max", { "atlas-reduce": "max" },
      most ? "The largest of the block's weights" : "This file has means only", most));
  return [
    ...(reduces.length > 0 ? [blocks] : []),
    field("Colours", "Scale of the colours",
      button("log", log, { "atlas-scale": null }, "By the logarithm: small weights can be seen"),
      button("linear", !log, { "atlas-scale": "linear" }, "In proportion to the weight")),
    field("Leave out", "What is left out",
      button("diagonal", diagonal, out(!diagonal, first), "What each token gives to itself", !cross),
      button("first token", first, out(diagonal, !first), "The first token, on which many heads rest (a “sink”)")),
  ];
}
