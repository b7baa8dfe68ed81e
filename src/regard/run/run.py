"""`Run`: what a model looked at, layer by layer, and the ways to ask about it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from regard._attention.tiles import Span
from regard.observation import See
from regard.run.choose import Which, layer_index
from regard.run.layer import Layer
from regard.text import Token

if TYPE_CHECKING:
    import pyarrow as pa

    from regard._trace import Trace
    from regard.models import Loaded
    from regard.run.effect import Effect
    from regard.run.store import Edges


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
    - `again`: of a run that was made by `see` here and now: the same once more, with other options

    >>> import torch, regard
    >>> q = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, q, q, scale=9.0, see=regard.See(top=2))
    >>> Run({"attention": Layer("attention", seen, q=q, k=q)}, model="by hand")
    Run('by hand': 1 layer, 1 head, 3 tokens)
    """

    def __init__(
        self,
        layers: dict[str, Layer] | None = None,
        *,
        model: str = "",
        text: str | list[str] | None = None,
        tokens: list[list[Token]] | None = None,
        token_ids: Tensor | None = None,
        see: See | None = None,
        notes: list[str] | None = None,
        unseen: list[str] | None = None,
        hidden_states: dict[str, Tensor] | None = None,
        between: dict[str, Tensor] | None = None,
        output: Tensor | None = None,
    ) -> None:
        self.layers: dict[str, Layer] = {} if layers is None else layers
        self.model = model
        self.text = text
        self.tokens = tokens
        self.token_ids = token_ids
        self.see = see
        self.notes: list[str] = [] if notes is None else notes
        self.unseen: list[str] = [] if unseen is None else unseen
        self.hidden_states: dict[str, Tensor] = {} if hidden_states is None else hidden_states
        self.between: dict[str, Tensor] = {} if between is None else between
        self.output = output
        self.again: partial[Run] | None = None
        self._edges: Edges | None = None  # what `sql` asks, once it was made

    def __repr__(self) -> str:
        heads = sum(layer.shape[1] for layer in self.layers.values())
        batch, length = self._size()
        several = f"{batch} × " if batch > 1 else ""
        parts = [
            _count(len(self.layers), "layer"),
            _count(heads, "head"),
            several + _count(length, "token"),
        ]
        if self.unseen:
            parts.append(_count(len(self.unseen), "kind") + " of module not seen")
        return f"Run({self.model!r}: {', '.join(parts)})"

    def _size(self) -> tuple[int, int]:
        """How many sequences, and how long the longest is."""
        if self.tokens is not None:
            return len(self.tokens), max(map(len, self.tokens), default=0)
        if self.token_ids is not None and self.token_ids.dim() == 2:
            return self.token_ids.shape[0], self.token_ids.shape[1]
        shapes = [layer.shape for layer in self.layers.values()]
        return max((x[0] for x in shapes), default=0), max((x[3] for x in shapes), default=0)

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
    ) -> Tensor:
        """The exact weights of some queries on some keys: (B, rows, keys) of one head, or
        (B, H, rows, keys). Needs q and k: `regard.watch(…, keep=("q", "k"))`.

        >>> import torch, regard
        >>> q = torch.eye(3)[None, None]
        >>> _, seen = regard.attention(q, q, q, scale=9.0, see=regard.See())
        >>> run = Run({"a": Layer("a", seen, regard.run.Options(scale=9.0), q=q, k=q)})
        >>> run.weights("a", 0, rows=(1, 2)).round(decimals=3).tolist()
        [[[0.0, 1.0, 0.0]]]
        """
        return self.layer(layer).weights(head, rows, keys)

    def pooled(
        self,
        layer: Which,
        head: int | None = None,
        rows: Span = slice(None),
        keys: Span = slice(None),
        shape: tuple[int, int] = (256, 256),
        reduce: Literal["mean", "max"] = "mean",
    ) -> Tensor:
        """An exact picture of any rectangle of the weights: (B, *shape) of one head, or
        (B, H, *shape). Needs q and k, as `weights` does.

        >>> import torch, regard
        >>> q = torch.eye(4)[None, None]
        >>> _, seen = regard.attention(q, q, q, scale=99.0, see=regard.See())
        >>> run = Run({"a": Layer("a", seen, regard.run.Options(scale=99.0), q=q, k=q)})
        >>> run.pooled(0, 0, shape=(2, 2), reduce="max").round(decimals=3).tolist()
        [[[1.0, 0.0], [0.0, 1.0]]]
        """
        return self.layer(layer).pooled(head, rows, keys, shape, reduce)

    # ── tables ────────────────────────────────────────────────────────────────────────────────

    def edges(
        self,
        min_weight: float = 0.1,
        top: int | None = None,
        layers: Which | Sequence[Which] | None = None,
        heads: int | Sequence[int] | None = None,
    ) -> pa.Table:
        """Every weight of at least `min_weight` between a real query and a real key, as a table:
        sequence, layer, head, query, key, query_token, key_token, weight.

        Rows are in the order of sequence, layer, head, query and falling weight. `layer` counts
        from 0; tokens are null where they are not known. `top` takes that many of each query only.

        The table is exact. It comes from the strongest keys of each query where these are all that
        there is, and from q and k elsewhere. Where q and k were not kept, a query may have more
        edges than the table has: a warning says how many are truncated so; `regard.truncated` in
        the schema's metadata has their number by layer and head, `run.truncated_rows` names them.

        >>> import torch, regard
        >>> q = torch.eye(3)[None, None]
        >>> _, seen = regard.attention(q, q, q, scale=2.0, see=regard.See(top=3))
        >>> table = Run({"a": Layer("a", seen)}).edges(0.2)
        >>> table["key"].to_pylist(), [round(w, 2) for w in table["weight"].to_pylist()]
        ([0, 1, 2], [0.79, 0.79, 0.79])
        """
        from regard.run.edges import edges, warn

        table = edges(self, min_weight, top, layers, heads)
        warn(table, stacklevel=2)
        return table

    def truncated_rows(self, min_weight: float = 0.1, top: int | None = None) -> pa.Table:
        """The rows of which `edges(min_weight, top)` may lack some: sequence, layer, head, query.

        >>> import torch, regard
        >>> q = torch.eye(3)[None, None]
        >>> _, seen = regard.attention(q, q, q, causal=True, see=regard.See(top=1))
        >>> run = Run({"a": Layer("a", seen, regard.run.Options(causal=True))})
        >>> run.truncated_rows(0.2)["query"].to_pylist()
        [1, 2]
        """
        from regard.run.edges import truncated_rows

        return truncated_rows(self, min_weight, top)

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

    def html(self, path: str | Path, limit: int | None = None) -> None:
        """Write one HTML file that shows the run: its text, links, heads and atlas.

        It needs no network. `limit` is about how many bytes it may have, 24,000,000 unless another
        is given: weaker links and finer pictures are left out first, and the page says which.

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
        write_text(path, run_page(self, LIMIT if limit is None else limit))

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
        from regard.view.html.frame import run_frame

        return run_frame(self)

    # ── what follows from it ──────────────────────────────────────────────────────────────────

    def rollout(
        self,
        token: int,
        sequence: int = 0,
        residual: float = 0.5,
        layers: Which | Sequence[Which] | None = None,
    ) -> Tensor:
        """How much each token of the input counts for one token of the last layer, (N,) float64.

        Attention rollout: from the last layer to the first, r ← residual · r + (1 − residual) ·
        mean over the heads of r · W, r being 1 at `token` and 0 elsewhere. Exact, from q and k of
        all self-attention layers; W is never in memory. It sums to 1 if the rows of W do.

        >>> import torch, regard
        >>> q = torch.eye(3)[None, None]
        >>> _, seen = regard.attention(q, q, q, scale=0.0, causal=True, see=regard.See())
        >>> options = regard.run.Options(scale=0.0, causal=True)
        >>> run = Run({"a": Layer("a", seen, options, q=q, k=q)})
        >>> run.rollout(1).tolist()
        [0.25, 0.75, 0.0]
        """
        from regard.run.rollout import rollout

        return rollout(self, token, sequence, residual, layers)

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

    def effect(self, other: Run, *, logits: bool | None = None) -> Effect:
        """What changed from this run to another of the same model on the same text: of each token
        after each block, and in the output. Needs
        `regard.watch(…, keep=("hidden_states", "output"))`.

        `logits` says whether the output is one score a word of the vocabulary. None decides: it is
        if the output is (B, N, …), a self-attention layer is causal, and the last axis is longer
        than that of every vector, which must have been kept for that.

        >>> import torch
        >>> states = [torch.tensor([[[3.0, y]]]) for y in (4.0, -4.0)]
        >>> one, other = (Run(hidden_states={"block": x}) for x in states)
        >>> one.effect(other).layers["block"].relative.tolist()
        [[1.6]]
        """
        from regard.run.effect import effect

        return effect(self, other, logits)


def _count(number: int, of: str) -> str:
    return f"{number:,} {of}" if number == 1 else f"{number:,} {of}s"
