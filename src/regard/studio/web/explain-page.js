// Explain: a sentence or a worked example, step by step; edit any number, and see what follows.

import { start } from "./base.js";
import { el, indexed, refill } from "./dom.js";
import { address, read } from "./page.js";
import { exampleIn, failed, noteIn, readerOf } from "./told.js";
import { TraceViews } from "./trace_views.js";
import { ask, tell } from "./asking.js";
import { ServedFlow } from "./flow_served.js";
import { follow } from "./progress.js";
import { word } from "./words.js";

/**
 * @typedef {import("./base.js").State} State
 */

const RANDOM = "random"; // numbers of no model

/** @param {HTMLElement} main @param {State} state @param {AbortSignal} until */
export async function showExplain(main, state, until) {
  void state;
  const [examples, models] = await Promise.all([ask("/api/examples"), ask("/api/models")]);
  if (until.aborted) return;
  const views = new TraceViews((changed) => change(changed, Object.hasOwn(changed, "view")));
  views.edit();
  const said = el("div", { "aria-live": "polite" });
  const note = el("span", { class: "faint" });
  const form = el("div", {});
  let asked = "";

  /** @param {Partial<State>} changed @param {boolean} [push] */
  const change = (changed, push = true) => {
    // What was changed in one sentence means nothing in another.
    const other = "text" in changed || "example" in changed ? { changes: null, zoom: null, token: null, cell: null } : {};
    const next = /** @type {State} */ ({ ...read(location.hash, start()), page: "explain", ...other, ...changed });
    history[push ? "pushState" : "replaceState"](null, "", address(next));
    draw();
  };

  /** A sentence as a real model reads it; false if there is none. @param {{ text: string, model?: string }} question
   * @param {() => boolean} wanted */
  const showModel = async (question, wanted) => {
    const opened = await tell("/api/flow", question);
    if (opened.job === undefined) {
      if (wanted()) note.replaceChildren(...noteIn(opened.why));
      return false;
    }
    const done = await follow(opened.job, said, until);
    if (done === null || !wanted()) return true;
    const flow = await ServedFlow.known(done.flow);
    if (!wanted()) return true;
    views.flow = flow;
    views.state = read(location.hash, start());
    note.replaceChildren(...noteIn(flow.outline.note));
    said.replaceChildren();
    return true;
  };

  /** @param {any} question @param {() => boolean} wanted */
  const show = async (question, wanted) => {
    try {
      const { numbers, ...rest } = question;
      if (question.text !== undefined && numbers !== RANDOM && models.some((/** @type {any} */ each) => each.here || each.name === numbers)) {
        if (await showModel({ text: question.text, ...(numbers === "" ? {} : { model: numbers }) }, wanted)) return;
      }
      await showNumbers(rest, wanted);
    } catch (error) {
      if (wanted()) said.replaceChildren(failed(error));
    }
  };

  /** @param {any} question @param {() => boolean} wanted */
  const showNumbers = async (question, wanted) => {
    const trace = await tell("/api/explain", question);
    if (!wanted()) return;
    // Any word has random numbers of its own, the same wherever it stands.
    const vector = async (/** @type {string} */ text) => {
      const { sequences, steps } = await tell("/api/explain", { ...question, text, positions: "none" });
      const count = sequences.input.length;
      if (count !== 1) throw new Error(word("explain.one_word", { text, count }));
      return steps.input.array[0];
    };
    views.show(trace, question.text === undefined ? null : vector);
    views.state = read(location.hash, start());
    note.replaceChildren(...noteIn(trace.note));
    said.replaceChildren();
  };

  const draw = async () => {
    const now = older(read(location.hash, start()));
    if (/[#&](causal|scale|edits)=/.test(location.hash)) history.replaceState(null, "", address(now));
    const question = {
      ...(exampleOf(now) === "" ? { text: now.text } : { example: exampleOf(now) }),
      positions: now.positions ?? "none",
      heads: Number(now.heads ?? 2), width: Number(now.width ?? 4), numbers: String(now.numbers ?? ""),
    };
    fields(form, now, examples, models, change);
    views.state = now;
    const next = JSON.stringify(question);
    if (next === asked) return;
    asked = next;
    await show(question, () => asked === next && !until.aborted);
  };

  addEventListener("popstate", draw, { signal: until });
  addEventListener("hashchange", draw, { signal: until });
  main.append(el("h1", {}, word("explain.title")), form, said, el("p", {}, note),
    el("div", { class: "tabs" }, views.tabs), views.panel);
  await draw();
}

/**
 * An address of before, when √dₖ, the mask and edited numbers had names of their own, as one of today.
 * @param {State} now @returns {State}
 */
function older({ causal, scale, edits, ...now }) {
  const found = [
    ...(scale === "no" ? ["scale,off"] : []), ...(causal === "yes" ? ["causal,on"] : []),
    ...String(edits ?? "").split("*").flatMap((each) => {
      const [, matrix, place, value] = /^(\w+)-(\d+-\d+-\d+)-(.+)$/.exec(each) ?? [];
      if (matrix === undefined) return [];
      const stage = matrix !== "X" ? matrix : now.positions === "sinusoidal" ? "embeddings" : "input";
      return [["number", stage, place.replaceAll("-", ","), value].join(",")];
    }), ...(now.changes ? [now.changes] : []),
  ];
  return /** @type {State} */ ({ ...now, changes: found.join(";") || null });
}

/** The choices above the steps. @param {HTMLElement} form @param {State} now @param {any[]} examples @param {any[]} models
 * @param {(changed: Partial<State>) => void} change */
function fields(form, now, examples, models, change) {
  const here = models.some((each) => each.here);
  const random = !here && now.numbers === undefined || now.numbers === RANDOM;
  const kind = exampleOf(now) !== "" ? "example" : random ? "own" : "read";
  if (form.contains(document.activeElement) && form.dataset.kind === kind) return keep(form, now);
  form.dataset.kind = kind;
  const text = el("input", {
    type: "text", name: "text", "aria-label": word("explain.own"), size: 40, value: now.text ?? "",
    placeholder: word("explain.own"),
    onchange: (event) => {
      const { value } = /** @type {HTMLInputElement} */ (event.target);
      change({ text: value.trim() === "" ? null : value, example: null });
    },
  });
  const example = el("select", {
    name: "example",
    onchange: (event) => change({ example: /** @type {HTMLSelectElement} */ (event.target).value || null, text: null }),
  }, el("option", { value: "", hidden: true }, "–"), ...examples.map((each) => el("option", { value: each.name }, exampleIn(each.title))));
  example.value = exampleOf(now);
  const positions = el("label", {}, el("input", {
    type: "checkbox", name: "positions", checked: now.positions === "sinusoidal",
    onchange: (event) => {
      const { checked } = /** @type {HTMLInputElement} */ (event.target);
      const [before, after] = checked ? ["input", "embeddings"] : ["embeddings", "input"]; // as the given numbers are called
      const changes = String(now.changes ?? "").replaceAll(`number,${before},`, `number,${after},`);
      change({ positions: checked ? "sinusoidal" : null, changes: changes || null });
    },
  }), word("explain.positions"));
  const number = (/** @type {string} */ title, /** @type {string} */ name, /** @type {number} */ usual) =>
    el("label", {}, el("span", {}, ...indexed(title)), el("input", {
      type: "number", name, min: 1, max: 64, value: now[name] ?? usual, style: "width:4.5em",
      onchange: (event) => change({ [name]: /** @type {HTMLInputElement} */ (event.target).value || null, changes: null }),
    }));
  const numbers = el("select", {
    name: "numbers", onchange: (event) => change({ numbers: /** @type {HTMLSelectElement} */ (event.target).value || null, changes: null }),
  }, here && el("option", { value: "" }, word("explain.numbers_auto")),
  ...models.map((each) => el("option", { value: each.name }, word(each.here ? "explain.numbers_of" : "explain.numbers_fetch", { model: readerOf(each) }))),
  el("option", { value: RANDOM }, word("explain.numbers_random")));
  numbers.value = random ? RANDOM : String(now.numbers ?? "");
  refill(form, [
    el("div", { class: "bar" }, text, el("label", {}, word("explain.example"), example),
      kind !== "example" && el("label", {}, word("explain.numbers"), numbers), kind === "example" && positions),
    kind === "own" && el("div", { class: "bar" },
      positions, number(word("explain.heads"), "heads", 2), number(word("explain.width"), "width", 4)),
  ].filter((each) => each instanceof Node));
  return undefined;
}

/** The example that is shown, or nothing: a sentence of the reader's own is none. @param {State} now */
function exampleOf(now) {
  return now.text === undefined || now.text === null ? String(now.example ?? "apple") : "";
}

/** While the reader is in a field, only the others follow. @param {HTMLElement} form @param {State} now */
function keep(form, now) {
  /** @type {HTMLSelectElement} */ (form.querySelector("select")).value = exampleOf(now);
  for (const box of form.querySelectorAll("input[type=checkbox]")) {
    /** @type {HTMLInputElement} */ (box).checked = now.positions === "sinusoidal";
  }
}
