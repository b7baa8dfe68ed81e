"""All words of the interface stand in one table, `view/web/words.js`: no module has its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.figures_said import says_the_same_figures

import regard.studio
import regard.view
import regard.view.html.page as page_module
from regard.lab import LANGUAGES as LAB_LANGUAGES

_ROOMS = [Path(str(room.__file__)).parent / "web" for room in (regard.view, regard.studio)]
MODULES = {
    path.name: path.read_text(encoding="utf-8")
    for room in _ROOMS
    for path in sorted(room.glob("*.js"))
}
_ENTRY = re.compile(r'^  "([\w. ]+)": "((?:[^"\\]|\\.)*)",$', re.M)
TABLE = dict(_ENTRY.findall(MODULES.pop("words.js")))
LANGUAGES = {
    name: dict(_ENTRY.findall(MODULES.pop(f"words_{name}.js"))) for name in LAB_LANGUAGES[1:]
}

# A remark, a text in quotes, or a regular expression, whichever begins first.
_PIECE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`"""
    r"""|(?<=[(,=:\[!&|?])\s*/(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*""",
    re.DOTALL,
)
_STYLE = re.compile(r"[{}]|--\w|\dpx|^\(prefers|gradient\(|^\./")
_KEYS = {"Enter", "Escape", "Home", "End", "Delete", "Backspace", "Files"}  # as browsers call them
# Names that Python gives, values that are not shown, and SQL.
_NAMES = {"first token", "previous token", "row and cell", "head output", "take back", "Given"} | {
    *("Copied", "Joined", "Mixed", "Scaled", "Scored", "Summed", "Turned"),
    *("input, select", "not all"),
}
# Keys that Python asks for, when it makes a page.
_MADE_WITH = re.findall(r'\{word\("([\w.]+)"', Path(str(page_module.__file__)).read_text("utf-8"))
_EXCEPTIONS = re.compile(r"^select .* from heads")


def said(source: str) -> set[str]:
    """What a module says to a reader: several words, or one with a capital; what is filled into
    a template counts as a 0, to its end where another template is in it.
    """
    source = re.sub(r'\bclass(?:Name)?(?::| =) [^\n"`,]*"[^"\n]*"(?: : "[^"\n]*")?', "", source)
    quoted = (each[0].strip() for each in _PIECE.finditer(source))
    texts = {each[1:-1] for each in quoted if each[0] in "\"'`"}
    filled = {re.sub(r"\$\{[^{}]*(\{[^{}]*\}[^{}]*)*\}|\$\{.*", "0", text) for text in texts}
    several = re.compile(r"[A-Za-z’]{2,}[.,:;?!…]* (?:\S+ )*[A-Za-z’]{2,}|^[A-Z][a-z]{2,}[?.…]*$")
    return {text for text in filled if several.search(text) and not _STYLE.search(text)}


def test_a_sentence_is_found() -> None:
    source = 'el("p", { class: "faint note" }, `Layer ${n} was read.`, "Save"); // It says "a b c".'
    assert said(source) == {"Layer 0 was read.", "Save"}
    assert said('say(`Head ${n} of all${more ? `, ${more}` : ""}`)') == {"Head 0 of all0"}


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_module_says_nothing_of_its_own(name: str) -> None:
    own = {text.replace("\\n", " ") for text in said(MODULES[name])} - _KEYS - _NAMES
    assert {text for text in own if not _EXCEPTIONS.search(text)} == set()
    children = re.findall(r'\}, "([^"]*[A-Za-z]{2}[^"]*)"[,)]', MODULES[name])
    assert set(children) - TABLE.keys() <= {"SVG", "PNG", "PDF", "DELETE"}


def test_every_key_is_used_and_every_key_that_is_used_is_there() -> None:
    rooms = {key.partition(".")[0] for key in TABLE}
    used = {
        key
        for source in MODULES.values()
        for key in re.findall(r'"([a-z]+\.[\w. ]+)"', source)
        if key.partition(".")[0] in rooms
    }
    # `word(`card.${name}`)`, and the key of one of several things, `_one` behind theirs.
    sources = "".join(MODULES.values())
    parts = re.compile("|".join(re.findall(r"`([\w.]+\.)\$\{", sources)))
    # Rooms of texts that Python says, which `test_told.py` holds to it; what pages are made with.
    told = {f"{room}." for room in re.findall(r"\btexts\(\"(\w+)\"\)", sources)}
    used |= {key for key in TABLE if key.startswith(tuple(told))} | set(_MADE_WITH)
    assert used - TABLE.keys() == set()
    unused = {key for key in TABLE.keys() - used if not parts.match(key)}
    assert {key for key in unused if key.removesuffix("_one") not in used} == set()


def test_nothing_is_filled_in_that_is_not_named() -> None:
    for key, text in TABLE.items():
        assert re.sub(r"\{[a-z_]+\}", "", text).count("{") == 0, key


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_every_text_with_the_same_names_in_it(language: str) -> None:
    table = LANGUAGES[language]
    assert list(table) == list(TABLE)
    for key, text in TABLE.items():
        names = sorted(re.findall(r"\{(\w+)\}", text))
        assert sorted(re.findall(r"\{(\w+)\}", table[key])) == names, key
        assert says_the_same_figures(text, table[key]), key


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_python_writes_in_formulas_is_never_translated(language: str) -> None:
    for key in ("flow.formula.plain", "flow.formula.divided", "flow.formula.later"):
        assert LANGUAGES[language][key] == TABLE[key]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_page_without_scripts_says_so_in_its_language(language: str) -> None:
    made = page_module.page("lesson", "a", "", {}, language=language)
    assert f"<noscript>{LANGUAGES[language]['page.no_script']}</noscript>" in made
