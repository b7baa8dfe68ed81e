// What Python says, in the language of the page: steps, stages and bands by their names; remarks by their English.

import { el, indexed, visible } from "./dom.js";
import { LANGUAGE } from "./language.js";
import { WORDS, hasWord, word } from "./words.js";

/**
 * @typedef {import("./words.js").Key} Key
 * What is known of a step or of a stage; where several of one name differ, its kind says which it is.
 * @typedef {{ title: string, meaning: string, kind?: string, part?: string }} Named
 * A text of the table as a pattern of what Python says, and the names of what is filled in.
 * @typedef {{ key: Key, names: string[], alone: RegExp, within: RegExp }} Template
 */

const ENGLISH = LANGUAGE === "en"; // then all is said as Python says it

/** The attribute of what stands there in English, whatever the page speaks. @type {{ lang?: string }} */
export const IN_ENGLISH = ENGLISH ? {} : { lang: "en" };

/** What went wrong. @param {unknown} error */
export function failed(error) {
  return el("p", { class: "error", role: "alert" }, why(error));
}

/** The words of an error; those that Python has put into words say that they are `english`. @param {unknown} error
 * @returns {string | Node} */
export function why(error) {
  const words = error instanceof Error ? error.message : String(error);
  const english = error instanceof Error && "english" in error && error.english === true;
  return english && !ENGLISH ? el("span", IN_ENGLISH, words) : words;
}

// ── by name ────────────────────────────────────────────────────────────────────────────────────────

/** What a step or a stage is called. @param {string} name @param {Named} step */
export function titleOf(name, step) {
  return step.part === "matrix" ? told(step.title) : byName(`step.${kindOf(name, step)}.title`, step.title);
}

/** A sentence on it. @param {string} name @param {Named} step */
export function meaningOf(name, step) {
  return byName(`step.${kindOf(name, step)}.meaning`, step.meaning);
}

/** @param {string} name @param {Named} step */
function kindOf(name, { kind }) {
  return kind ?? name.split(".").at(-1);
}

/** What a band is called. @param {{ id: string, title: string, layer: number | null, stack: string, cross?: boolean }} band */
export function bandTitle({ id, title, layer, stack, cross }) {
  if (ENGLISH) return title;
  const which = cross ? "_cross" : stack === "" ? "" : `_${stack}`;
  return layer === null ? byName(`band.${id}`, title) : byName(`band.layer${which}`, title, { number: layer });
}

/** A model of the studio, in a few words. @param {{ name: string, about: string }} model */
export function readerOf({ name, about }) {
  return byName(`reader.${name}`, about);
}

/** What a kind of heads is called. @param {string} kind */
export function headKind(kind) {
  return byName(`called.${kind}`, kind);
}

/** @param {string} key @param {string} text that Python has for it @param {Record<string, unknown>} [values] */
function byName(key, text, values) {
  return !ENGLISH && hasWord(key) ? word(key, values) : text;
}

// ── by its English ─────────────────────────────────────────────────────────────────────────────────

/** Behind a number: the whole of what is said, or the end of a calculation. @type {Key[]} */
const LINES = [
  "rule.later", "rule.masked", "rule.known", "rule.not_turned", "rule.cut", "rule.by_hand", "rule.looked_up_key", "rule.looked_up",
  "rule.given_as", "rule.given", "rule.copied",
];
/** @type {Key[]} */
const ENDS = ["rule.turned", "rule.slope", "rule.mean", "rule.gate", "rule.not_scaled", "rule.no_attention", "rule.largest_off", "number.more"];
/** @type {Key[]} */
const PLACES = ["rule.row", "rule.before", "rule.after", "rule.itself"];
const NESTED = ["place", "where", "words"]; // names whose values are said in words, too

/** @type {Map<string, Template[]>} */
const rooms = new Map();

/** The texts of a room of the table. @param {string} room @param {Key[]} [keys] of it, if not all @returns {Template[]} */
function texts(room, keys) {
  const found = rooms.get(room) ?? patterns(keys ?? /** @type {Key[]} */ (Object.keys(WORDS).filter((key) => key.startsWith(`${room}.`))));
  rooms.set(room, found);
  return found;
}

/** @param {Key[]} keys @returns {Template[]} */
function patterns(keys) {
  return keys.map((key) => {
    const parts = WORDS[key].split(/\{(\w+)\}/);
    const pattern = parts.map((part, n) => (n % 2 === 0 ? part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&") : "(.+?)")).join("");
    // What ends with a value goes on to the end of the text.
    const within = new RegExp(parts.at(-1) === "" ? `${pattern}$` : pattern, "s");
    return { key, names: parts.filter((_, n) => n % 2 === 1), alone: new RegExp(`^${pattern}$`, "s"), within };
  });
}

/** @param {Template} template @param {(string | undefined)[]} values */
function filled({ key, names }, values) {
  return word(key, Object.fromEntries(names.map((name, n) => [name, NESTED.includes(name) ? told(values[n] ?? "") : values[n]])));
}

/** @param {Template[]} known @param {string} text @returns {string | null} */
function whole(known, text) {
  for (const each of known) {
    const found = each.alone.exec(text);
    if (found !== null) return filled(each, found.slice(1));
  }
  return null;
}

/** @param {Template[]} known @param {string} text */
function replaced(known, text) {
  return known.reduce((now, each) => now.replace(each.within, (_, ...values) => filled(each, values)), text);
}

/** Where numbers come from, or which head it is; another text stays as it is. @param {string} text @returns {string} */
export function told(text) {
  return ENGLISH ? text : whole(texts("origin"), text) ?? whole(texts("places", PLACES), text) ?? text;
}

/** @type {WeakMap<string[], string[]>} */
const columns = new WeakMap();

/** The names of columns, which may be those of several heads side by side, or the id. @param {string[]} labels @returns {string[]} */
export function columnsIn(labels) {
  if (ENGLISH || !/^(head \d+ .*|id)$/s.test(labels[0] ?? "")) return labels;
  const found = columns.get(labels) ?? labels.map(told);
  columns.set(labels, found);
  return found;
}

/** A formula with its remarks. @param {string} formula */
export function formulaIn(formula) {
  return ENGLISH ? formula : replaced(texts("formula"), formula);
}

/** What Python says behind a number of how it came about. @param {string} line */
export function lineIn(line) {
  return ENGLISH ? line : whole(texts("lines", LINES), line) ?? replaced(texts("ends", ENDS), line).replace("(bias)", `(${word("rule.bias")})`);
}

/** What a worked example is called; a sentence stays as it is. @param {string} title */
export function exampleIn(title) {
  return ENGLISH ? title : whole(texts("title"), title) ?? title;
}

/** How far a job is. @param {string} step */
export function jobIn(step) {
  return ENGLISH ? step : whole(texts("job"), step) ?? step;
}

const BYTES = /^bytes? ([0-9A-F]{2}(?: [0-9A-F]{2})*)$/;

/** Is a predicted token only a piece of a letter? Python names it by its bytes then. @param {string} token */
export function isBytes(token) {
  return BYTES.test(token);
}

/** A token that is predicted. @param {string} token */
export function guessIn(token) {
  const codes = ENGLISH ? undefined : BYTES.exec(token)?.[1];
  return codes === undefined ? visible(token) : word("guess.bytes", { codes });
}

/** A note, sentence by sentence; what is not known stands there in English. @param {string} note @returns {(string | Node)[]} */
export function noteIn(note) {
  let pieces = [{ text: note, known: ENGLISH }];
  for (const each of ENGLISH ? [] : texts("note")) {
    pieces = pieces.flatMap((piece) => {
      const found = piece.known ? null : each.within.exec(piece.text);
      if (found === null) return [piece];
      const [before, after] = [piece.text.slice(0, found.index), piece.text.slice(found.index + found[0].length)];
      return [{ text: before, known: false }, { text: filled(each, found.slice(1)), known: true }, { text: after, known: false }];
    });
  }
  return pieces.filter(({ text }) => text !== "").flatMap(({ text, known }) =>
    (known || text.trim() === "" ? indexed(text) : [el("span", IN_ENGLISH, ...indexed(text))]));
}
