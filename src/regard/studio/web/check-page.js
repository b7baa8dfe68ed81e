// Check: paste a text or open a file, and see what is wrong beside it; then put it right.

import { el, indexed } from "./dom.js";
import { tell } from "./asking.js";
import { ENDINGS, read, takeDropped } from "./check-file.js";
import { coverage, listed, verdict } from "./check-findings.js";
import { difference } from "./check-fix.js";
import { numbered } from "./check-text.js";
import { failed } from "./told.js";
import { word } from "./words.js";

/**
 * @typedef {import("./check-findings.js").Report} Report
 * @typedef {import("./check-file.js").Document} Document
 * @typedef {import("./check-text.js").Menu} Menu
 * What the reader said that matrices are, by their lines or names, and where that was said.
 * @typedef {Map<string, { symbol: string, line: number }>} Taken
 */

const KEPT = "regard-check"; // what was checked last, for when the reader comes back to the page
const OF_HEADS = /^(?:[Wb]_)?[QKV]$|^(?:scores|scaled|weights)$/; // what may be told with a head: Q_2
const FIRST = `Q = [[2, 3, 4, 1]]
K = [[1, 0, 1, 0], [0, 1, 0, 1]]
S = [[6, 5]]`;

/** @param {HTMLElement} main @param {import("./base.js").State} state @param {AbortSignal} until */
export function showCheck(main, state, until) {
  void state;
  /** @type {Document} */
  let given = kept() ?? { name: "text", text: FIRST };
  /** @type {Taken} */
  let taken = new Map();
  let asked = 0;

  const text = el("textarea", { class: "mono", rows: 16, "aria-label": word("check.example"), spellcheck: "false" });
  const called = el("span", { class: "faint" });
  const said = el("div", { "aria-live": "polite" });
  const found = el("div", {});
  const check = el("button", { type: "button", class: "main", onclick: () => begin() }, word("check.button"));
  const file = el("input", { type: "file", accept: ENDINGS, hidden: true, "aria-label": word("check.file"), onchange: () => open(file.files?.[0]) });
  const writing = el("div", {}, text,
    el("div", { class: "bar" }, check, el("button", { type: "button", onclick: () => file.click() }, word("check.open_file")), file, el("span", { class: "faint" }, word("check.drop")), called));

  /** @param {unknown} error */
  const sorry = (error) => said.replaceChildren(failed(error));

  /** @param {Document} next */
  const take = (next) => {
    given = next;
    taken = new Map();
    if (text.value !== next.text) text.value = next.text;
    called.textContent = next.name === "text" ? "" : word("check.called", { name: next.name, count: next.text.length.toLocaleString("en") });
  };

  /** Back to the form. */
  const write = () => {
    found.replaceChildren();
    writing.hidden = false;
  };

  /** Ask what there is, with what the reader said of it. @param {object} [more] @returns {Promise<any>} null if
   * something else was asked meanwhile */
  const ask = async (more = {}) => {
    const mine = ++asked;
    check.disabled = true;
    said.replaceChildren(el("p", { class: "faint" }, word("check.reading")));
    const as = Object.fromEntries([...taken].map(([key, { symbol }]) => [key, symbol]));
    try {
      const answer = await tell("/api/check", { text: given.text, name: given.name, as, ...more });
      if (mine !== asked || until.aborted) return null;
      said.replaceChildren();
      return answer;
    } catch (error) {
      if (mine === asked && !until.aborted) sorry(error);
      return null;
    } finally {
      if (mine === asked) check.disabled = false;
    }
  };

  const begin = async () => {
    keep(given);
    const report = await ask();
    if (report === null) return write();
    writing.hidden = true;
    return draw(report).heading.focus();
  };

  /** @param {File | undefined} chosen */
  const open = async (chosen) => {
    if (chosen === undefined) return;
    try {
      take(await read(chosen));
    } catch (error) {
      sorry(error);
      return;
    } finally {
      file.value = "";
    }
    await begin();
  };

  /** @param {Report} report */
  const draw = (report) => {
    const change = el("div", {});
    const heading = el("h2", { class: `verdict ${report.verdict}`, tabindex: -1 }, verdict(report));
    const list = listed(report, (line, what, about) => {
      const finding = what === null || what === "menu" ? null : what;
      list.point(finding);
      shown.point(finding);
      shown.jump(line, what, about);
    });
    const shown = numbered({
      text: report.text, findings: report.findings, menus: menus(report, taken), kinds: report.kinds,
      passed: new Set(report.not_understood.map((each) => each.line)),
      chosen: (finding) => {
        shown.point(finding);
        list.point(finding, true);
      },
      say: async (menu, symbol) => {
        const before = new Map(taken);
        const head = OF_HEADS.test(symbol) ? menu.head : "";
        for (const key of menu.keys) {
          if (symbol === "take back") taken.delete(key);
          else taken.set(key, { symbol: symbol + head, line: menu.line });
        }
        const next = await ask();
        if (next === null) taken = before;
        const { scrollTop } = shown.place;
        const again = draw(next ?? report).shown;
        again.place.scrollTop = scrollTop;
        again.jump(menu.line, "menu", menu.keys[0]);
      },
    });
    const fix = el("button", {
      type: "button",
      onclick: async () => {
        const answer = await ask({ fix: true });
        if (answer === null) return;
        const made = difference({
          name: given.name, before: given.text, after: answer.fixed, left: answer.left,
          jump: (line) => shown.jump(line),
          goOn: () => {
            take({ name: given.name, text: answer.fixed });
            begin();
          },
          close: () => {
            change.replaceChildren();
            fix.focus();
          },
        });
        change.replaceChildren(made.place);
        made.heading.focus();
      },
    }, word("check.fix"));
    const edit = el("button", {
      type: "button",
      onclick: () => {
        write();
        text.focus();
      },
    }, word("check.edit"));
    found.replaceChildren(
      heading,
      el("p", { class: "faint" }, given.name === "text" ? "" : word("check.of_file", { name: given.name }), coverage(report)),
      el("div", { class: "bar" }, report.verdict === "wrong" && fix, edit),
      change,
      el("div", { class: "beside" }, shown.place, list.place),
      el("p", { class: "faint" }, report.findings.length > 0 && word("check.marks"),
        report.matrices.length > 0 && word("check.menus")),
    );
    return { heading, shown };
  };

  text.addEventListener("input", () => {
    // Emptied, what comes next is no longer the file that was opened.
    take({ name: text.value === "" ? "text" : given.name, text: text.value });
  });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) begin();
  });
  takeDropped(main, until, open);
  take(given);
  main.append(
    el("h1", {}, word("check.title")),
    el("p", { class: "faint" }, ...indexed(word("check.about"))),
    writing,
    said,
    found,
  );
}

/** The menus of the matrices, of the questions, and of what the reader left out.
 * @param {Report} report @param {Taken} taken @returns {Menu[]} */
function menus({ matrices, questions }, taken) {
  const printed = matrices.filter((each) => each.line > 0);
  const made = printed.map((each) => {
    // Of several matrices in a line, each is meant by its name.
    const alone = printed.every((other) => other === each || other.line !== each.line || other.called === each.called);
    const keys = alone || each.called === "" ? each.lines.map(String) : [each.called];
    const head = each.head !== null && each.lines.length === 1 && each.shape[0] > 1 ? `_${each.head}` : "";
    return { line: each.line, symbol: each.symbol, keys, head, about: each.called || word("check.matrix"), said: keys.some((key) => taken.has(key)) };
  });
  const covered = new Set(made.flatMap((each) => each.keys));
  const open = [...taken].filter(([key]) => !covered.has(key));
  for (const { line, menu } of questions) {
    // What the reader said may itself raise a question, and is taken back there.
    const keys = open.filter(([, said]) => said.line === line).map(([key]) => key);
    if (menu) made.push({ line, symbol: "", keys: keys.length > 0 ? keys : [String(line)], head: "", about: word("check.matrix"), said: keys.length > 0 });
    for (const key of keys) if (menu) covered.add(key);
  }
  for (const [key, { symbol, line }] of open) {
    if (covered.has(key)) continue;
    const keys = open.filter(([, said]) => said.line === line && said.symbol === symbol).map((each) => each[0]);
    made.push({ line, symbol, keys, head: "", about: word("check.matrix"), said: true });
    for (const each of keys) covered.add(each);
  }
  return made;
}

/** @param {Document} given */
function keep(given) {
  try {
    sessionStorage.setItem(KEPT, JSON.stringify(given));
  } catch {
    sessionStorage.removeItem(KEPT); // it is larger than the browser keeps
  }
}

/** @returns {Document | null} */
function kept() {
  return JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
}
