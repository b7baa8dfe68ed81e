// Explain: a sentence or a worked example, step by step; edit any number, and see what follows.

import { start } from "./base.js";
import { el } from "./dom.js";
import { address, read } from "./page.js";
import { ask, tell } from "./asking.js";

/** @typedef {import("./base.js").State} State */

/** @param {HTMLElement} main @param {State} state @param {AbortSignal} until */
export async function showExplain(main, state, until) {
  void state;
  const examples = await ask("/api/examples");
  if (until.aborted) return;
  const steps = /** @type {import("./base.js").RegardElement<any>} */ (document.createElement("regard-steps"));
  steps.setAttribute("editable", "");
  const said = el("div", { "aria-live": "polite" });
  const note = el("p", { class: "faint" });
  const form = el("div", {});
  let asked = "";
  /** @type {any} */
  let trace = null;

  /** @param {Partial<State>} changed @param {boolean} [push] */
  const change = (changed, push = true) => {
    const next = /** @type {State} */ ({ ...read(location.hash, start()), page: "explain", ...changed });
    history[push ? "pushState" : "replaceState"](null, "", address(next));
    draw();
  };

  /** @param {any} question */
  const show = async (question) => {
    try {
      const answer = await tell("/api/explain", question);
      if (until.aborted) return;
      trace = answer;
      steps.source = answer;
      note.textContent = answer.note;
      said.replaceChildren();
    } catch (error) {
      said.replaceChildren(el("p", { class: "error", role: "alert" }, /** @type {Error} */ (error).message));
    }
  };

  const draw = async () => {
    const now = read(location.hash, start());
    const question = {
      ...(now.text === undefined || now.text === null ? { example: now.example ?? "apple" } : { text: now.text }),
      causal: now.causal === "yes", scale: now.scale !== "no", positions: now.positions ?? "none",
      heads: Number(now.heads ?? 2), width: Number(now.width ?? 4),
    };
    fields(form, now, examples, change);
    steps.state = now;
    if (JSON.stringify(question) === asked) return;
    asked = JSON.stringify(question);
    await show(question);
  };

  steps.addEventListener("regard-change", (event) => change(/** @type {CustomEvent} */ (event).detail, false));
  steps.addEventListener("regard-edit", (event) => {
    const { matrix, head, row, column, value } = /** @type {CustomEvent} */ (event).detail;
    const edited = numbersOf(trace);
    const target = matrix === "X" ? edited.X : matrix === "W_O" ? edited.W_O : edited[matrix][head];
    target[row][column] = value;
    const now = read(location.hash, start());
    show({ edited, tokens: trace.sequences.input, title: trace.title, causal: now.causal === "yes", scale: now.scale !== "no", positions: now.positions ?? "none" });
  });
  addEventListener("popstate", draw, { signal: until });
  addEventListener("hashchange", draw, { signal: until });
  main.append(el("h1", {}, "Attention, step by step"), form, said, note, steps);
  await draw();
}

/** What a trace starts from, to be edited. @param {any} trace */
function numbersOf(trace) {
  const { embeddings, positions, ...matrices } = trace.matrices;
  return structuredClone({ X: embeddings ?? trace.steps.input.array, ...matrices });
}

/** The choices above the steps. @param {HTMLElement} form @param {State} now @param {any[]} examples
 * @param {(changed: Partial<State>) => void} change */
function fields(form, now, examples, change) {
  if (form.contains(document.activeElement) && form.childElementCount > 0) return keep(form, now);
  const text = el("input", {
    type: "text", name: "text", "aria-label": "A sentence of your own", size: 44, value: now.text ?? "",
    placeholder: "A sentence of your own",
    onchange: (event) => {
      const { value } = /** @type {HTMLInputElement} */ (event.target);
      change(value.trim() === "" ? { text: null } : { text: value, example: null });
    },
  });
  const example = el("select", {
    name: "example",
    onchange: (event) => change({ example: /** @type {HTMLSelectElement} */ (event.target).value || null, text: null }),
  }, ...examples.map((each) => el("option", { value: each.name, selected: (now.example ?? "apple") === each.name && now.text === undefined }, each.title)));
  const toggle = (/** @type {string} */ title, /** @type {string} */ name, /** @type {string} */ on, /** @type {string | null} */ off, /** @type {boolean} */ is) =>
    el("label", {}, el("input", {
      type: "checkbox", name, checked: is,
      onchange: (event) => change({ [name]: /** @type {HTMLInputElement} */ (event.target).checked ? on : off }),
    }), title);
  const number = (/** @type {string} */ title, /** @type {string} */ name, /** @type {number} */ usual) =>
    el("label", {}, title, el("input", {
      type: "number", name, min: 1, max: 64, value: now[name] ?? usual, style: "width:4.5em",
      onchange: (event) => change({ [name]: /** @type {HTMLInputElement} */ (event.target).value || null }),
    }));
  form.replaceChildren(
    el("div", { class: "bar" }, text, el("label", {}, "or an example", example)),
    el("div", { class: "bar" },
      toggle("divide by √d_k", "scale", "yes", "no", now.scale !== "no"),
      toggle("causal mask", "causal", "yes", null, now.causal === "yes"),
      toggle("positions", "positions", "sinusoidal", null, now.positions === "sinusoidal"),
      now.text !== undefined && now.text !== null && number("heads", "heads", 2),
      now.text !== undefined && now.text !== null && number("d_model", "width", 4)),
  );
  return undefined;
}

/** While the reader is in a field, only the others follow. @param {HTMLElement} form @param {State} now */
function keep(form, now) {
  for (const box of form.querySelectorAll("input[type=checkbox]")) {
    const input = /** @type {HTMLInputElement} */ (box);
    input.checked = input.name === "scale" ? now.scale !== "no" : now[input.name] !== undefined && now[input.name] !== null;
  }
}
