// How the flow looks around its canvas, in a page and before a lecture hall.

export const FLOW_CSS = `
/* Neither is a colour of the scale: what lights up stands out from it. */
:host { --left: #00705c; --right: #a3168f; position: relative; }
@media (prefers-color-scheme: dark) { :host { --left: #52e0c0; --right: #ff9bea; } }
[hidden] { display: none !important; }
.bar { margin: 0 0 8px; gap: 6px 14px; }
.bar button, .bar select { padding: 3px 9px; }
.bar .play { min-width: 5.6em; font-weight: 600; background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
.stops { display: flex; flex-wrap: wrap; gap: 4px; margin: 0 0 8px; padding: 0; list-style: none; }
.stops button { padding: 2px 8px; } .stops b { margin-right: 4px; }
.stops button:not([aria-current]) span { color: var(--faint); }
.stops button[aria-current] { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
.tokens { display: inline-flex; flex-wrap: wrap; gap: 3px; }
.tokens button { border-bottom-width: 3px; }
.pictures { display: flex; gap: 8px; }
figure { margin: 0; flex: 1; min-width: 0; position: relative; }
figcaption { position: absolute; left: 10px; top: 4px; font-weight: 600; color: var(--faint); }
canvas { display: block; width: 100%; border: 1px solid var(--edge); border-radius: 8px; touch-action: none; cursor: grab; }
canvas.drags { cursor: grabbing; } canvas.cell { cursor: pointer; } canvas.score { cursor: ns-resize; }
canvas.tall { touch-action: pan-y; }
figure input { position: absolute; z-index: 2; padding: 0 2px; text-align: center; font-family: var(--mono); border: 2px solid var(--accent); }
.held { position: absolute; z-index: 3; transform: translate(-50%, -100%); padding: 2px 8px; border-radius: 6px; pointer-events: none;
  background: var(--ink); color: var(--page); font: 600 14px/1.5 var(--mono); white-space: nowrap; }
.swap { position: absolute; z-index: 3; display: flex; flex-wrap: wrap; gap: 4px; align-items: center; max-width: min(360px, 96%); padding: 6px 8px;
  border: 2px solid var(--accent); border-radius: 8px; background: var(--page); box-shadow: 0 3px 14px #0005; }
.swap span { flex-basis: 100%; font-size: 13px; }
.swap input { position: static; width: 160px; padding: 3px 6px; text-align: start; font-family: inherit; border: 1px solid var(--edge); }
.next { margin: 4px 0 0; } .next:empty { display: none; }
.next::first-letter { text-transform: uppercase; }
.next .one { display: inline-block; margin-right: 14px; }
.told { margin: 6px 0 0; font-weight: 600; } .told:empty { display: none; }
.did { margin: 6px 0 0; } .did:empty { display: none; }
.did [name^="taken"] { padding: 1px 8px; border-radius: 12px; }
[aria-busy] canvas { opacity: 0.55; cursor: progress; }
.say { margin: 6px 0 0; font-size: 18px; line-height: 1.4; min-height: 1.4em; }
.answer { min-height: 3.4em; }
.answer p { margin: 0; }
.where { color: var(--faint); font-size: 14px; }
.line { font: 16px/1.5 var(--mono); overflow-wrap: anywhere; unicode-bidi: isolate; }
.line .result { font-weight: 700; } .line .left { color: var(--left); } .line .right { color: var(--right); }
.answer .bar { display: inline-flex; margin: 2px 0 0; }
.hint { margin: 6px 0 0; font-size: 13px; }
.lacks { font-size: 13px; margin: 2px 0; }
@media (max-width: 700px) { .line { font-size: 14px; } .say { font-size: 16px; } }
:host([present]) { position: fixed; inset: 0; z-index: 20; background: var(--page); display: flex; flex-direction: column;
  padding: 10px 18px 14px; overflow: hidden; }
:host([present]) .pictures { flex: 1; min-height: 0; }
:host([present]) canvas { border: 0; }
:host([present]) .stops, :host([present]) .hint, :host([present]) .lacks { display: none; }
:host([present]) .did { display: flex; justify-content: center; min-height: 34px; margin: 0; }
:host([present]) .bar.top { margin: 0; }
:host([present]) .say { font-size: clamp(20px, 1.9vw, 44px); margin: 4px 0; text-align: center; min-height: 1.4em; }
:host([present]) .next { text-align: center; font-size: clamp(15px, 1.3vw, 28px); margin: 0; }
:host([present]) .answer { text-align: center; min-height: 2.6em; }
:host([present]) .line { font-size: clamp(18px, 1.6vw, 36px); } :host([present]) .where { font-size: clamp(15px, 1.2vw, 26px); }
@media print { .bar, .hint { display: none; } }
`;
