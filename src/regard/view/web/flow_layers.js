// Bands as pictures, for when many are seen at once: made anew only when they look other, a few a frame.

import { onScreen } from "./flow_camera.js";

/**
 * @typedef {import("./flow_draw.js").Scene} Scene
 * @typedef {import("./flow_layout.js").Area} Area
 * @typedef {import("./flow_layout.js").BandPlan} BandPlan
 * @typedef {(pen: CanvasRenderingContext2D, scene: Scene, band: BandPlan) => void} Draw
 */

const MOST = 64; // pictures that are kept
const TIME = 7; // milliseconds of a frame for pictures that are made anew
const EDGE = 1; // units around a band

export class Layers {
  /** @type {Map<BandPlan, { canvas: HTMLCanvasElement, key: string }>} */
  #made = new Map();
  #frame = -1;
  #spent = 0;

  /** @param {CanvasRenderingContext2D} pen @param {Scene} scene @param {BandPlan} band @param {Area} area @param {Draw} draw
   * @returns {boolean} whether it is as it should be */
  draw(pen, scene, band, area, draw) {
    if (scene.time !== this.#frame) [this.#frame, this.#spent] = [scene.time, 0];
    // Somewhat larger or smaller than it is seen, so that zooming need not make it anew in each frame.
    const scale = 2 ** (Math.ceil(Math.log2(scene.camera.scale) * 2) / 2);
    const count = (/** @type {Set<string>} */ set) => (set.size === 0 ? -1 : band.stages.filter((name) => set.has(name)).length);
    const key = [scale, scene.look.dark, scene.head, scene.token, scene.store.versionOf(band.stages), scene.ghost?.versionOf(band.stages),
      count(scene.near), count(scene.hidden), scene.near.has(scene.stage) && band.stages.includes(scene.stage) ? scene.stage : ""].join();
    let made = this.#made.get(band);
    let whole = true;
    if (made === undefined || made.key !== key) {
      if (this.#spent < TIME) {
        const began = performance.now();
        made = { canvas: paint(scene, band, scale, made?.canvas ?? document.createElement("canvas"), draw), key };
        this.#spent += performance.now() - began;
        this.#made.delete(band);
        this.#made.set(band, made);
        const oldest = this.#made.keys().next().value;
        if (this.#made.size > MOST && oldest !== undefined) this.#made.delete(oldest);
      } else whole = false;
    }
    const edge = EDGE * scene.camera.scale;
    pen.imageSmoothingEnabled = true;
    if (made !== undefined) pen.drawImage(made.canvas, area.x - edge, area.y - edge, area.width + 2 * edge, area.height + 2 * edge);
    return whole;
  }
}

/** @param {Scene} scene @param {BandPlan} band @param {number} scale @param {HTMLCanvasElement} canvas @param {Draw} draw */
function paint(scene, band, scale, canvas, draw) {
  const ratio = devicePixelRatio || 1;
  const camera = { x: band.x - EDGE, y: band.y - EDGE, scale };
  const { width, height } = onScreen(camera, { ...band, width: band.width + 2 * EDGE, height: band.height + 2 * EDGE });
  canvas.width = Math.ceil(width * ratio);
  canvas.height = Math.ceil(height * ratio);
  const pen = canvas.getContext("2d");
  if (pen === null) return canvas;
  pen.setTransform(canvas.width / width, 0, 0, canvas.height / height, 0, 0);
  draw(pen, { ...scene, camera, width, height }, band);
  return canvas;
}
