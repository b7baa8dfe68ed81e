// A run in the studio: its views, and what can be done with it: save it, ablate a head, compare.

import { start } from "./base.js";
import { el } from "./dom.js";
import { address, passViews, read, showRun } from "./page.js";
import { ask, tell } from "./asking.js";
import { ServedFlow } from "./flow_served.js";
import { follow } from "./progress.js";
import { ServedRun } from "./served.js";
import { failed } from "./told.js";
import { word } from "./words.js";

/** What is known of a run. @param {string} id @returns {Promise<any>} */
export async function summary(id) {
  const all = await ask("/api/runs");
  return all.find((/** @type {any} */ each) => each.id === id || each.aliases?.includes(id)) ?? { id, name: id, text: "", model: "", saved: true };
}

/** @param {HTMLElement} main @param {import("./base.js").State} state @param {AbortSignal} until */
export async function showRunPage(main, state, until) {
  const id = String(state.run ?? "");
  const waiting = el("p", { class: "faint" }, word("run.opening"));
  main.append(waiting);
  const [source, about] = await Promise.all([ServedRun.open(id), summary(id)]);
  if (until.aborted) return;
  const { info } = source;
  const tokens = Math.max(...info.layers.map((layer) => layer.keys));
  const actions = el("div", { class: "bar" });
  const said = el("div", { "aria-live": "polite" });
  waiting.replaceWith(
    el("h1", {}, about.name),
    el("p", { class: "faint" }, word("run.size", {
      model: about.model || info.model, layers: info.layers.length, heads: info.heads.length, tokens: tokens.toLocaleString("en"),
    })),
    actions,
    said,
  );
  if (!about.saved) actions.append(...saving(id, said));
  if (about.again && about.predicts !== false) source.foretell(about.has_lens !== false);
  if (about.again) actions.append(ablating(id, said, until));
  for (const name of about.let_go ?? []) main.append(el("p", {}, word("run.let_go", { name })));
  for (const note of info.notes) main.append(el("p", { class: "faint" }, note));
  showRun(main, source, until, about.again ? passViews(() => openFlow(id, said, until)) : []);
}

/** The pass of a run. @param {string} id @param {HTMLElement} said @param {AbortSignal} until */
async function openFlow(id, said, until) {
  const { job } = await tell("/api/flow", { run: id });
  const done = await follow(job, said, until);
  if (done === null) throw new Error(word("flow.cancelled"));
  return ServedFlow.known(done.flow);
}

/** @param {string} id @param {HTMLElement} said */
function saving(id, said) {
  const name = el("input", { type: "text", "aria-label": word("run.name"), placeholder: word("run.name_here"), size: 18 });
  const button = el("button", {
    onclick: async () => {
      try {
        const saved = await tell(`/api/runs/${id}/save`, { name: name.value.trim() });
        location.replace(address({ ...read(location.hash, start()), run: saved.id }));
      } catch (error) {
        said.replaceChildren(failed(error));
      }
    },
  }, word("run.save"));
  return [el("label", {}, word("run.not_saved"), name), button];
}

/** Run the text once more without a head. @param {string} id @param {HTMLElement} said @param {AbortSignal} until */
function ablating(id, said, until) {
  return el("button", {
    class: "of-head",
    onclick: async () => {
      const now = read(location.hash, start());
      const { layer, head } = now;
      if (head === null) {
        said.replaceChildren(el("p", { class: "error" }, word("run.choose_head")));
        return;
      }
      try {
        const { job } = await tell(`/api/runs/${id}/ablate`, { ablate: [[layer, head]] });
        const other = await follow(job, said, until);
        if (other !== null) location.hash = address({ ...now, page: "compare", run: id, other });
      } catch (error) {
        said.replaceChildren(failed(error));
      }
    },
  }, word("run.cut"));
}
