// How the check page looks: the text with its lines numbered, the findings, the difference.

export const CHECK = `
.dropping textarea, .dropping .numbered { outline: 3px dashed var(--accent); outline-offset: 2px; }
.verdict { margin: 10px 0 2px; }
.verdict:focus, .change h2:focus { outline: none; }
.verdict.wrong { color: var(--error); }
.beside { display: grid; grid-template-columns: minmax(0, 3fr) minmax(0, 2fr); gap: 20px; align-items: start; }
.beside > * { max-height: calc(100vh - 40px); overflow: auto; }
.numbered { position: relative; border: 1px solid var(--edge); border-radius: 6px; padding: 6px 0; font: 13px/1.7 var(--mono); }
.numbered .block { content-visibility: auto; contain-intrinsic-size: auto 2200px; }
.numbered .line { display: grid; grid-template-columns: 4.5em minmax(0, 1fr) auto; border-left: 3px solid transparent; padding-right: 8px; }
.numbered .line::before { content: attr(data-line); color: var(--faint); text-align: right; padding-right: 1em; user-select: none; }
.numbered .said { white-space: pre-wrap; overflow-wrap: anywhere; tab-size: 4; min-height: 1.7em; unicode-bidi: plaintext; }
.numbered .passed { border-left-color: var(--edge); border-left-style: dotted; }
.numbered .here { background: var(--raised); border-left: 3px solid var(--accent); }
.numbered .menus { display: flex; flex-direction: column; align-items: end; }
.numbered select { font: 12px/1.3 var(--sans); padding: 0 4px; margin: 2px 0 0 8px; max-width: 8.5em; }
.numbered select.open { border-color: var(--hot); color: var(--hot); }
mark[role="button"] { cursor: pointer; border-bottom: 2px dotted var(--hot); border-radius: 3px 3px 0 0; }
mark.first[role="button"] { border: 0; border-radius: 3px; font-weight: 700; }
mark[aria-current="true"] { background: var(--accent); color: var(--on-accent); }
.findings h3 { font-size: 14px; margin: 0 0 4px; }
.findings section { margin: 0 0 16px; }
.findings h3 ~ h3 { margin-top: 10px; }
.findings li > button { grid-template-columns: 4.6em minmax(0, 1fr); gap: 0 8px; padding: 3px 6px; align-items: baseline; }
.findings button .where { color: var(--faint); font-variant-numeric: tabular-nums; }
.findings button bdi { overflow-wrap: anywhere; }
.findings button .cause { grid-column: 2; color: var(--faint); overflow-wrap: anywhere; }
.findings button[aria-current="true"] { background: var(--raised); border-color: var(--accent); }
.findings .printed, table.changes del { color: var(--error); text-decoration: line-through; }
.findings .right, table.changes ins { font-weight: 700; text-decoration: none; }
.findings ul.plain { margin: 0; padding-left: 1.2em; }
.change { border: 1px solid var(--edge); border-radius: 6px; padding: 10px 14px; margin: 0 0 14px; background: var(--raised); }
.change h2 { margin-top: 0; }
.change .scroll { margin: 0 0 10px; }
table.changes { font: 13px/1.6 var(--mono); }
table.changes th { font-family: var(--sans); white-space: nowrap; }
table.changes td { white-space: pre-wrap; unicode-bidi: plaintext; border-bottom: 0; }
table.changes td.number { color: var(--faint); vertical-align: top; width: 4em; }
table.changes td button { font: inherit; line-height: 1.3; padding: 0 6px; }
table.changes td { padding: 1px 10px 1px 0; }
table.changes td.sign { width: 1.5em; }
table.changes tr.new td { border-bottom: 1px solid var(--edge); }
table.changes tr.new td:last-child ins, table.changes tr.old td:last-child del { background: var(--mark); border-radius: 3px; padding: 0 2px; color: inherit; }
@media (max-width: 860px) {
  .beside { grid-template-columns: minmax(0, 1fr); }
  .beside > .numbered { max-height: 60vh; }
  .beside > .findings { max-height: none; }
  .numbered .line { grid-template-columns: 3.5em minmax(0, 1fr) auto; }
}
`;
