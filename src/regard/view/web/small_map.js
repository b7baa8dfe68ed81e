// The small map of a head, without the rows and columns of it that no token falls in.

/** @import { Tile } from "./source.js" */

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
