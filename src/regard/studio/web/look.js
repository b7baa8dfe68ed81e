// How the studio's own pages look; the elements bring their own.

export const STUDIO = `
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 var(--sans); }
:lang(ko) { word-break: keep-all; } /* lines of Korean end between words */
header.top { display: flex; gap: 22px; align-items: center; padding: 8px 18px; border-bottom: 1px solid var(--edge); background: var(--raised); }
header.top .name { font-weight: 700; letter-spacing: 0.02em; }
nav { display: flex; flex-wrap: wrap; gap: 4px; }
header.top select { margin-left: auto; }
nav a { padding: 4px 12px; border-radius: 6px; color: var(--ink); text-decoration: none; }
nav a[aria-current] { background: var(--accent); color: var(--on-accent); }
main { max-width: 1180px; margin: 0 auto; padding: 14px 18px 28px; }
@media (min-width: 1700px) { main { max-width: 1560px; } }
main.wide { max-width: 1880px; }
main:focus { outline: none; }
input[type="text"], select { max-width: 100%; }
.bar label { min-width: 0; max-width: 100%; }
label > select { min-width: 0; }
@media (max-width: 600px) {
  header.top { gap: 4px 8px; padding: 6px 10px; } nav { gap: 0; } nav a { padding: 4px 6px; }
  table.runs :is(th, td):is(:nth-child(4), :nth-child(5), :nth-child(7)) { display: none; }
  table.trainings :is(th, td):is(:nth-child(2), :nth-child(5)) { display: none; }
  table.runs :is(th, td):nth-child(3) { overflow-wrap: normal; }
  table.runs :is(th, td):nth-child(6) { white-space: normal; overflow-wrap: normal; }
  main { padding: 8px 10px 20px; } .bar { gap: 6px 10px; margin: 0 0 6px; }
}
h1 { font-size: 20px; line-height: 1.3; margin: 0 0 2px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 18px 0 6px; }
h1.lesson { font-size: 26px; max-width: 32.7em; margin: 10px auto 0; }
p { margin: 2px 0 10px; }
a { color: var(--accent); }
textarea { width: 100%; font: 14px/1.5 var(--sans); color: inherit; background: var(--page); border: 1px solid var(--edge); border-radius: 6px; padding: 8px 10px; resize: vertical; }
textarea.mono { font-family: var(--mono); font-size: 13px; }
table { border-collapse: collapse; width: 100%; }
table.fit { width: auto; }
table.fit button { white-space: nowrap; }
table.runs button { white-space: nowrap; }
table.fit th, table.fit td { padding-right: 28px; }
th, td { text-align: left; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--edge); vertical-align: top; overflow-wrap: anywhere; }
th { color: var(--faint); font-weight: 500; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
@media (min-width: 601px) { table.runs .number + :not(.number) { padding-left: 18px; } }
.scroll { max-height: 50vh; overflow: auto; }
progress { width: 100%; height: 10px; accent-color: var(--accent); }
button.main { background: var(--accent); border-color: var(--accent); color: var(--on-accent); font-weight: 600; }
button:disabled { opacity: 0.5; cursor: default; }
.pair h2 { min-height: 2.8em; margin: 6px 0; }
.pair { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 24px; }
@media (max-width: 800px) { .pair { grid-template-columns: minmax(0, 1fr); } .pair h2 { min-height: 0; } }
main:has(regard-lens, regard-shift) .of-head { display: none; } /* where no head is shown */
mark { background: var(--mark); color: inherit; border-radius: 3px; padding: 0 2px; }
mark.first { outline: 2px solid var(--error); }
.pager { display: flex; gap: 10px; align-items: center; }
`;
