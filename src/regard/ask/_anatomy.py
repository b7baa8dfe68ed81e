"""What a language model is made of, by its modules: its blocks, the norm after them, its head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from regard.models.own import OwnModel, class_name
from regard.nn import LanguageModel, PreNorm

if TYPE_CHECKING:
    from regard.models import Loaded
    from regard.run import Run

# What these parts are called where models are written. A name is a guess, which the pass itself
# puts to the test: parts that do not add up are refused.
_NORMS = ("norm", "ln_f", "final_layer_norm", "final_layernorm", "norm_f", "final_norm")
_PROJECTIONS = ("o_proj", "out_proj", "c_proj", "dense", "w_o", "wo")
_FEED_FORWARDS = ("mlp", "feed_forward", "ffn", "block_sparse_moe", "moe", "fc2")
_PRECISE = (torch.float64, torch.float32)
_NO_SUM = "Nothing is added up in its residual stream that could be told apart."


@dataclass(frozen=True, eq=False)
class Block:
    """One block: x + attention(x) + feed-forward, in whichever order, or both of the same x.

    `projection` is W_O, from the heads side by side to the width of the model; `norms` are those of
    the block itself, by name, before its sublayers or after them.
    """

    name: str
    module: nn.Module
    heads: int
    projection: nn.Module
    feed_forward: nn.Module
    norms: dict[str, nn.Module]


@dataclass(frozen=True, eq=False)
class Tail:
    """What makes logits of a hidden state: logits = cap(scale · head(norm(x))).

    `cap` c is c·tanh(logit / c), or None; `norm` is None where there is none after the blocks.
    """

    norm: nn.Module | None
    head: nn.Module
    scale: float = 1.0
    softcap: float | None = None

    def logits(self, x: Tensor) -> Tensor:
        """x (…, width) gives (…, vocabulary)."""
        return self.capped(self.head(x if self.norm is None else self.norm(x)) * self.scale)

    def capped(self, logits: Tensor) -> Tensor:
        """Logits as the model gives them out."""
        return logits if self.softcap is None else (logits / self.softcap).tanh() * self.softcap


def check_head(call: str, loaded: Loaded) -> None:
    """Raise ValueError, by name and before it has run, for a model that does not predict the next
    token by a norm and one matrix.
    """
    model: Any = loaded.model
    head = model.get_output_embeddings()
    kind = next(model.parameters()).dtype
    if getattr(model.config, "is_encoder_decoder", False):
        raise _refused(
            call,
            loaded,
            "which reads one text and writes another",
            "run.predictions() says what it writes next.",
        )
    if head is None:
        raise _refused(
            call, loaded, "which gives vectors, or classes", "smollm2 is a language model."
        )
    if kind not in _PRECISE:
        raise _refused(
            call, loaded, f"in {kind}", "Its rounding hides what is asked: model.float()."
        )
    if isinstance(model, OwnModel):
        own = model.model
        if not isinstance(own, LanguageModel):
            raise _refused(
                call,
                loaded,
                "whose head has layers of its own",
                "run.predictions() says what it predicts.",
            )
        if not isinstance(own.config.residual, PreNorm):
            kinds = type(own.config.residual).__name__
            raise _refused(
                call, loaded, f"whose blocks renormalise the residual stream ({kinds})", _NO_SUM
            )
        return
    path = next((path for path, part in model.named_modules() if part is head), "")
    if not loaded.decoder or "." in path:
        raise _refused(
            call,
            loaded,
            f"whose head ({path}) is not linear in the last hidden state",
            "run.predictions() says what it predicts.",
        )
    if not isinstance(head, nn.Linear):
        kinds = type(head).__name__
        raise _refused(call, loaded, f"whose head is a {kinds}", "Load it with plain matrices.")


def tail_of(call: str, run: Run, loaded: Loaded) -> Tail:
    """The norm and the head of a language model. Raises ValueError for any other."""
    check_head(call, loaded)
    model: Any = loaded.model
    if isinstance(model, OwnModel):
        own: Any = model.model
        return Tail(own.decoder.norm, own.head)
    owner, _ = _list_of_blocks(call, run, model)
    norm = next((part for name, part in owner.named_children() if name in _NORMS), None)
    if norm is None:
        raise _refused(call, loaded, "which has no norm after its blocks (post-norm)", _NO_SUM)
    config = model.config.get_text_config()
    scale = float(getattr(config, "logit_scale", None) or 1.0)
    scale /= float(getattr(config, "logits_scaling", None) or 1.0)
    softcap = getattr(config, "final_logit_softcapping", None)
    return Tail(norm, model.get_output_embeddings(), scale, softcap)


def tolerance_of(loaded: Loaded) -> float:
    """How far two computations of the same may be apart, of its size. Norms of transformers compute
    in float32, whatever the model's type.
    """
    kind = next(loaded.model.parameters()).dtype
    return 1e-9 if kind is torch.float64 and isinstance(loaded.model, OwnModel) else 1e-5


def _refused(call: str, loaded: Loaded, got: str, remedy: str) -> ValueError:
    return ValueError(
        f"{call}: {loaded.name} must be a model that predicts the next token by a norm and one "
        f"matrix; got {class_name(loaded.model)}, {got}. {remedy}"
    )


def block_modules(call: str, run: Run, loaded: Loaded) -> dict[str, nn.Module]:
    """The blocks by name, one for each layer of the run. Raises ValueError if they are not."""
    _, blocks = _list_of_blocks(call, run, loaded.model)
    return blocks


def blocks_of(call: str, run: Run, loaded: Loaded) -> list[Block]:
    """The blocks and what they are made of. Raises ValueError where that cannot be told."""
    found: list[Block] = []
    blocks = block_modules(call, run, loaded)
    for (path, block), (name, layer) in zip(blocks.items(), run.layers.items(), strict=True):
        part = name.removeprefix(f"{path}.").partition(".")[0]
        attention = cast("nn.Module", getattr(block, part))
        inside = {each.rpartition(".")[2]: module for each, module in attention.named_modules()}
        projection = next((inside[each] for each in _PROJECTIONS if each in inside), None)
        children = dict(block.named_children())
        feed_forward = next((children[each] for each in _FEED_FORWARDS if each in children), None)
        lacking = "a matrix after its heads" if projection is None else "a feed-forward layer"
        if projection is None or feed_forward is None:
            raise ValueError(
                f"{call}: each block of {loaded.name} must have heads, a matrix after them and a "
                f"feed-forward layer, under names that are known; got {class_name(loaded.model)}, "
                f"whose {path} has not {lacking}. run.lens() and ablate=… do without."
            )
        heads = layer.shape[1]
        weight: Any = getattr(projection, "weight", None)
        made = matrix(projection) if isinstance(weight, Tensor) else None
        if made is None or made.shape[1] % heads:
            raise ValueError(
                f"{call}: {name} must end in one matrix that takes its {heads} heads side by side; "
                f"got a {type(projection).__name__} of {shape_of(weight)}. Load the model without "
                "quantization or adapters."
            )
        norms = {each: part for each, part in children.items() if _is_norm(part)}
        found.append(Block(path, block, heads, projection, feed_forward, norms))
    return found


def matrix(module: nn.Module) -> Tensor | None:
    """The matrix W of y = W x + b, (out, in); None of what is not linear.

    >>> matrix(nn.Linear(2, 3)).shape, matrix(nn.Identity())
    (torch.Size([3, 2]), None)
    """
    weight = getattr(module, "weight", None)
    if isinstance(module, nn.Linear):
        return weight
    if type(module).__name__ == "Conv1D" and isinstance(weight, Tensor):  # GPT-2's
        return weight.T
    return None


def shape_of(weight: object) -> str:
    """The shape of a tensor, for messages."""
    return str(tuple(weight.shape)) if isinstance(weight, Tensor) else "no shape"


def tokens_times(loaded: Loaded) -> float | None:
    """What a model of `regard.nn` multiplies the tokens' rows with before it adds positions; None
    if it adds none, or has a norm after that, and of any other model.
    """
    own = loaded.model.model if isinstance(loaded.model, OwnModel) else None
    if not isinstance(own, LanguageModel):
        return None
    is_sum = own.config.position.is_added and not own.config.embedding_norm
    return own.embedding.scale if is_sum else None


def residual_scale(loaded: Loaded) -> float:
    """What a block multiplies each update with before it adds it: Granite's."""
    config: Any = loaded.model.config.get_text_config()
    return float(getattr(config, "residual_multiplier", None) or 1.0)


def _is_norm(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower()


def _list_of_blocks(
    call: str, run: Run, model: nn.Module
) -> tuple[nn.Module, dict[str, nn.Module]]:
    """The module that holds the list of blocks, and the blocks by name: one for each layer."""
    found: dict[str, nn.Module] = {}
    lists: list[str] = []
    modules = dict(model.named_modules())
    for name in run.layers:
        parts = name.split(".")
        paths = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
        path = next(
            (each for each in paths if isinstance(modules.get(_above(each)), nn.ModuleList)), None
        )
        if path is not None and path in modules:
            found[path] = modules[path]
            lists.append(_above(path))
    if len(found) != len(run.layers) or len(set(lists)) != 1 or not found:
        raise ValueError(
            f"{call}: the model must have one list of blocks, each with one attention, all of them "
            f"in the run; got {len(run.layers)} layers of {class_name(model)}, in {len(found)} "
            "blocks. See the text with that model, and all of its layers."
        )
    listed = cast("nn.ModuleList", modules[lists[0]])
    if len(listed) != len(found):
        raise ValueError(
            f"{call}: the run must have seen attention in every block; got {len(found)} of "
            f"{len(listed)}. run.unseen says which have none, or layers=… left them out."
        )
    return modules[_above(lists[0])], found


def _above(path: str) -> str:
    return path.rpartition(".")[0]
