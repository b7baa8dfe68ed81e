"""Tables of names: what the engine makes of them, and what it says when something does not fit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.nn._parameters import fill
from regard.nn.convert.tables import (
    AS_IS,
    ONE_ROW,
    THIRDS,
    TRANSPOSED,
    TRANSPOSED_THIRDS,
    Fit,
    Row,
    filled_in,
    to_ours,
    to_theirs,
)

ROWS = (Row("first.{part}", "0.{part}"), Row("second.{part}", "1.{part}", TRANSPOSED))


def module() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 7))


def theirs() -> dict[str, torch.Tensor]:
    return {
        "first.weight": torch.arange(15.0).view(3, 5),
        "first.bias": torch.arange(3.0),
        "second.weight": torch.arange(21.0).view(3, 7),
        "second.bias": torch.arange(7.0),
    }


@pytest.mark.parametrize(
    ("fit", "shape"),
    [
        (AS_IS, (5, 7)),
        (AS_IS, (5,)),
        (TRANSPOSED, (5, 7)),
        (TRANSPOSED, (5,)),
        (THIRDS, (15, 7)),
        (THIRDS, (15,)),
        (TRANSPOSED_THIRDS, (7, 15)),
        (TRANSPOSED_THIRDS, (15,)),
        (ONE_ROW, (1, 7)),
    ],
    ids=lambda value: value.name if isinstance(value, Fit) else str(value),
)
def test_a_fit_goes_there_and_back(fit: Fit, shape: tuple[int, ...]) -> None:
    given = torch.randn(shape)
    assert torch.equal(fit.join(fit.split(given)), given)


def test_packed_and_transposed_thirds_are_the_columns() -> None:
    given = torch.arange(12.0).view(2, 6)
    query, key, value = TRANSPOSED_THIRDS.split(given)
    assert query.tolist() == [[0.0, 6.0], [1.0, 7.0]]
    assert key.tolist() == [[2.0, 8.0], [3.0, 9.0]]
    assert value.tolist() == [[4.0, 10.0], [5.0, 11.0]]


def test_a_placeholder_stands_for_one_number_alone() -> None:
    rows = [Row("h.{layer}.ln.{part}", "layers.{layer}.norm.{part}")]
    names = ["layers.13.norm.bias", "layers.1.2.norm.bias", "layers.x.norm.bias", "a.layers.1.norm"]
    assert [row.theirs for row in filled_in(rows, names)] == ["h.13.ln.bias"]


def test_the_engine_goes_both_ways_bit_for_bit() -> None:
    ours = module()
    fill(ours, to_ours("convert()", "a model", ROWS, theirs(), ours))
    found = ours.state_dict()["1.weight"]
    assert torch.equal(found, theirs()["second.weight"].T)
    assert found.is_contiguous()
    there = nn.ModuleDict({"first": nn.Linear(5, 3), "second": nn.Linear(3, 7)})
    there["second"].weight = nn.Parameter(torch.empty(3, 7))
    back = to_theirs("convert()", "a model", ROWS, ours.state_dict(keep_vars=True), there)
    assert back.keys() == theirs().keys()
    assert all(torch.equal(back[name], tensor) for name, tensor in theirs().items())


def test_what_is_made_is_a_copy() -> None:
    given, ours = theirs(), module()
    fill(ours, to_ours("convert()", "a model", ROWS, given, ours))
    given["first.weight"].zero_()
    assert ours.state_dict()["0.weight"].any()


def test_all_that_does_not_fit_is_named_at_once() -> None:
    given = theirs() | {
        "third.weight": torch.zeros(1),
        "fourth.weight": torch.zeros(1),
        "second.weight": torch.zeros(7, 3),
        "second.bias": torch.zeros(7, dtype=torch.int8),
    }
    del given["first.weight"], given["first.bias"]
    with pytest.raises(ValueError, match=r"^convert\(\): ") as error:
        to_ours("convert()", "a model", ROWS, given, module())
    assert str(error.value) == (
        "convert(): the tensors must be those of a model; missing: first.bias, first.weight; "
        "not expected: fourth.weight, third.weight; "
        "wrong: second.bias (must be floating-point, is torch.int8), "
        "second.weight (must be (3, 7), is (7, 3)). "
        "The description and the weights must come from one model."
    )


def test_a_tensor_of_ours_that_no_row_names_is_an_error_in_both_directions() -> None:
    given = {name: tensor for name, tensor in theirs().items() if name.startswith("first")}
    with pytest.raises(ValueError, match=r"in no row of the table: 1\.bias, 1\.weight"):
        to_ours("convert()", "a model", ROWS[:1], given, module())
    there = nn.ModuleDict({"first": nn.Linear(5, 3)})
    with pytest.raises(ValueError, match=r"in no row of the table: 1\.bias, 1\.weight"):
        to_theirs("convert()", "a model", ROWS[:1], module().state_dict(keep_vars=True), there)


def test_a_tensor_of_theirs_that_no_row_reaches_is_missing() -> None:
    there = nn.ModuleDict({"first": nn.Linear(5, 3), "spare": nn.Linear(3, 7)})
    ours = nn.Sequential(nn.Linear(5, 3)).state_dict(keep_vars=True)
    with pytest.raises(ValueError, match=r"missing: spare\.bias, spare\.weight"):
        to_theirs("convert()", "a model", ROWS, ours, there)
    found = to_theirs("convert()", "a model", ROWS, ours, there, unused=("spare.{part}",))
    assert set(found) == {"first.weight", "first.bias"}


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(7, 3), nn.Linear(3, 7, bias=False)
        self.head.weight = self.table.weight


TIED = (Row("wte.weight", "table.weight"), Row("lm_head.weight", "head.weight"))


@pytest.mark.parametrize(
    "names", [["wte.weight"], ["lm_head.weight"], ["wte.weight", "lm_head.weight"]]
)
def test_of_what_is_tied_one_is_enough_and_it_stays_tied(names: list[str]) -> None:
    ours = Tied()
    fill(ours, to_ours("convert()", "a model", TIED, dict.fromkeys(names, torch.ones(7, 3)), ours))
    assert ours.head.weight is ours.table.weight
    assert ours.head.weight.eq(1.0).all()


def test_tied_tensors_that_differ_are_refused() -> None:
    given = {"wte.weight": torch.ones(7, 3), "lm_head.weight": torch.zeros(7, 3)}
    with pytest.raises(ValueError, match=r"lm_head\.weight \(is tied to another, and differs"):
        to_ours("convert()", "a model", TIED, given, Tied())
    with pytest.raises(ValueError, match=r"missing: lm_head\.weight, wte\.weight"):
        to_ours("convert()", "a model", TIED, {}, Tied())
