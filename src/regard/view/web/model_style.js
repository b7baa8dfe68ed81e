// How <regard-model> looks.

/** Pixels of the head that is pointed at. */
const LARGE = 152;
/** Pixels of what stands beside the heads. */
export const SIDE = 350;

export const CSS = `
.about { margin: 0 0 8px; }
.both { display: flex; gap: 20px; align-items: flex-start; }
.heads { flex: 1 1 0; min-width: 0; display: flex; flex-wrap: wrap; gap: 4px; }
.heads.place { flex: 0 1 auto; display: grid; gap: 3px; align-items: center; justify-content: start;
  overflow-x: auto; padding: 3px; }
.tag { font-size: 12px; color: var(--faint); text-align: center; font-variant-numeric: tabular-nums; }
.head { display: block; padding: 0; border: 0; border-radius: 3px; background: none;
  line-height: 1.25; font-size: 11.5px; font-variant-numeric: tabular-nums; text-align: center; }
.head canvas { display: block; image-rendering: pixelated; background: var(--raised);
  border: 2px solid var(--kind); border-radius: 3px; }
.number { display: none; color: var(--faint); }
.number b { display: block; font-weight: 600; color: var(--ink); }
.heads:not(.place) .number { display: block; padding-bottom: 2px; }
.head.other { opacity: 0.13; }
.head.chosen canvas { outline: 3px solid var(--ink); outline-offset: 1px; }
.head:focus-visible, .head:hover { outline: 3px solid var(--accent); outline-offset: 1px; opacity: 1; }
.side { flex: 0 0 ${SIDE}px; position: sticky; top: 8px;
  display: flex; flex-direction: column; gap: 10px; font-size: 14px; }
.card { display: grid; grid-template-columns: ${LARGE}px 1fr; gap: 6px 12px; padding: 10px;
  background: var(--raised); border: 1px solid var(--edge); border-radius: 6px; }
.card canvas { width: ${LARGE}px; height: ${LARGE}px; max-width: 100%; image-rendering: pixelated;
  border: 2px solid var(--kind, var(--edge)); border-radius: 3px; background: var(--page); }
.card p { margin: 0; }
.words { grid-column: 1 / 3; min-height: 3em; }
dl { display: grid; grid-template-columns: auto auto; align-content: start; gap: 0 8px; margin: 0;
  font-variant-numeric: tabular-nums; font-size: 13px; }
dt { color: var(--faint); }
dd { margin: 0; text-align: right; }
.kinds { display: grid; gap: 2px; }
.kinds button { display: grid; grid-template-columns: 16px 1fr auto; gap: 0 8px; align-items: baseline;
  text-align: left; padding: 3px 8px; border-color: transparent; line-height: 1.3; }
.kinds i { width: 14px; height: 14px; border: 3px solid var(--kind); border-radius: 3px; align-self: center;
  background: var(--page); }
.kinds small { grid-column: 2 / 4; color: var(--faint); font-size: 12.5px; }
.kinds button[aria-pressed="true"] small { color: inherit; }
.kinds button:disabled { opacity: 0.45; cursor: default; }
.narrow.both { flex-direction: column; }
.narrow .side { position: static; flex: none; width: 100%; }
.narrow .heads { flex: none; width: 100%; }
`;
