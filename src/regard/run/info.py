"""What a run is, as the pages are told: its texts and tokens, its layers, its heads."""

from __future__ import annotations

import math
import re
from typing import Any

from torch import Tensor

from regard.run.effect import Effect
from regard.run.links import links_that_stand_out, most_telling
from regard.run.run import Run
from regard.run.tokens import codes_of_keys, vocabulary
from regard.text import counted, readable

_SIGN = re.compile(r"\[[^\s\]]+\]|<[^\s>]+>")  # such as [UNK] and <unk>
_MOST_UNKNOWN = 8  # pieces that are listed


def run_info(run: Run) -> dict[str, Any]:
    """The part of `RunInfo`, in view/web/source.js, that is the same wherever the run is shown."""
    layers = list(run.layers.values())
    batch = max((layer.shape[0] for layer in layers), default=0)
    texts = run.text if isinstance(run.text, list) else [run.text] * batch
    tokens = _tokens(run, batch)
    names = list(run.layers)
    return {
        "model": run.model,
        "ablated": [
            [names.index(name), head]
            for name, heads in run.ablated.items()
            if name in names
            for head in heads
        ],
        "opening": _opening(run),
        "written": _written(run),
        "sequences": [
            {"text": texts[b] if b < len(texts) else None, "tokens": tokens[b]}
            for b in range(batch)
        ],
        "layers": [
            {
                "name": layer.name,
                "cross": layer.cross,
                "causal": layer.options.causal,
                "heads": layer.shape[1],
                "queries": layer.shape[2],
                "keys": layer.shape[3],
                "position": layer.offset,
                "named": not layer.cross
                and layer.tokens is None
                and all(one is not None and len(one) == layer.shape[3] for one in tokens),
                "real": [None] * layer.shape[0] if layer.keys is None else layer.keys.tolist(),
            }
            for layer in layers
        ],
        "heads": [
            finite({name: value for name, value in row.items() if name != "name"})
            for row in run.heads()
        ],
    }


def unknown_words(run: Run) -> list[str]:
    """That a model does not know words of the first text, in a sentence; nothing if it knows all.

    >>> from regard.text import Token
    >>> tokens = [Token("we", 0, 2), Token("[UNK]", 3, 5), Token("[SEP]", 5, 5)]
    >>> unknown_words(Run(text="we 길을", tokens=[tokens]))[0][:52]
    'The model does not know “길을”, and read [UNK] instead'
    """
    text = run.text[0] if isinstance(run.text, list) and run.text else run.text
    if not isinstance(text, str) or not run.tokens:
        return []
    read = [(text[x.start : x.end], x.text) for x in run.tokens[0] if 0 <= x.start < x.end]
    unknown = [(piece, sign) for piece, sign in read if piece != sign and _SIGN.fullmatch(sign)]
    if not unknown:
        return []
    pieces = list(dict.fromkeys(f"“{readable(piece)}”" for piece, _ in unknown))
    shown = ", ".join(pieces[:_MOST_UNKNOWN]) + (", …" if len(pieces) > _MOST_UNKNOWN else "")
    return [
        f"The model does not know {shown}, and read {unknown[0][1]} instead: what is shown of "
        f"{counted(len(unknown), 'token')} is not about the words themselves."
    ]


def effect_info(effect: Effect) -> dict[str, dict[str, list[float]]]:
    """How far each token of the first text has changed, by block, and in the `output`."""
    return {
        name: {
            "relative": change.relative[0].reshape(-1).tolist(),
            "cosine": change.cosine[0].reshape(-1).tolist(),
        }
        for name, change in effect.changes.items()
    }


def stages(run: Run) -> dict[str, Tensor]:
    """By name, each (B, N, width): the embedding, then after attention and after the feed-forward
    layer of every block; or after each block, where what is in between is not known of all.

    Empty if hidden states were not kept, or are not of all tokens.

    >>> import torch
    >>> from regard.observation import Observation
    >>> from regard.run import Layer, Run
    >>> x = torch.zeros(1, 3, 5)
    >>> layers = {"blocks.0.attention": Layer("a", Observation(torch.zeros(1, 2, 3), n_keys=3))}
    >>> between = {"embedding": x, "blocks.0": x}
    >>> list(stages(Run(layers, hidden_states={"blocks.0": x}, between=between)))
    ['embedding', '0 attention', '0 feed-forward']
    """
    own = next((layer for layer in run.layers.values() if not layer.cross), None)
    kept = [*run.hidden_states.values(), *run.between.values()]
    if own is None or not run.hidden_states or len({tuple(x.shape) for x in kept}) != 1:
        return {}
    if kept[0].dim() != 3 or kept[0].shape[:2] != (own.shape[0], own.shape[3]):
        return {}
    if run.between.keys() != {"embedding", *run.hidden_states}:
        return dict(run.hidden_states)
    found = {"embedding": run.between["embedding"]}
    for n, (name, after) in enumerate(run.hidden_states.items()):
        found[f"{n} attention"] = run.between[name]
        found[f"{n} feed-forward"] = after
    return found


def finite(value: Any) -> Any:
    """The same without NaN and infinities, which JSON has not: null stands for them.

    >>> finite({"entropy": [1.0, float("nan")]})
    {'entropy': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _opening(run: Run) -> dict[str, int] | None:
    """Where a view of the run begins: at the link that says most; None where nothing stands out."""
    links, trivial = links_that_stand_out(run)
    link = None if trivial else most_telling(links)
    if link is None:
        return None
    layer = run.layer(link.layer)
    token = link.query + (0 if layer.cross else layer.offset)
    return {"layer": link.layer, "head": link.head, "token": token}


def _written(run: Run) -> list[list[dict[str, Any]]] | None:
    """Of each sequence the tokens that a model wrote, which reads one text and writes another."""
    if not any(layer.cross for layer in run.layers.values()):
        return None
    own = (layer.tokens for layer in run.layers.values() if layer.tokens and not layer.cross)
    return next(([[vars(token) for token in one] for one in tokens] for tokens in own), None)


def _tokens(run: Run, batch: int) -> list[list[dict[str, Any]] | None]:
    """Of each sequence, the token at each key of the first layer that looks at its own sequence;
    None where they are not known.
    """
    found: list[list[dict[str, Any]] | None] = [None] * batch
    own = next((layer for layer in run.layers.values() if not layer.cross), None)
    if own is None or run.tokens is None:
        return found
    for b, codes in enumerate(codes_of_keys(run, own, vocabulary(run))):
        if (codes >= 0).any():
            rest = iter(run.tokens[b])
            padding = {"text": "", "start": 0, "end": 0}
            found[b] = [vars(next(rest)) if code >= 0 else padding for code in codes]
    return found
