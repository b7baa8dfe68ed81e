// What is under a pixel of a flow: a token's name, a cell, a share of a bar, a ribbon.

import { ribbonsOf, weightsOf } from "./flow_bars.js";
import { onScreen } from "./flow_camera.js";
import { tokenIn } from "./flow_place.js";

/**
 * @typedef {import("./flow_draw.js").Scene} Scene
 * @typedef {import("./flow_draw.js").Cell} Cell
 * @typedef {import("./flow_source.js").Outline} Outline
 * The name of a row, and the token that can be followed by it; or a cell, also by its ribbon.
 * @typedef {{ kind: "token", token: number | null, stage: string, row: number } | ({ kind: "cell" | "ribbon" } & Cell)} Hit
 */

/** @param {Scene} scene @param {{ x: number, y: number }} pixel @param {CanvasRenderingContext2D | null} pen @returns {Hit | null} */
export function hitAt(scene, { x, y }, pen) {
  const { plan, camera, store, head, token } = scene;
  for (const box of plan.boxes) {
    const area = onScreen(camera, box);
    const { rows, columns } = store.outline.stages[box.stage];
    const [across, down] = [(x - area.x) / area.width, (y - area.y) / area.height];
    if (down < 0 || down >= 1) continue;
    const row = Math.floor(down * rows);
    if (x < area.x && x > area.x - box.names * camera.scale) {
      return { kind: "token", token: tokenIn(store.outline, box.stage, row), stage: box.stage, row };
    }
    if (across < 0 || across >= 1) continue;
    if (box.kind === "matrix") return { kind: "cell", stage: box.stage, row, column: Math.floor(across * columns) };
    if (box.kind === "turned") return { kind: "cell", stage: box.stage, row: Math.floor(across * rows), column: Math.floor(down * columns) };
    if (box.kind === "bars") {
      let sum = 0;
      const column = store.row(box.stage, head, row)?.values.findIndex((weight) => (sum += weight) > across) ?? -1;
      return column < 0 ? null : { kind: "cell", stage: box.stage, row, column };
    }
    if (box.kind === "ribbons" && pen !== null) {
      const weights = weightsOf(store, box.stage);
      const ratio = devicePixelRatio || 1;
      const found = ribbonsOf(store, box.stage, head, token, area).findLast(({ path }) => pen.isPointInPath(path, x * ratio, y * ratio));
      return found === undefined || weights === null ? null : { kind: "ribbon", stage: weights, row: found.row, column: found.column };
    }
  }
  return null;
}

/** Which change another number in a cell would be; null: it cannot be another. @param {Outline} outline @param {string} stage
 * @returns {"score" | "number" | null} */
export function changeOf({ changes, stages }, stage) {
  const { part, from, editable } = stages[stage];
  if (part === "scaled" || part === "scores") return changes.includes("score") ? "score" : null;
  const given = editable ?? (part === "matrix" || (part === "input" && from.length === 0));
  return given && changes.includes("number") ? "number" : null;
}
