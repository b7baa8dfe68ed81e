"""`generate` and `stream`: what is asked is checked, then tokens are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Unpack, overload

from torch import Tensor

from regard.nn.config import StackConfig
from regard.nn.generation.decoding import Generated, beam_search, one_by_one
from regard.nn.generation.feed import Feed
from regard.nn.generation.inputs import (
    Options,
    Stop,
    StreamOptions,
    Tokens,
    check_options,
    token_rows,
)
from regard.nn.models import GeneratingModel, LanguageModel
from regard.nn.position import Learned
from regard.nn.transformer import Transformer


def generate(
    model: GeneratingModel,
    prompts: Tokens,
    *,
    max_new_tokens: int,
    start: int | Tokens | None = None,
    stop: Stop = None,
    beams: int = 1,
    length_penalty: float = 1.0,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    window: int | None = None,
) -> Generated:
    """New tokens after each prompt, at most `max_new_tokens`, one after the other.

    `prompts`: a tensor (N,) or (B, N), a list of token ids, or a list of such lists, which may be
    of different lengths: each sequence gets what it would get alone. For a `Transformer` they are
    the source, and `start` is what the target begins with: a token, tokens for all, or a list of
    tokens for each sequence.

    When it ends:

    - `stop`: a token or several, also as a tensor () or (N,). A sequence ends with the first of
      them, which is its last token; the others go on.

    Which token comes next:

    - `temperature` 0: the most probable one, of equal ones the first. More than 0: one drawn by
      softmax(logits / temperature), among the `top_k` most probable tokens, and of those among the
      smallest number that have at least `top_p` of the probability. With temperature 0 nothing is
      drawn: `top_k` and `top_p` are refused, and `seed` changes nothing.
    - `seed`: sequence n draws from a generator of its own, seeded with seed + n, so that its tokens
      do not depend on what else is in the batch. None takes a seed from PyTorch's generator.
    - `beams`: beam search for the sequence of the greatest Σ log p / length^length_penalty. In
      every step the best `beams` sequences are kept, those that have stopped among them. 1 is the
      most probable token each time.

    `window`: a token sees itself and the window − 1 before it, and no more is remembered; None is
    the model's own. A logit of −inf bans a token; other logits must be finite.

    Runs without gradients and in evaluation mode; the model is left in the mode it was in.

    >>> import torch
    >>> from regard.nn import LanguageModelConfig
    >>> _ = torch.manual_seed(5)
    >>> model = LanguageModel(LanguageModelConfig(vocabulary=11, width=6, heads=3))
    >>> found = generate(model, [[1, 2, 3], [7]], max_new_tokens=5)
    >>> [len(tokens) for tokens in found.tokens], found.stopped
    ([5, 5], [False, False])
    >>> found.tokens[1] == generate(model, [7], max_new_tokens=5).tokens[0]
    True
    """
    feed, options, _ = _ask(
        "generate()",
        model,
        prompts,
        start,
        max_new_tokens=max_new_tokens,
        stop=stop,
        beams=beams,
        length_penalty=length_penalty,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        window=window,
    )
    if options.beams > 1:
        with feed.quiet():
            return beam_search(feed, options)
    tokens: list[list[int]] = [[] for _ in range(feed.count)]
    scores: list[list[float]] = [[] for _ in range(feed.count)]
    with feed.quiet():
        for sequence, token, score in one_by_one(feed, options):
            tokens[sequence].append(token)
            scores[sequence].append(score)
    return Generated(tokens, scores, [row[-1] in options.stop for row in tokens])


@overload
def stream(
    model: GeneratingModel, prompts: Sequence[int], **options: Unpack[StreamOptions]
) -> Iterator[int]: ...
@overload
def stream(
    model: GeneratingModel,
    prompts: Sequence[Sequence[int]] | Sequence[Tensor],
    **options: Unpack[StreamOptions],
) -> Iterator[tuple[int, int]]: ...
@overload
def stream(
    model: GeneratingModel, prompts: Tokens, **options: Unpack[StreamOptions]
) -> Iterator[Any]: ...
def stream(model: GeneratingModel, prompts: Tokens, **options: Any) -> Iterator[Any]:
    """The tokens of `generate`, each as soon as it is known.

    One prompt, (N,) or a list of ids, gives its tokens; several give (sequence, token). Arguments
    mean what they mean there, and are checked at once. Beam search has nothing to say before its
    end, and is refused. The iterator may be left at any time; between two tokens the model is in
    the mode it was in, and may be set to another.

    >>> import torch
    >>> from regard.nn import LanguageModelConfig
    >>> _ = torch.manual_seed(5)
    >>> model = LanguageModel(LanguageModelConfig(vocabulary=11, width=6, heads=3))
    >>> list(stream(model, [1, 2, 3], max_new_tokens=5)) == generate(
    ...     model, [1, 2, 3], max_new_tokens=5
    ... ).tokens[0]
    True
    """
    known = sorted(StreamOptions.__annotations__)
    missing = {"max_new_tokens"} - options.keys()
    for name in (*sorted(options.keys() - known), *missing):
        wrong = "got an unexpected" if name in options else "needs the"
        raise TypeError(f"stream(): {wrong} argument {name!r}. It takes {', '.join(known)}.")
    feed, checked, is_one = _ask("stream()", model, prompts, **options)
    if checked.beams > 1:
        raise ValueError(
            f"stream(): beams must be 1; got {checked.beams}. Which beam is the best is known at "
            "the end only: regard.nn.generate() returns it."
        )
    found = one_by_one(feed, checked)
    if is_one:
        return (token for _, token, _ in found)
    return ((sequence, token) for sequence, token, _ in found)


def _ask(
    call: str, model: object, tokens: Tokens, start: int | Tokens | None = None, **options: Any
) -> tuple[Feed, Options, bool]:
    """The model with its prompts, the options, and whether one prompt was given, not several.

    Raises TypeError or ValueError before any work if something is not in order.
    """
    if isinstance(model, LanguageModel):
        if start is not None:
            raise ValueError(
                f"{call}: start must be left out, as a LanguageModel has no source; got "
                f"{start!r}. The prompts are what its tokens follow."
            )
        if not model.config.causal:
            raise ValueError(
                f"{call}: the model's config must have causal=True; got False. Its tokens see "
                "those after them, so it guesses no next one: call it for its logits or vectors."
            )
        vocabulary = model.config.vocabulary
        prompts, is_one = token_rows(call, "prompts", tokens, vocabulary)
        source = None
    elif isinstance(model, Transformer):
        if start is None:
            raise ValueError(
                f"{call}: start must be the token that the target begins with, or several; got "
                "None. The prompts are the source."
            )
        vocabulary = model.config.target_vocabulary or model.config.vocabulary
        source, is_one = token_rows(call, "prompts", tokens, model.config.vocabulary)
        first = [start] if isinstance(start, int) else start
        prompts, is_shared = token_rows(call, "start", first, vocabulary)
        if is_shared:
            prompts = prompts * len(source)
        if len(prompts) != len(source):
            raise ValueError(
                f"{call}: start must be tokens for each of the {len(source)} sequences; got those "
                f"of {len(prompts)}. A token or a list of tokens is for all."
            )
    else:
        raise TypeError(
            f"{call}: model must be a LanguageModel or a Transformer; got {type(model).__name__}. "
            "Others have no next token."
        )
    checked = check_options(call, vocabulary, options)
    if source is not None:
        _check_table(call, model.config, "the source has", max(map(len, source)))
    longest = max(map(len, prompts))
    upto = longest + checked.max_new_tokens - 1  # the last token is not read
    said = f"{longest} tokens and max_new_tokens={checked.max_new_tokens}, the last unread, are"
    _check_table(call, model.config, said, upto)
    feed = Feed(call, model, prompts, source=source, window=checked.window)
    return feed, checked, is_one


def _check_table(call: str, config: StackConfig, said: str, n_tokens: int) -> None:
    if isinstance(config.position, Learned) and n_tokens > config.position.length:
        raise ValueError(
            f"{call}: there must be at most {config.position.length} tokens, one for each row of "
            f"the table of positions; {said} {n_tokens}. Ask for fewer, or shorten the text."
        )
