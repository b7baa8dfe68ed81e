"""The modules of `view/web/` as one script, so that a page can carry them."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

# How the modules are written, which `tests/view/test_bundle.py` holds them to: imports by name from
# a neighbour, exports at a declaration.
_IMPORT = re.compile(r'^import (?:\{([^}]*)\} from )?"\./([\w-]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (async function|function|class|const) (\w+)", re.MULTILINE)


def source_of(name: str) -> str:
    """The text of a module.

    >>> source_of("dom").startswith("// ")
    True
    """
    return files("regard.view").joinpath("web", f"{name}.js").read_text(encoding="utf-8")


@cache
def bundle(entry: str) -> str:
    """`entry` and all that it imports, as one script without imports.

    Each module becomes a function that is called once, so that its private names stay its own; an
    import becomes a constant.

    >>> "import" in bundle("dom"), "const $dom = (() => {" in bundle("dom")
    (False, True)
    """
    modules: dict[str, str] = {}
    _add(entry, modules, ())
    return "\n".join(modules.values())


def _add(name: str, modules: dict[str, str], above: tuple[str, ...]) -> None:
    """Put a module behind those that it imports."""
    if name in above:
        raise ValueError(f"bundle(): modules must not import in circles; got {above} → {name}.")
    text = source_of(name)
    for found in _IMPORT.finditer(text):
        if found[2] not in modules:
            _add(found[2], modules, (*above, name))
    exported = ", ".join(found[2] for found in _EXPORT.finditer(text))
    text = _EXPORT.sub(r"\1 \2", _IMPORT.sub(_constants, text))
    modules[name] = f"const ${name} = (() => {{\n{text}return {{ {exported} }};\n}})();"


def _constants(found: re.Match[str]) -> str:
    names, module = found.groups()
    return f"const {{ {' '.join(names.split()).rstrip(',')} }} = ${module};\n" if names else ""
