// What was found, beside the text: mistakes, what follows from them, what was not understood.

import { el, indexed } from "./dom.js";
import { IN_ENGLISH } from "./told.js";
import { word, wordParts } from "./words.js";

/**
 * @typedef {import("./check-text.js").Finding} Finding
 * @typedef {{ example: number, symbol: string, head: number | null, called: string, line: number, lines: number[],
 *   shape: [number, number], reason: string, first: number, inherited: number, state: string }} Matrix
 * @typedef {{ line: number, words: string, menu: boolean }} Question
 * @typedef {{ file: string, text: string, verdict: "right" | "wrong" | "unclear", checked: number, statements: number,
 *   findings: Finding[], matrices: Matrix[], kinds: string[], not_understood: { line: number, what: string }[],
 *   questions: Question[], remarks: string[] }} Report
 */

const MOST = 100; // of each section, unless the reader asks for all

/** A number of things, by the key of several of them. @param {number} n
 * @param {"check.checked" | "check.first" | "check.numbers" | "check.statements" | "check.open"} thing */
const counted = (n, thing) => word(n === 1 ? `${thing}_one` : thing, { count: n.toLocaleString("en") });

/** The verdict in a sentence. @param {Report} report */
export function verdict({ verdict: is, checked, findings }) {
  if (is === "right") return word(checked === 1 ? "check.right_one" : "check.right", { count: checked.toLocaleString("en") });
  if (is === "unclear") return word("check.unclear");
  const all = counted(Math.max(checked, findings.length), "check.checked");
  return word(findings.length === 1 ? "check.wrong_one" : "check.wrong", { count: findings.length.toLocaleString("en"), all });
}

/** How much was covered. @param {Report} report */
export function coverage({ checked, statements, not_understood: passed, questions, findings }) {
  const inherited = findings.filter((each) => !each.first).length;
  const first = findings.length - inherited;
  const lines = [...new Set(passed.map((each) => each.line))];
  const some = lines.slice(0, 12).join(", ") + (lines.length > 12 ? ", …" : "");
  return [
    inherited > 0 && word(inherited === 1 ? (first === 1 ? "check.inherit_one" : "check.inherit_one_of")
      : first === 1 ? "check.inherit" : "check.inherit_of", { first: counted(first, "check.first"), count: inherited.toLocaleString("en") }),
    checked > 0 && word("check.covered", { numbers: counted(checked, "check.numbers"), statements: counted(statements, "check.statements") }),
    passed.length > 0 && word(lines.length === 1 ? "check.passed_one" : "check.passed", { statements: counted(passed.length, "check.statements"), lines: some }),
    questions.length > 0 && counted(questions.length, "check.open"),
  ].filter((each) => each !== false).join(" ");
}

/**
 * @param {Report} report
 * @param {(line: number, what: Finding | "menu" | null, about?: string) => void} jump
 */
export function listed(report, jump) {
  /** @type {Map<Finding, HTMLElement>} */
  const buttons = new Map();
  /** @param {number} line @param {Finding | Matrix | "menu" | null} what @param {...import("./dom.js").Child} words */
  const row = (line, what, ...words) => {
    const matrix = what !== null && typeof what === "object" && "called" in what;
    const button = el("button", { type: "button", onclick: () => (matrix ? jump(line, "menu", what.called) : jump(line, what)) },
      el("span", { class: "where" }, word("check.line", { line })), ...words);
    if (what !== null && what !== "menu" && !matrix) buttons.set(what, button);
    return el("li", {}, button);
  };
  const item = (/** @type {Finding} */ each) => row(each.line, each,
    el("span", {}, ...wordParts("check.should", {
      name: el("bdi", IN_ENGLISH, each.name), printed: el("bdi", { class: "printed" }, each.printed), right: el("bdi", { class: "right" }, each.right),
    })),
    each.cause !== "" && el("span", { class: "cause", ...IN_ENGLISH }, each.cause));

  const of = (/** @type {(each: Finding) => boolean} */ wanted) => report.findings.filter(wanted);
  const place = el("div", { class: "findings", tabindex: 0, role: "region", "aria-label": word("check.found") },
    section(word("check.mistakes"), of((each) => each.kind === "cell" && each.first), item),
    section(word("check.equations"), of((each) => each.kind === "equation"), item),
    section(word("check.claims"), of((each) => each.kind === "claim"), item),
    ...groups(of((each) => each.kind === "cell" && !each.first)).map(([title, some]) => section(title, some, item)),
    section(word("check.questions"), report.questions, (each) => each.line === 0
      ? el("li", IN_ENGLISH, each.words)
      : row(each.line, each.menu ? "menu" : null, el("bdi", IN_ENGLISH, each.words), each.menu && el("span", { class: "cause" }, word("check.in_menu")))),
    section(word("check.taken"), report.matrices, (each) => {
      const words = el("span", {}, el("b", {}, ...indexed(each.symbol)), each.head !== null && word("check.of_head", { head: each.head }),
        each.example > 0 && word("check.of_example", { example: each.example }),
        word("check.shape", { shape: each.shape.join("×"), fared: fared(each) }));
      if (each.line === 0) return el("li", {}, words, ", ", each.called);
      const called = each.called !== "" && each.called !== each.symbol;
      return row(each.line, each, words, (called || each.reason !== "") && el("span", { class: "cause" },
        ...(called ? wordParts("check.quoted", { name: el("bdi", {}, each.called) }) : []), each.reason !== "" && el("span", IN_ENGLISH, `(${each.reason})`)));
    }),
    section(word("check.passed_over"), report.not_understood, (each) => row(each.line, null, el("bdi", {}, each.what))),
    section(word("check.remarks"), report.remarks, (each) => el("li", IN_ENGLISH, each), "plain"));
  return {
    place,
    /** Show which finding is meant, and take the reader there. @param {Finding | null} finding @param {boolean} [focus] */
    point(finding, focus = false) {
      for (const [each, button] of buttons) {
        if (each === finding) button.setAttribute("aria-current", "true");
        else button.removeAttribute("aria-current");
      }
      const button = finding === null ? undefined : buttons.get(finding);
      if (!focus || button === undefined) return;
      if (!button.isConnected) for (const more of place.querySelectorAll("button.more")) /** @type {HTMLElement} */ (more).click();
      button.scrollIntoView({ block: "nearest" });
      button.focus({ preventScroll: true });
    },
  };
}

/** @param {Matrix} matrix */
function fared({ first, inherited, state }) {
  if (first + inherited === 0) return word(state === "computed" ? "check.is_right" : state === "given" ? "check.is_given" : "check.not_checked");
  return [first > 0 && word("check.some_wrong", { count: first }), inherited > 0 && word(inherited === 1 ? "check.follows" : "check.follow", { count: inherited })].filter((each) => each !== false).join(", ");
}

/** What inherits mistakes, by where they come from. @param {Finding[]} inherited @returns {[string, Finding[]][]} */
function groups(inherited) {
  /** @type {Map<string, Finding[]>} */
  const found = new Map();
  for (const each of inherited) {
    const title = word(each.causes.length > 1 ? "check.only_because_of" : "check.only_because", {
      symbol: each.symbol, causes: each.causes.join(word("check.and")) || word("check.made_of"),
    });
    const same = found.get(title);
    if (same === undefined) found.set(title, [each]);
    else same.push(each);
  }
  return [...found];
}

/** A title and its list, unless that is empty. @template Item @param {string} title @param {Item[]} items
 * @param {(item: Item) => HTMLElement} make @param {string} [look] */
function section(title, items, make, look = "list") {
  if (items.length === 0) return null;
  const list = el("ul", { class: look }, ...items.map(make));
  const all = [...list.children];
  const place = el("section", {}, el("h3", {}, items.length > 1 ? word("check.section", { title, count: items.length.toLocaleString("en") }) : title), list);
  if (all.length > MOST) {
    list.replaceChildren(...all.slice(0, MOST));
    const more = el("button", { type: "button", class: "more", onclick: () => show() }, word("check.show_all", { count: all.length.toLocaleString("en") }));
    const show = () => {
      list.replaceChildren(...all);
      more.remove();
    };
    place.append(more);
  }
  return place;
}
