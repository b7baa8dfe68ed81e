// How <regard-heads> looks.

import { TOLD } from "./heads_told.js";
import { WORDS } from "./heads_words.js";

export const HEADS_CSS = `${WORDS}${TOLD}
.chips { display: inline-flex; flex-wrap: wrap; gap: 4px; align-items: center; }
.chips button { padding: 1px 8px; display: inline-flex; gap: 5px; align-items: center; }
.chips button[aria-pressed="true"] { background: var(--raised); color: var(--ink); border-color: var(--faint); }
.chips button[aria-pressed="false"] { color: var(--faint); }
.chips button[aria-pressed="false"] .dot { opacity: 0.25; }
.dot { display: inline-block; width: 10px; height: 10px; border-radius: 50%; flex: none; }
.slider input { width: 150px; vertical-align: middle; }
output { min-width: 3em; display: inline-block; }
.both { display: flex; flex-wrap: wrap; gap: 10px 24px; align-items: flex-start; }
.picture { flex: 1 1 480px; min-width: 0; max-width: 780px; --side: clamp(104px, 27%, 200px); }
.titles { display: flex; justify-content: space-between; font-size: 13px; padding: 0 1px; }
.titles span { width: var(--side); padding: 0 8px; white-space: nowrap; }
.titles span:first-child { text-align: right; }
.stage { position: relative; overflow: hidden auto; border: 1px solid var(--edge); border-radius: 8px; }
.window { position: sticky; top: 0; overflow: hidden; }
canvas { position: absolute; left: var(--side); top: 0; width: calc(100% - 2 * var(--side)); height: 100%;
  pointer-events: none; }
.nothing { position: absolute; inset: 0 var(--side); display: grid; place-items: center; text-align: center;
  pointer-events: none; padding: 8px; }
`;
