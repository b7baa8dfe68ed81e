"""The studio with a model that reads one text and writes another: nothing of it is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.hugging_face_models import made, marian
from helpers.model_folders import save
from transformers import MarianMTModel

Visit = Callable[..., Any]
TEXT = "i love apple phones"


@pytest.fixture(scope="module")
def own_models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("writes")
    save(made(MarianMTModel(marian(vocab_size=11, max_position_embeddings=13))), folder)
    return [folder]


def test_a_model_that_writes_is_seen_in_the_studio(visit: Visit, own_models: list[Path]) -> None:
    page = visit("#page=see")
    page.get_by_role("combobox", name="Model").select_option(str(own_models[0]))
    page.get_by_role("textbox", name="Text").fill(TEXT)
    page.get_by_role("button", name="Show where it looks").click()
    page.wait_for_selector("regard-text .token", timeout=60_000)
    layers = page.get_by_role("combobox", name="Layer")
    assert layers.locator("option").all_text_contents() == ["0", "1", "2", "3 (cross)"]
    layers.select_option("3")
    page.locator("regard-text", has_text="Keys: what they look at, in another text").wait_for()
    page.get_by_role("tab", name="Flow").click()
    stages = page.get_by_role("combobox", name="Stage")
    stages.wait_for(timeout=60_000)
    bands = stages.locator("optgroup").evaluate_all("(all) => all.map((each) => each.label)")
    assert [each for each in bands if re.search("Encoder|Decoder", each)] == [
        "Encoder layer 0",
        "Encoder layer 1",
        "Decoder layer 0",
    ]
