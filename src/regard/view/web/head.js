// <regard-head>: the steps of one head of a model, with a choice of layer, head and token.

import { number, ofHead } from "./arithmetic.js";
import { RegardElement } from "./base.js";
import { el, refill, visible } from "./dom.js";
import { labelsOf } from "./flow_source.js";
import "./steps.js";
import { bandTitle, noteIn, why } from "./told.js";
import { word } from "./words.js";

/**
 * @typedef {import("./arithmetic.js").TraceJson} TraceJson
 * @typedef {import("./base.js").State} State
 * @typedef {import("./flow_source.js").FlowSource} FlowSource
 * @typedef {import("./flow_source.js").Outline} Outline
 *
 * An attention of a pass: its name, what it is called, its heads, the words that look, and whether its steps are here.
 * @typedef {{ name: string, title: string, heads: number, tokens: string[], held: boolean }} Attention
 */

/** @extends {RegardElement<FlowSource>} */
export class RegardHead extends RegardElement {
  static css = `
    .note { margin: 8px 0 0; font-size: 13px; }
    .bar select { max-width: 16em; }
  `;

  #bar = el("div", { class: "bar" });
  #said = el("div", { "aria-live": "polite" });
  #steps = /** @type {import("./steps.js").RegardSteps} */ (document.createElement("regard-steps"));
  #asked = "";
  #note = "";
  /** Whose steps are shown. @type {FlowSource | null} */
  #of = null;
  #turn = 0;
  /** @type {{ of: FlowSource | null, all: Attention[] }} */
  #known = { of: null, all: [] };

  constructor() {
    super();
    this.root.append(this.#bar, this.#steps, this.#said);
    this.#steps.addEventListener("regard-change", (event) => {
      event.stopPropagation();
      this.#heard(/** @type {CustomEvent} */ (event).detail);
    });
  }

  /** The part that is saved as a picture. */
  get pictured() {
    return this.#steps;
  }

  /** @param {FlowSource} source */
  async update(source) {
    const turn = ++this.#turn;
    if (this.#known.of !== source) this.#known = { of: source, all: attentionsOf(source.outline) };
    const attention = this.#attention(source);
    const head = Math.min(this.state.head ?? 0, attention.heads - 1);
    const token = this.#token(attention);
    this.#fill(source, attention, head, token);
    const asked = `${attention.name} ${head}`;
    if (asked !== this.#asked || this.#of !== source) {
      this.#asked = "";
      this.#steps.hidden = true;
      this.#tell(source, [word("head.reading")]);
      const trace = await this.#ask(source, attention.name, head);
      if (turn !== this.#turn) return;
      if (Array.isArray(trace)) return this.#tell(source, trace);
      // What is said of the whole pass stands above it.
      [this.#asked, this.#of, this.#note] = [asked, source, trace.note.replace(source.outline.note, "").trim()];
      this.#steps.source = trace;
      this.#steps.hidden = false;
    }
    this.#tell(source, noteIn(this.#note));
    const step = this.#step(source.outline);
    const cell = this.state.cell ?? cellOf(/** @type {TraceJson} */ (this.#steps.source), step, token);
    this.#steps.state = { ...this.state, head: 0, step, cell };
  }

  /** The steps, or why there are none. @param {FlowSource} source @param {string} attention @param {number} head
   * @returns {Promise<TraceJson | (string | Node)[]>} */
  async #ask(source, attention, head) {
    try {
      return (await source.steps?.(attention, head)) ?? [word("head.not_here")];
    } catch (error) {
      return [why(error)];
    }
  }

  /** @param {FlowSource} source @param {(string | Node)[]} words */
  #tell({ outline }, words) {
    const more = [words, noteIn(outline.lacks), this.state.changes ? [word("head.unchanged")] : []].filter(({ length }) => length > 0);
    this.#said.replaceChildren(...more.map((each) => el("p", { class: "note faint" }, ...each)));
  }

  // ── where the reader is ────────────────────────────────────────────────────────────────────────

  /** That of the step, or of the layer; where it is not here, the first that is. @param {FlowSource} source
   * @returns {Attention} */
  #attention({ outline }) {
    const { all } = this.#known;
    const said = outline.stages[this.said("step", "")]?.attention;
    const found = all.find(({ name }) => name === said) ?? all[this.state.layer];
    return found?.held ? found : all.find(({ held }) => held) ?? found ?? all[0];
  }

  /** The name of a step among the ten. @param {Outline} outline */
  #step({ stages }) {
    const part = stages[this.said("step", "")]?.part ?? this.said("step", "").split(".").at(-1) ?? "";
    return part.replace("turned_", "");
  }

  /** @param {Attention} attention */
  #token({ tokens }) {
    const { token } = this.state;
    return token !== null && token < tokens.length ? token : null;
  }

  /** @param {FlowSource} source @param {Attention} attention @param {number} head @param {number | null} token */
  #fill({ outline }, attention, head, token) {
    const { all } = this.#known;
    const part = this.#step(outline);
    const choice = (/** @type {string} */ title, /** @type {string} */ name, /** @type {Node[]} */ options, /** @type {(value: string) => void} */ choose) =>
      el("label", {}, title, el("select", {
        name, onchange: (event) => choose(/** @type {HTMLSelectElement} */ (event.target).value),
      }, ...options));
    const option = (/** @type {number | ""} */ value, /** @type {string} */ title, /** @type {boolean} */ selected, disabled = false) =>
      el("option", { value, selected, disabled }, title);
    refill(this.#bar, [
      choice(word("head.layer"), "attention", all.map(({ title, held, name }, n) =>
        option(n, held ? title : word("head.layer_not_here", { layer: title }), name === attention.name, !held)), (value) => {
        const next = all[Number(value)];
        this.say({ layer: Number(value), step: part === "" ? null : `${next.name}.${part}`, cell: null });
      }),
      choice(word("head.head"), "head", Array.from({ length: attention.heads }, (_, n) => option(n, String(n), n === head)),
        (value) => this.say({ head: Number(value) })),
      choice(word("head.token"), "token", [
        option("", word("head.any"), token === null),
        ...attention.tokens.map((each, n) => option(n, word("head.numbered", { number: n, token: visible(each) }), n === token)),
      ], (value) => this.say({ token: value === "" ? null : Number(value), cell: null })),
    ]);
  }

  /** What the reader did in the steps, with the names of the whole pass. @param {Partial<State>} change */
  #heard({ head, ...change }) {
    void head; // it is the only one there
    if (this.source === null) return;
    const { name } = this.#attention(this.source);
    this.say(change.step === undefined ? change : { ...change, step: `${name}.${change.step}` });
  }
}
customElements.define("regard-head", RegardHead);

/** The attentions of a pass, first to last. @param {Outline} outline @returns {Attention[]} */
function attentionsOf(outline) {
  return outline.bands.flatMap((band) => band.stages.map((name) => outline.stages[name])
    .filter(({ part }) => part === "weights")
    .map(({ attention, heads, rows, row_labels, held }, _, { length }) => ({
      name: attention,
      title: length > 1 && attention.endsWith("cross") ? word("head.cross", { layer: bandTitle(band) }) : bandTitle(band),
      heads, tokens: labelsOf(outline, row_labels, rows), held: held === "whole",
    })));
}

/** Where a token is in a step: its row; of what looks at others, where it looks most. @param {TraceJson} trace
 * @param {string} name @param {number | null} token @returns {string | null} */
function cellOf(trace, name, token) {
  const step = trace.steps[name] ?? Object.values(trace.steps)[0];
  const [rows, columns] = step.axes.slice(-2);
  if (token === null || token >= rows.labels.length) return null;
  if (columns.name === "dimension") return `${token},0`;
  const weights = ofHead(trace.steps.weights.array, 0)[token].map(number);
  return `${token},${weights.indexOf(weights.reduce((a, b) => Math.max(a, b)))}`;
}
