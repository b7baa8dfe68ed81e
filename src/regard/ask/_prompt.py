"""Documents and a question as a text that a model answers, and what it answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from regard._arguments import whole
from regard.ask._cut import END_OF_TURN, TURN, Range, paragraphs
from regard.ask._pass import Again
from regard.ask._places import CALL, check_causal, places_of
from regard.ask._sources import By, Sources, sources_of
from regard.models.own import OwnModel
from regard.models.progress import quiet

if TYPE_CHECKING:
    from regard.models import Loaded


def answer_sources(
    loaded: Loaded,
    documents: Mapping[str, str],
    question: str,
    answer: str | None = None,
    *,
    tokens: int = 64,
    by: By = "contribution",
    check: int = 1,
    draws: int = 8,
    progress: Callable[[int], None] | None = None,
) -> Sources:
    """Which of the documents, by name, each sentence of an answer to a question came from; the
    paragraphs of it, if there is one document alone.

    Without an `answer` the model writes one, of at most so many `tokens`, the likeliest each time.
    The rest is as of `regard.ask.sources`.
    """
    check_causal(loaded)
    tokens = whole(CALL, "tokens", tokens, 1, remedy="It is how many the model may write.")
    text, spans = prompt_of(loaded, documents, question)
    if answer is None:
        answer = written_after(loaded, text, tokens)
        if not answer.strip():
            raise ValueError(
                f"{CALL}: {loaded.name} must write an answer; it wrote none. Say answer=…, for "
                "what it came from."
            )
    elif not answer.strip():
        raise ValueError(f"{CALL}: answer must have a word; got {answer[:20]!r}. Give it one.")
    text += "" if text[-1].isspace() else " "
    start = len(text)
    text += answer.strip()
    reading = loaded.reader().read(text, CALL[:-2])
    loaded.reader().check([reading], CALL[:-2])
    places = places_of(reading, (start, len(text)), spans, None)
    return sources_of(
        Again(loaded, reading, {}), places, by=by, check=check, draws=draws, progress=progress
    )


def prompt_of(
    loaded: Loaded, documents: Mapping[str, str], question: str
) -> tuple[str, dict[str, Range]]:
    """A text that ends where the answer begins, and where its sources stand.

    In the form of a chat, if the model has the tokens <|im_start|> and <|im_end|>; else plain.
    """
    empty = [name for name, document in documents.items() if not document.strip()]
    if not documents or empty:
        got = f"{empty[0]!r}, which is empty" if empty else "none"
        raise ValueError(f"{CALL}: documents must each have a word; got {got}. Leave it out.")
    if not question.strip():
        raise ValueError(f"{CALL}: question must have a word; got {question[:20]!r}. Ask one.")
    text, spans = "", dict[str, Range]()
    is_chat = _knows(loaded, TURN) and _knows(loaded, END_OF_TURN)
    text += f"{TURN}user\n" if is_chat else ""
    for name, document in documents.items():
        piece = _plain(document.strip()) if is_chat else document.strip()
        start = len(text)
        text += f"{piece}\n\n"
        spans[name] = (start, start + len(piece))
    if len(spans) == 1:
        ((start, end),) = spans.values()
        pieces = paragraphs(text, start, end)
        spans = {f"paragraph {n}": piece for n, piece in enumerate(pieces, 1)}
    if is_chat:
        asked = _plain(question.strip())
        return f"{text}{asked}{END_OF_TURN}\n{TURN}assistant\n", spans
    return f"{text}Question: {question.strip()}\nAnswer:", spans


def written_after(loaded: Loaded, text: str, most: int) -> str:
    """What a model writes after a text, the likeliest token each time, up to the end of a turn."""
    reading = loaded.reader().read(text, CALL[:-2])
    positions = loaded.reader().positions
    if positions is not None:
        most = min(most, positions - len(reading.ids))
        if most < 1:
            raise ValueError(
                f"{CALL}: documents and question must leave room for an answer in the "
                f"{positions:,} tokens that {loaded.name} has positions for; got "
                f"{len(reading.ids):,}. Cut them."
            )
    inputs = loaded.batch([reading], CALL[:-2])
    model: Any = loaded.model
    tokenizer: Any = loaded.tokenizer
    if isinstance(model, OwnModel):
        own: Any = model.model
        stop = model.config.eos_token_id
        ids = list(own.generate([reading.ids], max_new_tokens=most, stop=stop).tokens[0])
    else:
        ends = {model.generation_config.eos_token_id, tokenizer.convert_tokens_to_ids(END_OF_TURN)}
        ends = sorted(each for each in ends if isinstance(each, int))
        with torch.no_grad(), quiet():
            made = model.generate(
                **inputs,
                do_sample=False,
                num_beams=1,
                max_new_tokens=most,
                eos_token_id=ends or None,
                pad_token_id=ends[0] if ends else None,
            )
        ids = made[0, len(reading.ids) :].tolist()
    return str(tokenizer.decode(ids, skip_special_tokens=True)).strip()


def _knows(loaded: Loaded, token: str) -> bool:
    tokenizer: Any = loaded.tokenizer
    return tokenizer is not None and tokenizer.backend_tokenizer.token_to_id(token) is not None


def _plain(text: str) -> str:
    """A text that opens and ends no turn by itself."""
    return re.sub(r"<\|(im_start|im_end)\|>", r"<| \1 |>", text)
