// What was found, beside the text: mistakes, what follows from them, what was not understood.

import { el } from "./dom.js";

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

/** A number of things. @param {number} n @param {string} thing */
const counted = (n, thing) => `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`;

/** The verdict in a sentence. @param {Report} report */
export function verdict({ verdict: is, checked, findings }) {
  if (is === "right") return `Nothing wrong: ${checked === 1 ? "the one number that could be checked is" : `all ${checked.toLocaleString("en")} numbers that could be checked are`} right, allowing for rounding.`;
  if (is === "unclear") return "Nothing could be checked in this text.";
  const all = Math.max(checked, findings.length);
  return `${findings.length.toLocaleString("en")} of ${counted(all, "checked number")} ${findings.length === 1 ? "is" : "are"} wrong.`;
}

/** How much was covered. @param {Report} report */
export function coverage({ checked, statements, not_understood: passed, questions, findings }) {
  const inherited = findings.filter((each) => !each.first).length;
  const lines = [...new Set(passed.map((each) => each.line))];
  const some = lines.slice(0, 12).join(", ") + (lines.length > 12 ? ", …" : "");
  return [
    inherited > 0 && `${counted(findings.length - inherited, "first mistake")}; ${inherited === 1 ? "1 more number follows" : `${inherited.toLocaleString("en")} more numbers follow`} from ${findings.length - inherited === 1 ? "it" : "them"}.`,
    checked > 0 && `${counted(checked, "number")} in ${counted(statements, "statement")} checked.`,
    passed.length > 0 && `${counted(passed.length, "statement")} not understood (line${lines.length === 1 ? "" : "s"} ${some}).`,
    questions.length > 0 && `${counted(questions.length, "open question")}.`,
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
      el("span", { class: "where" }, `line ${line}`), ...words);
    if (what !== null && what !== "menu" && !matrix) buttons.set(what, button);
    return el("li", {}, button);
  };
  const item = (/** @type {Finding} */ each) => row(each.line, each,
    el("span", {}, el("bdi", {}, each.name), ": ", el("bdi", { class: "printed" }, each.printed), " should be ", el("bdi", { class: "right" }, each.right)),
    each.cause !== "" && el("span", { class: "cause" }, each.cause));

  const of = (/** @type {(each: Finding) => boolean} */ wanted) => report.findings.filter(wanted);
  const place = el("div", { class: "findings", tabindex: 0, role: "region", "aria-label": "What was found" },
    section("Where a mistake was made", of((each) => each.kind === "cell" && each.first), item),
    section("Equations that do not hold", of((each) => each.kind === "equation"), item),
    section("What the text says, and is not so", of((each) => each.kind === "claim"), item),
    ...groups(of((each) => each.kind === "cell" && !each.first)).map(([title, some]) => section(title, some, item)),
    section("Questions", report.questions, (each) => each.line === 0
      ? el("li", {}, each.words)
      : row(each.line, each.menu ? "menu" : null, el("bdi", {}, each.words), each.menu && el("span", { class: "cause" }, "choose it in the menu of that line"))),
    section("What each matrix was taken for", report.matrices, (each) => {
      const words = el("span", {}, el("b", {}, each.symbol), each.head !== null && ` of head ${each.head}`, each.example > 0 && `, example ${each.example}`,
        `, ${each.shape.join("×")}: ${fared(each)}`);
      if (each.line === 0) return el("li", {}, words, ", ", each.called);
      const called = each.called !== "" && each.called !== each.symbol;
      return row(each.line, each, words, (called || each.reason !== "") && el("span", { class: "cause" },
        called && "“", called && el("bdi", {}, each.called), called && "” ", each.reason !== "" && `(${each.reason})`));
    }),
    section("Not understood, and passed over", report.not_understood, (each) => row(each.line, null, el("bdi", {}, each.what))),
    section("Remarks", report.remarks, (each) => el("li", {}, each), "plain"));
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
  if (first + inherited === 0) return state === "computed" ? "right" : state;
  return [first > 0 && `${first} wrong`, inherited > 0 && `${inherited} follow${inherited === 1 ? "s" : ""} from a mistake`].filter((each) => each !== false).join(", ");
}

/** What inherits mistakes, by where they come from. @param {Finding[]} inherited @returns {[string, Finding[]][]} */
function groups(inherited) {
  /** @type {Map<string, Finding[]>} */
  const found = new Map();
  for (const each of inherited) {
    const title = `Wrong in ${each.symbol} only because ${each.causes.join(" and ") || "what it is made of"} ${each.causes.length > 1 ? "are" : "is"}`;
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
  const place = el("section", {}, el("h3", {}, items.length > 1 ? `${title} (${items.length.toLocaleString("en")})` : title), list);
  if (all.length > MOST) {
    list.replaceChildren(...all.slice(0, MOST));
    const more = el("button", { type: "button", class: "more", onclick: () => show() }, `Show all ${all.length.toLocaleString("en")}`);
    const show = () => {
      list.replaceChildren(...all);
      more.remove();
    };
    place.append(more);
  }
  return place;
}
