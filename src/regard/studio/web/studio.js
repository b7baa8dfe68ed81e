// The studio: its pages, and which of them is shown; the address says where the reader is.

import { start } from "./base.js";
import { el } from "./dom.js";
import { TABS, elsewhere, read } from "./page.js";
import { LANGUAGE, LANGUAGES, speak } from "./language.js";
import { THEME, setTheme, sheet } from "./theme.js";
import { CHECK } from "./check-look.js";
import { showCheck } from "./check-page.js";
import { showCompare } from "./compare-page.js";
import { showExplain } from "./explain-page.js";
import { LAB, showLab } from "./lab-page.js";
import { showLearn } from "./learn-page.js";
import { showRunPage } from "./run-page.js";
import { showRuns } from "./runs-page.js";
import { showSee } from "./see-page.js";
import { showTraining } from "./training-page.js";
import { STUDIO } from "./look.js";
import { failed } from "./told.js";
import { word } from "./words.js";
import "./elements.js";

/**
 * A page of the studio: builds itself into `main`, and is over when `until` says so. What it returns
 * is awaited; its errors are shown in words.
 * @typedef {(main: HTMLElement, state: import("./base.js").State, until: AbortSignal) => void | Promise<void>} Page
 */

/** @type {[string, string, Page][]} */
const PAGES = [
  ["learn", word("studio.learn"), showLearn],
  ["explain", word("studio.explain"), showExplain],
  ["see", word("studio.see"), showSee],
  ["runs", word("studio.runs"), showRuns],
  ["check", word("studio.check"), showCheck],
  ["lab", word("studio.lab"), showLab],
  ["training", word("studio.training"), showTraining],
  ["run", "", showRunPage],
  ["compare", "", showCompare],
];

const WIDE = ["explain", "compare"]; // pages that use all of a wide window

document.adoptedStyleSheets = [sheet(THEME + TABS + STUDIO + CHECK + LAB)];
const links = el("nav", { "aria-label": word("studio.pages") });
const main = el("main", { tabindex: -1 });
const languages = el("select", { "aria-label": word("studio.language"), onchange: () => speak(languages.value) },
  ...LANGUAGES.map((each) => el("option", { value: each, lang: each, selected: each === LANGUAGE }, word(`language.${each}`))));
document.body.append(el("header", { class: "top" }, el("span", { class: "name" }, word("studio.name")), links, languages), main);

let shown = "";
let over = new AbortController();

/** What makes a page another page; the rest of the state it handles itself. @param {import("./base.js").State} state */
function identity(state) {
  return [state.page ?? "learn", state.run ?? "", state.other ?? "", state.experiment ?? "", state.lesson ?? "", state.training ?? ""].join(" ");
}

/** The page that is shown. @param {import("./base.js").State} state */
function pageOf(state) {
  const name = String(state.page ?? "learn");
  return PAGES.find((each) => each[0] === name) ?? PAGES[0];
}

/** The links to all pages, light or dark as this one is. */
function link() {
  const state = read(location.hash, start());
  links.replaceChildren(
    ...PAGES.filter(([, title]) => title !== "").map(([each, title]) => el("a", {
      href: elsewhere({ page: each }), "aria-current": each === pageOf(state)[0] && "page",
    }, title)),
  );
}

async function draw() {
  const state = read(location.hash, start());
  const page = pageOf(state);
  setTheme(state.theme);
  link();
  if (shown === identity(state)) return;
  shown = identity(state);
  over.abort();
  over = new AbortController();
  const until = over.signal;
  main.replaceChildren();
  main.classList.toggle("wide", WIDE.includes(page[0]));
  document.title = page[1] === "" ? word("studio.title") : word("studio.page_title", { page: page[1] });
  try {
    await page[2](main, state, until);
  } catch (error) {
    if (until.aborted) return;
    main.append(failed(error));
  }
  document.body.dispatchEvent(new CustomEvent("regard-drawn", { bubbles: true }));
}

main.addEventListener("regard-change", link);
addEventListener("hashchange", draw);
addEventListener("popstate", draw);
draw();
