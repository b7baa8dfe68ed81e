// The text that was checked: its lines numbered, wrong numbers marked, a menu on each matrix.

import { el } from "./dom.js";
import { IN_ENGLISH } from "./told.js";
import { word } from "./words.js";

/**
 * A wrong number or claim. `start` and `end` count code points of its line, as Python does; they are
 * alike where only the line is known.
 * @typedef {{ line: number, start: number, end: number, kind: "cell" | "equation" | "claim", name: string,
 *   printed: string, right: string, first: boolean, symbol: string, causes: string[], cause: string }} Finding
 * What a matrix was taken for: a symbol, "" if that is asked, "ignore" if it is left out. `keys` say
 * which matrix is meant, `head` is the ending of a symbol that says of which head.
 * @typedef {{ line: number, symbol: string, keys: string[], head: string, about: string, said: boolean }} Menu
 */

const BLOCK = 100; // lines that the browser lays out together, once they come near
const EXPLAINED = /** @type {const} */ ([
  "E", "P", "X", "X_enc", "Q", "K", "V", "scores", "scaled", "weights", "head output", "concatenated", "output",
]);

/**
 * @param {{ text: string, findings: Finding[], menus: Menu[], kinds: string[], passed: Set<number>,
 *   chosen: (finding: Finding) => void, say: (menu: Menu, symbol: string) => void }} shown
 */
export function numbered({ text, findings, menus, kinds, passed, chosen, say }) {
  const lines = text.split("\n");
  if (lines.length > 1 && lines[lines.length - 1] === "") lines.pop();
  const marked = byLine(findings.filter((each) => each.end > each.start));
  const choices = byLine(menus);
  /** @type {Map<Finding, HTMLElement>} */
  const marks = new Map();

  /** @param {string} line @param {Finding[]} wrong */
  const pieces = (line, wrong) => {
    const letters = [...line];
    /** @type {(Node | string)[]} */
    const made = [];
    let at = 0;
    for (const finding of wrong) {
      if (finding.start < at) continue;
      const mark = el("mark", {
        class: finding.first ? "first" : "inherited", role: "button", tabindex: marks.size === 0 ? 0 : -1,
        title: word("check.should_be", { right: finding.right }),
        "aria-label": word("check.show_why", { printed: finding.printed, right: finding.right }),
        onclick: () => chosen(finding),
      }, letters.slice(finding.start, finding.end).join(""));
      marks.set(finding, mark);
      made.push(letters.slice(at, finding.start).join(""), mark);
      at = finding.end;
    }
    return [...made, letters.slice(at).join("")];
  };

  const place = el("div", { class: "numbered", tabindex: 0, role: "region", "aria-label": word("check.lines") });
  for (let first = 0; first < lines.length; first += BLOCK) {
    const block = el("div", { class: "block" });
    for (let n = first; n < Math.min(first + BLOCK, lines.length); n++) {
      const wrong = marked.get(n + 1);
      const said = el("span", { class: "said" });
      if (wrong === undefined) said.textContent = lines[n];
      else said.append(...pieces(lines[n], wrong));
      const line = el("div", { class: passed.has(n + 1) ? "line passed" : "line", "data-line": n + 1 }, said);
      const here = choices.get(n + 1) ?? [];
      if (here.length > 0) line.append(el("span", { class: "menus" }, ...here.map((each) => menuOf(each, kinds, say))));
      block.append(line);
    }
    place.append(block);
  }
  place.addEventListener("keydown", (event) => walk(event, [...marks.values()]));

  /** @type {HTMLElement | null} */
  let here = null;
  /** @param {number} number @returns {HTMLElement | null} */
  const lineAt = (number) => /** @type {HTMLElement | null} */ (place.children[Math.floor((number - 1) / BLOCK)]?.children[(number - 1) % BLOCK] ?? null);
  return {
    place,
    /** Go to a line; to the mark of a finding or a menu of that line, if asked for.
     * @param {number} number @param {Finding | "menu" | null} [what] @param {string} [about] which menu: its first
     * key, or what the text calls its matrix */
    jump(number, what = null, about = "") {
      here?.classList.remove("here");
      here = lineAt(number);
      here?.classList.add("here");
      if (here !== null) {
        const [line, frame] = [here.getBoundingClientRect(), place.getBoundingClientRect()];
        place.scrollTop += line.top + line.height / 2 - frame.top - place.clientHeight / 2;
        place.scrollIntoView({ block: "nearest" });
      }
      const selects = [...(here?.querySelectorAll("select") ?? [])];
      const target = what === "menu" ? selects.find((each) => [each.dataset.key, each.dataset.about].includes(about)) ?? selects[0]
        : what === null ? null : marks.get(what);
      (target ?? place).focus({ preventScroll: true });
    },
    /** Show which finding is meant. @param {Finding | null} finding */
    point(finding) {
      for (const [each, mark] of marks) {
        if (each === finding) mark.setAttribute("aria-current", "true");
        else mark.removeAttribute("aria-current");
        if (finding !== null && marks.has(finding)) mark.tabIndex = each === finding ? 0 : -1;
      }
    },
  };
}

/** One stop for all marks; arrows go from one to the next, Enter chooses.
 * @param {KeyboardEvent} event @param {HTMLElement[]} marks */
function walk(event, marks) {
  const target = /** @type {HTMLElement} */ (event.target);
  const at = marks.indexOf(target);
  if (at < 0) return;
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (step !== undefined) {
    const next = marks[at + step];
    if (next !== undefined) {
      target.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    }
  } else if (event.key === "Enter" || event.key === " ") target.click();
  else return;
  event.preventDefault();
}

/** @param {Menu} menu @param {string[]} kinds @param {(menu: Menu, symbol: string) => void} say */
function menuOf(menu, kinds, say) {
  const option = (/** @type {string} */ value, /** @type {string} */ words, own = true) =>
    el("option", { value, selected: value === menu.symbol, ...(own ? {} : IN_ENGLISH) }, words);
  const select = el("select", {
    class: menu.symbol === "" && "open", title: word("check.menu_about", { line: menu.line }),
    "aria-label": word("check.menu", { what: menu.about, line: menu.line }),
    "data-key": menu.keys[0], "data-about": menu.about,
    onchange: () => say(menu, select.value),
  },
  menu.symbol === "" && option("", word("check.what")),
  ...kinds.map((kind) => {
    const known = EXPLAINED.find((each) => each === kind);
    return known === undefined ? option(kind, kind, false) : option(kind, word("check.kind", { kind, means: word(`check.${known}`) }));
  }),
  option("ignore", word("check.left_out")),
  menu.said && option("take back", word("check.as_read")));
  return select;
}

/** @template {{ line: number }} Item @param {Item[]} items @returns {Map<number, Item[]>} */
function byLine(items) {
  const found = new Map();
  for (const each of items) {
    const line = found.get(each.line);
    if (line === undefined) found.set(each.line, [each]);
    else line.push(each);
  }
  return found;
}
