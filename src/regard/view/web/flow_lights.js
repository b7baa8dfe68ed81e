// Which cells a cell was made from, so that they light up with it.

/**
 * @typedef {import("./flow_source.js").Outline} Outline
 * @typedef {import("./flow_draw.js").Light} Light
 * @typedef {import("./flow_draw.js").Cell} Cell
 */

/** @param {Outline} outline @param {Cell | null} cell @returns {Light[]} */
export function lightsOf(outline, cell) {
  if (cell === null) return [];
  const { stage, row, column } = cell;
  const { part, from } = outline.stages[stage];
  /** @type {Light} */
  const own = { stage, rows: [row, row + 1], columns: [column, column + 1], of: "result" };
  const of = (/** @type {number} */ n) => outline.stages[from[n]];
  const rowOf = (/** @type {number} */ n, /** @type {number} */ which, /** @type {Light["of"]} */ side) =>
    /** @type {Light} */ ({ stage: from[n], rows: [which, which + 1], columns: [0, of(n).columns], of: side });
  const columnOf = (/** @type {number} */ n, /** @type {Light["of"]} */ side) =>
    /** @type {Light} */ ({ stage: from[n], rows: [0, of(n).rows], columns: [column, column + 1], of: side });
  const cellOf = (/** @type {number} */ n, /** @type {Light["of"]} */ side) => /** @type {Light} */ ({ ...own, stage: from[n], of: side });
  const same = (/** @type {number} */ n) => of(n).rows === outline.stages[stage].rows && of(n).columns === outline.stages[stage].columns;
  if (from.length === 0) return [own];
  if (part === "scores" && from.length > 1) return [rowOf(0, row, "left"), rowOf(1, column, "right"), own];
  if (part === "weights") return [rowOf(0, row, "left"), own];
  if (part === "concatenated") {
    const width = of(0).columns;
    return [{ ...own, stage: from[0], columns: [column % width, (column % width) + 1], of: "left" }, own];
  }
  if (from.length > 1 && of(1).rows === of(0).columns && of(1).columns === outline.stages[stage].columns && !same(1)
    || part === "head_output" || (from.length > 1 && of(1).part === "matrix" && part !== "input")) {
    return [rowOf(0, row, "left"), columnOf(1, "right"), own];
  }
  const made = from.map((_, n) => (same(n) ? cellOf(n, n === 0 ? "left" : "right") : rowOf(n, Math.min(row, of(n).rows - 1), n === 0 ? "left" : "right")));
  return [...made, own];
}
