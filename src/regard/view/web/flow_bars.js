// Weights as bars of length 1 that the keys share, values as ribbons as thick as their weights, and the next word.

import { SMALLEST, inkOnToken, letters, tokenColour } from "./flow_look.js";
import { colourOf } from "./flow_paint.js";
import { tokenIn } from "./flow_place.js";
import { labelsOf } from "./flow_source.js";
import { figure, visible } from "./dom.js";
import { css, inkOn } from "./scale.js";
import { guessIn } from "./told.js";
import { word } from "./words.js";

/**
 * @typedef {import("./flow_segments.js").Box} Box
 * @typedef {import("./flow_layout.js").Area} Area
 * @typedef {import("./flow_draw.js").Scene} Scene
 * @typedef {import("./flow_store.js").Store} Store
 * @typedef {{ row: number, column: number, weight: number, path: Path2D }} Ribbon
 */

const FEW = 16; // tokens whose ribbons are all drawn
const RIBBONS = 40; // of one token
const LEAST = 0.004; // the weight of a ribbon
const TOLD = 0.02; // the weight of one among many that has its number beside it
/** @type {import("./flow_paint.js").Shades} */
const NONE = { least: 0, most: 1, kind: "weights", log: false, decimals: 4, open: false };

/** How far row n of so many has come: one after the other. @param {number} share @param {number} n @param {number} count */
export function staggered(share, n, count) {
  const each = 0.45;
  return Math.min(1, Math.max(0, (share - ((1 - each) * n) / Math.max(1, count - 1)) / each));
}

/** The weights of the attention that a stage belongs to. @param {Store} store @param {string} stage */
export function weightsOf({ outline }, stage) {
  const { attention } = outline.stages[stage];
  return Object.keys(outline.stages).find((name) => outline.stages[name].attention === attention && outline.stages[name].part === "weights") ?? null;
}

/** @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {Box} box @param {Area} area */
export function drawBars(pen, scene, box, area) {
  const { store, ghost, hidden, head, look, camera } = scene;
  const token = tokenIn(store.outline, box.stage, scene.token);
  const stage = store.outline.stages[box.stage];
  if (hidden.has(box.stage) || store.headOf(box.stage, head) === null) return;
  const share = scene.stage === box.stage ? scene.made : 1;
  const line = area.height / stage.rows;
  const alpha = pen.globalAlpha;
  if (line < 5) {
    drawMany(pen, scene, box, area, share);
    return;
  }
  const labels = labelsOf(store.outline, stage.column_labels, stage.columns);
  for (let row = Math.max(0, Math.floor(-area.y / line)); row < stage.rows && area.y + row * line < scene.height; row++) {
    const found = store.row(box.stage, head, row);
    if (found === null) continue;
    pen.globalAlpha = alpha * (token === null || token === row ? 1 : 0.22);
    const filled = staggered(share, row, stage.rows);
    const [y, tall] = [area.y + (row + 0.16) * line, line * (ghost === null ? 0.68 : 0.44)];
    pen.strokeStyle = look.edge;
    pen.lineWidth = 1;
    pen.strokeRect(area.x, y, area.width, tall);
    let x = area.x;
    found.values.forEach((weight, column) => {
      const width = weight * area.width * filled;
      if (width < 0.3) return;
      const own = stage.columns <= FEW ? null : colourOf(weight, store.shades(box.stage, head) ?? NONE);
      pen.fillStyle = own === null ? tokenColour(column) : css(own);
      pen.fillRect(x, y, Math.max(0.5, width - (width > 4 ? 1 : 0)), tall);
      inside(pen, scene, labels[column], own === null ? inkOnToken(column) : inkOn(own), x, y, width, tall);
      x += width;
    });
    const before = ghost?.row(box.stage, head, row);
    if (before === null || before === undefined) continue;
    x = area.x;
    before.values.forEach((weight, column) => {
      const width = weight * area.width;
      pen.strokeStyle = stage.columns <= FEW ? tokenColour(column) : look.faint;
      pen.lineWidth = 1.5;
      if (width > 1) pen.strokeRect(x + 0.75, y + tall + 2, width - 1.5, Math.max(2, line * 0.24));
      x += width;
    });
  }
  pen.globalAlpha = alpha;
  const size = Math.min(18, camera.scale * 0.43);
  if (size < SMALLEST) return;
  letters(pen, look, size);
  pen.fillStyle = look.faint;
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.fillText(word("flow.sum.one"), area.x, area.y + area.height + camera.scale * 0.55, area.width);
}

/** The name of a key in its share of the bar. @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {string} label
 * @param {string} ink @param {number} x @param {number} y @param {number} width @param {number} tall */
function inside(pen, { look }, label, ink, x, y, width, tall) {
  const size = Math.min(tall * 0.62, 20);
  if (size < SMALLEST) return;
  letters(pen, look, size);
  const text = visible(label);
  if (pen.measureText(text).width > width - 5) return;
  pen.fillStyle = ink;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(text, x + width / 2, y + tall / 2);
}

/** Bars of many tokens: of blocks, as thin as they are. @param {CanvasRenderingContext2D} pen @param {Scene} scene
 * @param {Box} box @param {Area} area @param {number} share */
function drawMany(pen, { store, head, look }, box, area, share) {
  const bars = store.bars(box.stage, head, look.dark);
  if (bars === null) return;
  pen.imageSmoothingEnabled = false;
  pen.drawImage(bars, area.x, area.y, area.width * share, area.height);
  pen.strokeStyle = look.edge;
  pen.lineWidth = 1;
  pen.strokeRect(area.x, area.y, area.width, area.height);
}

// ── ribbons ──────────────────────────────────────────────────────────────────────────────────────

/**
 * The ribbons from rows of V to rows of Z: of one token, or, where there are few, of all.
 * @param {Store} store @param {string} stage of the output @param {number} head @param {number | null} followed @param {Area} area
 * @returns {Ribbon[]}
 */
export function ribbonsOf(store, stage, head, followed, area) {
  const token = tokenIn(store.outline, stage, followed);
  const weights = weightsOf(store, stage);
  if (weights === null) return [];
  const { rows, columns } = store.outline.stages[weights];
  const queries = token !== null ? [token] : rows <= FEW ? Array.from({ length: rows }, (_, n) => n) : [];
  const links = queries.flatMap((row) => {
    const found = store.row(weights, head, row);
    if (found === null) return [];
    const all = found.values.map((weight, n) => ({ row, column: (n + 0.5) * found.block - 0.5, weight }));
    return all.length <= FEW ? all : all.filter(({ weight }) => weight >= LEAST).sort((a, b) => b.weight - a.weight).slice(0, RIBBONS)
      .sort((a, b) => a.column - b.column);
  });
  const [line, other] = [area.height / rows, area.height / columns];
  // Of one token the ribbons begin as thick as there is room; all end in a row, which is 1.
  const single = queries.length === 1;
  const [full, end] = [single ? area.height * 0.85 : Math.max(other, 5) * 0.85, Math.max(line * 0.86, 5)];
  /** @type {Map<number, number>} */
  const given = new Map();
  for (const { column, weight } of links) given.set(column, (given.get(column) ?? 0) + weight);
  /** @type {Map<number, number>} */
  const begun = new Map();
  /** @type {Map<number, number>} */
  const taken = new Map();
  return links.map(({ row, column, weight }) => {
    const all = given.get(column) ?? weight;
    const most = single ? 1 : Math.max(1, all);
    const [begin, thick] = [(weight / most) * full, weight * end];
    const middle = area.y + (column + 0.5) * other - ((all / most) * full) / 2 + (begun.get(column) ?? 0);
    const from = Math.min(Math.max(middle, area.y), area.y + area.height - begin);
    const to = area.y + (row + 0.5) * line - end / 2 + (taken.get(row) ?? 0);
    begun.set(column, (begun.get(column) ?? 0) + begin);
    taken.set(row, (taken.get(row) ?? 0) + thick);
    const path = new Path2D();
    const [left, right, bend] = [area.x + 2, area.x + area.width - 2, area.width * 0.5];
    path.moveTo(left, from);
    path.bezierCurveTo(left + bend, from, right - bend, to, right, to);
    path.lineTo(right, to + thick);
    path.bezierCurveTo(right - bend, to + thick, left + bend, from + begin, left, from + begin);
    path.closePath();
    return { row, column: Math.round(column), weight, path };
  });
}

/** @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {Box} box @param {Area} area */
export function drawRibbons(pen, scene, box, area) {
  const { store, ghost, hidden, head, look, cell } = scene;
  const token = tokenIn(store.outline, box.stage, scene.token);
  if (hidden.has(box.stage)) return;
  const share = scene.stage === box.stage ? scene.made : 1;
  const alpha = pen.globalAlpha;
  const { rows } = store.outline.stages[box.stage];
  const weights = weightsOf(store, box.stage);
  const ribbons = ribbonsOf(store, box.stage, head, token, area);
  for (const { row, column, weight, path } of ribbons) {
    if (weight === 0) continue;
    const own = staggered(share, token === null ? row : 0, token === null ? rows : 1);
    if (own === 0) continue;
    const lit = cell !== null && cell.stage === weights && cell.row === row && cell.column === column;
    pen.globalAlpha = alpha * (lit || token !== null ? 1 : 0.5);
    pen.fillStyle = tokenColour(column);
    if (own < 1) {
      pen.save();
      pen.beginPath();
      pen.rect(area.x, area.y - area.height, area.width * own, area.height * 3);
      pen.clip();
    }
    pen.fill(path);
    if (lit) {
      pen.strokeStyle = look.ink;
      pen.lineWidth = 2;
      pen.stroke(path);
    }
    if (own < 1) pen.restore();
  }
  pen.globalAlpha = alpha;
  if (ghost !== null && token !== null) {
    pen.lineWidth = 1.2;
    pen.setLineDash([4, 3]);
    for (const { column, path } of ribbonsOf(ghost, box.stage, head, token, area)) {
      pen.strokeStyle = tokenColour(column);
      pen.stroke(path);
    }
    pen.setLineDash([]);
  }
  if (token !== null && share === 1) shareNames(pen, scene, ribbons, area, rows);
}

/** The weight of each ribbon of one token, where it begins. @param {CanvasRenderingContext2D} pen @param {Scene} scene
 * @param {Ribbon[]} ribbons @param {Area} area @param {number} rows */
function shareNames(pen, { look }, ribbons, area, rows) {
  const columns = ribbons.length;
  const line = area.height / rows;
  const size = Math.min(24, line * 0.45);
  if (size < SMALLEST || columns > FEW) return;
  pen.font = `${size}px ${look.mono}`;
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  ribbons.forEach(({ weight, column }) => {
    if (weight < TOLD && columns > 6) return;
    const y = area.y + (column + 0.5) * (area.height / columns);
    const inside = weight * area.height * 0.85 > size;
    const text = figure(weight);
    if (!inside) {
      pen.fillStyle = look.page;
      pen.fillRect(area.x + 4, y - size * 0.55, pen.measureText(text).width + 6, size * 1.1);
    }
    pen.fillStyle = inside ? inkOnToken(column) : look.ink;
    pen.fillText(text, area.x + 7, y + 0.5);
  });
}

// ── the next word ────────────────────────────────────────────────────────────────────────────────

/** @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {Box} box @param {Area} area */
export function drawNext(pen, { store, ghost, token, look, hidden }, box, area) {
  const stage = store.outline.stages[box.stage];
  const position = token ?? stage.rows - 1;
  const found = hidden.has(box.stage) ? null : store.predictions(position);
  if (found === null || found === undefined || found.length === 0) return;
  const line = area.height / 5;
  const most = found[0].probability;
  const size = Math.min(line * 0.6, 26);
  found.slice(0, 5).forEach(({ token: text, probability }, n) => {
    const y = area.y + n * line;
    pen.fillStyle = look.accent;
    pen.fillRect(area.x + area.width * 0.42, y + line * 0.15, (area.width * 0.4 * probability) / most, line * 0.7);
    const before = ghost?.predictions(position)?.find((each) => each.token === text);
    if (before !== undefined) {
      pen.strokeStyle = look.ink;
      pen.lineWidth = 1.5;
      pen.strokeRect(area.x + area.width * 0.42, y + line * 0.15, (area.width * 0.4 * before.probability) / most, line * 0.7);
    }
    if (size < SMALLEST) return;
    letters(pen, look, size, n === 0);
    pen.fillStyle = look.ink;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    pen.fillText(guessIn(text), area.x + area.width * 0.4, y + line / 2, area.width * 0.4);
    pen.textAlign = "left";
    pen.font = `${size * 0.85}px ${look.mono}`;
    pen.fillText(figure(probability), area.x + area.width * 0.83, y + line / 2, area.width * 0.2);
  });
}
