// Runs: those that were saved and those of today; open, compare, delete, and ask them in SQL.

import { el } from "./dom.js";
import { elsewhere } from "./page.js";
import { ask, tell } from "./asking.js";
import { moment } from "./language.js";
import { failed } from "./told.js";
import { word, wordParts } from "./words.js";

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
      location.hash = elsewhere({ page: "compare", run, other });
    },
  }, word("runs.compare"));

  const draw = async () => {
    const runs = await ask("/api/runs");
    if (until.aborted) return;
    for (const id of [...chosen]) if (!runs.some((/** @type {any} */ run) => run.id === id)) chosen.delete(id);
    list.replaceChildren(runs.length === 0 ? nothing() : table(runs));
    compare.disabled = chosen.size !== 2;
  };
  const nothing = () => el("p", {}, ...wordParts("runs.none", { link: el("a", { href: elsewhere({ page: "see" }) }, word("runs.read")) }));

  /** @param {any[]} runs */
  const table = (runs) => el("table", { class: "runs" },
    el("thead", {}, el("tr", {}, ...["", word("runs.run"), word("runs.model"), word("runs.layers"), word("runs.tokens"), word("runs.size"), word("runs.made"), ""].map((name, n) =>
      (name === "" ? el("td") : el("th", { scope: "col", class: n >= 3 && n <= 5 && "number" }, name))))),
    el("tbody", {}, ...runs.map(row)));

  /** @param {any} run */
  const row = (run) => el("tr", {},
    el("td", {}, el("input", {
      type: "checkbox", "aria-label": word("runs.choose", { name: run.name }), checked: chosen.has(run.id),
      onchange: (event) => {
        const box = /** @type {HTMLInputElement} */ (event.target);
        if (box.checked) chosen.add(run.id);
        else chosen.delete(run.id);
        compare.disabled = chosen.size !== 2;
      },
    })),
    el("td", {}, el("a", { href: elsewhere({ page: "run", run: run.id }) }, run.name),
      run.name !== run.text && run.text !== "" && el("div", { class: "faint" }, run.text.slice(0, 90))),
    el("td", {}, run.model),
    el("td", { class: "number" }, run.layers),
    el("td", { class: "number" }, run.tokens.toLocaleString("en")),
    el("td", { class: "number" }, run.saved ? size(run.bytes) : word("runs.not_saved", { size: size(run.bytes) })),
    el("td", {}, moment(run.made)),
    el("td", {}, remove(run)));

  /** @param {any} run */
  const remove = (run) => {
    const button = el("button", {
      "aria-label": word("runs.delete_name", { name: run.name }),
      onclick: async () => {
        if (button.dataset.sure === undefined) {
          button.dataset.sure = "";
          button.textContent = word(run.saved ? "runs.delete_files" : "runs.forget");
          setTimeout(() => {
            delete button.dataset.sure;
            button.textContent = word("runs.delete");
          }, 4000);
          return;
        }
        try {
          await tell(`/api/runs/${run.id}`, {}, "DELETE");
          await draw();
        } catch (error) {
          said.replaceChildren(failed(error));
        }
      },
    }, word("runs.delete"));
    return button;
  };

  const query = el("textarea", { class: "mono", rows: 4, "aria-label": word("runs.sql"), spellcheck: "false" });
  query.value = FIRST;
  const answer = el("div", { "aria-live": "polite" });
  const run = el("button", { class: "main", onclick: () => sql() }, word("runs.ask"));
  const sql = async () => {
    run.disabled = true;
    try {
      const all = await ask("/api/runs");
      const runs = chosen.size > 0 ? [...chosen] : all.map((/** @type {any} */ each) => each.id);
      if (runs.length === 0) throw new Error(word("runs.no_run"));
      const named = new Map(all.map((/** @type {any} */ each) => [each.id, each.name]));
      answer.replaceChildren(result(await tell("/api/sql", { query: query.value, runs }), named));
    } catch (error) {
      answer.replaceChildren(failed(error));
    } finally {
      run.disabled = false;
    }
  };
  query.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) sql();
  });
  main.append(
    el("h1", {}, word("runs.title")),
    el("div", { class: "bar" }, compare),
    said,
    list,
    el("p", { class: "faint" }, word("runs.kept")),
    el("h2", {}, word("runs.sql_title")),
    el("p", { class: "faint" }, word("runs.tables")),
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
    el("p", { class: "faint" }, word(more ? "runs.first_rows" : "runs.rows", { count: shown.toLocaleString("en") })),
    el("div", { class: "scroll" }, el("table", { class: "fit" },
      el("thead", {}, el("tr", {}, ...columns.map((name, c) =>
        el("th", { scope: "col", class: typeof values[c][0] === "number" && "number" }, name)))),
      el("tbody", {}, ...Array.from({ length: shown }, (_, n) => el("tr", {}, ...columns.map((name, c) => cell(values[c][n], name))))))));
}

/** @param {number} bytes */
function size(bytes) {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${Math.ceil(bytes / 1e3)} kB`;
}
