"""Settings that the tests of attention share."""

from collections.abc import Iterator

import pytest
from helpers.attention_problems import threads


@pytest.fixture(scope="package", autouse=True)
def _one_thread() -> Iterator[None]:
    """Tests run beside each other; those that are about threads ask for them."""
    with threads(1):
        yield
