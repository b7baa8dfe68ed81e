// The lab: all experiments, and one of them with its settings, measured when the reader asks for it.

import { el, indexed } from "./dom.js";
import { LANGUAGE } from "./language.js";
import { elsewhere } from "./page.js";
import { ask, tell } from "./asking.js";
import { BY_HAND, HANDS, handsOf } from "./lab-hands.js";
import { follow } from "./progress.js";
import { failed } from "./told.js";
import { word } from "./words.js";

/**
 * @typedef {{ name: string, kind: "whole" | "number" | "choice" | "flag" | "text", said: string, default: any,
 *   least: number | null, most: number | null, choices: string[], named: Record<string, string> }} Setting
 * @typedef {{ experiment: string, title: string, claim: string, question: string, about: string,
 *   needs: { name: string, said: string }[], guesses: { name: string, said: string }[], possible: Setting[], frame: Record<string, string>,
 *   make_false: { settings: Record<string, unknown>, about: string } }} About
 * @typedef {import("./base.js").RegardElement<any>} AnyElement
 */

export const LAB = `${HANDS}
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 320px), 1fr)); gap: 12px; padding: 0; list-style: none; }
.cards a { display: block; height: 100%; padding: 10px 14px; border: 1px solid var(--edge); border-radius: 8px; color: inherit; text-decoration: none; }
.cards a:hover, .cards a:focus-visible { border-color: var(--accent); }
.cards strong { color: var(--accent); }
fieldset { border: 1px solid var(--edge); border-radius: 8px; padding: 6px 14px 10px; margin: 0 0 12px; max-width: 60em; }
fieldset label { display: flex; gap: 8px; align-items: baseline; }
.settings { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 270px), 1fr)); gap: 10px 28px; margin: 0 0 14px; align-items: start; }
.settings label { display: flex; flex-wrap: wrap; gap: 2px 8px; justify-content: space-between; align-items: center; }
.settings label span { font-variant-numeric: tabular-nums; }
.settings input[type="range"] { flex: 1 1 100%; accent-color: var(--accent); }
.settings input[type="text"], .settings textarea { flex: 1 1 100%; font: inherit; }
.settings label:has(textarea) { grid-column: 1 / -1; }
.results { display: grid; gap: 24px; } .results.two { grid-template-columns: 1fr 1fr; }
@media (max-width: 900px) { .results.two { grid-template-columns: 1fr; } }
`;

const LONG = 500; // letters: a longer text has lines

/** @param {HTMLElement} main @param {import("./base.js").State} state @param {AbortSignal} until */
export async function showLab(main, state, until) {
  /** @type {About[]} */
  const all = await ask(`/api/lab?language=${LANGUAGE}`);
  if (until.aborted) return;
  const found = all.find(({ experiment }) => experiment === state.experiment);
  if (found !== undefined) showExperiment(main, found, until);
  else main.append(
    el("h1", {}, word("lab.title")), el("p", { class: "faint" }, word("lab.about")),
    el("ul", { class: "cards" }, ...all.map(({ experiment, title, claim }) =>
      el("li", {}, el("a", { href: elsewhere({ page: "lab", experiment }) }, el("strong", {}, ...indexed(title)), el("br"), ...indexed(claim))))));
}

/** @param {HTMLElement} main @param {About} about @param {AbortSignal} until */
function showExperiment(main, about, until) {
  const { frame } = about;
  const guesses = el("fieldset", {}, el("legend", {}, frame.expect),
    ...[...about.guesses, { name: "-", said: frame.skip }].map(({ name, said }) => el("label", {},
      el("input", { type: "radio", name: "guess", value: name, checked: name === "-" }), said)));
  const inputs = about.possible.map(control);
  const hands = handsOf(inputs);
  const said = el("div", { "aria-live": "polite" });
  const results = el("div", { class: "results" });
  /** What came out with the premise whole, and broken. @type {{ whole: any, broken: any }} */
  const shown = { whole: null, broken: null };
  const buttons = [[false, true], [false, false], [true, true]].map(([broken, quick]) => el("button", {
    class: broken ? null : quick ? "main" : null,
    title: broken ? about.make_false.about : quick ? word("lab.quick.about") : word("lab.full.about"),
    onclick: () => go(broken, quick),
  }, broken ? frame.make_false : quick ? word("lab.quick") : word("lab.full")));

  /** @param {boolean} broken @param {boolean} quick */
  const go = async (broken, quick) => {
    for (const button of buttons) button.disabled = true;
    const settings = Object.fromEntries(inputs.filter(({ changed }) => changed()).map(({ name, value }) => [name, value()]));
    try {
      const { job } = await tell("/api/lab", { experiment: about.experiment, settings, false: broken, quick, language: LANGUAGE });
      const result = await follow(job, said, until);
      if (result !== null) {
        shown[broken ? "broken" : "whole"] = await ask(`/api/lab/${result}`);
        draw();
      }
    } catch (error) {
      said.replaceChildren(failed(error));
    } finally {
      for (const button of buttons) button.disabled = false;
    }
  };
  const draw = () => {
    const chosen = /** @type {HTMLInputElement | null} */ (guesses.querySelector("input:checked"));
    const both = [shown.whole, shown.broken].filter((each) => each !== null);
    results.classList.toggle("two", both.length > 1);
    results.replaceChildren(...both.map((lab) => {
      const element = /** @type {AnyElement} */ (document.createElement("regard-lab"));
      element.source = lab;
      element.state = { ...element.state, guess: chosen?.value ?? "-", question: "above" };
      return element;
    }));
  };
  main.append(
    el("p", {}, el("a", { href: elsewhere({ page: "lab" }) }, word("lab.back"))),
    el("h1", {}, ...indexed(about.title)), el("p", { class: "faint" }, ...indexed(about.claim)),
    el("p", {}, ...indexed(about.question)), guesses, ...(hands === null ? [] : [hands]),
    el("details", {}, el("summary", {}, frame.settings), el("p", { class: "faint" }, about.about),
      el("div", { class: "settings" }, ...inputs.filter(({ name }) => !BY_HAND.includes(name)).map(({ element }) => element))),
    about.needs.length === 0 ? "" : el("p", { class: "faint" }, word("lab.needs", { model: about.needs.map(({ said }) => said).join(", ") })),
    el("div", { class: "bar" }, ...buttons), said, results,
  );
}

/** What a setting is changed by. @param {Setting} setting @returns {import("./lab-hands.js").Control} */
function control({ name, kind, said, default: usual, least, most, choices, named }) {
  /** @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} input @param {() => unknown} value
   * @param {(value: any) => void} put @param {...(Node | string)} more */
  const made = (input, value, put, ...more) => ({
    name, said, value, changed: () => input.dataset.changed === "yes", element: el("label", {}, said, ...more, input),
    set: (/** @type {any} */ to) => {
      put(to);
      input.dataset.changed = "yes";
    },
    listen: (/** @type {() => void} */ hear) => input.addEventListener("input", hear),
  });
  const note = (/** @type {Event} */ event) => (/** @type {HTMLElement} */ (event.target).dataset.changed = "yes");
  if (kind === "flag") {
    const box = el("input", { type: "checkbox", checked: usual, onchange: note });
    return made(box, () => box.checked, (to) => (box.checked = to));
  }
  if (kind === "choice") {
    const list = el("select", { onchange: note }, ...choices.map((each) => el("option", { value: each, selected: each === usual }, named[each])));
    return made(list, () => list.value, (to) => (list.value = to));
  }
  if (kind === "text") {
    const long = (most ?? 0) > LONG;
    const field = long ? el("textarea", { rows: 5, maxlength: most, oninput: note }, usual)
      : el("input", { type: "text", value: usual, maxlength: most, oninput: note });
    return made(field, () => field.value, (to) => (field.value = to));
  }
  // A slider goes by the logarithm where it spans much: each step is as large a change as any other.
  const [low, high] = [least ?? 0, most ?? 100];
  const log = low > 0 && high / low >= 64;
  const at = (/** @type {number} */ x) => (log ? Math.log(x / low) / Math.log(high / low) : (x - low) / (high - low)) * 1000;
  const of = (/** @type {number} */ place) => {
    const x = log ? low * (high / low) ** (place / 1000) : low + ((high - low) * place) / 1000;
    return kind === "whole" ? Math.round(x) : Number(x.toPrecision(3));
  };
  const shown = el("span");
  const slider = el("input", { type: "range", min: 0, max: 1000, value: at(usual), oninput: (event) => {
    note(event);
    show(of(Number(slider.value)));
  } });
  const show = (/** @type {number} */ x) => {
    shown.textContent = x.toLocaleString("en");
    slider.setAttribute("aria-valuetext", shown.textContent);
  };
  show(usual);
  const put = (/** @type {number} */ to) => {
    slider.value = String(at(to));
    show(of(Number(slider.value)));
  };
  return made(slider, () => of(Number(slider.value)), put, shown);
}
