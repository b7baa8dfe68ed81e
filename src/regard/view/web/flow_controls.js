// The buttons of a flow: the way through it, who is followed, which head, and what is changed.

import { el, field, toggle, visible } from "./dom.js";
import { hasChange } from "./flow_changes.js";
import { tokenColour } from "./flow_look.js";
import { followedIn, headNumber } from "./flow_place.js";
import { wordAt } from "./flow_swap.js";
import { isDark } from "./theme.js";
import { bandTitle, titleOf } from "./told.js";
import { word } from "./words.js";

/**
 * @typedef {import("./flow_source.js").Outline} Outline
 * @typedef {import("./flow_changes.js").Change} Change
 * @typedef {import("./flow_walk.js").Stop} Stop
 *
 * What the buttons show. `say` tells the page what is other now.
 * @typedef {object} Shown
 * @property {Outline} outline
 * @property {Stop[]} stops
 * @property {string} stage
 * @property {number | null} token
 * @property {number} head
 * @property {Change[]} changes
 * @property {boolean} playing
 * @property {boolean} present
 * @property {boolean} beside
 * @property {boolean} pair whether the pass from before could stand beside it
 * @property {boolean} narrow
 * @property {(change: Record<string, string | number | null>) => void} say
 * @property {import("./flow_changer.js").Changer} changer
 * @property {() => void} swap the word that is followed
 * @property {() => void} play
 * @property {(by: number) => void} walk
 * @property {(factor: number) => void} zoom 0: show all
 */

const FEW = 14; // stages, tokens or heads that get a button each

/** @param {Shown} shown @returns {Node[]} */
export function controls(shown) {
  const { outline, stops, stage, playing, present } = shown;
  const at = stops.findIndex((stop) => stop.stage === stage);
  const button = (/** @type {string} */ name, /** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ onclick, possible = true) =>
    el("button", { type: "button", name, title, "aria-label": text.length === 1 && title, disabled: !possible, onclick }, text);
  return [
    el("span", { class: "group", role: "group", "aria-label": word("flow.play") },
      button("previous", "←", word("flow.previous"), () => shown.walk(-1), at > 0),
      el("button", { type: "button", class: "play", name: "play", onclick: shown.play }, `${playing ? "❚❚" : "▶"} ${word(playing ? "flow.pause" : "flow.play")}`),
      button("next", "→", word("flow.next"), () => shown.walk(1), at < stops.length - 1)),
    ...(stops.length > FEW || shown.narrow || present ? [stageChoice(shown)] : []),
    ...headChoice(shown),
    ...switches(outline, shown.changes, (change) => shown.changer.make(change)),
    el("span", { class: "group", role: "group", "aria-label": word("flow.zoom") },
      button("farther", "−", word("flow.farther"), () => shown.zoom(1 / 1.5)),
      button("fit", "⤢", word("flow.fit"), () => shown.zoom(0)),
      button("nearer", "+", word("flow.nearer"), () => shown.zoom(1.5))),
    ...(present ? [
      button("theme", word(isDark() ? "flow.light" : "flow.dark"), word("flow.theme.about"), () => shown.say({ theme: isDark() ? "light" : "dark" })),
      button("leave", word("flow.leave"), word("flow.leave.about"), () => shown.say({ present: null })),
    ] : [button("present", word("flow.present"), word("flow.present.about"), () => shown.say({ present: "yes" }))]),
    ...(present ? [] : tokenChoice(shown, outline)),
  ];
}

/** Every stage as a button. @param {Shown} shown @returns {Node[]} */
export function stopButtons({ outline, stops, stage, say, narrow }) {
  if (stops.length > FEW || narrow) return [];
  return stops.map(({ stage: name }) => el("li", {}, el("button", {
    type: "button", name: `stop-${name}`, "aria-current": name === stage && "step",
    onclick: () => say({ step: name === stage ? null : name, cell: null, zoom: null }),
  }, el("b", {}, ...symbolOf(outline.stages[name].symbol)), el("span", {}, titleOf(name, outline.stages[name])))));
}

/** W_Q with its index below. @param {string} symbol @returns {(string | Node)[]} */
export function symbolOf(symbol) {
  const [first, ...rest] = symbol.split("_");
  return [first, ...rest.map((text) => el("sub", {}, text))];
}

/** @param {Shown} shown */
function stageChoice({ outline, stage, say }) {
  const option = (/** @type {string} */ name) => el("option", { value: name, selected: name === stage }, `${outline.stages[name].symbol.replace("_", " ")}  ${titleOf(name, outline.stages[name])}`);
  const groups = outline.bands.map((band) => {
    const options = band.stages.filter((name) => outline.stages[name].part !== "matrix").map(option);
    return outline.bands.length === 1 ? options : [el("optgroup", { label: bandTitle(band) }, ...options)];
  }).flat();
  return el("label", {}, word("flow.stage"), el("select", {
    name: "stage",
    onchange: (event) => say({ step: /** @type {HTMLSelectElement} */ (event.target).value || null, cell: null, zoom: null }),
  }, el("option", { value: "", selected: stage === "" }, word("flow.whole")), ...groups));
}

/** @param {Shown} shown @param {Outline} outline @returns {Node[]} */
function tokenChoice({ token, say, changes, swap }, outline) {
  const name = followedIn(outline);
  const labels = outline.sequences[name];
  if (labels === undefined) return [];
  const stage = Object.keys(outline.stages).find((each) => outline.stages[each].row_labels === name);
  const own = token === null || stage === undefined ? null : wordAt(outline, stage, token, changes);
  const other = own === null ? [] : [el("button", { type: "button", name: "swap", title: word("flow.swap.about"), onclick: swap }, word("flow.swap", { word: visible(own.text) }))];
  if (labels.length > FEW) {
    return [el("label", {}, word("flow.follow"), el("select", {
      name: "token",
      onchange: (event) => {
        const { value } = /** @type {HTMLSelectElement} */ (event.target);
        say({ token: value === "" ? null : Number(value) });
      },
    }, el("option", { value: "", selected: token === null }, word("flow.follow.none")),
    ...labels.map((label, n) => el("option", { value: n, selected: n === token }, `${n + 1}: ${visible(label)}`)))), ...other];
  }
  return [el("span", { class: "field" }, word("flow.follow"), el("span", { class: "tokens", role: "group", "aria-label": word("flow.follow.about") },
    ...labels.map((label, n) => el("button", {
      type: "button", name: `token-${n}`, "aria-pressed": String(n === token), dir: "auto", style: `border-bottom-color:${tokenColour(n)}`,
      onclick: () => say({ token: n === token ? null : n }),
    }, visible(label))))), ...other];
}

/** @param {Shown} shown @returns {Node[]} */
function headChoice({ outline, stage, head, say, changes, changer, narrow }) {
  const heads = Math.max(...Object.values(outline.stages).map((each) => each.heads));
  if (heads < 2) return [];
  const attention = outline.stages[stage]?.attention || Object.values(outline.stages).find((each) => each.part === "head_output")?.attention || "";
  /** @type {Change} */
  const change = { kind: "head", attention, head };
  const off = hasChange(changes, change);
  const numbers = Array.from({ length: heads }, (_, n) => n);
  const choose = heads <= (narrow ? FEW / 2 : FEW)
    ? field(word("flow.head"), word("flow.head.about"), ...numbers.map((n) => toggle(String(headNumber(outline, n)), n === head, word("flow.head.about"), () => say({ head: n }))))
    : el("label", {}, word("flow.head"), el("select", {
      name: "head", onchange: (event) => say({ head: Number(/** @type {HTMLSelectElement} */ (event.target).value) }),
    }, ...numbers.map((n) => el("option", { value: n, selected: n === head }, headNumber(outline, n)))));
  if (!outline.changes.includes("head")) return [choose];
  return [choose, el("button", { type: "button", name: "head-off", "aria-pressed": String(off), onclick: () => (off ? changer.unmake(change) : changer.make(change)) },
    word(off ? "flow.head.on" : "flow.head.off", { head: headNumber(outline, head) }))];
}

/** The switches of √dₖ and the mask. @param {Outline} outline @param {Change[]} changes @param {(change: Change) => void} make
 * @returns {Node[]} */
export function switches(outline, changes, make) {
  const scaled = Object.values(outline.stages).find((each) => each.part === "scaled");
  const on = (/** @type {"scale" | "causal"} */ kind, /** @type {boolean} */ otherwise) => {
    const last = changes.findLast((each) => each.kind === kind);
    return last !== undefined && "on" in last ? last.on : otherwise;
  };
  const [divided, masked] = [on("scale", scaled?.plain !== true), on("causal", scaled?.causal === true)];
  const made = [
    outline.changes.includes("scale") && toggle(word("flow.scale"), divided, word("flow.scale.about"), () => make({ kind: "scale", on: !divided })),
    outline.changes.includes("causal") && toggle(word("flow.causal"), masked, word("flow.causal.about"), () => make({ kind: "causal", on: !masked })),
  ].filter((each) => each instanceof Node);
  return made.length === 0 ? [] : [el("span", { class: "group", role: "group", "aria-label": word("flow.change.about") }, ...made)];
}

/** @param {() => void} reset @returns {Node} */
export function resetButton(reset) {
  return el("button", { type: "button", name: "reset", title: word("flow.reset.about"), onclick: reset }, word("flow.reset"));
}

/** What can be done with what is changed. @param {Shown} shown @returns {Node[]} */
export function changeButtons({ changes, changer, say, beside, pair }) {
  return [
    ...(pair ? [toggle(word("flow.beside"), beside, word("flow.beside.about"), () => say({ beside: beside ? null : "yes" }))] : []),
    ...(changer.past.empty ? [] : [el("button", { type: "button", name: "undo", title: word("flow.undo.about"), onclick: () => changer.undo(true) }, word("flow.undo"))]),
    ...(changes.length === 0 ? [] : [resetButton(() => changer.reset())]),
  ];
}
