// What is under a pixel of a flow: a token's name, a cell, a share of a bar, a ribbon.

import { ribbonsOf, weightsOf } from "./flow_bars.js";
import { onScreen } from "./flow_camera.js";
import { withChange } from "./flow_changes.js";
import { tokenIn } from "./flow_place.js";
import { labelWidth } from "./flow_segments.js";

/**
 * @typedef {import("./flow_draw.js").Scene} Scene
 * @typedef {import("./flow_draw.js").Cell} Cell
 * @typedef {import("./flow_source.js").Outline} Outline
 * @typedef {{ kind: "token", token: number } | ({ kind: "cell" | "ribbon" } & Cell)} Hit
 */

/** @param {Scene} scene @param {{ x: number, y: number }} pixel @param {CanvasRenderingContext2D | null} pen @returns {Hit | null} */
export function hitAt(scene, { x, y }, pen) {
  const { plan, camera, store, head, token } = scene;
  const labels = labelWidth(store.outline) * camera.scale;
  for (const box of plan.boxes) {
    const area = onScreen(camera, box);
    const { rows, columns } = store.outline.stages[box.stage];
    const [across, down] = [(x - area.x) / area.width, (y - area.y) / area.height];
    if (down < 0 || down >= 1) continue;
    const row = Math.floor(down * rows);
    if (box.rowLabels && x < area.x && x > area.x - labels) {
      return tokenIn(store.outline, box.stage, row) === null ? null : { kind: "token", token: row };
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
  if (part === "scaled") return changes.includes("score") ? "score" : null;
  const given = editable ?? (part === "matrix" || (part === "input" && from.length === 0));
  return given && changes.includes("number") ? "number" : null;
}

/** A score in the hand: as it is dragged up or down, it grows or shrinks. */
export class Held {
  #cell = { stage: "", row: 0, column: 0 };
  #head = 0;
  #value = 0;
  #each = 0; // of a pixel

  /** @param {import("./flow_store.js").Store} store @param {Cell} cell @param {number} head @returns {boolean} whether it can be dragged */
  take(store, { stage, row, column }, head) {
    const value = store.value(stage, head, row, column);
    const shades = store.shades(stage, head);
    if (typeof value !== "number" || !Number.isFinite(value) || shades === null) return false;
    [this.#cell, this.#head, this.#value, this.#each] = [{ stage, row, column }, head, value, Math.max(1, shades.most - shades.least) / 100];
    return true;
  }

  /** @param {import("./flow_changes.js").Change[]} changes @param {number} up pixels */
  dragged(changes, up) {
    const value = Number((this.#value + up * this.#each).toFixed(2));
    return withChange(changes, { kind: "score", ...this.#cell, head: this.#head, value });
  }
}
