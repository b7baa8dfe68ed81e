// A lesson: text, live pictures of worked examples, experiments, and questions that answer back.

import { RegardElement, start } from "./base.js";
import { el, indexed } from "./dom.js";
import { TraceFlow } from "./flow_source.js";
import { tryIt, TRY_CSS } from "./try.js";
import { failed } from "./told.js";
import { word } from "./words.js";

/**
 * @import { State } from "./base.js"
 * @import { LabDocument } from "./lab.js"
 * @typedef {import("./base.js").RegardElement<any>} AnyElement
 * @typedef {{ text: string, style: "" | "strong" | "em" | "code" }} Run
 * @typedef {{ runs: Run[], right: boolean, why: Run[] }} Answer
 * @typedef {{ kind: string, [name: string]: any }} Block
 * @typedef {{ name: string, title: string, blocks: Block[], traces: Record<string, any>,
 *   measured: Record<string, LabDocument>, lessons: { name: string, title: string }[],
 *   address: (name: string) => string, measure?: (name: string, place: HTMLElement) => Promise<LabDocument | null> }} LessonSource
 */

const SMALL = ["flow", "steps"];

/**
 * The state `answers` is what was answered so far: “0.1,2.0” is answer 1 of question 0, and 0 of 2.
 * @extends {RegardElement<LessonSource>}
 */
class RegardLesson extends RegardElement {
  static css = `
    article { max-width: 50em; margin: 0 auto; font-size: 17px; line-height: 1.6; }
    article > .live { margin: 18px 0; }
    @media (min-width: 1000px) { article > .live { margin-left: -60px; margin-right: -60px; } }
    h2 { font-size: 20px; margin: 30px 0 8px; } p { margin: 10px 0; }
    code { font-family: var(--mono); font-size: 0.92em; }
    table { border-collapse: collapse; margin: 12px 0; } th, td { border-bottom: 1px solid var(--edge); padding: 4px 18px 4px 0; text-align: left; }
    th { color: var(--faint); font-weight: 600; } .wide { overflow-x: auto; }
    .caption { color: var(--faint); font-size: 15px; margin: 6px 0 0; }
    .box { border: 1px solid var(--edge); border-radius: 10px; padding: 12px 18px; }
    .question { background: var(--raised); } .question p { margin: 0 0 8px; font-weight: 600; }
    .question ul { list-style: none; margin: 0; padding: 0; display: grid; gap: 8px; }
    .question button { text-align: left; padding: 6px 12px; width: 100%; }
    .question .why { margin: 3px 0 0 14px; font-weight: 400; font-size: 15px; }
    .question .right button { border-color: #009e73; border-width: 2px; } .question .wrong button { border-color: #d55e00; border-width: 2px; }
    nav { display: flex; justify-content: space-between; gap: 20px; margin: 34px 0 10px; }
    a { color: var(--accent); }
    ${TRY_CSS}
  `;

  /** Elements of blocks, by their numbers: they keep what the reader did. @type {Map<number, HTMLElement>} */
  #made = new Map();

  /** @param {LessonSource} lesson */
  update(lesson) {
    const answers = this.#answers();
    const content = lesson.blocks.map((block, n) => {
      if (block.kind === "question") return this.#question(block, n, answers);
      let made = this.#made.get(n);
      if (made === undefined) {
        made = this.#block(lesson, block);
        this.#made.set(n, made);
      }
      return made;
    });
    this.root.replaceChildren(el("article", {}, ...content, around(lesson)));
  }

  /** @param {LessonSource} lesson @param {Block} block @returns {HTMLElement} */
  #block(lesson, block) {
    if (block.kind === "heading") return el("h2", {}, ...shown(block.runs));
    if (block.kind === "paragraph") return el("p", {}, ...shown(block.runs));
    if (block.kind === "list") return el(block.ordered ? "ol" : "ul", {}, ...block.items.map((/** @type {Run[]} */ item) => el("li", {}, ...shown(item))));
    if (block.kind === "table") return tableOf(block);
    if (block.kind === "lab") return el("div", { class: "live" }, this.#lab(lesson, block.experiment));
    const caption = el("p", { class: "caption" }, ...shown(block.caption));
    if (SMALL.includes(block.kind)) return el("div", { class: "live" }, picture(lesson, block), caption);
    return el("div", { class: "live box" }, tryIt(block), caption);
  }

  /** @param {LessonSource} lesson @param {string} name */
  #lab(lesson, name) {
    const place = el("div", { class: "box" });
    const show = (/** @type {LabDocument} */ document) => {
      const element = /** @type {AnyElement} */ (place.ownerDocument.createElement("regard-lab"));
      element.source = document;
      alone(element, {});
      place.replaceChildren(el("strong", {}, ...indexed(document.title)), element);
    };
    const known = lesson.measured[name];
    if (known !== undefined) show(known);
    else if (lesson.measure !== undefined) {
      const measure = lesson.measure;
      const said = el("div", { "aria-live": "polite" });
      const go = async () => {
        button.disabled = true;
        try {
          const found = await measure(name, said);
          if (found !== null) show(found);
        } catch (error) {
          said.replaceChildren(failed(error));
        }
        button.disabled = false;
      };
      const button = el("button", { onclick: go }, word("learn.measure"));
      place.append(el("p", {}, word("learn.experiment")), button, said);
    } else place.append(el("p", { class: "faint" }, word("learn.not_here", { name })));
    return place;
  }

  #answers() {
    const said = this.said("answers", "").split(",").filter((each) => /^\d+\.\d+$/.test(each));
    return new Map(said.map((each) => /** @type {[number, number]} */ (each.split(".").map(Number))));
  }

  /** @param {Block} block @param {number} n @param {Map<number, number>} answers */
  #question(block, n, answers) {
    const chosen = answers.get(n);
    return el("section", { class: "live box question" },
      el("p", {}, ...shown(block.ask)),
      el("ul", {}, ...block.answers.map((/** @type {Answer} */ { runs, right, why }, /** @type {number} */ m) => {
        const open = chosen === m;
        const say = () => {
          const next = new Map(answers).set(n, m);
          this.say({ answers: [...next].map((each) => each.join(".")).join(",") });
        };
        return el("li", { class: open ? (right ? "right" : "wrong") : null },
          el("button", { type: "button", name: `${n}.${m}`, "aria-expanded": String(open), onclick: say },
            open ? (right ? "✓ " : "✗ ") : "", ...shown(runs)),
          open && el("p", { class: "why", role: "status" }, el("strong", {}, `${right ? word("learn.right") : word("learn.wrong")} `), ...shown(why)));
      })));
  }
}

/** Text with its styles. @param {Run[]} runs @returns {(Node | string)[]} */
function shown(runs) {
  return runs.flatMap(({ text, style }) => (style === "" ? indexed(text) : [el(style, {}, ...indexed(text))]));
}

/** @param {Block} block */
function tableOf({ head, rows }) {
  return el("div", { class: "wide", tabindex: 0 }, el("table", {},
    el("thead", {}, el("tr", {}, ...head.map((/** @type {Run[]} */ cell) => el("th", { scope: "col" }, ...shown(cell))))),
    el("tbody", {}, ...rows.map((/** @type {Run[][]} */ row) => el("tr", {}, ...row.map((cell) => el("td", {}, ...shown(cell))))))));
}

/** A flow, or the steps, of an example, whose place belongs to it alone. @param {LessonSource} lesson @param {Block} block */
function picture(lesson, block) {
  const trace = lesson.traces[block.example];
  const element = /** @type {AnyElement} */ (document.createElement(`regard-${block.kind}`));
  element.source = block.kind === "flow" ? new TraceFlow(trace) : trace;
  const { step = null, token = null, head = null, cell = null, changes = null } = block;
  alone(element, { step, token, head, cell, changes });
  return element;
}

/** Let an element have a state of its own, which no address keeps. @param {AnyElement} element @param {Partial<State>} first */
function alone(element, first) {
  element.state = /** @type {State} */ ({ ...start(), ...first });
  element.addEventListener("regard-change", (event) => {
    event.stopPropagation();
    element.state = { ...element.state, .../** @type {CustomEvent} */ (event).detail };
  });
}

/** The lessons before and after. @param {LessonSource} lesson */
function around({ name, lessons, address }) {
  const at = lessons.findIndex((each) => each.name === name);
  const link = (/** @type {number} */ n, /** @type {"learn.before" | "learn.after"} */ key) =>
    lessons[n] === undefined ? el("span") : el("a", { href: address(lessons[n].name) }, word(key, { title: lessons[n].title }));
  return el("nav", { "aria-label": word("learn.lessons") }, link(at - 1, "learn.before"), link(at + 1, "learn.after"));
}

customElements.define("regard-lesson", RegardLesson);
