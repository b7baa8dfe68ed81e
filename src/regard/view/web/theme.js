// Colours and letters that all elements share; light or dark follows the reader's system, or a choice.

export const THEME = `
:host, :root {
  color-scheme: var(--scheme, light dark);
  --page: #ffffff; --raised: #f6f7f9; --ink: #1f2328; --faint: #59636e; --edge: #d1d9e0;
  --accent: #0a5fb4; --on-accent: #ffffff; --mark: #ffe08a; --hot: #c8600a; --error: #b3261e;
  --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  --sans: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK KR",
    "Noto Sans Bengali", sans-serif;
}
@media (prefers-color-scheme: dark) {
  :host, :root {
    --page: #0d1117; --raised: #161b22; --ink: #e6edf3; --faint: #9198a1; --edge: #3d444d;
    --accent: #6cb6ff; --on-accent: #0d1117; --mark: #6b5300; --hot: #ffb066; --error: #ff8a80;
  }
}
:host { display: block; font: 15px/1.5 var(--sans); color: var(--ink); }
:host([hidden]) { display: none; }
* { box-sizing: border-box; }
button, select, input { font: inherit; color: inherit; }
button, select, input[type="text"], input[type="number"] {
  background: var(--page); border: 1px solid var(--edge); border-radius: 6px; padding: 3px 10px;
}
button { cursor: pointer; }
button:hover:not(:disabled) { border-color: var(--accent); }
button[aria-pressed="true"] {
  background: var(--accent); border-color: var(--accent); color: var(--on-accent);
}
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.bar { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: center; margin: 0 0 10px; }
.bar label { display: inline-flex; gap: 6px; align-items: center; color: var(--faint); }
.group { display: inline-flex; }
.group button { border-radius: 0; margin-left: -1px; }
.group button:first-child { border-radius: 6px 0 0 6px; margin-left: 0; }
.group button:last-child { border-radius: 0 6px 6px 0; }
.group [aria-pressed="true"] + [aria-pressed="true"] { border-left-color: var(--on-accent); }
.field { display: inline-flex; gap: 6px; align-items: center; color: var(--faint); }
.field button { color: var(--ink); }
.field button[aria-pressed="true"] { color: var(--on-accent); }
.faint { color: var(--faint); }
abbr[title] { text-decoration: underline dotted; text-underline-offset: 3px; cursor: help; }
sub { line-height: 0; font-size: 0.72em; }
.list { list-style: none; margin: 0; padding: 0; }
.list button { display: grid; gap: 8px; width: 100%; align-items: center; text-align: left; border-color: transparent;
  padding: 1px 4px; }
.list .name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.list .number { text-align: right; font-variant-numeric: tabular-nums; }
.error { color: var(--error); }
.readout { min-height: 1.5em; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
@media (prefers-reduced-motion: reduce) { * { transition: none !important; animation: none !important; } }
`;

const SYSTEM = "(prefers-color-scheme: dark)";
const system = matchMedia(SYSTEM);
/** As the system has it now; to ask for each cell that is coloured would take long. */
let systemDark = system.matches;
system.addEventListener("change", () => (systemDark = system.matches));
/** Every rule that is for the dark, of all sheets. @type {CSSMediaRule[]} */
const darkRules = [];
/** What the reader has chosen; "": as the system has it. @type {"" | "light" | "dark"} */
let chosen = "";
const heard = new EventTarget();
/** @type {Map<string, CSSStyleSheet>} */
const sheets = new Map();

/** @param {string} css @returns {CSSStyleSheet} */
export function sheet(css) {
  const known = sheets.get(css);
  if (known !== undefined) return known;
  const made = new CSSStyleSheet();
  made.replaceSync(css);
  sheets.set(css, made);
  for (const rule of made.cssRules) {
    if (!(rule instanceof CSSMediaRule) || rule.conditionText !== SYSTEM) continue;
    darkRules.push(rule);
    rule.media.mediaText = condition();
  }
  return made;
}

function condition() {
  return chosen === "" ? SYSTEM : chosen === "dark" ? "all" : "not all";
}

/** Light or dark for the whole page; anything else: as the system has it. @param {unknown} said by the state */
export function setTheme(said) {
  const theme = said === "light" || said === "dark" ? said : "";
  if (theme === chosen) return;
  chosen = theme;
  for (const rule of darkRules) rule.media.mediaText = condition();
  if (theme === "") document.documentElement.style.removeProperty("--scheme");
  else document.documentElement.style.setProperty("--scheme", theme);
  heard.dispatchEvent(new Event("change"));
}

/** Is the page dark now? @returns {boolean} */
export function isDark() {
  return chosen === "" ? systemDark : chosen === "dark";
}

/** Hear when light becomes dark, or dark light. @param {() => void} changed @param {AbortSignal} until */
export function onTheme(changed, until) {
  system.addEventListener("change", changed, { signal: until });
  heard.addEventListener("change", changed, { signal: until });
}
