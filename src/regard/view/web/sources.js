// Where an answer came from: a sentence of it is chosen, and the sources light up by their shares.

import { RegardElement } from "./base.js";
import { el, many } from "./dom.js";
import { css, heat, inkOn } from "./scale.js";
import { IN_ENGLISH } from "./told.js";
import { word } from "./words.js";

/**
 * @typedef {"cause" | "elsewhere" | "little" | "alone"} Verdict
 * @typedef {{ source: number, lost: number, tokens: number, draws: number, inside: number, outside: number, low: number, high: number, verdict: Verdict }} Blocked
 * @typedef {{ text: string, tokens: number, log_probability: number, shares: number[], looked: number, winner: number,
 *   heads: { layer: number, head: number, weight: number }[], blocked: Blocked[] }} Sentence
 * A piece of the text, the number of its source, and of its sentence.
 * @typedef {[string, number | null, number | null]} Piece
 * @typedef {{ by: "weights" | "contribution", sources: { name: string, tokens: number }[], sentences: Sentence[], unseen: string[], pieces: Piece[] }} SourcesInfo
 */

const STRONGEST = 0.75; // of the scale: what has all of a sentence

/**
 * Shows where an answer came from. The state `sentence` is the one that is told of, from 1.
 * @extends {RegardElement<SourcesInfo>}
 */
class RegardSources extends RegardElement {
  static css = `
    h2 { font-size: 17px; margin: 16px 0 4px; } p { margin: 2px 0 8px; max-width: 60em; overflow-wrap: anywhere; }
    .both { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 4px 30px; align-items: start; }
    @media (max-width: 800px) { .both { grid-template-columns: minmax(0, 1fr); } }
    .text { white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.6; }
    mark { border-radius: 3px; padding: 1px 0; box-decoration-break: clone; -webkit-box-decoration-break: clone; }
    .answer { display: flex; flex-direction: column; align-items: flex-start; gap: 6px; margin: 0; padding: 0; list-style: none; }
    .answer button { text-align: left; white-space: normal; overflow-wrap: anywhere; line-height: 1.45; padding: 4px 10px; }
    .answer button[aria-pressed="true"] { outline: 3px solid var(--accent); outline-offset: 1px; }
    .bars { list-style: none; margin: 0; padding: 0; }
    .bars li { display: grid; grid-template-columns: minmax(70px, 10em) 3.6em 1fr; gap: 8px; align-items: center; }
    .bars span { overflow-wrap: anywhere; } .bars b { text-align: right; font-weight: 600; font-variant-numeric: tabular-nums; }
    .bars i { display: block; height: 12px; border-radius: 2px; border: 1px solid var(--edge); }
  `;

  #answer = el("ol", { class: "answer" });
  #text = el("div", { class: "text", tabindex: 0, role: "region" });
  #side = el("section", { "aria-live": "polite" });

  constructor() {
    super();
    this.root.append(el("h2", {}, word("sources.answer")), el("p", { class: "faint" }, word("sources.help")), this.#answer,
      el("div", { class: "both" }, el("div", {}, el("h2", {}, word("sources.text")), this.#text), this.#side));
    this.#text.setAttribute("aria-label", word("sources.text"));
  }

  /** @param {SourcesInfo} info */
  update(info) {
    const chosen = Math.min(Math.max(1, Number(this.said("sentence", "1")) || 1), info.sentences.length) - 1;
    const sentence = info.sentences[chosen];
    const focused = this.root.activeElement instanceof HTMLButtonElement ? this.root.activeElement.name : "";
    this.#answer.replaceChildren(...info.sentences.map((each, n) => el("li", {}, el("button", {
      type: "button", name: `sentence-${n}`, "aria-pressed": String(n === chosen), onclick: () => this.say({ sentence: String(n + 1) }),
    }, each.text))));
    if (focused !== "") /** @type {HTMLElement | null} */ (this.#answer.querySelector(`button[name="${focused}"]`))?.focus();
    this.#text.replaceChildren(...info.pieces.filter(([, , said]) => said === null).map(([text, source]) => {
      if (source === null) return el("span", { class: "faint" }, text);
      const colour = lit(sentence.shares[source]);
      const title = word("sources.of", { name: info.sources[source].name, share: percent(sentence.shares[source]) });
      return el("mark", { title, "data-source": source, style: `background:${css(colour)};color:${inkOn(colour)}` }, text);
    }));
    this.#side.replaceChildren(...told(info, sentence));
  }
}

/** The colour of a source's share. @param {number} share */
function lit(share) {
  return heat(share * STRONGEST);
}

/** What is known of a sentence. @param {SourcesInfo} info @param {Sentence} sentence */
function told(info, sentence) {
  const order = info.sources.map((_, n) => n).sort((a, b) => sentence.shares[b] - sentence.shares[a]);
  const most = Math.max(...sentence.shares, 1e-9);
  const bars = order.map((n) => el("li", {}, el("span", {}, info.sources[n].name), el("b", {}, `${percent(sentence.shares[n])} %`),
    el("i", { style: `width:${(100 * sentence.shares[n]) / most}%;background:${css(lit(sentence.shares[n]))}` })));
  const heads = sentence.heads.map(({ layer, head, weight }) => `${layer}.${head} (${weight.toFixed(2)})`).join(", ");
  const name = info.sources[sentence.winner].name;
  return [
    el("h2", {}, word("sources.shares")), el("ol", { class: "bars" }, ...bars),
    el("p", { class: "faint" }, word("sources.tokens", { count: many(sentence.tokens), log: nats(sentence.log_probability), looked: percent(sentence.looked) })),
    heads === "" ? el("p") : el("p", {}, word("sources.heads", { name, heads })),
    ...(sentence.blocked.length === 0 ? [] : [el("h2", {}, word("sources.blocked"))]),
    ...sentence.blocked.flatMap((each) => checked(info, each)),
    ...info.unseen.map((each) => el("p", {}, word("sources.unseen"), " ", el("span", IN_ENGLISH, each))),
    el("p", { class: "faint" }, word(info.by === "weights" ? "sources.about" : "sources.about_contribution")),
  ];
}

/** What blocking a source says. @param {SourcesInfo} info @param {Blocked} blocked */
function checked(info, blocked) {
  const { draws, tokens, verdict } = blocked;
  const name = info.sources[blocked.source].name;
  const verdicts = {
    cause: word("sources.cause", { name }), elsewhere: word("sources.elsewhere", { name }),
    little: word("sources.little", { name }), alone: word("sources.alone"),
  };
  const lost = word(blocked.lost < 0 ? "sources.gained" : "sources.lost", { name, lost: Math.abs(blocked.lost).toFixed(2) });
  const compared = verdict === "alone" ? null : word(tokens < info.sources[blocked.source].tokens ? "sources.compared" : "sources.compared_whole", {
    draws, tokens: many(tokens), inside: nats(blocked.inside), outside: nats(blocked.outside), low: nats(blocked.low), high: nats(blocked.high),
  });
  return [el("p", {}, lost), compared === null ? null : el("p", {}, compared), el("p", { class: "verdict" }, el("b", {}, verdicts[verdict]))]
    .filter((each) => each !== null);
}

/** @param {number} share */
function percent(share) {
  return (100 * share).toFixed(0);
}

/** @param {number} x */
function nats(x) {
  return `${x < 0 ? "−" : ""}${Math.abs(x).toFixed(2)}`;
}

customElements.define("regard-sources", RegardSources);
