// What a training is asked by its view, and one that is in the page itself.

import { part } from "./embedded.js";

/**
 * A number over the steps: each point is the mean of `each` of them.
 * @typedef {{ steps: number[], values: (number | null)[], each: number }} Curve
 * A layer, and the tokens of the example that its queries and keys are; none if they are not known.
 * @typedef {{ name: string, heads: number, queries: string[], keys: string[] }} Layer
 * `pictures`: the steps after which they were taken; `chosen`: heads that changed most; `held`: heads
 * whose weights are at hand, null for all; `left_out`: pictures that are on the disk alone; `unread`:
 * lines of the log that say nothing; `diverged`: where the loss was no number first.
 * @typedef {{
 *   name: string, task: string, step: number, steps: number, status: "trains" | "stopped" | "ended" | "diverged",
 *   losses: Curve, learning_rates: Curve, validation: Record<string, Curve>, entropies: Record<string, Curve[]>,
 *   pictures: number[], layers: Layer[], example: Record<string, string[]>, chosen: [number, number][],
 *   held: [number, number][] | null, left_out: number, unread: number, diverged: string,
 * }} TrainingDocument
 * The weights of a head in each picture, queries × keys, with their sizes.
 * @typedef {{ queries: number, keys: number, pictures: Float32Array[] }} HeadPictures
 * @typedef {{ document: TrainingDocument, live: boolean, head: (layer: number, head: number) => Promise<HeadPictures> }} TrainingSource
 */

/** The number of 16 bits, as IEEE 754 has it. @param {number} bits */
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return fraction > 0 ? NaN : sign * Infinity;
  return sign * (exponent === 0 ? fraction / 2 ** 24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

/** A training whose page has all that is known of it. @implements {TrainingSource} */
export class EmbeddedTraining {
  live = false;

  /** @param {{ training: TrainingDocument, parts: Record<string, import("./embedded.js").PartInfo> }} content */
  constructor({ training, parts }) {
    this.document = training;
    this.parts = parts;
  }

  /** @param {number} layer @param {number} head @returns {Promise<HeadPictures>} */
  async head(layer, head) {
    const { data, shape } = await part(this.parts, `head-${layer}-${head}`);
    const [count, queries, keys] = shape;
    const size = queries * keys;
    const pictures = Array.from({ length: count }, (_, n) => Float32Array.from(data.subarray(n * size, (n + 1) * size), half));
    return { queries, keys, pictures };
  }
}
