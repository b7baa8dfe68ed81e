// The names in a flow: of matrices, rows and columns, with the colours of each matrix and their ends.

import { visible } from "./dom.js";
import { onScreen } from "./flow_camera.js";
import { SMALLEST, drawSymbol, letters, tokenColour } from "./flow_look.js";
import { colourOf, inLetters } from "./flow_paint.js";
import { tokenIn } from "./flow_place.js";
import { CORNER } from "./flow_segments.js";
import { labelsOf } from "./flow_source.js";
import { css, heat, signed } from "./scale.js";
import { titleOf } from "./told.js";
import { word } from "./words.js";

/**
 * @typedef {import("./flow_segments.js").Box} Box
 * @typedef {import("./flow_layout.js").Area} Area
 * @typedef {import("./flow_draw.js").Scene} Scene
 */

const SLANT = Math.PI / 3.2; // of the names of columns that are too long to lie flat
const FOLLOWED = 12; // pixels of the letters of a name that stands alone
const FAR = 9; // pixels of the letters of a symbol that is seen from far away

/** @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {Box} box @param {Area} area */
export function drawNames(pen, scene, box, area) {
  const { camera, look, store } = scene;
  const stage = store.outline.stages[box.stage];
  const size = Math.min(34, camera.scale * 0.6);
  if (size < SMALLEST) return;
  if (box.sign !== "" && box.sign !== "→" && stage.plain !== true) {
    const long = box.sign.length > 1;
    letters(pen, look, long ? size * 0.85 : size * 1.3, true);
    pen.fillStyle = look.faint;
    pen.textBaseline = "middle";
    pen.textAlign = box.corner ? "right" : "center";
    // Longer signs stand above the arrow that leads here, or beside it where it comes from above.
    if (box.corner) pen.fillText(box.sign, area.x - camera.scale * (CORNER + 0.3), area.y - camera.scale * 0.5);
    else pen.fillText(box.sign, area.x - camera.scale * (box.names + (long ? 1.42 : box.sign === "·" ? 0.38 : 0.65)), area.y + area.height / 2 - (long ? size * 0.95 : 0));
  }
  if (box.names > 0) rowLabels(pen, scene, box, area);
  let labels = 0; // pixels above it
  if (box.columnLabels) {
    const names = box.kind === "turned" ? stage.row_labels : stage.column_labels;
    const count = box.kind === "turned" ? stage.rows : stage.columns;
    labels = Math.max(camera.scale * 0.95, columnLabels(pen, scene, labelsOf(store.outline, names, count), area, count));
  }
  if (box.caption === "") return;
  const symbol = box.kind === "turned" ? `${stage.symbol}ᵀ` : box.kind === "next" ? "" : stage.symbol;
  const title = box.kind === "turned" ? word("flow.turn") : box.kind === "next" ? nextAfter(scene, stage)
    : stage.part === "matrix" ? "" : titleOf(box.stage, stage).toLowerCase();
  const above = box.caption === "above";
  const [first, second] = above
    ? [area.y - labels - camera.scale * 1.12, area.y - labels - camera.scale * 0.4]
    : [area.y + area.height + camera.scale * 0.55, area.y + area.height + camera.scale * 1.27];
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.fillStyle = scene.stage === box.stage ? look.accent : look.ink;
  const used = drawSymbol(pen, look, symbol, area.x, first, size) + size * 0.4;
  letters(pen, look, Math.max(SMALLEST, size * 0.72));
  pen.fillStyle = look.faint;
  const room = area.width + camera.scale * 1.2 - used;
  if (pen.measureText(title).width <= room) pen.fillText(title, area.x + used, first);
  if (box.kind === "matrix" && size >= 9) legend(pen, scene, box, area, second, size * 0.62);
}

/** From so far away that names have no room, the symbol of each matrix in a corner of it. @param {CanvasRenderingContext2D} pen
 * @param {Scene} scene @param {Box[]} boxes */
export function drawSymbols(pen, { camera, look, store, hidden, width, height }, boxes) {
  if (camera.scale * 0.6 >= SMALLEST) return;
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  for (const { stage, kind, ...box } of boxes) {
    const area = onScreen(camera, box);
    if ((kind !== "matrix" && kind !== "turned") || hidden.has(stage) || area.height < FAR * 1.7) continue;
    if (area.x > width || area.y > height || area.x + area.width < 0 || area.y + area.height < 0) continue;
    const symbol = store.outline.stages[stage].symbol.split("_")[0] + (kind === "turned" ? "ᵀ" : "");
    letters(pen, look, FAR, true);
    const wide = pen.measureText(symbol).width + 3;
    if (area.width < wide * 1.7) continue;
    pen.globalAlpha = 0.88;
    pen.fillStyle = look.page;
    pen.fillRect(area.x + 1, area.y + 1, wide, FAR * 1.25);
    pen.globalAlpha = 1;
    pen.fillStyle = look.ink;
    pen.fillText(symbol, area.x + 2.5, area.y + 1 + FAR * 0.65);
  }
}

/** @param {Scene} scene @param {import("./flow_source.js").Stage} stage */
function nextAfter({ store, token }, { row_labels, rows }) {
  return word("flow.next.of", { token: visible(labelsOf(store.outline, row_labels, rows)[token ?? rows - 1] ?? "") });
}

/** The colours of a stage with the numbers at their ends. @param {CanvasRenderingContext2D} pen @param {Scene} scene
 * @param {Box} box @param {Area} area @param {number} y @param {number} size */
function legend(pen, { store, head, look }, box, area, y, size) {
  const shades = store.shades(box.stage, head);
  if (shades === null || area.width < size * 4) return;
  pen.font = `${Math.max(SMALLEST, size)}px ${look.mono}`;
  pen.fillStyle = look.faint;
  const [least, most] = [inLetters(shades.least, 5, shades.decimals), inLetters(shades.most, 5, shades.decimals)];
  const [a, b] = [pen.measureText(least).width, pen.measureText(most).width];
  const room = Math.min(area.width, size * 16) - a - b - 8;
  if (room < 14) return;
  pen.textAlign = "left";
  pen.fillText(least, area.x, y);
  const steps = 16;
  for (let n = 0; n < steps; n++) {
    const share = n / (steps - 1);
    const value = shades.log ? shades.least * (shades.most / shades.least) ** share : shades.least + (shades.most - shades.least) * share;
    const colour = colourOf(value, shades) ?? (shades.kind === "weights" ? heat(share) : signed(share));
    pen.fillStyle = css(colour);
    pen.fillRect(area.x + a + 4 + (room * n) / steps, y - size * 0.35, room / steps + 0.5, size * 0.7);
  }
  pen.fillStyle = look.faint;
  pen.fillText(most, area.x + a + room + 8, y);
}

/** @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {Box} box @param {Area} area */
function rowLabels(pen, { look, token: followed, camera, height, store }, { stage, names }, area) {
  const { row_labels, rows } = store.outline.stages[stage];
  const labels = labelsOf(store.outline, row_labels, rows);
  const token = tokenIn(store.outline, stage, followed);
  const line = area.height / rows;
  const size = Math.min(Math.max(line * 0.62, Math.min(SMALLEST, line)), 34, Math.max(SMALLEST, camera.scale * 0.6));
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  if (size < SMALLEST) {
    if (token === null) return;
    // There is no room for all names, but for the one that is followed.
    letters(pen, look, FOLLOWED, true);
    pen.fillStyle = look.ink;
    pen.fillText(visible(labels[token] ?? ""), area.x - 5, area.y + (token + 0.5) * line, Math.max(30, camera.scale * names));
    return;
  }
  for (let n = Math.max(0, Math.floor(-area.y / line)); n < rows && area.y + n * line < height; n++) {
    const y = area.y + (n + 0.5) * line;
    letters(pen, look, size, n === token);
    pen.fillStyle = token === null || n === token ? look.ink : look.faint;
    pen.fillText(visible(labels[n] ?? ""), area.x - 9, y, Math.max(30, camera.scale * names - 10));
    pen.fillStyle = tokenColour(n);
    pen.fillRect(area.x - 6, area.y + n * line + 2, 3, line - 4);
  }
}

/** @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {string[]} labels @param {Area} area @param {number} columns
 * @returns {number} pixels that they take */
function columnLabels(pen, { look, camera, width }, labels, area, columns) {
  const cell = area.width / columns;
  let size = Math.min(camera.scale * 0.52, 28, cell * 0.9);
  if (size < SMALLEST) return 0;
  letters(pen, look, size);
  pen.fillStyle = look.faint;
  pen.textBaseline = "bottom";
  let tall = size;
  const from = Math.max(0, Math.floor(-area.x / cell));
  const last = Math.min(columns, Math.ceil((width - area.x) / cell));
  // A little smaller, if then all can lie flat.
  const widest = columns > 24 ? Infinity : Math.max(...labels.map((label) => pen.measureText(visible(label)).width)) / (cell * 0.94);
  const flat = widest <= 1.45 && size / widest >= SMALLEST - 1;
  if (flat && widest > 1) letters(pen, look, (size /= widest));
  // Names that are turned need room beside one another.
  if (!flat) letters(pen, look, (size = Math.min(size, cell * 0.75)));
  if (!flat && size < SMALLEST) return 0;
  for (let n = from; n < last; n++) {
    const [x, y] = [area.x + (n + 0.5) * cell, area.y - 4];
    const text = visible(labels[n] ?? "");
    if (flat) {
      pen.textAlign = "center";
      pen.fillText(text, x, y);
      continue;
    }
    const longest = camera.scale * 3;
    tall = Math.max(tall, Math.sin(SLANT) * Math.min(longest, pen.measureText(text).width) + size * 0.6);
    pen.save();
    pen.translate(x + size * 0.35, y);
    pen.rotate(-SLANT);
    pen.textAlign = "left";
    pen.fillText(text, 0, 0, longest);
    pen.restore();
  }
  return tall;
}
