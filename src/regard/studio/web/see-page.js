// See: a model, a text, and then where every head looked.

import { el } from "./dom.js";
import { elsewhere } from "./page.js";
import { ask, tell } from "./asking.js";
import { follow } from "./progress.js";
import { failed, readerOf } from "./told.js";
import { word } from "./words.js";

/** @param {HTMLElement} main @param {import("./base.js").State} state @param {AbortSignal} until */
export async function showSee(main, state, until) {
  void state;
  const models = await ask("/api/models");
  if (until.aborted) return;
  const model = el("select", { "aria-label": word("see.model") },
    ...models.map((/** @type {any} */ each) => el("option", { value: each.name }, each.here ? readerOf(each) : word("see.fetched", { model: readerOf(each) }))));
  const text = el("textarea", { rows: 5, "aria-label": word("see.text"), spellcheck: "false" });
  text.value = sessionStorage.getItem("regard-text") ?? word("see.first");
  const count = el("span", { class: "faint" });
  const said = el("div", { "aria-live": "polite" });
  const file = el("input", {
    type: "file", accept: "text/*", hidden: true, "aria-label": word("see.file_name"),
    onchange: async () => {
      const chosen = file.files?.[0];
      if (chosen === undefined) return;
      if (chosen.size > 1_000_000) {
        said.replaceChildren(el("p", { class: "error" }, word("see.too_large")));
        return;
      }
      text.value = await chosen.text();
      tally();
    },
  });
  const button = el("button", { class: "main", onclick: () => go() }, word("see.button"));
  const tally = () => {
    const words = text.value.split(/\s+/).filter((word) => word !== "").length;
    count.textContent = word("see.words", { count: words.toLocaleString("en") });
  };
  const go = async () => {
    button.disabled = true;
    sessionStorage.setItem("regard-text", text.value.slice(0, 1_000_000));
    try {
      const { job } = await tell("/api/see", { text: text.value, model: model.value });
      const run = await follow(job, said, until);
      if (run !== null) location.hash = elsewhere({ page: "run", run });
    } catch (error) {
      said.replaceChildren(failed(error));
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
    el("h1", {}, word("see.title")),
    el("p", { class: "faint" }, word("see.about")),
    el("div", { class: "bar" }, el("label", {}, word("see.model"), model)),
    text,
    el("div", { class: "bar" }, button, el("button", { type: "button", onclick: () => file.click() }, word("see.file_name")), file, count),
    said,
  );
}
