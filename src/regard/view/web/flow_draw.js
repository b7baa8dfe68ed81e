// One frame of a flow: wires, matrices with their numbers and names, for what is in view only.

import { drawBars, drawNext, drawRibbons } from "./flow_bars.js";
import { onScreen } from "./flow_camera.js";
import { SMALLEST, letters, tokenColour } from "./flow_look.js";
import { drawNames, drawSymbols } from "./flow_names.js";
import { colourOf, inDecimals } from "./flow_paint.js";
import { headNumber, tokenIn } from "./flow_place.js";
import { headColour, inkOn } from "./scale.js";
import { word } from "./words.js";

/**
 * @typedef {import("./flow_segments.js").Box} Box
 * @typedef {import("./flow_layout.js").Plan} Plan
 * @typedef {import("./flow_layout.js").Area} Area
 * @typedef {import("./flow_layout.js").BandPlan} BandPlan
 * @typedef {import("./flow_layers.js").Layers} Layers
 * @typedef {import("./flow_look.js").Look} Look
 * @typedef {import("./flow_store.js").Store} Store
 * @typedef {import("./flow_camera.js").Camera} Camera
 * @typedef {{ stage: string, row: number, column: number }} Cell
 *
 * Cells of a stage that light up. @typedef {{ stage: string, rows: [number, number], columns: [number, number], of: "left" | "right" | "result" }} Light
 *
 * What a frame shows. `stage` is the one that is being told, "" for none; while it is played, `made` is
 * how far it has come, and the stages after it are not there yet.
 * @typedef {object} Scene
 * @property {Plan} plan
 * @property {Store} store
 * @property {Store | null} ghost the pass before the changes
 * @property {Camera} camera
 * @property {number} width
 * @property {number} height
 * @property {Look} look
 * @property {number} head
 * @property {number | null} token
 * @property {Cell | null} cell
 * @property {Light[]} lights
 * @property {string} stage
 * @property {number} made
 * @property {number} time of the frame
 * @property {Set<string>} hidden stages that are not there yet
 * @property {Set<string>} near stages that belong to the one that is told; all if empty
 * @property {import("./flow_changes.js").Change[]} changes whose cells are marked
 */

const NEAR = 9; // pixels a unit, from which on bands are drawn box by box
const STACK = 3; // cards that are seen behind the first

/** @param {Area} area @param {Scene} scene @param {number} margin */
function inView(area, { width, height }, margin) {
  return area.x < width + margin && area.y < height + margin && area.x + area.width > -margin && area.y + area.height > -margin;
}

/** @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {Layers} layers @returns {boolean} whether all is as it should be */
export function drawFlow(pen, scene, layers) {
  const { look, plan, camera } = scene;
  pen.fillStyle = look.page;
  pen.fillRect(0, 0, scene.width, scene.height);
  let whole = true;
  for (const band of plan.bands) {
    const area = onScreen(camera, band);
    if (!inView(area, scene, camera.scale * 4 + 10)) continue;
    // From far away a band is one picture, but for the one in which something moves.
    const moves = scene.made < 1 && band.stages.includes(scene.stage);
    if (plan.bands.length > 3 && camera.scale < NEAR && !moves) whole = layers.draw(pen, scene, band, area, drawBand) && whole;
    else drawBand(pen, scene, band);
  }
  for (const wire of plan.wires) drawWire(pen, scene, wire);
  for (const band of plan.bands) {
    drawSymbols(pen, scene, band.boxes);
    drawTitle(pen, scene, band);
  }
  for (const light of scene.lights) drawLight(pen, scene, light);
  for (const change of scene.changes) drawMark(pen, scene, change);
  return whole;
}

/** @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {BandPlan} band */
function drawBand(pen, scene, band) {
  const { camera, look } = scene;
  if (band.title !== "") {
    const area = onScreen(camera, band);
    const pad = camera.scale * 0.5;
    pen.fillStyle = look.raised;
    pen.beginPath();
    pen.roundRect(area.x + pad, area.y - pad, area.width - 2 * pad, area.height + 2 * pad, camera.scale * 0.6);
    pen.fill();
  }
  for (const wire of band.wires) drawWire(pen, scene, wire);
  for (const box of band.boxes) {
    const area = onScreen(camera, box);
    if (!inView(area, scene, camera.scale * 4 + 10)) continue;
    pen.globalAlpha = scene.near.size === 0 || scene.near.has(box.stage) ? 1 : scene.token === null ? 0.4 : 0.6;
    drawBox(pen, scene, box, area);
    pen.globalAlpha = 1;
  }
}

/** The name of a band, over all else, so that it can be read from far away too. @param {CanvasRenderingContext2D} pen
 * @param {Scene} scene @param {Area & { title: string }} band */
function drawTitle(pen, scene, band) {
  const { camera, look } = scene;
  const area = onScreen(camera, band);
  const size = Math.min(Math.max(10, camera.scale * 1.1), 26);
  if (band.title === "" || area.height < size * 1.5 || !inView(area, scene, 10)) return;
  letters(pen, look, size, true);
  const x = Math.max(area.x, 0) + 3;
  pen.fillStyle = look.raised;
  pen.globalAlpha = 0.88;
  pen.fillRect(x - 2, area.y, pen.measureText(band.title).width + 6, size * 1.3);
  pen.globalAlpha = 1;
  pen.fillStyle = look.ink;
  pen.textAlign = "left";
  pen.textBaseline = "top";
  pen.fillText(band.title, x + 1, area.y + size * 0.15);
}

/** @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {import("./flow_layout.js").Wire} wire */
function drawWire(pen, { plan, camera, look, hidden, near, token, width, height }, wire) {
  if (camera.scale < 3 && (wire.skips || plan.bands.length > 3)) return;
  const points = wire.points.map(([x, y]) => [(x - camera.x) * camera.scale, (y - camera.y) * camera.scale]);
  const [across, down] = [points.map(([x]) => x), points.map(([, y]) => y)];
  if (Math.max(...across) < 0 || Math.min(...across) > width || Math.max(...down) < 0 || Math.min(...down) > height) return;
  pen.globalAlpha = hidden.has(wire.to) ? 0.15 : near.size > 0 && !near.has(wire.to) ? 0.3 : 1;
  pen.strokeStyle = pen.fillStyle = token === null ? look.faint : tokenColour(token);
  pen.lineWidth = Math.max(0.6, Math.min(2.5, camera.scale * 0.07));
  pen.setLineDash(wire.skips ? [pen.lineWidth * 3, pen.lineWidth * 2.5] : []);
  const bend = camera.scale * 0.5;
  pen.beginPath();
  pen.moveTo(points[0][0], points[0][1]);
  for (let n = 1; n < points.length - 1; n++) pen.arcTo(points[n][0], points[n][1], points[n + 1][0], points[n + 1][1], bend);
  const [x, y] = points[points.length - 1];
  const [px, py] = points[points.length - 2];
  const head = Math.min(9, camera.scale * 0.32);
  const far = Math.hypot(x - px, y - py) || 1;
  const [dx, dy] = [((x - px) / far) * head, ((y - py) / far) * head];
  pen.lineTo(x - dx, y - dy);
  pen.stroke();
  pen.setLineDash([]);
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(x - dx * 1.3 - dy * 0.7, y - dy * 1.3 + dx * 0.7);
  pen.lineTo(x - dx * 1.3 + dy * 0.7, y - dy * 1.3 - dx * 0.7);
  pen.fill();
  pen.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {Box} box @param {Area} area */
function drawBox(pen, scene, box, area) {
  if (box.kind === "bars") drawBars(pen, scene, box, area);
  else if (box.kind === "ribbons") drawRibbons(pen, scene, box, area);
  else if (box.kind === "next") drawNext(pen, scene, box, area);
  else drawMatrix(pen, scene, box, area);
  drawNames(pen, scene, box, area);
}

/** @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {Box} box @param {Area} area */
function drawMatrix(pen, scene, box, area) {
  const { store, look, head, camera, hidden } = scene;
  const { heads, rows, columns, part } = store.outline.stages[box.stage];
  const alpha = pen.globalAlpha;
  const turned = box.kind === "turned";
  const [down, across] = turned ? [columns, rows] : [rows, columns];
  if (heads > 1 && !turned) {
    const step = Math.min(5, camera.scale * 0.16);
    for (let n = Math.min(STACK, heads - 1); n > 0; n--) {
      pen.fillStyle = look.page;
      pen.strokeStyle = look.edge;
      pen.lineWidth = 1;
      pen.fillRect(area.x + n * step, area.y - n * step, area.width, area.height);
      pen.strokeRect(area.x + n * step, area.y - n * step, area.width, area.height);
    }
  }
  pen.fillStyle = look.page;
  pen.fillRect(area.x, area.y, area.width, area.height);
  const empty = hidden.has(box.stage) || (turned && hidden.has("turned " + box.stage));
  const bitmap = store.bitmap(box.stage, head, look.dark);
  if (!empty && bitmap !== null) {
    if (store.shades(box.stage, head)?.open === true) {
      pen.fillStyle = look.masked;
      pen.fillRect(area.x, area.y, area.width, area.height);
    }
    pen.save();
    const share = scene.stage === box.stage && !turned ? scene.made : 1;
    if (share < 1) reveal(pen, area, share, down, across, part);
    pen.imageSmoothingEnabled = false;
    if (turned) {
      pen.transform(0, 1, 1, 0, area.x, area.y);
      pen.drawImage(bitmap, 0, 0, area.height, area.width);
      pen.transform(0, 1, 1, 0, -area.y, -area.x);
    } else pen.drawImage(bitmap, area.x, area.y, area.width, area.height);
    const cell = { width: area.width / across, height: area.height / down };
    if (cell.width > 7 && cell.height > 7) grid(pen, scene, area, down, across);
    if (cell.width >= 22 && cell.height >= 10) numbers(pen, scene, box, area, cell, turned);
    pen.restore();
  } else if (!empty && store.picture(box.stage, head) === null) {
    pen.fillStyle = look.masked;
    pen.fillRect(area.x, area.y, area.width, area.height);
    const size = Math.min(16, area.width / 6, camera.scale * 0.5);
    if (size >= SMALLEST) {
      letters(pen, look, size);
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      const text = word("flow.unknown");
      const wide = pen.measureText(text).width + 6;
      pen.fillStyle = look.page;
      pen.fillRect(area.x + area.width / 2 - wide / 2, area.y + area.height / 2 - size * 0.7, wide, size * 1.4);
      pen.fillStyle = look.faint;
      pen.fillText(text, area.x + area.width / 2, area.y + area.height / 2);
    }
  }
  if (part === "concatenated") headStrip(pen, scene, area);
  pen.globalAlpha = alpha;
  pen.strokeStyle = scene.stage === box.stage ? look.accent : look.edge;
  pen.lineWidth = scene.stage === box.stage ? 2 : 1;
  pen.strokeRect(area.x, area.y, area.width, area.height);
  dimRows(pen, scene, box, area, turned);
}

/** Show the cells that are made already. @param {CanvasRenderingContext2D} pen @param {Area} area @param {number} share
 * @param {number} rows @param {number} columns @param {string} part */
function reveal(pen, area, share, rows, columns, part) {
  pen.beginPath();
  if (part === "concatenated") pen.rect(area.x, area.y, area.width * share, area.height);
  else if (rows * columns > 80) pen.rect(area.x, area.y, area.width, area.height * share);
  else {
    const count = madeCells(share, rows * columns);
    const [full, rest] = [Math.floor(count / columns), Math.floor(count) % columns];
    pen.rect(area.x, area.y, area.width, (area.height / rows) * full);
    pen.rect(area.x, area.y + (area.height / rows) * full, (area.width / columns) * rest, area.height / rows);
  }
  pen.clip();
}

/** How many cells are made: the first takes its time, so that it can be watched. @param {number} share @param {number} count */
export function madeCells(share, count) {
  const first = 0.3;
  return share < first ? share / first : 1 + ((share - first) / (1 - first)) * (count - 1);
}

/** Lines between cells. @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {Area} area @param {number} rows @param {number} columns */
function grid(pen, { look, width, height }, area, rows, columns) {
  pen.strokeStyle = look.page;
  pen.lineWidth = 1;
  pen.beginPath();
  const [w, h] = [area.width / columns, area.height / rows];
  const [top, bottom] = [Math.max(0, area.y), Math.min(height, area.y + area.height)];
  const [left, right] = [Math.max(0, area.x), Math.min(width, area.x + area.width)];
  for (let n = Math.max(1, Math.floor(-area.x / w)); n < columns && area.x + n * w < width; n++) {
    pen.moveTo(area.x + n * w, top);
    pen.lineTo(area.x + n * w, bottom);
  }
  for (let n = Math.max(1, Math.floor(-area.y / h)); n < rows && area.y + n * h < height; n++) {
    pen.moveTo(left, area.y + n * h);
    pen.lineTo(right, area.y + n * h);
  }
  pen.stroke();
}

/** @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {Box} box @param {Area} area
 * @param {{ width: number, height: number }} cell @param {boolean} turned */
function numbers(pen, scene, box, area, cell, turned) {
  const { store, ghost, look, head, width, height } = scene;
  const shades = store.shades(box.stage, head);
  if (shades === null) return;
  const range = (/** @type {number} */ from, /** @type {number} */ size, /** @type {number} */ seen, /** @type {number} */ length) =>
    [Math.max(0, Math.floor(-from / size)), Math.min(Math.round(length / size), Math.ceil((seen - from) / size))];
  const [top, bottom] = range(area.y, cell.height, height, area.height);
  const [left, right] = range(area.x, cell.width, width, area.width);
  const { size, decimals } = lettersFor(cell, shades);
  if (size < SMALLEST) return;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  const font = `${size}px ${look.mono}`;
  pen.font = font;
  for (let i = top; i < bottom; i++) {
    for (let j = left; j < right; j++) {
      const [row, column] = turned ? [j, i] : [i, j];
      const value = store.value(box.stage, head, row, column);
      if (typeof value !== "number") continue;
      const colour = colourOf(value, shades);
      pen.fillStyle = colour === null ? look.faint : inkOn(colour);
      const [x, y] = [area.x + (j + 0.5) * cell.width, area.y + (i + 0.5) * cell.height];
      const before = ghost?.value(box.stage, head, row, column);
      const other = typeof before === "number" && before !== value && !(Math.abs(before - value) < 1e-12);
      pen.fillText(inDecimals(value, decimals), x, other ? y - size * 0.28 : y + 0.5);
      if (!other) continue;
      pen.font = `${size * 0.62}px ${look.mono}`;
      const text = inDecimals(before, decimals);
      pen.fillText(text, x, y + size * 0.55);
      const half = pen.measureText(text).width / 2;
      pen.fillRect(x - half, y + size * 0.55, half * 2, 1);
      pen.font = font;
    }
  }
}

/** How large the numbers of a matrix are written, and with how many decimals, all alike: two where there is room.
 * @param {{ width: number, height: number }} cell @param {import("./flow_paint.js").Shades} shades */
function lettersFor(cell, { least, most, decimals }) {
  const before = Math.max(String(Math.trunc(Math.abs(least))).length + (least < 0 ? 1 : 0), String(Math.trunc(most)).length);
  const full = Math.min(cell.height * 0.52, 30);
  const size = (/** @type {number} */ digits) => Math.min(full, (cell.width - 4) / ((before + (digits > 0 ? 1 : 0) + digits) * 0.61));
  for (let digits = decimals; digits > 0; digits--) {
    if (size(digits) >= (digits > 2 ? full * 0.85 : SMALLEST)) return { size: size(digits), decimals: digits };
  }
  return { size: size(0), decimals: 0 };
}

/** The colours of the heads above the numbers that they gave. @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {Area} area */
function headStrip(pen, { store, camera, look, head }, area) {
  const heads = Math.max(1, ...Object.values(store.outline.stages).filter((stage) => stage.part === "head_output").map((stage) => stage.heads));
  const tall = Math.max(2, Math.min(7, camera.scale * 0.22));
  for (let n = 0; n < heads; n++) {
    const [x, width] = [area.x + (area.width * n) / heads, area.width / heads];
    pen.fillStyle = headColour(n);
    pen.fillRect(x, area.y - tall - 2, width - 1, tall);
    const size = Math.min(15, camera.scale * 0.5, (width / 6) * 1.7);
    if (size < SMALLEST) continue;
    letters(pen, look, size, n === head);
    pen.fillStyle = look.faint;
    pen.textAlign = "center";
    pen.textBaseline = "bottom";
    pen.fillText(`${word("flow.head").toLowerCase()} ${headNumber(store.outline, n)}`, x + width / 2, area.y - tall - 4);
  }
}

/** While one token is followed, the rows of others are dim. @param {CanvasRenderingContext2D} pen @param {Scene} scene
 * @param {Box} box @param {Area} area @param {boolean} turned */
function dimRows(pen, { store, token: followed, look }, box, area, turned) {
  const { part, rows } = store.outline.stages[box.stage];
  const token = tokenIn(store.outline, box.stage, followed);
  if (token === null || turned || ["key", "turned_key", "value", "matrix"].includes(part)) return;
  const line = area.height / rows;
  pen.fillStyle = look.page;
  pen.globalAlpha *= 0.72;
  pen.fillRect(area.x, area.y, area.width, line * token);
  pen.fillRect(area.x, area.y + line * (token + 1), area.width, area.height - line * (token + 1));
  pen.globalAlpha = 1;
  pen.strokeStyle = tokenColour(token);
  pen.lineWidth = Math.max(1.5, Math.min(3, line * 0.09));
  pen.strokeRect(area.x, area.y + line * token, area.width, line);
}

/** @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {Light} light */
function drawLight(pen, { plan, camera, look, store }, light) {
  for (const box of plan.boxes) {
    if (box.stage !== light.stage || (box.kind !== "matrix" && box.kind !== "turned")) continue;
    const area = onScreen(camera, box);
    const { rows, columns } = store.outline.stages[box.stage];
    const turned = box.kind === "turned";
    if (turned && light.of === "result") continue;
    const [vertical, horizontal] = turned ? [light.columns, light.rows] : [light.rows, light.columns];
    const [h, w] = [area.height / (turned ? columns : rows), area.width / (turned ? rows : columns)];
    pen.strokeStyle = light.of === "result" ? look.ink : look[light.of];
    pen.lineWidth = 3;
    pen.strokeRect(area.x + horizontal[0] * w, area.y + vertical[0] * h, (horizontal[1] - horizontal[0]) * w, (vertical[1] - vertical[0]) * h);
  }
}

/** A corner of each cell that a reader has changed. @param {CanvasRenderingContext2D} pen @param {Scene} scene
 * @param {import("./flow_changes.js").Change} change */
function drawMark(pen, { plan, camera, look, store, head }, change) {
  if (!("row" in change)) return;
  for (const box of plan.boxes) {
    const { rows, columns, attention, part } = store.outline.stages[box.stage];
    const own = change.kind === "cut" ? attention === change.attention && (part === "weights" || part === "scaled") : box.stage === change.stage;
    if (!own || box.kind !== "matrix" || (change.head ?? head) !== store.headOf(box.stage, head) || change.row >= rows || change.column >= columns) continue;
    const area = onScreen(camera, box);
    const size = Math.max(4, Math.min(14, (area.height / rows) * 0.32));
    const [x, y] = [area.x + ((change.column + 1) * area.width) / columns, area.y + (change.row * area.height) / rows];
    pen.beginPath();
    pen.moveTo(x, y);
    pen.lineTo(x - size, y);
    pen.lineTo(x, y + size);
    pen.closePath();
    pen.fillStyle = look.accent;
    pen.fill();
    pen.strokeStyle = look.page;
    pen.lineWidth = 1;
    pen.stroke();
  }
}
