// A file that the reader opens or drops: its text as it is, or in words why it has none.

import { tell } from "./asking.js";
import { word } from "./words.js";

/** @typedef {{ name: string, text: string }} Document */

const MOST_BYTES = 4_000_000; // as many as the studio takes in one request
const MOST_OF_SLIDES = 2_900_000; // which grow by a third on their way
const SLIDES = /\.(pdf|pptx)$/i;
export const ENDINGS = ".md,.markdown,.txt,.text,.rst,.tex,.html,.htm,.ipynb,.toml,.json,.csv,.tsv,.pdf,.pptx,text/*";

/** @param {File} file @returns {Promise<Document>} */
export async function read(file) {
  const name = file.name.slice(-196);
  const most = SLIDES.test(name) ? MOST_OF_SLIDES : MOST_BYTES;
  if (file.size > most) {
    throw new Error(word("check.too_large", { name, size: (file.size / 1e6).toFixed(1), most: most / 1e6 }));
  }
  let bytes;
  try {
    bytes = new Uint8Array(await file.arrayBuffer());
  } catch {
    throw new Error(word("check.no_file", { name }));
  }
  if (SLIDES.test(name)) {
    let letters = "";
    for (const byte of bytes) letters += String.fromCharCode(byte);
    const { text } = await tell("/api/slides", { name, content: btoa(letters) });
    return { name: `${name}.txt`, text };
  }
  const wide = bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : bytes[0] === 0xfe && bytes[1] === 0xff ? "utf-16be" : null;
  if (wide !== null) return { name, text: new TextDecoder(wide).decode(bytes) };
  if (bytes.includes(0)) throw new Error(word("check.no_text", { name }));
  try {
    // With its byte-order mark, if it has one, so that the text that is saved later has it too.
    return { name, text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    throw new Error(word("check.not_utf8", { name }));
  }
}

/** Take files that are dropped anywhere on the page. @param {HTMLElement} main @param {AbortSignal} until
 * @param {(file: File) => void} take */
export function takeDropped(main, until, take) {
  const over = (/** @type {boolean} */ is) => main.classList.toggle("dropping", is);
  until.addEventListener("abort", () => over(false));
  addEventListener("dragover", (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    over(true);
  }, { signal: until });
  addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) over(false);
  }, { signal: until });
  addEventListener("drop", (event) => {
    over(false);
    const file = event.dataTransfer?.files[0];
    if (file === undefined) return;
    event.preventDefault();
    take(file);
  }, { signal: until });
}
