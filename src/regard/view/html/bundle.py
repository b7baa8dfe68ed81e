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


def module_names() -> list[str]:
    """Every module there is.

    >>> "base" in module_names()
    True
    """
    found = (each.name for each in files("regard.view").joinpath("web").iterdir())
    return sorted(name.removesuffix(".js") for name in found if name.endswith(".js"))


@cache
def bundle(entry: str) -> str:
    """`entry` and all that it imports, as one script without imports.

    Each module becomes a function that is called once, so that its private names stay its own; an
    import becomes a constant.

    >>> "import" in bundle("dom"), "const $dom = (() => {" in bundle("dom")
    (False, True)
    """
    order: list[str] = []
    _visit(entry, order, ())
    return "\n".join(_wrapped(name) for name in order)


def _visit(name: str, order: list[str], above: tuple[str, ...]) -> None:
    """Put what a module imports before it."""
    if name in above:
        raise ValueError(f"bundle(): modules must not import in circles; got {above} → {name}.")
    for found in _IMPORT.finditer(source_of(name)):
        if found[2] not in order:
            _visit(found[2], order, (*above, name))
    if name not in order:
        order.append(name)


def _wrapped(name: str) -> str:
    text = source_of(name)
    exported = [found[2] for found in _EXPORT.finditer(text)]
    text = _IMPORT.sub(lambda found: _constants(found[1], found[2]), text)
    text = _EXPORT.sub(r"\1 \2", text)
    return f"const ${name} = (() => {{\n{text}return {{ {', '.join(exported)} }};\n}})();"


def _constants(names: str | None, module: str) -> str:
    if names is None:
        return ""
    return f"const {{ {' '.join(names.split()).rstrip(',')} }} = ${module};\n"
