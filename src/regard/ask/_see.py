"""`see`: a text through a model, once, and where every head of it looked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from regard._watch import watch
from regard._watch.record import USUAL
from regard.models import Reading
from regard.models.own import class_name
from regard.models.progress import quiet
from regard.text import Token

if TYPE_CHECKING:
    from regard.models import Loaded
    from regard.run import Run

LONG = 2048  # tokens; of a longer text q and k are kept only where they are asked for


def see(
    loaded: Loaded,
    text: str | Reading,
    *,
    first: int | None = None,
    keep: Iterable[str] | None = None,
    layers: str | int | None = None,
    ablate: Mapping[str | int, Iterable[int]] | None = None,
    logits: int | None = 1,
    target: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """The run of a text through a model: what each head of it looked at.

    - `text`: or a `Reading`, what `loaded.reader().read(text)` has made of it; the tokenizer runs
      only once for a text
    - `first`: read no more than so many tokens of a text, special ones included
    - `keep`, `layers`, `ablate`: as of `regard.watch`. Unless `keep` is given, q and k are kept of
      a text of up to 2,048 tokens: with them every weight can be had later, exactly
    - `logits`: of how many of the last tokens a language model predicts the next one. None is all,
      for `run.effect` on each: of a long text these are gigabytes
    - `target`: of a model that reads one text and writes another, the ids of what it is given as
      written so far; unless they are given, what it writes by itself, always the likeliest token
    - `progress`: gets the number of each block that is done, and of how many. It may raise, which
      ends the pass

    The run knows its model: `run.trace(layer, head)` works out one head of it. Raises ValueError if
    the model cannot take the text.

    >>> from pathlib import Path
    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
    >>> from regard.models import Loaded
    >>> words = Tokenizer(models.WordLevel({"?": 0, "I": 1, "love": 2}, unk_token="?"))
    >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> small = BertConfig(vocab_size=3, hidden_size=4, num_hidden_layers=1, intermediate_size=4,
    ...                    num_attention_heads=2, max_position_embeddings=5)
    >>> tokenizer = PreTrainedTokenizerFast(tokenizer_object=words)
    >>> loaded = Loaded("small", BertModel(small).eval(), tokenizer, Path("small"), decoder=False)
    >>> see(loaded, "I love you")
    Run('BertModel': 1 layer, 2 heads, 3 tokens)
    >>> see(loaded, "I love you", first=2).text
    'I love'
    """
    taken = inspect.signature(loaded.model.forward).parameters
    if not isinstance(text, Reading):
        reading = loaded.reader().read(text, "see", first)
    elif first is None:
        reading = text
    else:
        raise ValueError(
            f"see(): first must be left out with a text that has been read; got {first}. Give it "
            "to loaded.reader().read(text, first=…)."
        )
    if not reading.text.strip():
        raise ValueError(f"see(): text must have a word; got {reading.text[:20]!r}. Give it one.")
    settings = {"use_cache": False, "logits_to_keep": 0 if logits is None else logits}
    inputs = {
        **loaded.batch([reading], "see"),
        **{name: value for name, value in settings.items() if name in taken},
    }
    writes = "decoder_input_ids" in taken
    if writes:
        target = written(loaded, inputs, reading) if target is None else list(target)
        inputs["decoder_input_ids"] = torch.tensor([target])
    elif target is not None:
        raise ValueError(f"see(): {loaded.name} writes no other text: leave target out.")
    if keep is None:
        keep = ("q", "k") if len(reading.ids) <= LONG else ()
    kept = set(keep)
    # Without q and k, a map must fit as it is.
    look = USUAL if kept >= {"q", "k"} else replace(USUAL, map=(24, 24))
    watching = watch(loaded.model, look, keep=sorted(kept), layers=layers, ablate=ablate)
    telling = nullcontext() if progress is None else each_block(loaded.model, progress)
    with watching as run, torch.no_grad(), telling:
        loaded.model(**inputs)
    run.text, run.tokens, run.model = reading.text, [reading.tokens], class_name(loaded.model)
    run.again = partial(see, loaded, reading, ablate=ablate)
    if writes:
        assert target is not None
        run.again = partial(run.again, target=target)
        tokens = target_tokens(loaded, target)
        decoder: Any = loaded.model.get_decoder()
        own = next(name for name, part in loaded.model.named_modules() if part is decoder)
        for name, layer in run.layers.items():
            if name.startswith(f"{own}.") and not layer.cross:
                run.layers[name] = replace(layer, tokens=[tokens])
        run.notes.append(f"What it wrote: {' '.join(token.label for token in tokens)}")
    return run


def written(loaded: Loaded, inputs: Mapping[str, Any], reading: Reading) -> list[int]:
    """The ids that a model writes for a text, the likeliest each time, from the token that it
    starts with to before the one that it ends with. Raises ValueError if it cannot write.
    """
    model: Any = loaded.model
    if model.get_output_embeddings() is None or not hasattr(model, "generate"):
        raise ValueError(
            f"see(): {loaded.name} must be a model that writes, as it reads one text and writes "
            f"another; it has no head ({type(model).__name__}). Say target=…, the ids it is given."
        )
    positions = getattr(model.config, "max_position_embeddings", None)
    most = 2 * len(reading.ids) + 20
    most = min(most, positions - 1) if isinstance(positions, int) else most
    given = {name: inputs[name] for name in ("input_ids", "attention_mask") if name in inputs}
    with torch.no_grad(), quiet():
        found = model.generate(**given, do_sample=False, num_beams=1, max_new_tokens=most)[0]
    ids: list[int] = found.tolist()
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    return ids[:-1] if len(ids) > 1 and ids[-1] in ends else ids


def target_tokens(loaded: Loaded, ids: Sequence[int]) -> list[Token]:
    """What a model has written, token by token; none of it stands in the text."""
    tokenizer: Any = loaded.tokenizer
    if tokenizer is None:
        return [Token(f"id {id}", 0, 0) for id in ids]
    names = (tokenizer.decode([id]).strip() or tokenizer.convert_ids_to_tokens(id) for id in ids)
    return [Token(str(name or f"id {id}"), 0, 0) for name, id in zip(names, ids, strict=True)]


@contextmanager
def each_block(model: nn.Module, report: Callable[[int, int], None]) -> Generator[None]:
    """While it is entered, `report` gets the number of each block that is done, and of how many.

    Blocks are what stands in the longest list of the model. `report` may raise, which stops it.

    >>> done = []
    >>> model = nn.Module()
    >>> model.blocks = nn.ModuleList([nn.Identity(), nn.Identity()])
    >>> with each_block(model, lambda number, total: done.append((number, total))):
    ...     _ = model.blocks[1](model.blocks[0](torch.zeros(1)))
    >>> done
    [(1, 2), (2, 2)]
    """
    stacks = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    blocks = list(max(stacks, key=len, default=[]))

    def tell(number: int, *_: object) -> None:
        report(number, len(blocks))

    with ExitStack() as hooks:
        for number, block in enumerate(blocks, 1):
            hooks.enter_context(block.register_forward_hook(partial(tell, number)))
        yield
