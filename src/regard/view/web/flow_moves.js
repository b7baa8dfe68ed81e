// What moves while a stage is being made: a row meets a column in a cell, heads come together.

import { onScreen } from "./flow_camera.js";
import { madeCells } from "./flow_draw.js";
import { colourOf, inLetters } from "./flow_paint.js";
import { css, inkOn } from "./scale.js";

/**
 * @typedef {import("./flow_draw.js").Scene} Scene
 * @typedef {import("./flow_segments.js").Box} Box
 * @typedef {import("./flow_layout.js").Area} Area
 */

const FEW = 80; // cells that are made one by one

/** From 0 to 1, gently at both ends. @param {number} share */
export function gently(share) {
  const t = Math.min(1, Math.max(0, share));
  return t * t * (3 - 2 * t);
}

/** @param {CanvasRenderingContext2D} pen @param {Scene} scene */
export function drawMoves(pen, scene) {
  const { store, plan, stage, made, look, camera } = scene;
  if (stage === "" || made >= 1) return;
  const own = plan.boxes.find((box) => box.stage === stage && box.kind === "matrix");
  if (own === undefined) return;
  const { rows, columns, part, from } = store.outline.stages[stage];
  const area = onScreen(camera, own);
  if (part === "concatenated") {
    drawHeads(pen, scene, area, from[0]);
    return;
  }
  if (rows * columns > FEW) {
    pen.fillStyle = look.accent;
    pen.fillRect(area.x - 4, area.y + area.height * made - 1.5, area.width + 8, 3);
    return;
  }
  const operands = factors(scene);
  if (operands === null) return;
  const count = madeCells(made, rows * columns);
  const at = Math.min(rows * columns - 1, Math.floor(count));
  const [row, column, share] = [Math.floor(at / columns), at % columns, count - at];
  const cell = { width: area.width / columns, height: area.height / rows };
  const target = { x: area.x + column * cell.width, y: area.y + row * cell.height, ...cell };
  const [left, right] = operands;
  const way = gently(share / 0.55);
  const shrink = gently((share - 0.55) / 0.3);
  strip(pen, scene, left, row, false, target, way, shrink, look.left);
  strip(pen, scene, right, column, true, target, way, shrink, look.right);
  if (shrink > 0.6) {
    pen.strokeStyle = look.accent;
    pen.lineWidth = 3;
    pen.strokeRect(target.x, target.y, target.width, target.height);
  }
}

/** The matrix whose rows, and the one whose columns are multiplied; null: none are. @param {Scene} scene @returns {[Box, Box] | null} */
function factors({ plan, store, stage }) {
  const { from, part } = store.outline.stages[stage];
  if (from.length < 2 || part === "head_output" || part === "residual" || part === "input") return null;
  const left = plan.boxes.find((box) => box.stage === from[0] && box.kind === "matrix");
  const right = plan.boxes.find((box) => box.stage === from[1] && box.kind === (part === "scores" ? "turned" : "matrix"));
  return left === undefined || right === undefined ? null : [left, right];
}

/**
 * A row or a column on its way to a cell, and then into it.
 * @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {Box} box @param {number} n which @param {boolean} upright
 * @param {Area} target @param {number} way @param {number} shrink @param {string} edge
 */
function strip(pen, { camera, store, head, look }, box, n, upright, target, way, shrink, edge) {
  const area = onScreen(camera, box);
  const { rows, columns } = store.outline.stages[box.stage];
  const turned = box.kind === "turned";
  const [down, across] = turned ? [columns, rows] : [rows, columns];
  const length = upright ? down : across;
  const [w, h] = [area.width / across, area.height / down];
  const start = upright ? { x: area.x + n * w, y: area.y } : { x: area.x, y: area.y + n * h };
  const size = upright ? { width: w, height: area.height } : { width: area.width, height: h };
  // The row comes to the left of the cell, the column above it; there they shrink into it.
  const end = upright ? { x: target.x, y: target.y - size.height * 0.5 } : { x: target.x - size.width * 0.5, y: target.y };
  const small = 1 - 0.85 * shrink;
  const middle = { x: target.x + target.width / 2, y: target.y + target.height / 2 };
  const mix = (/** @type {number} */ a, /** @type {number} */ b, /** @type {number} */ t) => a + (b - a) * t;
  const at = { x: mix(start.x, end.x, way), y: mix(start.y, end.y, way) };
  const x = mix(at.x, middle.x - (size.width * small) / 2, shrink);
  const y = mix(at.y, middle.y - (size.height * small) / 2, shrink);
  const shades = store.shades(box.stage, head);
  if (shades === null) return;
  pen.globalAlpha = 1 - shrink * 0.7;
  const letter = Math.min(h * 0.5, w * 0.36, 30) * small;
  pen.font = `${letter}px ${look.mono}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  for (let k = 0; k < length; k++) {
    const [i, j] = upright ? [k, n] : [n, k];
    const value = turned ? store.value(box.stage, head, j, i) : store.value(box.stage, head, i, j);
    const colour = typeof value === "number" ? colourOf(value, shades) : null;
    if (typeof value !== "number" || colour === null) continue;
    const [cw, ch] = [w * small, h * small];
    const [cx, cy] = upright ? [x, y + k * ch] : [x + k * cw, y];
    pen.fillStyle = css(colour);
    pen.fillRect(cx, cy, cw, ch);
    if (letter < 6) continue;
    pen.fillStyle = inkOn(colour);
    pen.fillText(inLetters(value, 5, shades.decimals), cx + cw / 2, cy + ch / 2);
  }
  pen.strokeStyle = edge;
  pen.lineWidth = 3;
  pen.strokeRect(x, y, size.width * small, size.height * small);
  pen.globalAlpha = 1;
}

/** Each head's output goes to its columns. @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {Area} area @param {string} from */
function drawHeads(pen, { plan, store, camera, look, made }, area, from) {
  const box = plan.boxes.find((each) => each.stage === from && each.kind === "matrix");
  if (box === undefined) return;
  const start = onScreen(camera, box);
  const { heads } = store.outline.stages[from];
  const at = Math.min(heads - 1, Math.floor(made * heads));
  const bitmap = store.bitmap(from, at, look.dark);
  if (bitmap === null) return;
  const way = gently(made * heads - at);
  const x = start.x + (area.x + (area.width * at) / heads - start.x) * way;
  const y = start.y + (area.y - start.y) * way;
  pen.imageSmoothingEnabled = false;
  pen.drawImage(bitmap, x, y, area.width / heads, area.height);
  pen.strokeStyle = look.accent;
  pen.lineWidth = 2;
  pen.strokeRect(x, y, area.width / heads, area.height);
}
