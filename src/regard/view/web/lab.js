// A run of an experiment: the question and a guess, then the verdict and what it follows from.

import { RegardElement } from "./base.js";
import { CHART_CSS, chartOf } from "./chart.js";
import { el, fourDigits, indexed, many } from "./dom.js";
import { word } from "./words.js";

/**
 * @import { Chart } from "./chart.js"
 * @typedef {"holds" | "fails" | "open"} Outcome
 * @typedef {{ title: string, columns: string[], rows: (number | string | boolean | null)[][] }} Table
 * @typedef {{
 *   experiment: string, title: string, claim: string, question: string, about: string,
 *   guesses: { name: string, said: string }[], guess: string | null, false: boolean, quick: boolean,
 *   possible: { name: string, said: string, named?: Record<string, string> }[], settings: Record<string, unknown>,
 *   make_false: { about: string }, frame: Record<string, string>,
 *   verdict: { outcome: Outcome, said: string, answer: string | null, notes: string[],
 *     findings: { outcome: Outcome, said: string }[] },
 *   charts: Chart[], tables: Table[], notes: string[], made: string, broken?: { verdict: LabDocument["verdict"] },
 * }} LabDocument
 */

const MARKS = { holds: "✓", fails: "✗", open: "?" };

/**
 * Shows one run of an experiment. The state `guess` is what the reader expects, "-" being nothing;
 * `question` says "above" where the page has asked it already.
 * @extends {RegardElement<LabDocument>}
 */
class RegardLab extends RegardElement {
  static css = `
    ${CHART_CSS}
    .question { font-size: 17px; max-width: 46em; margin: 4px 0 10px; }
    .guesses { display: flex; flex-direction: column; align-items: flex-start; gap: 6px; margin: 0 0 12px; }
    .guesses button { text-align: left; }
    .claim { max-width: 60em; margin: 14px 0 -6px; } .marks { max-width: 60em; }
    .verdict { border-left: 5px solid var(--edge); padding: 4px 0 4px 14px; margin: 14px 0; max-width: 60em; }
    .verdict h2 { margin: 0 0 4px; font-size: 18px; }
    .verdict.holds { border-color: #009e73; } .verdict.fails { border-color: #d55e00; } .verdict.open { border-color: #e69f00; }
    .verdict ul { list-style: none; margin: 0; padding: 0; }
    .verdict li { padding-left: 1.5em; text-indent: -1.5em; margin: 3px 0; }
    .verdict li b { display: inline-block; width: 1.5em; text-indent: 0; }
    .broken { border: 1px solid var(--hot); border-radius: 6px; padding: 6px 12px; max-width: 60em; }
    .charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr)); gap: 22px 30px; margin: 18px 0; }
    .charts figure:has(.maps) { grid-column: 1 / -1; }
    .wide { overflow-x: auto; }
    table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
    th, td { padding: 2px 12px 2px 0; text-align: right; white-space: nowrap; }
    th { color: var(--faint); font-weight: 600; } .text { text-align: left; }
    details { margin: 8px 0; } summary { cursor: pointer; } .turned summary { font-weight: 600; }
  `;

  /** @param {LabDocument} lab */
  update(lab) {
    const { frame } = lab;
    const guess = this.said("guess", lab.guess ?? "");
    /** @type {HTMLElement[]} */
    const parts = this.said("question", "") === "above" ? [] : [el("p", { class: "question" }, ...indexed(lab.question))];
    if (guess === "") parts.push(this.#guesses(lab));
    else {
      const made = lab.guesses.find(({ name }) => name === guess);
      const came = lab.guesses.find(({ name }) => name === lab.verdict.answer);
      const right = guess === lab.verdict.answer;
      if (made !== undefined) {
        parts.push(el("p", {}, `${frame.guessed}: ${made.said} `, el("strong", {}, right ? frame.guessed_right : frame.guessed_wrong)));
      }
      if (!right && came !== undefined) parts.push(el("p", {}, `${frame.came_out}: ${came.said}`));
      parts.push(...this.#cameOut(lab));
    }
    this.root.replaceChildren(...parts);
  }

  /** @param {LabDocument} lab */
  #guesses({ guesses, frame }) {
    return el("div", { class: "guesses", role: "group", "aria-label": frame.expect },
      el("strong", {}, frame.expect),
      ...guesses.map(({ name, said }) => el("button", { type: "button", name, onclick: () => this.say({ guess: name }) }, ...indexed(said))),
      el("button", { type: "button", name: "-", class: "faint", onclick: () => this.say({ guess: "-" }) }, frame.skip));
  }

  /** Whether another verdict of the page says what its marks mean. @returns {boolean} */
  #explained() {
    const root = /** @type {Document | ShadowRoot} */ (this.getRootNode());
    return [...root.querySelectorAll("regard-lab")].some((each) => each !== this && each.shadowRoot?.querySelector(".marks"));
  }

  /** @param {LabDocument} lab @returns {HTMLElement[]} */
  #cameOut(lab) {
    const { frame, verdict } = lab;
    const told = Object.entries(lab.settings).map(([name, value]) => {
      const known = lab.possible.find((each) => each.name === name);
      const named = known?.named?.[String(value)] ?? (String(value) || "–");
      const text = typeof value === "number" ? many(value) : typeof value === "boolean" ? word(value ? "lab.true" : "lab.false") : named;
      return el("li", {}, `${known?.said ?? name}: ${text}`);
    });
    return [
      ...(lab.false ? [el("p", { class: "broken" }, el("strong", {}, `${frame.broken}. `), ...indexed(lab.make_false.about))] : []),
      el("p", { class: "claim" }, el("strong", {}, `${frame.claim}: `), ...indexed(lab.claim)),
      verdictOf(verdict, frame.verdict),
      ...(this.#explained() ? [] : [el("p", { class: "marks faint" }, frame.marks)]),
      ...(lab.broken === undefined ? [] : [el("details", { class: "turned" }, el("summary", {}, frame.make_false),
        el("p", {}, ...indexed(lab.make_false.about)), verdictOf(lab.broken.verdict, frame.verdict))]),
      el("div", { class: "charts" }, ...lab.charts.map(chartOf)),
      ...lab.tables.map((table) => el("details", {}, el("summary", {}, table.title), el("div", { class: "wide", tabindex: 0 }, tableOf(table)))),
      el("details", {}, el("summary", {}, frame.how_measured), el("p", {}, ...indexed(lab.about)),
        el("p", {}, el("strong", {}, `${frame.make_false}: `), ...indexed(lab.make_false.about)),
        el("strong", {}, frame.settings), el("ul", {}, ...told)),
      ...lab.notes.map((note) => el("p", {}, ...indexed(note))),
      el("p", { class: "faint" }, lab.quick ? `${frame.quick} ${lab.made}` : lab.made),
    ];
  }
}

/** What came out, in words. @param {LabDocument["verdict"]} verdict @param {string} title */
function verdictOf({ outcome, said, findings, notes }, title) {
  return el("div", { class: `verdict ${outcome}` },
    el("h2", {}, `${title}: ${said}`),
    el("ul", {},
      ...findings.map((each) => el("li", {}, el("b", {}, MARKS[each.outcome]), ...indexed(each.said))),
      ...notes.map((note) => el("li", { class: "faint" }, el("b", {}, "·"), ...indexed(note)))));
}

/** @param {Table} table */
export function tableOf({ columns, rows }) {
  const text = columns.map((_, n) => rows.some((row) => typeof row[n] === "string"));
  const cell = (/** @type {number | string | boolean | null} */ value) => {
    if (value === null) return "–";
    if (typeof value !== "number") return String(value);
    return Number.isInteger(value) ? many(value) : fourDigits(value);
  };
  const kind = (/** @type {number} */ n) => ({ class: text[n] ? "text" : null });
  return el("table", {},
    el("thead", {}, el("tr", {}, ...columns.map((name, n) => el("th", { ...kind(n), scope: "col" }, name)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((value, n) => el("td", kind(n), cell(value)))))));
}

customElements.define("regard-lab", RegardLab);
