"""The modules of `view/web/` as one script, so that a page can carry them."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

# How the modules are written, which `tests/view/test_bundle.py` holds them to: imports by name from
# a neighbour, exports at a declaration.
_IMPORT = re.compile(r'^import (?:\{([^}]*)\} from )?"\./([\w-]+)\.js";\n', re.MULTILINE)
_TABLE = re.compile(r"\{\n.*^\};", re.MULTILINE | re.DOTALL)  # the texts of a language
_EXPORT = re.compile(r"^export (async function|function|class|const) (\w+)", re.MULTILINE)


def source_of(name: str) -> str:
    """The text of a module.

    >>> source_of("dom").startswith("// ")
    True
    """
    return files("regard.view").joinpath("web", f"{name}.js").read_text(encoding="utf-8")


def word(key: str, language: str = "en") -> str:
    """A text of the interface that stands in a page before any script runs.

    >>> word("page.no_script")
    'This page draws itself, and needs JavaScript for that.'
    """
    source = source_of("words" if language == "en" else f"words_{language}")
    found = re.search(rf'^  "{re.escape(key)}": "(.*)",$', source, re.MULTILINE)
    assert found is not None, key
    return found[1]


@cache
def bundle(entry: str, language: str = "en") -> str:
    """`entry` and all that it imports, as one script without imports. Of the texts in other
    languages than English it has those of `language` only.

    Each module becomes a function that is called once, so that its private names stay its own; an
    import becomes a constant.

    >>> "import" in bundle("dom"), "const $dom = (() => {" in bundle("dom")
    (False, True)
    """
    modules: dict[str, str] = {}
    _add(entry, modules, (), language)
    return "\n".join(modules.values())


def _add(name: str, modules: dict[str, str], above: tuple[str, ...], language: str) -> None:
    """Put a module behind those that it imports."""
    if name in above:
        raise ValueError(f"bundle(): modules must not import in circles; got {above} → {name}.")
    text = source_of(name)
    if name.startswith("words_") and name != f"words_{language}":
        text = _TABLE.sub("{};", text)
    for found in _IMPORT.finditer(text):
        if found[2] not in modules:
            _add(found[2], modules, (*above, name), language)
    exported = ", ".join(found[2] for found in _EXPORT.finditer(text))
    text = _EXPORT.sub(r"\1 \2", _IMPORT.sub(_constants, text))
    modules[name] = f"const ${name} = (() => {{\n{text}return {{ {exported} }};\n}})();"


def _constants(found: re.Match[str]) -> str:
    names, module = found.groups()
    return f"const {{ {' '.join(names.split()).rstrip(',')} }} = ${module};\n" if names else ""
