// A training that is followed: its log line by line as it grows, and its pictures as they are taken.

import { ask, numbers } from "./asking.js";

/**
 * @import { Curve, HeadPictures, TrainingDocument, TrainingSource } from "./training_source.js"
 * @typedef {{ step: number, loss?: number | null, learning_rate?: number | null,
 *   validation?: Record<string, number | null>, entropy?: Record<string, (number | null)[]>, diverged?: string }} Line
 * @typedef {{ lines: Line[], end: number, more: boolean, unread: number, status: TrainingDocument["status"],
 *   step: number, pictures: number, begun: number }} News
 */

const [MOST_LOSSES, MOST_LOOKS] = [1000, 200]; // points that are shown, as `_history.py` has it

/** The means of equal portions, which the last may lack: at most so many points.
 * @param {number[]} steps @param {(number | null)[]} values @param {number} most @returns {Curve} */
function thinned(steps, values, most) {
  const each = Math.max(1, Math.ceil(steps.length / most));
  if (each === 1) return { steps, values, each };
  const mean = (/** @type {(number | null)[]} */ some) => {
    const known = /** @type {number[]} */ (some.filter((x) => x !== null));
    return known.length > 0 ? known.reduce((sum, x) => sum + x, 0) / known.length : null;
  };
  const portions = (/** @type {(number | null)[]} */ of) =>
    Array.from({ length: Math.ceil(of.length / each) }, (_, n) => mean(of.slice(n * each, (n + 1) * each)));
  return { steps: portions(steps).map(Number), values: portions(values), each };
}

/** @implements {TrainingSource} */
export class ServedTraining {
  live = true;
  /** @type {any} what is known of it beside its log */
  #about;
  /** @type {Line[]} */
  #steps = [];
  /** @type {Line[]} */
  #evaluated = [];
  /** @type {Line[]} */
  #looked = [];
  #diverged = "";
  #end = 0;
  #unread = 0;
  #pictures = 0; // that were on the disk when it was asked for them
  /** @type {News | null} */
  #news = null;
  /** The pictures of heads that were asked for, by their steps. @type {Map<string, Promise<HeadPictures>>} */
  #heads = new Map();
  /** @type {TrainingDocument} */
  document;

  /** @param {string} id @param {any} about */
  constructor(id, about) {
    this.path = `/api/trainings/${id}`;
    this.#about = about;
    this.#pictures = about.pictures.length + about.left_out;
    this.document = this.#made();
  }

  /** @param {string} id */
  static async open(id) {
    const training = new ServedTraining(id, await ask(`/api/trainings/${id}`));
    await training.follow();
    return training;
  }

  /** Ask what is new. @returns {Promise<boolean>} whether anything is */
  async follow() {
    let changed = this.#news === null;
    for (let more = true; more; ) {
      /** @type {News} */
      const news = await ask(`${this.path}/news?after=${this.#end}`);
      const other = this.#news !== null && news.begun !== this.#news.begun;
      changed ||= other || news.lines.length > 0 || news.status !== this.#news?.status;
      more = news.more || other || news.end < this.#end;
      // It went on from a checkpoint, or another one has begun in its place.
      if (other || news.end < this.#end) this.#forget();
      else {
        this.#take(news.lines);
        [this.#end, this.#unread] = [news.end, this.#unread + news.unread];
      }
      this.#news = news;
    }
    if (this.#news?.pictures !== this.#pictures) {
      this.#about = await ask(this.path);
      this.#pictures = this.#news?.pictures ?? 0;
      changed = true;
    }
    if (changed) this.document = this.#made();
    return changed;
  }

  #forget() {
    [this.#steps, this.#evaluated, this.#looked] = [[], [], []];
    [this.#end, this.#unread, this.#pictures, this.#diverged] = [0, 0, -1, ""];
    this.#heads.clear();
  }

  /** @param {Line[]} lines */
  #take(lines) {
    for (const line of lines) {
      if (line.validation !== undefined) this.#evaluated.push(line);
      else if (line.entropy !== undefined) this.#looked.push(line);
      else if (line.diverged !== undefined) this.#diverged = line.diverged;
      else this.#steps.push(line);
    }
  }

  /** @returns {TrainingDocument} */
  #made() {
    const { name, task, steps, pictures, layers, example, chosen, left_out } = this.#about;
    const [at, looks] = [this.#steps.map(({ step }) => step), this.#looked.map(({ step }) => step)];
    const scores = [...new Set(this.#evaluated.flatMap(({ validation }) => Object.keys(validation ?? {})))];
    const heads = new Map(this.#looked.flatMap(({ entropy }) => Object.entries(entropy ?? {}).map(([layer, each]) => [layer, each.length])));
    return {
      name, task, steps, pictures, layers, example, chosen, left_out, held: null, unread: this.#unread, diverged: this.#diverged,
      step: this.#news?.step ?? this.#about.step, status: this.#news?.status ?? this.#about.status,
      losses: thinned(at, this.#steps.map(({ loss = null }) => loss), MOST_LOSSES),
      learning_rates: thinned(at, this.#steps.map(({ learning_rate: rate = null }) => rate), MOST_LOSSES),
      validation: Object.fromEntries(scores.map((score) => [score, {
        steps: this.#evaluated.map(({ step }) => step), values: this.#evaluated.map(({ validation }) => validation?.[score] ?? null), each: 1,
      }])),
      entropies: Object.fromEntries([...heads].map(([layer, count]) => [layer, Array.from({ length: count }, (_, head) =>
        thinned(looks, this.#looked.map(({ entropy }) => entropy?.[layer]?.[head] ?? null), MOST_LOOKS))])),
    };
  }

  /** The weights of a head; only pictures that are new are asked for. @param {number} layer @param {number} head
   * @returns {Promise<HeadPictures>} */
  head(layer, head) {
    const name = `${layer}.${head}`;
    const { pictures } = this.document;
    const asked = (async () => {
      const known = await (this.#heads.get(name) ?? { queries: 0, keys: 0, pictures: [], steps: [] });
      return this.#grown(known, layer, head, pictures);
    })();
    this.#heads.set(name, asked);
    asked.catch(() => this.#heads.delete(name));
    return asked;
  }

  /** @param {any} known @param {number} layer @param {number} head @param {number[]} steps @returns {Promise<HeadPictures>} */
  async #grown(known, layer, head, steps) {
    // Where there are very many, others are shown than before: then all are asked for.
    const goes = known.steps.every((/** @type {number} */ step, /** @type {number} */ n) => steps[n] === step);
    if (goes && known.steps.length === steps.length) return known;
    const here = goes ? known : { pictures: [], steps: [] };
    const { values, shape } = await numbers(`${this.path}/head`, { layer, head, after: here.steps.at(-1) ?? -1 });
    const [count, queries, keys] = shape;
    const size = queries * keys;
    const more = Array.from({ length: count }, (_, n) => values.slice(n * size, (n + 1) * size));
    const pictures = [...here.pictures, ...more].slice(0, steps.length);
    return /** @type {any} */ ({ queries, keys, pictures, steps: steps.slice(0, pictures.length) });
  }
}
