"""Whole models under torch.compile, and models that train after they have generated."""

import pytest
import torch

from regard.nn import ALiBi, LanguageModel, LanguageModelConfig, Learned, Position, Rotary


def model_with(position: Position) -> LanguageModel:
    torch.manual_seed(0)
    config = LanguageModelConfig(vocabulary=31, width=12, heads=3, layers=2, position=position)
    return LanguageModel(config)


@pytest.mark.parametrize("position", [Rotary(), Learned(11), ALiBi()], ids=str)
def test_a_language_model_compiles_as_one_graph(position: Position) -> None:
    torch.compiler.reset()
    model, ids = model_with(position), torch.randint(31, (2, 7))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(ids), model(ids))
    torch.compiler.reset()


@pytest.mark.parametrize("position", [Rotary(), Learned(11), ALiBi()], ids=str)
def test_a_model_that_has_generated_can_be_trained(position: Position) -> None:
    ids = torch.randint(31, (2, 7), generator=torch.Generator().manual_seed(0))
    fresh, used = model_with(position), model_with(position)
    used.generate([1, 2, 3], max_new_tokens=5)
    for model in (fresh, used):
        model(ids).square().mean().backward()
    for name, weight in fresh.named_parameters():
        assert torch.equal(weight.grad, used.get_parameter(name).grad)  # pyright: ignore[reportArgumentType]
