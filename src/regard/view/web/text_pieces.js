// A text as pieces that can be pointed at, one a token, with what stands between them.

import { visible } from "./dom.js";

/**
 * A token in the text. A `word` stands in it; a `blank` is white space, shown by signs; a `special`
 * one does not stand in it, such as [CLS]; an `unknown` word stands in it, and was read as a sign
 * such as [UNK]; a `part` has no letters of its own, as more than one
 * token make a letter: it follows the word that it is of.
 * @typedef {{ token: number, text: string, kind: "word" | "unknown" | "blank" | "special" | "part" }} Piece
 * @typedef {(Piece | string)[]} Block some lines of the text
 * @import { Sequence, Token } from "./source.js"
 */

// A block ends where a line does, or, in a line of more pieces than this, behind a space.
const LONG = 240;

// What would change the letters around it, or cannot be seen.
const UNSEEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
// Spaces at the edges of a token, which are not shaded with it.
const EDGES = /^[^\S\r\n\t]+|[^\S\r\n\t]+$/g;
const MARK = /^[\p{M}\u200c\u200d\u{1f3fb}-\u{1f3ff}]/u;
// The joiner, and the signs by which a letter of India's scripts is joined with the next.
const JOINS = /[\u200d\u094d\u09cd\u0a4d\u0acd\u0b4d\u0c4d\u0ccd\u0d4d\u0dca]$/u;

/** What is read for a word that a model does not know. */
const SIGN = /^(\[[^\s\]]+\]|<[^\s>]+>)$/;

/**
 * The pieces of these positions of a sequence, as the text has them where it is known which letters
 * are whose; else one token behind the other.
 * @param {Sequence} sequence
 * @param {number[]} positions
 * @returns {Block[]}
 */
export function pieces(sequence, positions) {
  const tokens = sequence.tokens ?? [];
  const letters = lettersOf(sequence, positions);
  return letters === null ? apart(tokens, positions) : inText(letters, tokens, positions);
}

/** Tokens that stand in no text, such as what a model has written: one behind the other. @param {Token[]} tokens
 * @returns {Block[]} */
export function spoken(tokens) {
  return apart(tokens.map(({ text }) => ({ text, start: 0, end: 1 })), Array.from(tokens.keys()));
}

/** Numbers instead of tokens. @param {number} count @returns {Block[]} */
export function numbers(count) {
  const tokens = Array.from({ length: count }, (_, n) => ({ text: String(n), start: 0, end: 1 }));
  return apart(tokens, Array.from(tokens.keys()));
}

/** What each token is called: its letters, without the space before them; with its number, where more than
 * one make a letter; behind the word, if the model did not know it.
 * @param {Token[]} tokens @param {string | null} [text] @returns {string[]} */
export function names(tokens, text = null) {
  const letters = text === null ? [] : Array.from(text);
  const shared = (/** @type {number} */ n) => {
    const [one, next] = [tokens[n], tokens[n + 1]];
    return next !== undefined && one.end > one.start && next.end > next.start && next.end === one.end;
  };
  /** @type {string[]} */
  const made = [];
  for (let n = 0; n < tokens.length; ) {
    let last = n;
    while (shared(last)) last++;
    for (let k = n; k <= last; k++) {
      const own = visible(tokens[k].text.trim() === "" ? tokens[k].text : tokens[k].text.trim());
      const piece = letters.slice(tokens[k].start, tokens[k].end).join("");
      const name = SIGN.test(own) && piece !== "" && piece !== own ? `${visible(piece)} ${own}` : own;
      made.push(last === n ? name : `${name} (${k - n + 1}/${last - n + 1})`);
    }
    n = last + 1;
  }
  return made;
}

/** The text that the spans are of: the sequence's, or the tokens one behind the other, if these
 * bring their own spaces; null if it is neither.
 * @param {Sequence} sequence @param {number[]} positions @returns {string[] | null} */
function lettersOf({ text, tokens }, positions) {
  if (tokens === null) return null;
  const spaced = positions.filter((n) => /^\s|\s$/.test(tokens[n].text)).length;
  const joined = spaced * 8 > positions.length ? positions.map((n) => tokens[n].text).join("") : null;
  for (const candidate of [text, joined]) {
    if (candidate === null) continue;
    const letters = Array.from(candidate);
    let before = 0;
    const fits = positions.every((n) => {
      const { start, end, text: own } = tokens[n];
      if (end <= start) return true;
      const ordered = start >= before;
      before = start;
      return ordered && (letters.slice(start, end).join("") === own || SIGN.test(own));
    });
    if (fits) return letters;
  }
  return null;
}

/** @param {string[]} letters @param {Token[]} tokens @param {number[]} positions @returns {Block[]} */
function inText(letters, tokens, positions) {
  const made = new Blocks();
  let reached = 0;
  for (const token of positions) {
    const { start, end, text } = tokens[token];
    if (end <= start) {
      made.put({ token, text: visible(text), kind: "special" });
      continue;
    }
    if (start > reached) made.between(letters.slice(reached, start).join(""), letters[reached - 1]);
    const from = Math.max(start, reached);
    const unknown = SIGN.test(text) && letters.slice(start, end).join("") !== text;
    made.token(token, letters.slice(from, end).join(""), letters[from - 1], unknown ? "unknown" : "word");
    reached = Math.max(reached, end);
  }
  made.between(letters.slice(reached).join(""), letters[reached - 1]);
  return made.done();
}

/** @param {Token[]} tokens @param {number[]} positions @returns {Block[]} */
function apart(tokens, positions) {
  const made = new Blocks();
  for (const token of positions) {
    const { start, end, text } = tokens[token];
    const special = end <= start;
    made.put({ token, text: visible(text), kind: special ? "special" : "word" });
    made.between(/\n$/.test(text) ? "\n" : " ", undefined);
  }
  return made.done();
}

/** Is a text that begins so drawn as one with the letter before it? @param {string} text
 * @param {string | undefined} before */
function isInside(text, before) {
  if (before === undefined || /\s/.test(before)) return false;
  return MARK.test(text) || (JOINS.test(before) && /^\S/.test(text));
}

/** @param {Piece} piece */
function isWord({ kind }) {
  return kind === "word" || kind === "unknown";
}

/** White space by signs; a line still ends where it did. @param {string} text */
function signs(text) {
  return text.replace(/\r\n?|\n/g, "⏎\n").replace(/\t/g, "⇥\t").replace(/[^\S\n\t]/g, "·");
}

/** Blocks in the making. */
class Blocks {
  /** @type {Block[]} */
  #all = [[]];
  /** Tokens without letters of their own, which wait for the end of the word. @type {Piece[]} */
  #parts = [];

  get #block() {
    return this.#all[this.#all.length - 1];
  }

  /** The word that is not yet at its end. @returns {Piece | null} */
  get #word() {
    const last = this.#block.at(-1);
    return last !== undefined && typeof last !== "string" && isWord(last) ? last : null;
  }

  /** @param {Piece} piece */
  put(piece) {
    if (!isWord(piece)) this.#endWord();
    this.#block.push(piece);
    if (piece.text.endsWith("\n")) this.#all.push([]);
  }

  /** A token with the letters that none before it has. @param {number} token @param {string} text
   * @param {string | undefined} before the letter before it @param {"word" | "unknown"} kind */
  token(token, text, before, kind) {
    const word = this.#word;
    if (text === "") {
      this.#parts.push({ token, text: "", kind: "part" });
    } else if (word !== null && isInside(text, before)) {
      word.text += text;
      this.#parts.push({ token, text: "", kind: "part" });
    } else if (/^\s+$/.test(text)) {
      this.put({ token, text: signs(text), kind: "blank" });
    } else {
      const body = text.replace(EDGES, "");
      const at = text.indexOf(body);
      this.between(text.slice(0, at), before);
      this.put({ token, text: body.replace(/\r\n?|\n/g, "⏎\n").replace(UNSEEN, "·"), kind });
      this.between(text.slice(at + body.length), undefined);
    }
  }

  /** What stands between tokens. @param {string} text @param {string | undefined} before */
  between(text, before) {
    const clean = text.replace(/\r\n?/g, "\n").replace(UNSEEN, "");
    if (clean === "") return;
    const word = this.#word;
    if (word !== null && isInside(clean, before) && !/\s/.test(clean)) {
      word.text += clean;
      return;
    }
    if (/^\s/.test(clean)) this.#endWord();
    const lines = clean.split(/(?<=\n)/);
    for (const line of lines) {
      this.#block.push(line);
      if (line.endsWith("\n") || (this.#block.length > LONG && /\s$/.test(line))) {
        this.#endWord();
        this.#all.push([]);
      }
    }
  }

  #endWord() {
    const parts = this.#parts;
    this.#parts = [];
    this.#block.push(...parts);
  }

  done() {
    this.#endWord();
    return this.#all.filter((block) => block.length > 0);
  }
}
