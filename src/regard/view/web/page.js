// A page of one file: its elements, the choices that they share, and the state in its address.

import { start } from "./base.js";
import { el, indexed, refill } from "./dom.js";
import { EmbeddedRun, manifest } from "./embedded.js";
import { EmbeddedFlow } from "./flow_embedded.js";
import { KINDS } from "./model_card.js";
import { PRINTED, saveButtons } from "./save.js";
import { THEME, sheet } from "./theme.js";
import { TraceViews } from "./trace_views.js";
import { EmbeddedTraining } from "./training_source.js";
import { headKind } from "./told.js";
import { word } from "./words.js";

/**
 * @import { State } from "./base.js"
 * @import { RunInfo, RunSource } from "./source.js"
 * @typedef {import("./base.js").RegardElement<any>} AnyElement
 */

/** The tabs of a page, and what is printed of it. */
export const TABS = `
.tabs { display: flex; flex-wrap: wrap; gap: 8px; justify-content: space-between; align-items: center;
  border-bottom: 1px solid var(--edge); margin: 0 0 12px; }
[role="tablist"] { display: flex; flex-wrap: wrap; gap: 4px; }
[role="tablist"][hidden] { display: none; }
[role="tab"] { border: 0; border-bottom: 3px solid transparent; border-radius: 0; background: none; padding: 6px 12px; }
[role="tab"][aria-selected="true"] { border-bottom-color: var(--accent); font-weight: 600; }
.save { order: 1; }
#panel > .bar:empty { display: none; }
main:has(regard-flow, regard-head) { max-width: none; }
.save button { padding: 1px 8px; font-size: 13px; color: var(--faint); }
@media (max-width: 600px) { [role="tab"] { padding: 6px 7px; } .module { display: none; } }
${PRINTED}`;

const CSS = `
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 var(--sans); }
:lang(ko) { word-break: keep-all; } /* lines of Korean end between words */
main { max-width: 1180px; margin: 0 auto; padding: 14px 18px 28px; }
h1 { font-size: 20px; line-height: 1.3; margin: 0; overflow-wrap: anywhere; }
main.wide { max-width: 1880px; }
@media (min-width: 1700px) { main { max-width: 1560px; } }
header p { margin: 2px 0 10px; }
header.lesson { max-width: 56.6em; margin: 10px auto 0; } header.lesson h1 { font-size: 26px; } header.lesson p { display: none; }
.corner { float: right; display: flex; flex-wrap: wrap; gap: 4px 14px; align-items: center; margin-left: 14px; }
@media (max-width: 600px) {
  main { padding: 8px 10px 20px; } h1 { font-size: 18px; } header p { font-size: 13px; line-height: 1.4; }
  .corner { float: none; margin: 0 0 6px; justify-content: space-between; }
}
details { margin-top: 14px; } details ul { margin: 6px 0; padding-left: 20px; }
`;

/** What an address says, if the reader has been anywhere in a run. */
const PLACE = ["layer", "head", "token", "view"];

/** Numbers of the state; all other names hold text. */
const NUMBERS = ["sequence", "layer", "head", "token"];

/** The state that an address says. @param {string} hash @param {State} state @returns {State} */
export function read(hash, state) {
  const said = new URLSearchParams(hash.replace(/^#/, ""));
  /** @type {State} */
  const found = { ...state };
  for (const [name, value] of said) {
    if (!NUMBERS.includes(name)) found[name] = value;
    else if (/^\d{1,9}$/.test(value)) found[name] = Number(value);
  }
  return found;
}

/** The address of a state, without what goes without saying. @param {State} state */
export function address(state) {
  const said = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) {
    if (value !== null && value !== start()[name]) said.set(name, String(value));
  }
  return `#${said}`;
}

/** The address of another page of the studio, light or dark as this one is. @param {Partial<State>} state */
export function elsewhere(state) {
  const { theme = null } = read(location.hash, start());
  return address(/** @type {State} */ ({ ...start(), theme, ...state }));
}

/**
 * Put a state into the address. A frame in a notebook may not change its own: there it is not kept.
 * @param {State} state @param {boolean} step whether the back button is to lead here again
 */
function remember(state, step) {
  try {
    history[step ? "pushState" : "replaceState"](null, "", address(state));
  } catch (error) {
    if (!(error instanceof DOMException && error.name === "SecurityError")) throw error;
  }
}

/** What a state may not be beyond. @param {State} state @param {RunInfo} info @returns {State} */
export function within(state, info) {
  const sequence = Math.min(state.sequence, Math.max(0, info.sequences.length - 1));
  const layer = Math.min(state.layer, info.layers.length - 1);
  const { heads, keys } = info.layers[layer];
  const head = state.head === null ? null : Math.min(state.head, heads - 1);
  const token = state.token === null || state.token >= keys ? null : state.token;
  return { ...state, sequence, layer, head, token };
}

/**
 * A view: name, title, element; and where its numbers come from, if not from the run.
 * @typedef {[string, string, string, (() => Promise<any>)?]} View
 * The views of a run. @returns {View[]}
 */
export function views() {
  return [
    ["text", word("page.text"), "regard-text"],
    ["heads", word("page.links"), "regard-heads"],
    ["model", word("page.heads"), "regard-model"],
    ["atlas", word("page.atlas"), "regard-atlas"],
    ["shift", word("page.movement"), "regard-shift"],
  ];
}

/** The views of the whole pass of a run, which is opened once for both. @param {() => Promise<any>} open @returns {View[]} */
export function passViews(open) {
  /** @type {Promise<any> | null} */
  let opened = null;
  const once = () => {
    opened ??= open().catch((error) => {
      opened = null;
      throw error;
    });
    return opened;
  };
  return [["flow", word("page.flow"), "regard-flow", once], ["steps", word("page.steps"), "regard-head", once]];
}

/**
 * A run in views, one at a time, with the choices of sequence, layer and head above them.
 * @param {HTMLElement} main
 * @param {RunSource} source
 * @param {AbortSignal} [until] when it is over
 * @param {View[]} [more] views
 */
export function showRun(main, source, until, more = []) {
  const { info } = source;
  /** @type {View[]} */
  const lens = source.lens === undefined && (info.why ?? null) === null ? [] : [["lens", word("page.prediction"), "regard-lens"]];
  const all = [...views(), ...lens, ...more];
  const controls = el("div", { class: "bar controls" });
  const tabs = el("div", { role: "tablist", "aria-label": word("page.views") });
  const panel = el("section", { role: "tabpanel", id: "panel", "aria-live": "off" });
  /** @type {Map<string, AnyElement>} */
  const made = new Map();
  let state = within(read(location.hash, start()), info);
  const said = new URLSearchParams(location.hash.slice(1));
  if (info.opening !== null && PLACE.every((name) => !said.has(name))) {
    state = within({ ...state, ...info.opening }, info);
    remember(state, false);
  }
  const shown = () => /** @type {AnyElement | null} */ (panel.firstElementChild);
  const name = () => [state.view ?? all[0][0], state.layer, state.head].filter((each) => each !== null).join("-");
  // Before the tabs, so that the key Tab leads from a tab into its view.
  const row = el("div", { class: "tabs" }, saveButtons(shown, name), tabs);

  const draw = () => {
    const current = all.find(([name]) => name === state.view) ?? all[0];
    tabs.replaceChildren(
      ...all.map(([name, title]) =>
        el("button", {
          role: "tab", id: `tab-${name}`, "aria-selected": String(name === current[0]), "aria-controls": "panel",
          tabindex: name === current[0] ? 0 : -1, onclick: () => change({ view: name }),
        }, title)),
    );
    panel.setAttribute("aria-labelledby", `tab-${current[0]}`);
    refill(controls, choices(info, state, change, !["shift", "lens", "flow", "steps"].includes(current[0])));
    let element = made.get(current[0]);
    if (element === undefined) {
      element = /** @type {AnyElement} */ (document.createElement(current[2]));
      made.set(current[0], element);
      const [name, , , open] = current;
      if (open === undefined) element.source = source;
      else {
        const opening = element;
        open().then((found) => (opening.source = found)).catch((error) => {
          made.delete(name);
          opening.replaceWith(el("p", { class: "error", role: "alert" }, error.message));
        });
      }
    }
    element.state = state;
    if (panel.firstChild !== element) panel.replaceChildren(element);
  };

  /** @param {Partial<State>} changed */
  const change = (changed) => {
    // The step of a layer means nothing in another.
    const other = changed.layer !== undefined && changed.layer !== state.layer && changed.step === undefined;
    const next = within(/** @type {State} */ ({ ...state, ...(other ? { step: null, cell: null } : {}), ...changed }), info);
    // A step for the back button where the view or the head changed, not for every word.
    const big = ["view", "layer", "head", "sequence"].some((name) => next[name] !== state[name]);
    state = next;
    remember(state, big);
    draw();
  };

  tabs.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    const now = all.findIndex(([name]) => name === (state.view ?? all[0][0]));
    change({ view: all[(now + step + all.length) % all.length][0] });
    /** @type {HTMLElement | null} */ (tabs.querySelector('[aria-selected="true"]'))?.focus();
  });
  panel.addEventListener("regard-change", (event) => change(/** @type {CustomEvent} */ (event).detail));
  const again = () => {
    state = within(read(location.hash, start()), info);
    draw();
  };
  addEventListener("popstate", again, { signal: until });
  addEventListener("hashchange", again, { signal: until });
  main.append(controls, row, panel);
  draw();
}

/** @param {RunInfo} info @param {State} state @param {(change: Partial<State>) => void} change
 * @param {boolean} ofHead whether the view is of one layer and head */
function choices(info, state, change, ofHead) {
  const options = (/** @type {[number | null, string][]} */ list, /** @type {number | null} */ now) =>
    list.map(([value, name]) => el("option", { value: value ?? "", selected: value === now }, name));
  const choice = (/** @type {string} */ title, /** @type {string} */ name, /** @type {[number | null, string][]} */ list) =>
    el("label", {}, title, el("select", {
      name,
      onchange: (event) => {
        const { value } = /** @type {HTMLSelectElement} */ (event.target);
        change({ [name]: value === "" ? null : Number(value) });
      },
    }, ...options(list, /** @type {number | null} */ (state[name]))));
  const { heads } = info.layers[state.layer];
  const kinds = new Map(info.heads.filter((each) => each.layer === state.layer).map((each) => [each.head, each.kind]));
  const kind = state.head === null ? undefined : kinds.get(state.head);
  const means = kind === "mixed" ? undefined : KINDS.find(([name]) => name === kind)?.[1];
  return [
    info.sequences.length > 1 && choice(word("page.choose_text"), "sequence", info.sequences.map(({ text }, n) => [n, numbered(n + 1, (text ?? "").slice(0, 40))])),
    ofHead && choice(word("page.layer"), "layer", info.layers.map((_, n) => [n, info.layers[n].cross ? word("page.cross", { layer: n }) : String(n)])),
    ofHead && choice(word("page.head"), "head", [[null, word("page.all")], ...Array.from({ length: heads }, (_, n) => /** @type {[number, string]} */ ([n, kinds.get(n) === "mixed" || !kinds.has(n) ? String(n) : numbered(n, headKind(kinds.get(n) ?? ""))]))]),
    ofHead && el("span", { class: "faint module", title: word("page.module_tip") }, info.layers[state.layer].name),
    ofHead && means !== undefined && el("span", { class: "faint" }, word("kind.told", { kind: headKind(kind ?? ""), means })),
  ].filter((each) => each instanceof Node);
}

/** @param {number} number @param {string} text */
function numbered(number, text) {
  return word("page.numbered", { number, text });
}

/** What is in this file, in words. @param {RunInfo} info @returns {string} */
export function contents(info) {
  const { bits, top } = info;
  if (info.whole) return word("page.whole", { bits });
  return word("page.part", { bits, top, level: 2 ** /** @type {any} */ (info).level });
}

/** Build the page from what is in it. */
export function open() {
  document.adoptedStyleSheets = [sheet(THEME + TABS + CSS)];
  const content = manifest();
  const main = document.createElement("main");
  document.body.append(main);
  const header = el("header", {}, el("h1", {}, content.title), el("p", { class: "faint" }, ...indexed(content.subtitle)));
  main.append(header);
  if (["corpus", "lab", "lesson", "sources", "training"].includes(content.kind)) {
    header.className = content.kind;
    const element = /** @type {AnyElement} */ (document.createElement(`regard-${content.kind}`));
    const address = (/** @type {string} */ name) => `${name}.html`;
    const sources = { corpus: () => content.corpus, lab: () => content.lab, lesson: () => ({ ...content.lesson, address }), sources: () => content.sources, training: () => new EmbeddedTraining(content) };
    element.source = sources[/** @type {keyof typeof sources} */ (content.kind)]();
    const again = () => (element.state = read(location.hash, start()));
    element.addEventListener("regard-change", (event) => {
      element.state = { ...element.state, .../** @type {CustomEvent} */ (event).detail };
      remember(element.state, content.kind !== "training"); // whose pictures follow each other quickly
    });
    again();
    addEventListener("hashchange", again);
    addEventListener("popstate", again);
    main.append(element);
    return;
  }
  if (content.kind === "trace" || content.kind === "flow") {
    main.className = "wide";
    const views = new TraceViews((changed) => {
      views.state = /** @type {State} */ ({ ...views.state, ...changed });
      remember(views.state, Object.hasOwn(changed, "view"));
    });
    const trace = content.trace ?? content.flow.trace;
    if (trace === undefined) views.flow = new EmbeddedFlow(/** @type {any} */ (content));
    else views.show(trace);
    const again = () => (views.state = read(location.hash, start()));
    again();
    addEventListener("hashchange", again);
    addEventListener("popstate", again);
    // Before the tabs, so that the key Tab leads from a tab into its view.
    const save = saveButtons(() => views.shown, () => `${views.name}-${views.shown.said("step", "all")}`);
    header.prepend(el("div", { class: "corner" }, save, views.tabs));
    main.append(views.panel);
    return;
  }
  const source = new EmbeddedRun(content);
  const pass = content.flow === undefined ? null : new EmbeddedFlow(/** @type {any} */ (content));
  showRun(main, source, undefined, pass === null ? [] : passViews(async () => pass));
  main.append(
    el("details", {}, el("summary", {}, word("page.about")), el("p", {}, contents(source.info)),
      el("p", {}, pass === null ? word("page.no_steps") : pass.outline.lacks),
      el("ul", {}, ...source.info.notes.map((note) => el("li", {}, note))),
      el("p", { class: "faint" }, word("page.made", { version: content.made }))),
  );
}
