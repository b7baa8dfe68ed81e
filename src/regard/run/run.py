"""`Run`: what a model looked at, layer by layer, and the ways to ask about it."""

from __future__ import annotations

from dataclasses import KW_ONLY, MISSING, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from regard._attention.tiles import Span
from regard.observation import See
from regard.run.choose import Which, layer_index
from regard.run.edges import edges, truncated_rows
from regard.run.effect import effect
from regard.run.layer import Layer
from regard.run.rollout import rollout
from regard.text import Token, counted

if TYPE_CHECKING:
    import pyarrow as pa

    from regard._flow import Flow
    from regard._trace import Trace
    from regard.ask import Prediction, Sources, Why
    from regard.ask._places import Spans
    from regard.models import Loaded
    from regard.run.store import Edges


@dataclass(eq=False, repr=False)
class Run:
    """One or more passes of a model: what each of its attention modules did.

    - `layers`: by the name of the module, in the order of computation; `run.layer(2)` counts
    - `model`, `text`: what ran, and on what
    - `tokens`: of each sequence of the batch, one a position, or one a real token if it is padded;
      `token_ids` (B, N): as the model got them. Both are of the last pass: a layer that read others
      has tokens of its own
    - `see`: what was asked for; `notes` and `unseen`: what could not be done, and the modules whose
      attention could not be seen
    - `hidden_states`: by the name of a block, (B, N, width), each token after it; `between`: after
      its attention, where that could be told, and before the first block, as `embedding`
    - `output`: the model's, (B, N, …) or (B, …)
    - `ablated`: by the name of a layer, the heads whose output was 0
    - `again`: of a run that was made by `see` here and now: the same once more, with other options

    >>> import torch, regard
    >>> q = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, q, q, scale=9.0, see=regard.See(top=2))
    >>> Run({"attention": Layer("attention", seen, q=q, k=q)}, model="by hand")
    Run('by hand': 1 layer, 1 head, 3 tokens)
    """

    layers: dict[str, Layer] = field(default_factory=dict[str, Layer])
    _: KW_ONLY
    model: str = ""
    text: str | list[str] | None = None
    tokens: list[list[Token]] | None = None
    token_ids: Tensor | None = None
    see: See | None = None
    notes: list[str] = field(default_factory=list[str])
    unseen: list[str] = field(default_factory=list[str])
    hidden_states: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    between: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    output: Tensor | None = None
    ablated: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    again: partial[Run] | None = field(default=None, init=False)
    _edges: Edges | None = field(default=None, init=False)  # what `sql` asks, once it was made

    def __post_init__(self) -> None:
        for each in fields(self):  # None is as good as nothing
            if each.default_factory is not MISSING and getattr(self, each.name) is None:
                setattr(self, each.name, each.default_factory())

    def __repr__(self) -> str:
        shapes = [layer.shape for layer in self.layers.values()]
        batch, length = (max((shape[n] for shape in shapes), default=0) for n in (0, 3))
        if self.tokens is not None:
            batch, length = len(self.tokens), max(map(len, self.tokens), default=0)
        elif self.token_ids is not None and self.token_ids.dim() == 2:
            batch, length = self.token_ids.shape
        several = f"{batch} × " if batch > 1 else ""
        parts = [
            counted(len(self.layers), "layer"),
            counted(sum(shape[1] for shape in shapes), "head"),
            several + counted(length, "token"),
        ]
        if self.unseen:
            parts.append(counted(len(self.unseen), "kind") + " of module not seen")
        return f"Run({self.model!r}: {', '.join(parts)})"

    # ── layers and heads ──────────────────────────────────────────────────────────────────────

    def layer(self, which: Which) -> Layer:
        """A layer by its number or its name.

        >>> Run().layer("encoder")
        Traceback (most recent call last):
        ValueError: layer(): layer must be the name of a layer; got 'encoder'. The run has no ...
        """
        return list(self.layers.values())[layer_index("layer()", self.layers, which)]

    def heads(self) -> list[dict[str, Any]]:
        """One row a head: `layer`, `name`, and the numbers of `Head`, with `self` for `self_`.

        >>> Run().heads()
        []
        """
        rows: list[dict[str, Any]] = []
        for index, (name, layer) in enumerate(self.layers.items()):
            for head in layer.heads:
                numbers = {key.rstrip("_"): value for key, value in vars(head).items()}
                rows.append({"layer": index, "name": name, **numbers})
        return rows

    def weights(
        self,
        layer: Which,
        head: int | None = None,
        rows: Span = slice(None),
        keys: Span = slice(None),
        *,
        sequence: int | None = None,
    ) -> Tensor:
        """The exact weights of some queries on some keys: (B, H, rows, keys), without B of one
        sequence, without H of one head. Needs q and k: `regard.watch(…, keep=("q", "k"))`.

        >>> import torch, regard
        >>> q = torch.eye(3)[None, None]
        >>> _, seen = regard.attention(q, q, q, scale=9.0, see=regard.See())
        >>> run = Run({"a": Layer("a", seen, regard.run.Options(scale=9.0), q=q, k=q)})
        >>> run.weights("a", 0, rows=(1, 2)).round(decimals=3).tolist()
        [[[0.0, 1.0, 0.0]]]
        """
        return self.layer(layer).weights(head, rows, keys, sequence=sequence)

    def pooled(
        self,
        layer: Which,
        head: int | None = None,
        rows: Span = slice(None),
        keys: Span = slice(None),
        shape: tuple[int, int] = (256, 256),
        reduce: Literal["mean", "max"] = "mean",
        *,
        sequence: int | None = None,
    ) -> Tensor:
        """An exact picture of any rectangle of the weights: (B, H, *shape), without B of one
        sequence, without H of one head. Needs q and k, as `weights` does.

        >>> import torch, regard
        >>> q = torch.eye(4)[None, None]
        >>> _, seen = regard.attention(q, q, q, scale=99.0, see=regard.See())
        >>> run = Run({"a": Layer("a", seen, regard.run.Options(scale=99.0), q=q, k=q)})
        >>> run.pooled(0, 0, shape=(2, 2), reduce="max").round(decimals=3).tolist()
        [[[1.0, 0.0], [0.0, 1.0]]]
        """
        return self.layer(layer).pooled(head, rows, keys, shape, reduce, sequence=sequence)

    # ── tables, and what follows from them ────────────────────────────────────────────────────

    edges = edges
    truncated_rows = truncated_rows
    rollout = rollout
    effect = effect

    def sql(
        self,
        query: str,
        *,
        min_weight: float | None = None,
        seconds: float | None = None,
        memory: int | None = None,
    ) -> pa.Table:
        """What DuckDB answers to one SELECT on the tables of this run.

        - `edges`: as `run.edges(min_weight)`, of 0.05 unless another is given
        - `heads`: layer, name, head, entropy, spread, distance, first, self, previous, induction,
          kind, score
        - `layers`: layer, name, sequences, heads, kv_heads, queries, keys, is_causal, is_cross,
          window_left, window_right
        - `tokens`: sequence, position, token, start, stop, id, of the last pass

        A query sees these and nothing else: no file, no network, no variable. DuckDB may take
        `seconds`, and then raises TimeoutError; None waits, and Ctrl-C ends it. What it works with
        may have `memory` bytes, and so may the answer, else it raises MemoryError; None is half of
        this machine's. The texts and lists of the 2,048 rows that it is at are not counted.

        >>> Run().sql("select count(*) as heads from heads").to_pylist()
        [{'heads': 0}]
        """
        from regard.run._sql import ask

        return ask({None: self}, query, min_weight, seconds=seconds, memory=memory, stacklevel=3)

    # ── on disk ───────────────────────────────────────────────────────────────────────────────

    def save(self, folder: str | Path) -> None:
        """Keep the run in a folder that other tools can read: `run.json`, `tensors.safetensors`
        and `edges.parquet`. `regard.run.load` reads it.

        A run that is there already is replaced, whole or not at all; any other folder is refused.

        >>> import tempfile
        >>> from regard.run import load
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Run(model="empty").save(Path(folder, "one"))
        ...     load(Path(folder, "one"))
        Run('empty': 0 layers, 0 heads, 0 tokens)
        """
        from regard.run.disk import save

        save(self, folder)

    # ── to look at ────────────────────────────────────────────────────────────────────────────

    def html(
        self,
        path: str | Path,
        limit: int | None = None,
        *,
        layer: int | str | None = None,
        lens: bool = False,
        why: Why | None = None,
    ) -> None:
        """Write one HTML file that shows the run: its text, links, heads and atlas.

        It needs no network. `limit` is about how many bytes it may have, 24,000,000 unless another
        is given: weaker links and finer pictures are left out first, and the page says which.
        With a `layer`, of a run that knows its model, it has the whole pass, too, and of that layer
        every step of every head; with `lens`, of a text of up to 256 tokens, what the model would
        predict after each layer; with `why`, which `run.why(…)` gives, where a logit comes from.

        >>> import tempfile, torch, regard
        >>> q = torch.eye(3)[None, None]
        >>> _, seen = regard.attention(q, q, q, see=regard.See(top=2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Run({"a": Layer("a", seen, q=q, k=q)}).html(Path(folder, "run.html"))
        ...     Path(folder, "run.html").read_text(encoding="utf-8")[:15]
        '<!doctype html>'
        """
        from regard._files import write_text
        from regard.view.html.run import LIMIT, run_page

        if limit is not None and (type(limit) is not int or limit < 1):
            raise ValueError(
                f"html(): limit must be a whole number of bytes, 1 or more; got {limit!r}. "
                f"None is {LIMIT:,}."
            )
        write_text(path, run_page(self, limit or LIMIT, layer=layer, lens=lens, why=why))

    def figure(
        self,
        path: str | Path,
        view: Literal["model", "head", "text", "links", "entropy"] = "model",
        *,
        layer: Which | None = None,
        head: int | None = None,
        token: int | str | None = None,
        sequence: int = 0,
        min_weight: float = 0.1,
        log: bool = False,
        width: float = 7.0,
        dpi: float = 300,
        dark: bool = False,
    ) -> None:
        """Write a figure for print: SVG, PDF or PNG, by the ending of `path`.

        - `model`: every layer × head as a small map, with its kind; of one `layer`, if it is given
        - `head`: one `head` of a `layer`: who looks at whom, exactly, or in 512 × 512 exact blocks
        - `text`: the text, shaded by where `token` looks (its number from 0, or "it", "it#2"): in a
          head, on average over a layer, or over all of them
        - `links`: tokens that look at tokens in a `layer`, or a `head`, with at least `min_weight`
        - `entropy`: how widely each head spreads its weight

        `log` colours by the logarithm; `width` is in inches, 3.3 for a column and 7.0 for a page;
        `dpi` is of a PNG. The same run gives the same bytes.

        >>> import tempfile, torch, regard
        >>> q = torch.eye(3)[None, None]
        >>> _, seen = regard.attention(q, q, q, see=regard.See(top=2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = Run({"a": Layer("a", seen, q=q, k=q)})
        ...     run.figure(Path(folder, "head.pdf"), "head", layer=0, head=0, width=3.3)
        ...     Path(folder, "head.pdf").read_bytes()[:4]
        b'%PDF'
        """
        from regard.view.figure import run_figure

        run_figure(
            self,
            path,
            view,
            layer=layer,
            head=head,
            token=token,
            sequence=sequence,
            min_weight=min_weight,
            log=log,
            width=width,
            dpi=dpi,
            dark=dark,
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from regard.view.html.run import run_frame

        return run_frame(self)

    # ── the model, asked once more ───────────────────────────────────────────────────────────

    def predictions(
        self, top: int = 5, position: int | None = None, *, model: Loaded | None = None
    ) -> list[list[Prediction]]:
        """The likeliest tokens at each position, or at one: text, probability and id of each.

        What follows a token, of a language model; what may stand in its place, of a masked one;
        what is written next, of one that reads a text and writes another. Raises as
        `regard.ask.predictions` does.
        """
        from regard.ask import predictions

        return predictions(self, top, position, model=model)

    def lens(
        self,
        layer: Which | None = None,
        top: int = 5,
        position: int | None = None,
        *,
        model: Loaded | None = None,
    ) -> list[Any]:
        """What `predictions` says, read off the hidden state after a layer, or after each: its last
        norm and its head, as if the model ended there. A list of positions, or one for each layer.
        Raises as `regard.ask.lens` does.
        """
        from regard.ask import lens

        return lens(self, layer, top, position, model=model)

    def why(
        self,
        position: int,
        token: str | int,
        against: str | int | None = None,
        *,
        ablate: int = 5,
        model: Loaded | None = None,
    ) -> Why:
        """How much of a token's logit after a position comes from each head and each layer; with
        `against`, of the difference of two. So many of the strongest heads are ablated, and what is
        lost without each stands beside its share. Raises as `regard.ask.why` does.
        """
        from regard.ask import why

        return why(self, position, token, against, ablate=ablate, model=model)

    def sources(
        self,
        answer: str | tuple[int, int],
        spans: Spans | None = None,
        *,
        question: str | None = None,
        by: Literal["contribution", "weights"] = "contribution",
        check: int = 1,
        draws: int = 8,
        model: Loaded | None = None,
    ) -> Sources:
        """Which part of the text each sentence of an answer came from: the share of each, over all
        heads and layers. So many of them are blocked, and what the sentence loses stands beside
        what it loses without as much of the others. Raises as `regard.ask.sources` does.
        """
        from regard.ask import sources

        return sources(
            self,
            answer,
            spans,
            question=question,
            by=by,
            check=check,
            draws=draws,
            model=model,
        )

    def flow(self, layer: Which = 0, *, model: Loaded | None = None) -> Flow:
        """The whole pass of the first text in one picture: `.html(path)`, `.figure(path)`.

        `layer` is the one whose band a page holds whole. A model that `regard.nn` has a counterpart
        of is shown step by step; of any other the attentions that were watched.
        """
        from regard._flow.api import flow_of_run

        return flow_of_run(self, layer, model=model)

    def trace(self, layer: Which = 0, head: int = 0, *, model: Loaded | None = None) -> Trace:
        """The steps of attention in one head, on the first text, from the model's own Q, K and V.

        The model reads the text once more where they were not kept: a run of `loaded.see` knows
        its model, any other needs `model`. Raises as `regard.ask.trace_of` does.

        >>> import torch, regard
        >>> q = torch.eye(2)[None, None]
        >>> out, seen = regard.attention(q, q, q, see=regard.See())
        >>> run = Run({"a": Layer("a", seen, q=q, k=q, v=q, output=out)})
        >>> run.trace("a", 0).steps["weights"].array.round(2).tolist()
        [[[0.67, 0.33], [0.33, 0.67]]]
        """
        from regard.ask import trace_of

        return trace_of(self, layer, head, model=model)
