"""Every public name of regard.nn says what it is, and shows it."""

import inspect

import pytest

from regard import nn


@pytest.mark.parametrize("name", nn.__all__)
def test_a_public_name_has_an_example_and_its_modules_a_formula_and_shapes(name: str) -> None:
    thing = getattr(nn, name)
    text = inspect.getdoc(thing) or ""
    assert ">>> " in text
    is_module = inspect.isclass(thing) and hasattr(thing, "forward")
    if is_module and name != "Model":
        words, _, _ = text.partition(">>>")
        assert "(B, " in words or "(…, " in words
        assert " = " in words or "softmax(" in words
