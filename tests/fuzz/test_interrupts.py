"""Interrupts at random moments of a watch come out as they are, and leave nothing behind."""

from __future__ import annotations

import random
import signal
import sys
import time
from types import FrameType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.soak import attacks
from helpers.watch_models import build
from torch import Tensor, nn

import regard

B, N = 2, 7


@pytest.fixture(autouse=True)
def _without_gradients() -> Any:
    with torch.no_grad():
        yield


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # many small calls wait for each other otherwise
    yield
    torch.set_num_threads(threads)


def encoder() -> nn.Module:
    torch.manual_seed(5)
    layer = nn.TransformerEncoderLayer(12, 3, 17, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()


def state(model: nn.Module) -> list[object]:
    """What a watch may change of a model, of PyTorch and of transformers."""
    from transformers import AttentionInterface, AttentionMaskInterface

    hooks = [
        (len(each._forward_hooks), len(each._forward_pre_hooks), sorted(each.__dict__))
        for each in model.modules()
    ]
    return [
        F.scaled_dot_product_attention,
        F.multi_head_attention_forward,
        nn.Module.__call__,
        torch._C._get_function_stack_at(0) if torch._C._len_torch_function_stack() else None,
        torch._C._len_torch_function_stack(),
        AttentionInterface.get_interface,
        dict(AttentionInterface._global_mapping),
        dict(AttentionMaskInterface._global_mapping),
        getattr(getattr(model, "config", None), "_attn_implementation", None),
        hooks,
    ]


def passes() -> list[tuple[nn.Module, dict[str, Tensor]]]:
    """Models, and what they are called with."""
    random_ = torch.Generator().manual_seed(3)
    ids = torch.randint(2, 59, (B, N), generator=random_)
    mask = torch.ones(B, N, dtype=torch.int64)
    mask[0, N - 2 :] = 0
    words = {"input_ids": ids, "attention_mask": mask}
    return [
        (encoder(), {"src": torch.randn(B, N, 12, generator=random_)}),
        (build("llama"), words),
        (build("bert", "eager"), words),
    ]


def main(output: Any) -> Tensor:
    if isinstance(output, Tensor):
        return output
    return output.logits if "logits" in output else output.last_hidden_state


def watched(model: nn.Module, inputs: dict[str, Tensor], keep: tuple[str, ...]) -> Tensor:
    with regard.watch(model, keep=keep):
        return main(model(**inputs))


def one_at_a_random_time(choose: random.Random, took: float) -> None:
    """Let a signal come while a watch is set up, runs, or ends."""
    signal.setitimer(signal.ITIMER_REAL, choose.uniform(1e-6, took))


def one_at_a_random_line(choose: random.Random, lines: int) -> None:
    """Let an interrupt come at one of the lines of the code that watches."""
    left = choose.randrange(lines)

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if "/regard/_watch/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)


# An interrupt that comes while the collector calls somebody, or in a finalizer, is lost: Python
# ignores it, and says so.
@pytest.mark.filterwarnings("ignore:watch\\(\\)", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("how", ["signal", "line"])
def test_an_interrupt_comes_out_as_it_is_and_everything_is_put_back(how: str) -> None:
    given = passes()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    keeps: list[tuple[str, ...]] = [(), ("q", "k", "v", "output", "hidden_states")]
    expected: list[Tensor] = []
    took: list[float] = []
    for model, inputs in given:
        expected.append(watched(model, inputs, keeps[1]))
        start = time.perf_counter()
        watched(model, inputs, keeps[1])
        took.append(time.perf_counter() - start)
    came = 0
    tracing = sys.gettrace()  # such as what measures which lines the tests reach
    try:
        for choose in attacks(25):
            number = choose.randrange(len(given))
            model, inputs = given[number]
            before = state(model)
            keep = choose.choice(keeps)
            try:
                try:
                    if how == "signal":
                        one_at_a_random_time(choose, 1.2 * took[number])
                    else:
                        one_at_a_random_line(choose, 3000)
                    watched(model, inputs, keep)
                finally:
                    sys.settrace(tracing)
                    signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                came += 1
            assert state(model) == before
            plain = main(model(**inputs))
            again = watched(model, inputs, ())
            assert torch.equal(again, expected[number])
            assert (plain - again)[1].abs().max() < 1e-3
    finally:
        signal.signal(signal.SIGALRM, old)
    assert came
