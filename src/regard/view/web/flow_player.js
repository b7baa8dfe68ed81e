// The time of a flow: since when a stage is being made, how far it is, and when Play goes on.

import { laterThan, stopsOf, timeOf } from "./flow_walk.js";

/**
 * @typedef {import("./flow_source.js").Outline} Outline
 */

const READING = 2500; // milliseconds at most that stand in for motion, where there is none

export class Player {
  playing = false;
  speed = 1; // times as fast
  /** @type {string | null} */
  #told = null;
  #began = 0;
  #moves = 0;
  #rests = 0;

  /** A stage that was not told before is made now, in motion; the first one that is seen is there already.
   * @param {Outline} outline @param {string} stage @param {boolean} still */
  begin(outline, stage, still) {
    if (stage === this.#told) {
      if (still) this.#moves = 0; // whoever looks into a cell, or changes it, does not wait
      return;
    }
    const stop = stopsOf(outline).find((each) => each.stage === stage);
    const { moves, rests } = stop === undefined ? { moves: 0, rests: 0 } : timeOf(outline, stop);
    const moved = !still && this.#told !== null;
    [this.#told, this.#began] = [stage, performance.now()];
    const [taken, rested] = moved ? [moves, rests] : [0, rests + Math.min(moves, READING)];
    [this.#moves, this.#rests] = [taken / this.speed, rested / this.speed];
  }

  /** The stage that is told is told once more. */
  again() {
    this.#told = "\n";
  }

  /** How far the stage is made. @param {number} now */
  share(now) {
    return this.moves(now) ? (now - this.#began) / this.#moves : 1;
  }

  /** @param {number} now */
  moves(now) {
    return now < this.#began + this.#moves;
  }

  /** Is it time for the next stage? @param {number} now */
  isOver(now) {
    return this.playing && now > this.#began + this.#moves + this.#rests;
  }

  /** Until the next stage is there. */
  wait() {
    this.#rests = Infinity;
  }
}

/** What is not there yet, while a stage is told. @param {Outline} outline @param {string} stage @returns {Set<string>} */
export function unmade(outline, stage) {
  const hidden = laterThan(outline, stage);
  // Keys are turned on their side for the scores.
  for (const name of [...hidden]) if (outline.stages[name].part === "scores") hidden.add(`turned ${outline.stages[name].from[1]}`);
  return hidden;
}

/** The stages that stand out while one is told. @param {Outline} outline @param {string} stage @returns {Set<string>} */
export function nearTo(outline, stage) {
  if (stage === "") return new Set();
  const stop = stopsOf(outline).find((each) => each.stage === stage);
  return new Set(stop?.whole ? outline.bands[stop.band].stages : [stage, ...outline.stages[stage].from]);
}
