// Which language the interface speaks: the page's own, or what the reader chose, or the browser's.

export const LANGUAGES = /** @type {const} */ (["en", "ko", "bn"]);

const CHOSEN = "regard-language"; // where the choice is kept

/** @param {string | null} tag such as “ko-KR” @returns {typeof LANGUAGES[number] | undefined} */
function known(tag) {
  return LANGUAGES.find((each) => each === tag?.toLowerCase().split("-")[0]);
}

/** @returns {typeof LANGUAGES[number]} */
function find() {
  const { lang } = document.documentElement;
  if (lang !== "") return known(lang) ?? "en"; // a page of one file says its own
  const asked = [localStorage.getItem(CHOSEN), ...navigator.languages].map(known);
  return asked.find((each) => each !== undefined) ?? "en";
}

/** The language of this page, from its beginning to its end. */
export const LANGUAGE = find();
document.documentElement.lang = LANGUAGE;

/** A moment as readers of this page write it, in the digits of all its other numbers; by 24 hours, as PM is English. @param {number} seconds since 1970 */
export function moment(seconds) {
  const own = navigator.languages.filter((each) => each.split("-")[0] === LANGUAGE);
  return new Date(seconds * 1000).toLocaleString([...own, LANGUAGE], { numberingSystem: "latn", hourCycle: "h23" });
}

/** Speak another language from now on. @param {string} language */
export function speak(language) {
  localStorage.setItem(CHOSEN, language);
  location.reload();
}
