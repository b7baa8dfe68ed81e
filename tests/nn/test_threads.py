"""One model in several threads at once: each gets what it would get alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.nn import LanguageModel, LanguageModelConfig, Rotary, Transformer, TransformerConfig
from regard.nn._hooks import is_recording, recording

IDS = [3, 1, 4, 1, 5]
SIZES: dict[str, Any] = {"vocabulary": 11, "width": 12, "heads": 3, "layers": 2, "dropout": 0.5}


def language() -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(LanguageModelConfig(**SIZES, position=Rotary())).train()


def of_two() -> Transformer:
    torch.manual_seed(0)
    return Transformer(TransformerConfig(**SIZES)).train()


def generated(model: Any) -> Any:
    start: dict[str, Any] = {"start": 1} if isinstance(model, Transformer) else {}
    return model.generate(IDS, max_new_tokens=3, **start).scores


def searched(model: Any) -> Any:
    start: dict[str, Any] = {"start": 1} if isinstance(model, Transformer) else {}
    return model.generate(IDS, max_new_tokens=3, beams=2, **start).scores


def traced(model: Any) -> Any:
    target: dict[str, Any] = {"target": IDS} if isinstance(model, Transformer) else {}
    return regard.trace(IDS, model=model, **target).steps["logits"].array.tolist()


WAYS = [generated, searched, traced]


@pytest.mark.parametrize("make", [language, of_two])
@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("second", WAYS)
def test_who_comes_while_another_is_inside_stays_in_evaluation_when_that_one_leaves(
    make: Callable[[], Any], first: Callable[[Any], Any], second: Callable[[Any], Any]
) -> None:
    model, alone = make(), second(make().eval())
    come, left = threading.Event(), threading.Event()
    names: list[str] = []

    def wait(*_: Any) -> None:
        name = threading.current_thread().name
        if name not in names:  # in the first layer of the first pass of each
            names.append(name)
            if name == "second":
                come.set()
                assert left.wait(30)
            elif name == "first":
                starter.start()
                assert come.wait(30)

    found: list[Any] = []
    starter = threading.Thread(target=lambda: found.append(second(model)), name="second")
    before = threading.Thread(target=lambda: (first(model), left.set()), name="first")
    model.decoder.layers[0].register_forward_pre_hook(wait)
    before.start()
    before.join(60)
    starter.join(60)
    assert found == [alone]
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("make", [language, of_two])
def test_many_threads_get_what_each_gets_alone_and_leave_the_model_as_it_was(
    make: Callable[[], Any],
) -> None:
    expected = [way(make().eval()) for way in WAYS]
    model = make()
    frozen = model.decoder.layers[1].eval()
    modes = {name: module.training for name, module in model.named_modules()}
    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(lambda n: WAYS[n % 3](model), range(30)))
    for n, each in enumerate(found):
        assert np.array_equal(np.array(each), np.array(expected[n % 3]))
    assert not frozen.training
    assert {name: module.training for name, module in model.named_modules()} == modes


def test_a_part_that_is_traced_and_its_whole_that_generates_do_not_meet() -> None:
    model, alone = language(), generated(language().eval())
    x = np.random.default_rng(0).normal(size=(5, 12))
    with ThreadPoolExecutor(4) as pool:
        parts = [pool.submit(regard.trace, x, model=model.decoder) for _ in range(7)]
        wholes = [pool.submit(generated, model) for _ in range(7)]
        assert all(each.result(60) == alone for each in wholes)
        assert len({str(each.result(60)) for each in parts}) == 1
    assert all(module.training for module in model.modules())


def test_an_interrupted_pass_leaves_the_model_as_it_was() -> None:
    model = language()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    model.decoder.layers[1].register_forward_pre_hook(interrupt)
    for way in WAYS:
        with pytest.raises(KeyboardInterrupt):
            way(model)
        assert all(module.training for module in model.modules())


def test_only_the_thread_that_listens_is_recording() -> None:
    model = language()
    heard: list[bool] = []
    with recording(model) as told:
        other = threading.Thread(target=lambda: (heard.append(is_recording()), generated(model)))
        other.start()
        other.join(60)
        assert (heard, told, is_recording()) == ([False], [], True)
    assert not is_recording()
