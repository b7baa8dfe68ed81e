// Where a logit comes from: the share of each head as a grid, the largest parts as bars, the heads that were ablated.

import { el } from "./dom.js";
import { css, inkOn, signed } from "./scale.js";
import { guessIn } from "./told.js";
import { word } from "./words.js";

/**
 * @import { WhyInfo } from "./source.js"
 * @typedef {{ name: string, share: number }} Part
 */

const MOST = 12; // parts that are told one by one

/** How it looks. */
export const WHY_CSS = `
.shares { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 330px), 1fr)); gap: 4px 26px; margin-top: 14px;
  align-items: start; }
.shares > .top { grid-column: 1 / -1; }
.shares h2, .shares h3 { margin: 6px 0 2px; } .shares h3 { font-size: 14px; }
.heads { border-collapse: separate; border-spacing: 1px; font: 11px/1.2 var(--sans); font-variant-numeric: tabular-nums; }
.heads td { min-width: 27px; height: 17px; text-align: center; padding: 0 2px; }
.heads th { font-weight: 400; color: var(--faint); padding: 0 4px; text-align: right; }
.rest { overflow-x: auto; }
@media (min-width: 1700px) { .shares { grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); } .heads { font-size: 14px; } .heads td { min-width: 42px; height: 21px; } }
.bars li { display: grid; grid-template-columns: minmax(90px, 170px) 4.2em 1fr; gap: 8px; align-items: center; padding: 1px 4px; }
.bars .bar-of { display: block; height: 11px; border-radius: 2px; }
.lost { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.lost th, .lost td { text-align: right; padding: 1px 12px 1px 0; font-weight: 400; } .lost th { color: var(--faint); }
.lost td:last-child, .lost th:last-child { text-align: left; }
.asking { display: flex; flex-wrap: wrap; gap: 6px 12px; align-items: center; margin-top: 14px; }
.asking label { display: inline-flex; gap: 6px; align-items: center; color: var(--faint); }
.asking .error { flex-basis: 100%; margin: 0; }
`;

/** @param {WhyInfo} told @param {string[]} names of the tokens */
export function whySection(told, names) {
  const { token, against } = told;
  const place = names[told.position] ?? String(told.position + 1);
  const values = { token: shown(token.text), word: place, other: against === null ? "" : shown(against.text) };
  const heads = told.heads.flatMap((shares, layer) => shares.map((share, head) => ({ name: word("why.head", { head: `${layer}.${head}` }), share })));
  const layers = told.feed_forward.map((share, layer) => ({ name: word("why.feed_forward", { layer }), share }));
  const others = [
    ...Object.entries(told.embeddings).map(([name, share]) => ({ name: embedded(name), share })),
    ...Object.entries(told.biases).map(([name, share]) => ({ name: biased(name), share })),
  ];
  const parts = [...heads, ...layers, ...others].sort((a, b) => Math.abs(b.share) - Math.abs(a.share));
  const sum = (/** @type {number[]} */ all) => two(all.reduce((a, b) => a + b, 0));
  const tell = (/** @type {WhyInfo["token"]} */ each) => el("p", {}, word("why.token", {
    token: shown(each.text), probability: each.probability.toFixed(3), logit: each.logit.toFixed(2),
  }));
  return el("section", { class: "shares" },
    el("div", { class: "top" },
      el("h2", {}, word(against === null ? "why.title" : "why.rather", values)),
      tell(token), against === null ? null : tell(against),
      el("p", {}, word(against === null ? "why.sum" : "why.difference", {
        heads: sum(told.heads.flat()), layers: sum(told.feed_forward), embedding: sum(Object.values(told.embeddings)),
        biases: sum(Object.values(told.biases)), total: two(told.total),
      })),
      told.softcap === null ? null : el("p", { class: "faint" }, word("why.softcap", { cap: told.softcap }))),
    el("div", {}, el("h3", {}, word("why.heads")), region(word("why.heads"), grid(told))),
    el("div", {}, el("h3", {}, word("why.parts")), bars(parts.slice(0, MOST))),
    told.ablated.length === 0 ? null : el("div", {}, el("h3", {}, word("why.ablated")), region(word("why.ablated"), ablated(told))),
    el("p", { class: "faint top" }, word("why.about")));
}

/** Two fields and a button; the token that is offered stands there until the reader writes another.
 * @param {(token: string, against: string | null) => Promise<void>} ask
 * @returns {{ element: HTMLElement, offer: (token: string) => void }} */
export function whyForm(ask) {
  let own = false;
  const token = el("input", { type: "text", size: 10, value: " ", name: "why-token", oninput: () => (own = true) });
  const against = el("input", { type: "text", size: 10, name: "why-against" });
  const error = el("p", { class: "error", role: "alert" });
  const button = el("button", { type: "submit" }, word("why.ask"));
  const element = el("form", {
    class: "asking",
    onsubmit: async (event) => {
      event.preventDefault();
      button.disabled = true;
      error.textContent = "";
      try {
        await ask(token.value, against.value === "" ? null : against.value);
      } catch (problem) {
        error.textContent = problem instanceof Error ? problem.message : String(problem);
      }
      button.disabled = false;
    },
  }, el("label", {}, word("why.field"), token), el("label", {}, word("why.field_against"), against), button, error);
  return {
    element,
    offer: (likeliest) => {
      if (!own) token.value = likeliest;
    },
  };
}

/** What may be wider than the page, which keys can scroll. @param {string} name @param {HTMLElement} content */
function region(name, content) {
  return el("div", { class: "rest", tabindex: 0, role: "region", "aria-label": name }, content);
}

/** The share of each head, layers as rows. @param {WhyInfo} told */
function grid({ heads }) {
  const most = Math.max(...heads.flat().map(Math.abs), 1e-9);
  const widest = Math.max(...heads.map((shares) => shares.length));
  const heading = el("tr", {}, el("th", { scope: "col" }, word("why.layer_head")),
    ...Array.from({ length: widest }, (_, n) => el("th", { scope: "col" }, n)));
  const rows = heads.map((shares, layer) => el("tr", {}, el("th", { scope: "row" }, layer), ...shares.map((share) => {
    const colour = signed(share / most);
    return el("td", { style: `background:${css(colour)};color:${inkOn(colour)}` }, two(share));
  })));
  return el("table", { class: "heads" }, el("thead", {}, heading), el("tbody", {}, ...rows));
}

/** @param {Part[]} parts */
function bars(parts) {
  const most = Math.max(...parts.map(({ share }) => Math.abs(share)), 1e-9);
  return el("ol", { class: "list bars" }, ...parts.map(({ name, share }) => el("li", {},
    el("span", { class: "name" }, name), el("span", { class: "number" }, two(share)),
    el("span", { class: "bar-of", style: `width:${(100 * Math.abs(share)) / most}%;background:${css(signed(share > 0 ? 0.8 : -0.8))}` }))));
}

/** @param {WhyInfo} told */
function ablated(told) {
  const verdicts = {
    holds: word("why.holds"), less: word("why.less"), more: word("why.more"), opposite: word("why.opposite"),
  };
  const heading = el("tr", {}, ...[word("why.of_head"), word("why.share"), word("why.lost"), word("why.verdict")]
    .map((title) => el("th", { scope: "col" }, title)));
  const rows = told.ablated.map((each) => el("tr", {}, el("td", {}, `${each.layer}.${each.head}`),
    el("td", {}, two(each.share)), el("td", {}, two(each.lost)), el("td", {}, verdicts[each.verdict])));
  return el("table", { class: "lost" }, el("thead", {}, heading), el("tbody", {}, ...rows));
}

/** @param {string} name */
function embedded(name) {
  return word(name === "tokens" ? "why.tokens" : name === "positions" ? "why.positions" : "why.embedding");
}

/** @param {string} name */
function biased(name) {
  const layer = /^attention (\d+)$/.exec(name)?.[1];
  return layer !== undefined ? word("why.bias", { layer }) : word(name === "head" ? "why.bias_head" : "why.bias_norm");
}

/** With its sign. @param {number} share */
function two(share) {
  return `${share < 0 ? "−" : "+"}${Math.abs(share).toFixed(2)}`;
}

/** A token with the space before it. @param {string} token */
function shown(token) {
  return `“${guessIn(token)}”`;
}
