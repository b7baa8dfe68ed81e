// The eye of a flow: where its camera is, and on the way to where.

import { between, fitting, framing, inside, readCamera, zoomedAt } from "./flow_camera.js";
import { around, focusOf } from "./flow_layout.js";
import { gently } from "./flow_moves.js";
import { stopsOf } from "./flow_walk.js";

/**
 * @typedef {import("./flow_camera.js").Camera} Camera
 * @typedef {import("./flow_camera.js").Room} Room
 * @typedef {import("./flow_layout.js").Plan} Plan
 * @typedef {import("./flow_source.js").Outline} Outline
 */

const TRAVEL = 700; // milliseconds on the way
const LEGIBLE = 15; // pixels a unit, below which names are too small
const NEAREST = 44; // pixels a unit, or a little more than where all is seen

/** @param {Plan} plan */
const everything = ({ width, height }) => ({ x: 0, y: 0, width, height });

export class Eye {
  /** @type {Camera} */
  camera = { x: 0, y: 0, scale: 1 };
  /** @type {{ from: Camera, to: Camera, began: number } | null} */
  #travel = null;
  #aimed = "";

  /** Is it on its way? */
  get travels() {
    return this.#travel !== null;
  }

  /**
   * Show a stage, all if it is "", or what an address says; unless that is shown already.
   * @param {Plan} plan @param {Outline} outline @param {string} planned what the plan is for @param {string} stage
   * @param {string} zoom of the address @param {Room} room @param {boolean} still
   */
  aim(plan, outline, planned, stage, zoom, room, still) {
    const aim = `${planned} ${zoom} ${zoom === "" ? stage : ""}`;
    if (aim === this.#aimed) return;
    const same = this.#aimed.startsWith(`${planned} `);
    this.#aimed = aim;
    const to = readCamera(zoom, room) ?? goal(plan, outline, stage, room);
    if (!same || zoom !== "" || still) [this.camera, this.#travel] = [to, null];
    else this.#travel = { from: this.camera, to, began: performance.now() };
  }

  /** What the address will say is seen already. @param {string} planned @param {string} zoom */
  stays(planned, zoom) {
    this.#aimed = `${planned} ${zoom} `;
  }

  /** @param {number} now @param {Room} room */
  tick(now, room) {
    if (this.#travel === null) return;
    const share = (now - this.#travel.began) / TRAVEL;
    this.camera = between(this.#travel.from, this.#travel.to, gently(share), room);
    if (share >= 1) this.#travel = null;
  }

  /** By pixels. @param {number} dx @param {number} dy @param {Plan} plan @param {Room} room */
  pan(dx, dy, plan, room) {
    const { x, y, scale } = this.camera;
    this.#travel = null;
    this.camera = inside({ x: x - dx / scale, y: y - dy / scale, scale }, everything(plan), room);
  }

  /** @param {number} factor @param {{ x: number, y: number }} pixel @param {Plan} plan @param {Room} room @returns {boolean} whether there was more */
  zoom(factor, pixel, plan, room) {
    const whole = fitting(everything(plan), room);
    if (factor < 1 && this.camera.scale <= whole.scale * 1.001) return false;
    this.#travel = null;
    this.camera = inside(zoomedAt(this.camera, factor, pixel.x, pixel.y, whole.scale), everything(plan), room);
    return true;
  }
}

/** @param {Plan} plan @param {Outline} outline @param {string} stage @param {Room} room @returns {Camera} */
function goal(plan, outline, stage, room) {
  if (stage === "") return fitting(everything(plan), room);
  const stop = stopsOf(outline).find((each) => each.stage === stage);
  const most = Math.max(plan.scale * 1.7, NEAREST);
  if (stop?.whole) return framing(around([plan.bands[stop.band]]), room, most);
  const camera = framing(focusOf(plan, outline, stage, false), room, most);
  // Where names could not be read, as on a telephone, the stage is shown without what it was made from.
  return camera.scale < LEGIBLE ? framing(focusOf(plan, outline, stage, true), room, most) : camera;
}
