// What is changed of a pass, in words: a button for each change, which takes it back.

import { figure } from "./arithmetic.js";
import { el, indexed, visible } from "./dom.js";
import { headNumber } from "./flow_place.js";
import { labelsOf } from "./flow_source.js";
import { bandTitle } from "./told.js";
import { word } from "./words.js";

/**
 * @typedef {import("./flow_source.js").Outline} Outline
 * @typedef {import("./flow_changes.js").Change} Change
 */

const MOST = 8; // changes that are told

/** @param {string} text @returns {(string | Node)[]} */
const textOf = (text) => [text];

/** @param {Outline} before the changes @param {Outline} after @param {Change[]} changes @param {(change: Change) => void} unmake
 * @returns {Node[]} */
export function toldChanges(before, after, changes, unmake) {
  if (changes.length === 0) return [];
  const told = changes.slice(-MOST).map((change, n) => el("button", {
    type: "button", name: `taken-${n}`, title: word("flow.take.back"), dir: "auto", onclick: () => unmake(change),
  }, ...(change.kind === "number" ? indexed : textOf)(textFor(before, after, change)), el("span", { class: "faint", "aria-hidden": "true" }, " ×")));
  const more = changes.length - told.length;
  return [el("span", { class: "faint" }, word("flow.did")), ...told, ...(more > 0 ? [el("span", { class: "faint" }, word("flow.did.more", { count: more }))] : [])];
}

/** @param {Outline} before @param {Outline} after @param {Change} change @returns {string} */
function textFor(before, after, change) {
  switch (change.kind) {
    case "score":
    case "number": {
      const stage = after.stages[change.stage];
      if (stage === undefined) return change.stage;
      const name = [where(after, change.stage, stage.heads > 1 ? change.head : null), stage.symbol].filter(Boolean).join(", ");
      const values = { name, ...places(after, stage, change), value: figure(change.value) };
      return word(change.kind === "score" ? "flow.did.score" : "flow.did.number", values);
    }
    case "cut": {
      const found = Object.entries(after.stages).find(([, { attention, part }]) => attention === change.attention && part === "weights");
      if (found === undefined) return change.attention;
      const name = where(after, found[0], found[1].heads > 1 ? change.head : null);
      return [name, word("flow.did.cut", places(after, found[1], change))].filter(Boolean).join(": ");
    }
    case "head": {
      const found = Object.keys(after.stages).find((each) => after.stages[each].attention === change.attention);
      return word("flow.did.head", { name: found === undefined ? String(change.head) : where(after, found, change.head) });
    }
    case "word": {
      const own = before.words?.input ?? [];
      const was = before.sequences.input.filter((_, n) => own[n] === change.position).join("");
      return word("flow.did.word", { was: visible(was), now: visible(change.text) });
    }
    default:
      return word(change.kind === "scale" ? (change.on ? "flow.did.scaled" : "flow.did.plain") : change.on ? "flow.did.masked" : "flow.did.open");
  }
}

/** The layer of a stage, in a model, and a head. @param {Outline} outline @param {string} stage @param {number | null} head */
function where(outline, stage, head) {
  const found = outline.kind === "model" ? outline.bands.find(({ stages }) => stages.includes(stage)) : undefined;
  const band = found === undefined ? undefined : bandTitle(found);
  const own = head === null ? undefined : word("flow.did.of", { head: headNumber(outline, head) });
  return [band, own].filter((each) => each !== undefined).join(", ");
}

/** @param {Outline} outline @param {import("./flow_source.js").Stage} stage @param {{ row: number, column: number }} place */
function places(outline, { row_labels, rows, column_labels, columns }, { row, column }) {
  const name = (/** @type {import("./flow_source.js").Labels} */ labels, /** @type {number} */ count, /** @type {number} */ n) =>
    visible(labelsOf(outline, labels, count)[n] ?? "?");
  return { row: name(row_labels, rows, row), column: name(column_labels, columns, column) };
}
