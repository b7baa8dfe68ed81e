// Explain: a sentence or a worked example, step by step; edit any number, and see what follows.

import { start } from "./base.js";
import { el, indexed, refill } from "./dom.js";
import { address, read } from "./page.js";
import { TraceViews } from "./trace_views.js";
import { ask, tell } from "./asking.js";
import { ServedFlow } from "./flow_served.js";
import { follow } from "./progress.js";
import { word } from "./words.js";

/**
 * @typedef {import("./base.js").State} State
 * A number that the reader has changed.
 * @typedef {{ matrix: string, head: number, row: number, column: number, value: number }} Edit
 */

const RANDOM = "random"; // numbers of no model

/** @param {HTMLElement} main @param {State} state @param {AbortSignal} until */
export async function showExplain(main, state, until) {
  void state;
  const [examples, models] = await Promise.all([ask("/api/examples"), ask("/api/models")]);
  if (until.aborted) return;
  const views = new TraceViews((changed) => change(changed, Object.hasOwn(changed, "view")));
  const steps = views.view("steps");
  steps.setAttribute("editable", "");
  const said = el("div", { "aria-live": "polite" });
  const note = el("span", { class: "faint" });
  const reset = el("button", {
    type: "button", title: word("explain.reset_about"), hidden: true, onclick: () => change({ edits: null }),
  }, word("explain.reset"));
  const form = el("div", {});
  let asked = "";
  /** What was asked for last without edits, and its trace. @type {{ asked: string, trace: any }} */
  let first = { asked: "", trace: null };

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
      if (wanted()) note.replaceChildren(opened.why);
      return false;
    }
    const done = await follow(opened.job, said, until);
    if (done === null || !wanted()) return true;
    const flow = await ServedFlow.known(done.flow);
    if (!wanted()) return true;
    views.flow = flow;
    views.state = read(location.hash, start());
    note.replaceChildren(...indexed(flow.outline.note));
    reset.hidden = true;
    said.replaceChildren();
    return true;
  };

  /** @param {any} question @param {Edit[]} edits @param {() => boolean} wanted */
  const show = async (question, edits, wanted) => {
    try {
      const { numbers, ...rest } = question;
      if (question.text !== undefined && numbers !== RANDOM && models.some((/** @type {any} */ each) => each.here || each.name === numbers)) {
        if (await showModel({ text: question.text, ...(numbers === "" ? {} : { model: numbers }) }, wanted)) return;
      }
      await showNumbers(rest, edits, wanted);
    } catch (error) {
      if (wanted()) said.replaceChildren(el("p", { class: "error", role: "alert" }, /** @type {Error} */ (error).message));
    }
  };

  /** @param {any} question @param {Edit[]} edits @param {() => boolean} wanted */
  const showNumbers = async (question, edits, wanted) => {
    if (first.asked !== JSON.stringify(question)) {
      first = { asked: JSON.stringify(question), trace: await tell("/api/explain", question) };
    }
    const { trace } = first;
    const edited = edits.length === 0 ? null : numbersOf(trace, edits);
    const { causal, scale, positions } = question;
    const answer = edited === null ? trace : await tell("/api/explain", {
      edited, tokens: trace.sequences.input, title: trace.title, causal, scale, positions,
    });
    if (!wanted()) return;
    views.trace = answer;
    views.state = read(location.hash, start());
    note.replaceChildren(...indexed(answer.note));
    reset.hidden = edited === null;
    said.replaceChildren();
  };

  const draw = async () => {
    const now = read(location.hash, start());
    const question = {
      ...(exampleOf(now) === "" ? { text: now.text } : { example: exampleOf(now) }),
      causal: now.causal === "yes", scale: now.scale !== "no", positions: now.positions ?? "none",
      heads: Number(now.heads ?? 2), width: Number(now.width ?? 4), numbers: String(now.numbers ?? ""),
    };
    fields(form, now, examples, models, change);
    views.state = now;
    const edits = readEdits(String(now.edits ?? ""));
    const next = JSON.stringify([question, edits]);
    if (next === asked) return;
    asked = next;
    await show(question, edits, () => asked === next && !until.aborted);
  };

  steps.addEventListener("regard-edit", (event) => {
    const edit = /** @type {Edit} */ (/** @type {CustomEvent} */ (event).detail);
    const before = readEdits(String(read(location.hash, start()).edits ?? ""));
    change({ edits: written([...before.filter((each) => !isSame(each, edit)), edit]) });
  });
  addEventListener("popstate", draw, { signal: until });
  addEventListener("hashchange", draw, { signal: until });
  main.append(el("h1", {}, word("explain.title")), form, said, el("p", { class: "bar" }, note, reset),
    el("div", { class: "tabs" }, views.tabs), views.panel);
  await draw();
}

/** The changes that an address says: `X-0-1-2-0.5*W_Q-0-0-1-3`. @param {string} text @returns {Edit[]} */
function readEdits(text) {
  return text.split("*").flatMap((each) => {
    const found = /^(\w+)-(\d{1,6})-(\d{1,6})-(\d{1,6})-(.+)$/.exec(each);
    if (found === null || !Number.isFinite(Number(found[5]))) return [];
    const [head, row, column, value] = found.slice(2).map(Number);
    return [{ matrix: found[1], head, row, column, value }];
  });
}

/** @param {Edit[]} edits */
function written(edits) {
  return edits.map(({ matrix, head, row, column, value }) => [matrix, head, row, column, value].join("-")).join("*");
}

/** @param {Edit} one @param {Edit} other */
function isSame(one, other) {
  return written([{ ...one, value: 0 }]) === written([{ ...other, value: 0 }]);
}

/** What a trace starts from, with changes; heads that are known by their output only start from that.
 * @param {any} trace @param {Edit[]} edits */
function numbersOf(trace, edits) {
  const { embeddings, positions, ...matrices } = trace.matrices;
  const given = trace.steps.head_output?.array.slice(trace.steps.weights.array.length) ?? [];
  const numbers = structuredClone({
    X: embeddings ?? trace.steps.input.array, ...matrices, ...(given.length > 0 ? { given_heads: given } : {}),
  });
  for (const { matrix, head, row, column, value } of edits) {
    const found = Array.isArray(numbers[matrix]?.[0]?.[0]) ? numbers[matrix][head] : numbers[matrix];
    if (found?.[row]?.[column] !== undefined) found[row][column] = value;
  }
  return numbers;
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
      change({ text: value.trim() === "" ? null : value, example: null, edits: null });
    },
  });
  const example = el("select", {
    name: "example",
    onchange: (event) => change({ example: /** @type {HTMLSelectElement} */ (event.target).value || null, text: null, edits: null }),
  }, el("option", { value: "", hidden: true }, "–"), ...examples.map((each) => el("option", { value: each.name }, each.title)));
  example.value = exampleOf(now);
  const toggle = (/** @type {string} */ title, /** @type {string} */ name, /** @type {string} */ on, /** @type {string | null} */ off, /** @type {boolean} */ is) =>
    el("label", {}, el("input", {
      type: "checkbox", name, checked: is,
      onchange: (event) => change({ [name]: /** @type {HTMLInputElement} */ (event.target).checked ? on : off }),
    }), title);
  const number = (/** @type {string} */ title, /** @type {string} */ name, /** @type {number} */ usual) =>
    el("label", {}, el("span", {}, ...indexed(title)), el("input", {
      type: "number", name, min: 1, max: 64, value: now[name] ?? usual, style: "width:4.5em",
      onchange: (event) => change({ [name]: /** @type {HTMLInputElement} */ (event.target).value || null, edits: null }),
    }));
  const numbers = el("select", {
    name: "numbers", onchange: (event) => change({ numbers: /** @type {HTMLSelectElement} */ (event.target).value || null, edits: null, changes: null }),
  }, here && el("option", { value: "" }, word("explain.numbers_auto")),
  ...models.map((each) => el("option", { value: each.name }, word(each.here ? "explain.numbers_of" : "explain.numbers_fetch", { model: each.about }))),
  el("option", { value: RANDOM }, word("explain.numbers_random")));
  numbers.value = random ? RANDOM : String(now.numbers ?? "");
  refill(form, [
    el("div", { class: "bar" }, text, el("label", {}, word("explain.example"), example),
      kind !== "example" && el("label", {}, word("explain.numbers"), numbers)),
    kind !== "read" && el("div", { class: "bar" },
      toggle(word("explain.scale"), "scale", "yes", "no", now.scale !== "no"),
      toggle(word("explain.causal"), "causal", "yes", null, now.causal === "yes"),
      toggle(word("explain.positions"), "positions", "sinusoidal", null, now.positions === "sinusoidal"),
      kind === "own" && number(word("explain.heads"), "heads", 2),
      kind === "own" && number(word("explain.width"), "width", 4)),
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
    const input = /** @type {HTMLInputElement} */ (box);
    input.checked = input.name === "scale" ? now.scale !== "no" : now[input.name] !== undefined && now[input.name] !== null;
  }
}
