// Runs: those that were saved and those of today; open, compare, delete, and ask them in SQL.

import { start } from "./base.js";
import { el } from "./dom.js";
import { address } from "./page.js";
import { ask, tell } from "./asking.js";

const FIRST = "select layer, head, kind, round(score, 2) as score\nfrom heads order by score desc limit 10";

/** @param {HTMLElement} main @param {import("./base.js").State} state @param {AbortSignal} until */
export async function showRuns(main, state, until) {
  void state;
  const list = el("div", {});
  const said = el("div", { "aria-live": "polite" });
  /** @type {Set<string>} */
  const chosen = new Set();
  const compare = el("button", {
    disabled: true,
    onclick: () => {
      const [run, other] = chosen;
      location.hash = address({ ...start(), page: "compare", run, other });
    },
  }, "Compare two");

  const draw = async () => {
    const runs = await ask("/api/runs");
    if (until.aborted) return;
    for (const id of [...chosen]) if (!runs.some((/** @type {any} */ run) => run.id === id)) chosen.delete(id);
    list.replaceChildren(runs.length === 0 ? nothing() : table(runs));
    compare.disabled = chosen.size !== 2;
  };
  const nothing = () => el("p", {}, "There are no runs yet. ", el("a", { href: address({ ...start(), page: "see" }) }, "Read a text"),
    ", or save one from Python with run.save(folder) and start the studio on that folder.");

  /** @param {any[]} runs */
  const table = (runs) => el("table", {},
    el("thead", {}, el("tr", {}, ...["", "Run", "Model", "Layers", "Tokens", "Size", "Made", ""].map((name) =>
      el("th", { scope: "col", class: ["Layers", "Tokens", "Size"].includes(name) && "number" }, name)))),
    el("tbody", {}, ...runs.map(row)));

  /** @param {any} run */
  const row = (run) => el("tr", {},
    el("td", {}, el("input", {
      type: "checkbox", "aria-label": `Choose ${run.name}`, checked: chosen.has(run.id),
      onchange: (event) => {
        const box = /** @type {HTMLInputElement} */ (event.target);
        if (box.checked) chosen.add(run.id);
        else chosen.delete(run.id);
        compare.disabled = chosen.size !== 2;
      },
    })),
    el("td", {}, el("a", { href: address({ ...start(), page: "run", run: run.id }) }, run.name),
      run.name !== run.text && run.text !== "" && el("div", { class: "faint" }, run.text.slice(0, 90))),
    el("td", {}, run.model),
    el("td", { class: "number" }, run.layers),
    el("td", { class: "number" }, run.tokens.toLocaleString("en")),
    el("td", { class: "number" }, run.saved ? size(run.bytes) : "not saved"),
    el("td", {}, new Date(run.made * 1000).toLocaleString()),
    el("td", {}, remove(run)));

  /** @param {any} run */
  const remove = (run) => {
    const button = el("button", {
      "aria-label": `Delete ${run.name}`,
      onclick: async () => {
        if (button.dataset.sure === undefined) {
          button.dataset.sure = "";
          button.textContent = run.saved ? "Delete its files?" : "Forget it?";
          setTimeout(() => {
            delete button.dataset.sure;
            button.textContent = "Delete";
          }, 4000);
          return;
        }
        try {
          await tell(`/api/runs/${run.id}`, {}, "DELETE");
          await draw();
        } catch (error) {
          said.replaceChildren(el("p", { class: "error" }, /** @type {Error} */ (error).message));
        }
      },
    }, "Delete");
    return button;
  };

  const query = el("textarea", { class: "mono", rows: 4, "aria-label": "SQL", spellcheck: "false" });
  query.value = FIRST;
  const answer = el("div", { "aria-live": "polite" });
  const run = el("button", { class: "main", onclick: () => sql() }, "Ask");
  const sql = async () => {
    run.disabled = true;
    try {
      const all = await ask("/api/runs");
      const runs = chosen.size > 0 ? [...chosen] : all.map((/** @type {any} */ each) => each.id);
      if (runs.length === 0) throw new Error("There is no run to ask.");
      const named = new Map(all.map((/** @type {any} */ each) => [each.id, each.name]));
      answer.replaceChildren(result(await tell("/api/sql", { query: query.value, runs }), named));
    } catch (error) {
      answer.replaceChildren(el("p", { class: "error", role: "alert" }, /** @type {Error} */ (error).message));
    } finally {
      run.disabled = false;
    }
  };
  query.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) sql();
  });
  main.append(
    el("h1", {}, "Runs"),
    el("div", { class: "bar" }, compare),
    said,
    list,
    el("h2", {}, "Ask them in SQL"),
    el("p", { class: "faint" }, "Tables: edges (run, layer, head, query, key, query_token, key_token, weight), heads, layers, tokens. Of the chosen runs, or of all."),
    query,
    el("div", { class: "bar" }, run),
    answer,
  );
  await draw();
}

/** @param {{ columns: string[], values: any[][], more: boolean }} found @param {Map<string, string>} named */
function result({ columns, values, more }, named) {
  const shown = values[0]?.length ?? 0;
  const cell = (/** @type {any} */ value, /** @type {string} */ column) => {
    if (column === "run") value = named.get(value) ?? value;
    const number = typeof value === "number";
    const text = value === null ? "–" : number && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value;
    return el("td", { class: number && "number" }, text);
  };
  return el("div", {},
    el("p", { class: "faint" }, more ? `The first ${shown.toLocaleString("en")} rows; there are more` : `${shown} rows`),
    el("div", { class: "scroll" }, el("table", { class: "fit" },
      el("thead", {}, el("tr", {}, ...columns.map((name, c) =>
        el("th", { scope: "col", class: typeof values[c][0] === "number" && "number" }, name)))),
      el("tbody", {}, ...Array.from({ length: shown }, (_, n) => el("tr", {}, ...columns.map((name, c) => cell(values[c][n], name))))))));
}

/** @param {number} bytes */
function size(bytes) {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${Math.ceil(bytes / 1e3)} kB`;
}
