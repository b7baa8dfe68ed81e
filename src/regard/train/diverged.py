"""A loss that is no number any more: where it first went wrong."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.train.batches import Batch


class Diverged(ArithmeticError):
    """The loss, or its gradient, is NaN or infinite; the last good checkpoint is kept."""

    def __init__(self, step: int, loss: float, where: str) -> None:
        self.step, self.loss, self.where = step, loss, where
        what = f"the loss must be a number; got {loss}"
        if loss - loss == 0.0:
            what = "the gradient must be finite; got one that is not"
        super().__init__(
            f"train(): {what} at step {step + 1}: {where}. The last "
            "good checkpoint is kept; a lower learning rate or a longer warm-up may help."
        )


@torch.no_grad()
def first_not_finite(model: nn.Module, batch: Batch) -> str:
    """In words, which weight or layer is the first that is NaN or infinite; nothing if none is."""
    for name, weight in model.named_parameters():
        if not bool(weight.isfinite().all()):
            return f"the weights {name} are not finite"
    found: list[str] = []

    def look(module: nn.Module, inputs: object, output: object) -> None:
        if found or not isinstance(output, Tensor) or not output.is_floating_point():
            return
        if not bool(output.isfinite().all()):
            found.append(names[module])

    # A layer ends before what it is a part of: the first that is found is the innermost.
    names = {module: name for name, module in model.named_modules() if name}
    handles = [module.register_forward_hook(look) for module in names]
    try:
        model(**batch.inputs)
    finally:
        for handle in handles:
            handle.remove()
    return f"{found[0]} is the first layer whose output is not finite" if found else ""


def first_gradient(model: nn.Module) -> str:
    """In words, the gradient of which weight is NaN or infinite, the last layer's first."""
    for name, weight in reversed(list(model.named_parameters())):
        gradient = getattr(weight.grad, "_local_tensor", weight.grad)
        if gradient is not None and not bool(gradient.isfinite().all()):
            return f"the gradient of {name} is not finite"
    return ""
