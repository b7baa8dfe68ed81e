// See: a model, a text, and then where every head looked.

import { start } from "./base.js";
import { el } from "./dom.js";
import { address } from "./page.js";
import { ask, tell } from "./asking.js";
import { follow } from "./progress.js";

const FIRST = "The animal didn't cross the street because it was too tired.";

/** @param {HTMLElement} main @param {import("./base.js").State} state @param {AbortSignal} until */
export async function showSee(main, state, until) {
  void state;
  const models = await ask("/api/models");
  if (until.aborted) return;
  const model = el("select", { "aria-label": "Model" },
    ...models.map((/** @type {any} */ each) => el("option", { value: each.name }, each.about + (each.here ? "" : ", will be fetched"))));
  const text = el("textarea", { rows: 5, "aria-label": "Text", spellcheck: "false" });
  text.value = sessionStorage.getItem("regard-text") ?? FIRST;
  const count = el("span", { class: "faint" });
  const said = el("div", { "aria-live": "polite" });
  const file = el("input", {
    type: "file", accept: "text/*", "aria-label": "Open a text file",
    onchange: async () => {
      const chosen = file.files?.[0];
      if (chosen === undefined) return;
      if (chosen.size > 1_000_000) {
        said.replaceChildren(el("p", { class: "error" }, "The file has more than 1,000,000 bytes: no model here reads so much."));
        return;
      }
      text.value = await chosen.text();
      tally();
    },
  });
  const button = el("button", { class: "main", onclick: () => go() }, "Read it");
  const tally = () => {
    const words = text.value.split(/\s+/).filter((word) => word !== "").length;
    count.textContent = `${words.toLocaleString("en")} words`;
  };
  const go = async () => {
    button.disabled = true;
    sessionStorage.setItem("regard-text", text.value.slice(0, 1_000_000));
    try {
      const { job } = await tell("/api/see", { text: text.value, model: model.value });
      const run = await follow(job, said, until);
      if (run !== null) location.hash = address({ ...start(), page: "run", run });
    } catch (error) {
      said.replaceChildren(el("p", { class: "error", role: "alert" }, /** @type {Error} */ (error).message));
    } finally {
      button.disabled = false;
    }
  };
  text.addEventListener("input", tally);
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) go();
  });
  tally();
  main.append(
    el("h1", {}, "Where does each head of a real model look?"),
    el("p", { class: "faint" }, "Paste a text, up to what the model can take. Everything happens on this machine."),
    el("div", { class: "bar" }, el("label", {}, "Model", model)),
    text,
    el("div", { class: "bar" }, button, el("label", {}, "or a file", file), count),
    said,
  );
}
