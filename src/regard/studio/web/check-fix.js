// What Fix would change, line by line, before anything is saved; then the fixed text as a file.

import { el } from "./dom.js";
import { word } from "./words.js";

const MOST = 300; // changed lines that are shown
const NEAR = 60; // letters that are shown around a change
const PIECES = /[+\-−–]?(?:\d+(?:[.,_]\d+)*|\.\d+)(?:[eE][+\-−]?\d+)?%?|[^]/gu;

/** @typedef {{ line: number, old: string | null, new: string | null }} Change */

/** Which lines differ. Numbers are put right in their places, so lines stay where they are; should they
 * not, all between the first and the last that differ are taken for changed.
 * @param {string} before @param {string} after @returns {Change[]} */
export function changes(before, after) {
  const [old, now] = [before.split("\n"), after.split("\n")];
  if (old.length === now.length) {
    return old.flatMap((line, n) => (line === now[n] ? [] : [{ line: n + 1, old: line, new: now[n] }]));
  }
  let first = 0;
  while (old[first] === now[first]) first++;
  let last = 0;
  while (last < Math.min(old.length, now.length) - first && old[old.length - 1 - last] === now[now.length - 1 - last]) last++;
  return [
    ...old.slice(first, old.length - last).map((line, n) => ({ line: first + n + 1, old: line, new: null })),
    ...now.slice(first, now.length - last).map((line, n) => ({ line: first + n + 1, old: null, new: line })),
  ];
}

/**
 * @param {{ name: string, before: string, after: string, left: number, jump: (line: number) => void,
 *   goOn: () => void, close: () => void }} shown
 */
export function difference({ name, before, after, left, jump, goOn, close }) {
  const found = changes(before, after);
  const heading = el("h2", { tabindex: -1 }, found.length === 0
    ? word("check.no_fix") : word(found.length === 1 ? "check.fix_one" : "check.fix_lines", { count: found.length.toLocaleString("en") }));
  const download = el("button", { type: "button", class: "main", onclick: () => save(after, fixedName(name)) }, word("check.download", { name: fixedName(name) }));
  const place = el("section", { class: "change", "aria-label": word("check.changes") },
    heading,
    left > 0 && el("p", {}, word(left === 1 ? "check.stays_one" : "check.stays", { count: left.toLocaleString("en") })),
    found.length > 0 && el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": word("check.changed_lines") },
      el("table", { class: "changes" },
        el("thead", {}, el("tr", {}, ...[word("check.line_title"), "", word("check.old_new")].map((title) => (title === "" ? el("td") : el("th", { scope: "col" }, title))))),
        el("tbody", {}, ...found.slice(0, MOST).flatMap((each) => rows(each, jump))))),
    found.length > MOST && el("p", { class: "faint" }, word("check.first_shown", { count: MOST })),
    el("div", { class: "bar" },
      found.length > 0 && download,
      found.length > 0 && el("button", { type: "button", onclick: goOn }, word("check.go_on")),
      el("button", { type: "button", onclick: close }, word("check.close"))));
  return { place, heading };
}

/** @param {Change} change @param {(line: number) => void} jump */
function rows(change, jump) {
  const [old, now] = compared(change.old ?? "", change.new ?? "");
  const number = el("button", { type: "button", "aria-label": word("check.go_to", { line: change.line }), onclick: () => jump(change.line) }, change.line);
  return [
    change.old !== null && el("tr", { class: "old" }, el("td", { class: "number" }, number), el("td", { class: "sign" }, "−"), el("td", {}, ...old.map((each) => shown(each, "del")))),
    change.new !== null && el("tr", { class: "new" }, el("td", { class: "number" }, change.old === null && change.line), el("td", { class: "sign" }, "+"), el("td", {}, ...now.map((each) => shown(each, "ins")))),
  ].filter((each) => each !== false);
}

/** @typedef {{ text: string, same: boolean }} Piece */

/** Two lines in pieces that are the same or not. @param {string} old @param {string} now @returns {[Piece[], Piece[]]} */
function compared(old, now) {
  const [a, b] = [old, now].map((line) => line.match(PIECES) ?? []);
  if (a.length !== b.length) return [[{ text: old, same: false }], [{ text: now, same: false }]];
  const joined = (/** @type {string[]} */ mine, /** @type {string[]} */ others) => {
    /** @type {Piece[]} */
    const made = [];
    mine.forEach((text, n) => {
      const same = text === others[n];
      const last = made[made.length - 1];
      if (same && last?.same) last.text += text;
      else made.push({ text, same });
    });
    return made;
  };
  return [joined(a, b), joined(b, a)];
}

/** @param {Piece} piece @param {"del" | "ins"} tag */
function shown({ text, same }, tag) {
  if (!same) return el(tag, {}, text);
  return text.length <= 3 * NEAR ? text : `${text.slice(0, NEAR)} … ${text.slice(-NEAR)}`;
}

/** `notes.md` becomes `notes-fixed.md`. @param {string} name */
function fixedName(name) {
  const [, stem, ending] = /^(.*?)(\.[^.]*)?$/s.exec(name) ?? ["", name, ""];
  return `${stem || "text"}-fixed${ending ?? ".txt"}`;
}

/** @param {string} text @param {string} name */
function save(text, name) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
