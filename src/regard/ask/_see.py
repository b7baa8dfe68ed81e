"""`see`: a text through a model, once, and where every head of it looked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import nn

from regard._watch import watch
from regard._watch.record import USUAL
from regard.models import Reading

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
    if "decoder_input_ids" in taken:
        raise ValueError(
            f"see(): {loaded.name} must be a model that reads one text; it reads one text and "
            f"writes another ({type(loaded.model).__name__}). In Python, regard.watch sees such a "
            "model."
        )
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
    if keep is None:
        keep = ("q", "k") if len(reading.ids) <= LONG else ()
    kept = set(keep)
    # Without q and k, a map must fit as it is.
    look = USUAL if kept >= {"q", "k"} else replace(USUAL, map=(24, 24))
    watching = watch(loaded.model, look, keep=sorted(kept), layers=layers, ablate=ablate)
    telling = nullcontext() if progress is None else each_block(loaded.model, progress)
    with watching as run, torch.no_grad(), telling:
        loaded.model(**inputs)
    run.text, run.tokens = reading.text, [reading.tokens]
    run.again = partial(see, loaded, reading, ablate=ablate)
    return run


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
