// The way through a flow: where Play stops, for how long, and what is said there.

import { exampleIn, meaningOf, titleOf } from "./told.js";
import { WORDS, word } from "./words.js";

/**
 * @typedef {import("./flow_source.js").Outline} Outline
 * A stage, or a band as a whole, named by its last stage.
 * @typedef {{ stage: string, band: number, whole: boolean }} Stop
 */

const FEW = 3; // bands that are walked through stage by stage, all of them

/** @type {WeakMap<Outline, Stop[]>} */
const known = new WeakMap();

/** @param {Outline} outline @returns {Stop[]} */
export function stopsOf(outline) {
  const found = known.get(outline) ?? findStops(outline);
  known.set(outline, found);
  return found;
}

/** @param {Outline} outline @returns {Stop[]} */
function findStops(outline) {
  const detailed = (/** @type {number} */ n) =>
    outline.bands.length <= FEW || outline.bands[n].layer === null || outline.bands[n].id === outline.chosen;
  return outline.bands.flatMap((band, n) => {
    /** @type {Stop[]} */
    const none = [];
    const stages = band.stages.filter((name) => outline.stages[name].part !== "matrix");
    if (detailed(n)) return [...none, ...stages.map((stage) => ({ stage, band: n, whole: false }))];
    return stages.length === 0 ? none : [...none, { stage: stages[stages.length - 1], band: n, whole: true }];
  });
}

/** The stop that is so many behind a stage, which may be none itself. @param {Outline} outline @param {string} stage "": before all
 * @param {number} by @returns {Stop | undefined} */
export function stopFrom(outline, stage, by) {
  const stops = stopsOf(outline);
  if (stage === "") return stops[by > 0 ? 0 : -1];
  const all = outline.bands.flatMap((band) => band.stages);
  return stops[stops.findIndex((stop) => all.indexOf(stop.stage) >= all.indexOf(stage)) + by];
}

/** The stages that are made no sooner than this stop is over. @param {Outline} outline @param {string} stage */
export function laterThan(outline, stage) {
  const all = outline.bands.flatMap((band) => band.stages);
  return new Set(all.slice(all.indexOf(stage) + 1).filter((name) => outline.stages[name].part !== "matrix"));
}

/** How long a stop takes, in milliseconds: what moves, and then a rest. @param {Outline} outline @param {Stop} stop */
export function timeOf(outline, { stage, whole }) {
  if (whole) return { moves: 900, rests: 500 };
  const { rows, columns, part } = outline.stages[stage];
  const few = rows * columns <= 80;
  if (part === "scores" && few) return { moves: 7000, rests: 1200 };
  if (["query", "key", "value"].includes(part) && few) return { moves: 3600, rests: 900 };
  return { moves: part === "weights" || part === "head_output" ? 3200 : 1800, rests: 1800 };
}

/** What the picture shows, for somebody who does not see it. @param {Outline} outline @param {string} stage */
export function pictureOf(outline, stage) {
  const made = outline.bands.flatMap(({ stages }) => stages).filter((name) => outline.stages[name].part !== "matrix")
    .map((name) => titleOf(name, outline.stages[name]));
  const picture = word("flow.picture", { title: exampleIn(outline.title), count: made.length, first: made[0] ?? "", last: made.at(-1) ?? "" });
  if (stage === "") return picture;
  const { rows, columns } = outline.stages[stage];
  return word("flow.picture.at", { picture, name: titleOf(stage, outline.stages[stage]), rows, columns });
}

/** One sentence for somebody who sees it for the first time. @param {Outline} outline @param {string} stage */
export function sentenceOf(outline, stage) {
  if (stage === "") return word("flow.start");
  const { part, plain, attention } = outline.stages[stage];
  if (part === "scaled" && plain) return word("flow.say.scaled.plain");
  const key = `flow.say.${part}`;
  // Parts of the same name stand elsewhere too: the output of a norm, the input of a layer.
  const other = attention === "" && ["input", "output"].includes(part) && outline.kind === "model";
  return Object.hasOwn(WORDS, key) && !other ? word(/** @type {import("./words.js").Key} */ (key)) : meaningOf(stage, outline.stages[stage]);
}
