"""What ranks are asked to do in the tests of `regard.parallel`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import regard
from regard.observation import FIELDS
from regard.parallel import gather, shard

BY_ROWS = ("mask", "bias", "indices")  # options of which each rank has the rows of its queries


def attend(
    mesh: Any,
    tensors: tuple[Tensor, Tensor, Tensor],
    options: dict[str, Any],
    see: regard.See | None = None,
    layout: Any = "contiguous",
    by: Any = None,
    grad: Tensor | None = None,
    seed: int | None = None,
) -> dict[str, Tensor]:
    """This rank's part of everything that attention finds, and of all gradients, joined again."""
    if seed is not None:
        torch.manual_seed(seed)
    cut: dict[str, Any] = {"mesh": mesh, "layout": layout}
    parts = [shard(x, dim=2, **cut).detach().clone() for x in tensors]
    given = dict(options)
    n_queries = tensors[0].shape[2]
    own: list[str] = []
    for name in BY_ROWS:
        x = given.get(name)
        if x is not None and x.dim() >= 2 and x.shape[-2] == n_queries > 1:
            given[name] = shard(x, dim=-2, **cut).clone()
            own.append(name)
    see = _of_rank(see, cut)
    learned = {"q": parts[0], "k": parts[1], "v": parts[2]}
    learned |= {name: given[name] for name in ("bias", "sinks") if given.get(name) is not None}
    if grad is not None:
        for x in learned.values():
            x.requires_grad_()
    out: Any = regard.parallel.attention(*parts, see=see, by=by, **cut, **given)
    out, seen = (out, None) if see is None else out
    found = {"out": gather(out.detach(), dim=2, **cut)}
    if seen is not None:
        for name in FIELDS:
            x = getattr(seen, name)
            if x is not None:
                found[name] = x if name == "map" else gather(x, dim=2, **cut)
    if grad is not None:
        out.backward(shard(grad, dim=2, **cut))
        for name, x in learned.items():
            assert x.grad is not None
            is_cut = name in ("q", "k", "v") or name in own
            found[f"d{name}"] = gather(x.grad, dim=-2, **cut) if is_cut else x.grad
    return found


def attend_in_pieces(mesh: Any, rows: int, keys: int, *args: Any) -> dict[str, Tensor]:
    """`attend`, with so few queries and keys at a time."""
    from regard.parallel import pairs

    before = pairs._ROWS, pairs._KEYS
    pairs._ROWS, pairs._KEYS = rows, keys
    try:
        return attend(mesh, *args)
    finally:
        pairs._ROWS, pairs._KEYS = before


def _of_rank(see: regard.See | None, cut: dict[str, Any]) -> regard.See | None:
    """With what of it is of queries and keys of this rank."""
    if see is not None and see.queries is not None:
        see = replace(see, queries=shard(see.queries, dim=1, **cut))
    if see is not None and see.norms is not None:
        see = replace(see, norms=shard(see.norms, dim=2, **cut))
    return see


def alone(
    tensors: tuple[Tensor, Tensor, Tensor],
    options: dict[str, Any],
    see: regard.See | None = None,
    grad: Tensor | None = None,
) -> dict[str, Tensor]:
    """The same in one process."""
    q, k, v = (x.detach().clone() for x in tensors)
    given = dict(options)
    learned = {"q": q, "k": k, "v": v}
    for name in ("bias", "sinks"):
        if given.get(name) is not None:
            given[name] = learned[name] = given[name].detach().clone()
    if grad is not None:
        for x in learned.values():
            x.requires_grad_()
    out: Any = regard.attention(q, k, v, see=see, **given)
    out, seen = (out, None) if see is None else out
    found = {"out": out.detach()}
    if seen is not None:
        found |= {name: x for name in FIELDS if (x := getattr(seen, name)) is not None}
    if grad is not None:
        out.backward(grad)
        for name, x in learned.items():
            assert x.grad is not None
            found[f"d{name}"] = x.grad
    return found


def cut_and_join(mesh: Any, x: Tensor, layout: str) -> tuple[Tensor, Tensor, Tensor]:
    part = shard(x, mesh, layout=layout).detach().clone().requires_grad_()  # pyright: ignore[reportArgumentType]
    whole = gather(part, mesh, layout=layout)  # pyright: ignore[reportArgumentType]
    (2 * whole).sum().backward()
    assert part.grad is not None
    return part.detach(), whole.detach(), part.grad


def misfit(mesh: Any, what: str) -> None:
    """Attention with something that is wrong on rank 1, or on both."""
    rank = mesh.rank()
    q = torch.randn(1, 2, 5 + (what == "lengths") * (rank * 2 - 1), 5 + (what == "width") * rank)
    v = q.double() if what == "type" and rank else q
    options: dict[str, Any] = {"causal": what == "options" and rank == 1}
    if what == "mask":
        options["mask"] = torch.ones(5, 7, dtype=torch.bool)
    regard.parallel.attention(q, q, v, mesh=mesh, **options)


def traced_ring(mesh: Any, size: int) -> list[regard.parallel.Event]:
    q = shard(torch.randn(1, 2, size, 16), mesh, dim=2)
    with regard.parallel.trace() as events:
        regard.parallel.attention(q, q, q, mesh=mesh, by="ring")
    return events


def traffic(mesh: Any, tensors: tuple[Tensor, ...], arguments: dict[str, Any]) -> dict[str, int]:
    """The bytes that this rank sends, by what they are for."""
    layout = arguments["layout"]
    q, k, v = (shard(x, mesh, layout=layout, dim=2).detach().clone() for x in tensors)
    for x in (q, k, v):
        x.requires_grad_()
    found: dict[str, int] = {}
    arguments = arguments | {"see": _of_rank(arguments["see"], {"mesh": mesh, "layout": layout})}
    with regard.parallel.trace() as events:
        out = regard.parallel.attention(q, k, v, mesh=mesh, **arguments)
    found["forward"] = sum(each.bytes for each in events if each.what == "travel")
    out = out[0] if isinstance(out, tuple) else out
    with regard.parallel.trace() as events:
        out.sum().backward()
    found["backward"] = sum(each.bytes for each in events if each.what == "travel")
    return found


def again_and_again(mesh: Any, times: int | None, by: str, failing: int | None = None) -> None:
    """Attention so often, or until something happens; one rank may run out of memory."""
    from regard.parallel import ring

    q = shard(torch.randn(1, 4, 97, 8), mesh, dim=2)
    done = 0
    before = ring.attend

    def fails(*_: Any) -> Any:
        raise MemoryError("no room")

    if failing == mesh.rank():
        ring.attend = fails
    try:
        while times is None or done < times:
            regard.parallel.attention(q, q, q, mesh=mesh, by=by, causal=True)  # pyright: ignore[reportArgumentType]
            done += 1
    finally:
        ring.attend = before


# ── models ────────────────────────────────────────────────────────────────────────────────────


def model_of(kind: str) -> Any:
    """A small model, with the same random weights in every process."""
    from regard.nn import (
        ALiBi,
        EncoderModel,
        EncoderModelConfig,
        LanguageModel,
        LanguageModelConfig,
        Rotary,
    )

    torch.manual_seed(5)
    sizes: dict[str, Any] = {"vocabulary": 53, "width": 24, "heads": 4, "layers": 2}
    if kind in ("own", "alibi"):
        position = Rotary() if kind == "own" else ALiBi()
        return LanguageModel(LanguageModelConfig(**sizes, kv_heads=2, position=position)).eval()
    if kind == "own encoder":
        return EncoderModel(EncoderModelConfig(**sizes)).eval()
    import transformers

    small: dict[str, Any] = {"vocab_size": 53, "hidden_size": 24, "num_hidden_layers": 2}
    small |= {"num_attention_heads": 4, "intermediate_size": 40}
    grouped: dict[str, Any] = {"num_key_value_heads": 2, "head_dim": 6, "pad_token_id": 0}
    made = {
        "llama": lambda: transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**small, **grouped)
        ),
        "gemma": lambda: transformers.Gemma3ForCausalLM(
            transformers.Gemma3TextConfig(**small, **grouped, sliding_window=17)
        ),
        "bert": lambda: transformers.BertModel(transformers.BertConfig(**small)),
        "mamba": lambda: transformers.MambaForCausalLM(transformers.MambaConfig(**small)),
        "t5": lambda: transformers.T5EncoderModel(
            transformers.T5Config(vocab_size=53, d_model=24, num_layers=2, num_heads=4, d_ff=40)
        ),
        "gptj": lambda: transformers.GPTJForCausalLM(
            transformers.GPTJConfig(vocab_size=53, n_embd=24, n_layer=2, n_head=4, rotary_dim=4)
        ),
    }
    return made[kind]().eval()


def text_of(size: int) -> Tensor:
    return torch.randint(1, 53, (2, size), generator=torch.Generator().manual_seed(3))


def read(mesh: Any, kind: str, size: int, padded: bool = False) -> dict[str, Any]:
    """What a model gives, and what was seen of it; without a mesh in this process alone."""
    model, ids = model_of(kind), text_of(size)
    see = regard.See(entropy=True, top=3, map=(5, 7), received=True, distance=True)
    mask = torch.ones_like(ids)
    if padded:
        mask[1, 17:] = 0
    with torch.no_grad():
        if mesh is None:
            with regard.watch(model, see=see, keep=("q", "k")) as run:
                given = {"attention_mask": mask} if padded else {}
                out = model(ids, **given)
            logits = out if isinstance(out, Tensor) else out[0]
        else:
            with (
                regard.parallel.sequence(model, mesh) as shared,
                regard.watch(model, see=see, keep=("q", "k")) as run,
            ):
                part = shared(ids, attention_mask=mask if padded else None)
            logits = part.gather()
            again = shared(ids, attention_mask=mask if padded else None).gather()
            assert torch.equal(logits, again)  # watched is as unwatched
    found: dict[str, Any] = {"logits": logits, "names": list(run.layers), "ids": run.token_ids}
    for number, layer in enumerate(run.layers.values()):
        for name in FIELDS:
            found[f"{number}.{name}"] = getattr(layer.seen, name)
        found |= {f"{number}.share.{name}": x for name, x in layer.shares.items()}
        found |= {f"{number}.q": layer.q, f"{number}.k": layer.k}
        found[f"{number}.weights"] = layer.weights(1, rows=(2, 9))
        found[f"{number}.kind"] = [head.kind for head in layer.heads]
        found[f"{number}.causal"] = layer.options.causal
    return found


def learn(mesh: Any, size: int) -> dict[str, Tensor]:
    """The gradients of all weights, of the mean over tokens of something."""
    model, ids = model_of("llama"), text_of(size)
    if mesh is None:
        out = model(ids).logits
    else:
        out = regard.parallel.sequence(model, mesh)(ids).output
    (out.square().sum() / (2 * size)).backward()
    return {name: x.grad for name, x in model.named_parameters() if x.grad is not None}
