"""A run in the terminal: its heads by kind, its strongest links, one head, one token, a cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from regard._steps import Axis, find_label
from regard.reference import Array
from regard.view.labels import fit, most_cells, pad, visible
from regard.view.terminal import paragraph

if TYPE_CHECKING:
    import pyarrow as pa

    from regard.run import Change, Effect, Layer, Run

__all__ = [
    "Link",
    "find_token",
    "looks_of_token",
    "mean_looks",
    "render_effect",
    "render_head",
    "render_run",
    "render_summary",
    "render_table",
    "render_token",
    "strongest_links",
    "token_labels",
]

_INDENT = 4
_SHADES = ((0.7, "█"), (0.4, "▓"), (0.2, "▒"), (0.05, "░"))  # from that share of the weight on
_LEAST = 0.1  # a link of less weight does not stand out
_MOST_LINKS, _MOST_EXAMPLES = 10, 4
_MOST_TOKENS = 40  # of one head that are listed each
_SIDE = 24  # cells of a map, at most
_LABEL = 14  # cells of a token, at most
_BAR = 20
_NARROW = 30  # cells beside a name in which nothing is written any more
_MOST_ROWS = 1000
_LEFT_OUT = "on the first token, on itself, and from or to special tokens"

# The kinds of heads in the order in which they are told, and what their score is.
_KINDS = {
    "induction": "on what followed the same token before",
    "previous token": "on the token before",
    "itself": "on the token itself",
    "first token": "on the first token",
    "broad": "entropy, as a share of that of equal weights",
    "mixed": "nothing has a share of 0.40 or more",
}


@dataclass(frozen=True)
class Link:
    """One weight: which head, from which token, to which; `heads` is how many have it strongest."""

    layer: int
    head: int
    query: int
    key: int
    weight: float
    heads: int = 1

    @property
    def name(self) -> str:
        return f"{self.layer}.{self.head}"


# ── tokens ────────────────────────────────────────────────────────────────────────────────────


def token_labels(run: Run) -> tuple[str, ...]:
    """The tokens of the first sequence, without blanks around them; numbers if they are not known.

    >>> from regard.run import Run
    >>> from regard.text import Token
    >>> token_labels(Run(tokens=[[Token("I", 0, 1), Token(" love", 1, 6), Token(" ", 6, 7)]]))
    ('I', 'love', ' ')
    """
    if run.tokens:
        return tuple(token.text.strip() or token.text for token in run.tokens[0])
    n_keys = max((layer.shape[3] for layer in run.layers.values()), default=0)
    return tuple(str(place + 1) for place in range(n_keys))


def find_token(run: Run, name: str) -> int:
    """The place of a token, by its text, by `it#2`, or by its number from 1.

    >>> from regard.run import Run
    >>> from regard.text import Token
    >>> run = Run(tokens=[[Token("it", 0, 2), Token("is", 3, 5), Token("it", 6, 8)]])
    >>> find_token(run, "it#2"), find_token(run, "is"), find_token(run, "1")
    (2, 1, 0)
    """
    labels = tuple(visible(label) for label in token_labels(run))
    return find_label(visible(name.strip() or name), Axis("token", labels))


def _token_names(run: Run) -> list[str]:
    """The labels as `find_token` takes them: the second of several alike is `it#2`."""
    labels = token_labels(run)
    times = Counter(labels)
    alike: Counter[str] = Counter()
    names: list[str] = []
    for label in labels:
        alike[label.casefold()] += 1
        names.append(label if times[label] == 1 else f"{label}#{alike[label.casefold()]}")
    return names


def _special(run: Run, n_keys: int) -> NDArray[np.bool_]:
    """(Nk,): which tokens the tokenizer has added."""
    tokens = run.tokens[0] if run.tokens else []
    added = [token.start == token.end for token in tokens[:n_keys]]
    return np.array(added + [False] * (n_keys - len(added)), dtype=np.bool_)


def _short(label: str, width: int = _LABEL) -> str:
    return fit(label, width)


# ── what stands out ───────────────────────────────────────────────────────────────────────────


def strongest_links(
    run: Run,
    *,
    layer: int | None = None,
    head: int | None = None,
    query: int | None = None,
    everything: bool = False,
) -> list[Link]:
    """The strongest link of each head, the strongest first; a pair of tokens only once.

    Unless `everything`, links that are trivial are left out: those on the first token, on itself,
    and from or to special tokens. They are exact: the eight strongest keys of a query always have
    one that is not trivial, if there is one.

    >>> import torch, regard
    >>> from regard.run import Layer, Run
    >>> q = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, q.roll(1, 2), q, scale=9.0, see=regard.See(top=3))
    >>> [(link.query, link.key) for link in strongest_links(Run({"a": Layer("a", seen)}))]
    [(0, 1)]
    """
    found: dict[tuple[int, int], Link] = {}
    each: list[Link] = []
    for index, one in enumerate(run.layers.values()):
        if layer in (None, index):
            each += _of_layer(run, index, one, head, query, everything)
    for link in sorted(each, key=lambda link: -link.weight):
        pair = (link.query, link.key)
        first = found.get(pair)
        found[pair] = link if first is None else replace(first, heads=first.heads + 1)
    return list(found.values())


def _of_layer(
    run: Run, index: int, layer: Layer, head: int | None, query: int | None, everything: bool
) -> list[Link]:
    if layer.top_keys is None or layer.top_weights is None:
        return []
    keys = layer.top_keys[0].cpu().numpy()  # (H, Nq, top)
    weights = layer.top_weights[0].double().cpu().numpy()
    n_keys = layer.shape[3]
    known = keys >= 0
    if not everything:
        special = np.zeros(n_keys, bool) if layer.cross else _special(run, n_keys)
        places = _positions(layer)
        known &= (keys != 0) & (keys != places[:, None]) & ~special[keys]
        known &= ~special[np.clip(places, 0, n_keys - 1)][:, None]
    if query is not None:
        known &= (np.arange(keys.shape[1]) == query)[:, None]
    strength = np.where(known, weights, -1.0).reshape(len(keys), -1)
    links: list[Link] = []
    for h, place in enumerate(strength.argmax(1).tolist() if strength.shape[1] else []):
        if strength[h, place] > 0 and head in (None, h):
            row, column = divmod(place, keys.shape[2])
            weight = float(strength[h, place])
            links.append(Link(index, h, row, int(keys[h, row, column]), weight))
    return links


def _positions(layer: Layer) -> NDArray[np.int64]:
    """Where each query stands among the keys."""
    _, _, n_queries, n_keys = layer.shape
    start = layer.options.position
    return np.arange(n_queries) + (n_keys - n_queries if start is None else start)


def looks_of_token(run: Run, token: int) -> list[Link]:
    """The strongest key of the token in every head, in the order of the heads.

    >>> from regard.run import Run
    >>> looks_of_token(Run(), 0)
    []
    """
    return [
        link
        for index, layer in enumerate(run.layers.values())
        for link in _of_layer(run, index, layer, None, token, everything=True)
    ]


def mean_looks(run: Run, token: int) -> Array:
    """(layers, N): the weights of the token in each layer, on average over its heads.

    Needs q and k.

    >>> import torch, regard
    >>> from regard.run import Layer, Options, Run
    >>> q = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, q, q, scale=9.0, see=regard.See(top=3))
    >>> run = Run({"a": Layer("a", seen, Options(scale=9.0), q=q, k=q)})
    >>> mean_looks(run, 1).round(3)
    array([[0., 1., 0.]])
    """
    rows = [
        layer.weights(rows=slice(token, token + 1))[0, :, 0].double().mean(0).cpu().numpy()
        for layer in run.layers.values()
    ]
    return np.stack(rows) if rows else np.zeros((0, 0))


# ── the whole run ─────────────────────────────────────────────────────────────────────────────


def render_summary(
    run: Run, width: int = 80, *, name: str = "", seconds: float | None = None, why: str = ""
) -> list[Text]:
    """What was run, in a few lines: the text, the model, its size, the time.

    >>> from regard.run import Run
    >>> print(*render_summary(Run(text="I love"), name="minilm", seconds=0.25), sep="\\n")
    I love
    minilm · 0 tokens · no attention was seen · 0.25 s
    """
    text = run.text if isinstance(run.text, str) else ""
    lines = [Text(fit(" ".join(text.split()), width), "bold")] if text.strip() else []
    layers = list(run.layers.values())
    heads = sorted({layer.shape[1] for layer in layers})
    size = "no attention was seen"
    if heads:
        each = str(heads[0]) if len(heads) == 1 else f"{heads[0]} to {heads[-1]}"
        size = f"{_count(len(layers), 'layer')} × {each} head{'' if each == '1' else 's'}"
    parts = [name or run.model, _count(len(token_labels(run)), "token"), size]
    if any(layer.options.causal for layer in layers):
        parts.append("causal")
    if seconds is not None:
        parts.append(f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s")
    lines += paragraph(" · ".join(filter(None, parts)), width, indent=0)
    if why:
        lines += paragraph(why, width, indent=0, style="dim")
    for note in run.unseen:
        lines += paragraph(f"Not seen: {note}", width, indent=0, style="yellow")
    return lines


def render_run(
    run: Run, width: int = 80, *, layer: int | None = None, head: int | None = None
) -> list[Text]:
    """The heads by kind, the strongest links, and a map of the first head that looks far.

    `layer` or `head` leave out all others.

    >>> from regard.run import Run
    >>> print(*render_run(Run()), sep="\\n")
    <BLANKLINE>
    No head was seen.
    """
    rows = [
        row for row in run.heads() if layer in (None, row["layer"]) and head in (None, row["head"])
    ]
    if not rows:
        return [Text(), Text("No head was seen.")]
    lines = [Text(), *_kinds(rows, width), Text()]
    links, complete = _links_that_stand_out(run, layer, head)
    lines += _links(run, links[:_MOST_LINKS], width, complete)
    far = [link for link in links if abs(link.query - link.key) > 1] or links
    place = (far[0].layer, far[0].head) if far else (rows[0]["layer"], rows[0]["head"])
    return [*lines, Text(), *_map(run, *place, width)]


def _kinds(rows: list[dict[str, Any]], width: int) -> list[Text]:
    lines = [_title("Heads by kind", "layer.head, both from 0, with the mean share", width)]
    for kind, meaning in _KINDS.items():
        heads = [row for row in rows if row["kind"] == kind]
        if not heads:
            continue
        heads.sort(key=lambda row: -(row["score"] or 0.0))
        line = Text(" " * _INDENT).append(f"{kind:<14}", "bold").append(f" {len(heads):>4}   ")
        indent = line.cell_len
        examples = [
            f"{row['layer']}.{row['head']} {row['score']:.2f}"
            for row in heads[:_MOST_EXAMPLES]
            if row["score"] is not None and kind != "mixed"
        ]
        told = " · ".join(examples)
        if len(heads) > len(examples) > 0:
            told += " …"
        if width - indent < _NARROW:
            lines += [line, *paragraph(told or meaning, width, indent=_INDENT + 2)]
            continue
        first, *rest = paragraph(told or meaning, width - indent, indent=0)
        lines.append(line.append_text(first if told else Text(first.plain, "dim")))
        lines += [Text(" " * indent).append_text(more) for more in rest]
        if told:
            lines += paragraph(meaning, width, indent=indent, style="dim")
    return lines


def _links_that_stand_out(
    run: Run, layer: int | None, head: int | None, query: int | None = None
) -> tuple[list[Link], bool]:
    """The links, and whether trivial ones are among them, as there are no better ones."""
    links = strongest_links(run, layer=layer, head=head, query=query)
    links = [link for link in links if link.weight >= _LEAST]
    if links:
        return links, False
    return strongest_links(run, layer=layer, head=head, query=query, everything=True), True


def _links(run: Run, links: Sequence[Link], width: int, everything: bool) -> list[Text]:
    lines = [
        _title("Strongest links", "token → token, weight, head; the strongest of each head", width)
    ]
    labels = _token_names(run)
    room = min(_LABEL, (width - _INDENT - 20) // 2)
    names = [
        f"{_short(_label(labels, link.query), room)} → {_short(_label(labels, link.key), room)}"
        for link in links
    ]
    column = max(map(most_cells, names), default=0)
    bar = _BAR if width >= _INDENT + column + _BAR + 36 else 0
    for link, name in zip(links, names, strict=True):
        line = Text(f"{' ' * _INDENT}{pad(name, column)}  {link.weight:.2f}  ")
        if bar:
            line.append(pad("█" * max(round(link.weight * bar), 1), bar), "cyan").append("  ")
        line.append(f"{link.name:<5}")
        more = f"  and {_count(link.heads - 1, 'more head')}"
        if link.heads > 1 and line.cell_len + len(more) <= width:
            line.append(more, "dim")
        lines.append(line)
    remark = (
        f"Links {_LEFT_OUT} are among these: no other has a weight of {_LEAST} or more."
        if everything
        else f"Left out: links {_LEFT_OUT}."
    )
    return lines + paragraph(remark, width, style="dim")


def _count(number: int, of: str) -> str:
    return f"{number:,} {of}" if number == 1 else f"{number:,} {of}s"


def _label(labels: Sequence[str], place: int) -> str:
    return labels[place] if 0 <= place < len(labels) else str(place + 1)


def _title(title: str, remark: str, width: int) -> Text:
    line = Text.assemble((title, "bold"))
    if most_cells(title) + most_cells(remark) + 3 <= width:
        line.append(f"   {remark}", "dim")
    return line


# ── a map of one head ─────────────────────────────────────────────────────────────────────────


def _map(run: Run, index: int, head: int, width: int) -> list[Text]:
    """The weights of one head in block characters: a line a token, or a group of them."""
    layer = run.layer(index)
    _, _, n_queries, n_keys = layer.shape
    lines = [_title(f"Head {index}.{head}", "a row looks at its columns", width)]
    side = min(_SIDE, (width - _INDENT - _LABEL - 2) // 2)
    array = _shares(layer, head, min(n_queries, side), min(n_keys, side))
    if array is None:
        return [*lines, *paragraph("No map of it was kept.", width, style="dim")]
    labels = token_labels(run)
    places = _positions(layer)
    starts = [-(-row * n_queries // len(array)) for row in range(len(array))]
    names = [_short(_label(labels, int(places[start]))) for start in starts]
    column = max(map(most_cells, names), default=0)
    for name, row in zip(names, array, strict=True):
        blocks = "".join(_block(share) * 2 for share in row)
        lines.append(Text(f"{' ' * _INDENT}{pad(name, column, right=True)} │").append(blocks))
    legend = " · ".join(f"{block} {least:.2f}" for least, block in reversed(_SHADES))
    remark = f"{legend} of a row's weight, or more; columns are the tokens in the same order."
    if array.shape != (n_queries, n_keys):
        remark += (
            f" A row is the mean of {_range(n_queries, len(array))} queries, "
            f"a column the sum of {_range(n_keys, array.shape[1])} keys."
        )
    return lines + paragraph(remark, width, style="dim")


def _range(length: int, parts: int) -> str:
    low, high = length // parts, -(-length // parts)
    return f"{low:,}" if low == high else f"{low:,} or {high:,}"


def _shares(layer: Layer, head: int, rows: int, columns: int) -> Array | None:
    """(rows, columns): the mean over the queries of a row of their weight on a column's keys."""
    _, _, n_queries, n_keys = layer.shape
    if layer.q is not None and layer.k is not None:
        if (rows, columns) == (n_queries, n_keys):
            return layer.weights(head)[0].double().cpu().numpy()
        mean = layer.pooled(head, shape=(rows, columns))[0].double().cpu().numpy()
        edges = -(-np.arange(columns + 1) * n_keys // columns)
        return mean * np.diff(edges)
    if layer.map is not None and layer.map.shape[-2] <= rows and layer.map.shape[-1] <= columns:
        return layer.map[0, head].double().cpu().numpy()
    return None


def _block(share: float) -> str:
    return next((block for least, block in _SHADES if share >= least), " ")


# ── one head ──────────────────────────────────────────────────────────────────────────────────


def render_head(run: Run, layer: int, head: int, width: int = 80) -> list[Text]:
    """One head: its numbers, its map, and where each token looks.

    >>> import torch, regard
    >>> from regard.run import Layer, Options, Run
    >>> q = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, q, q, scale=9.0, see=regard.See(top=3))
    >>> run = Run({"a": Layer("a", seen, Options(scale=9.0), q=q, k=q)})
    >>> print(*render_head(run, 0, 0)[-3:], sep="\\n")
        1 → 1 1.00 · 2 0.00 · 3 0.00
        2 → 2 1.00 · 1 0.00 · 3 0.00
        3 → 3 1.00 · 1 0.00 · 2 0.00
    """
    one = run.layer(layer)
    numbers = one.heads[head]
    kind = numbers.kind if numbers.score is None else f"{numbers.kind} {numbers.score:.2f}"
    lines = [Text(), _title(f"Head {layer}.{head}: {kind}", visible(one.name), width)]
    lines += paragraph(_KINDS.get(numbers.kind, ""), width, style="dim")
    figures = [
        ("entropy", numbers.entropy, " nats"),
        ("of equal weights", numbers.spread, ""),
        ("distance", numbers.distance, " tokens"),
        ("first", numbers.first, ""),
        ("itself", numbers.self_, ""),
        ("previous", numbers.previous, ""),
        ("induction", numbers.induction, ""),
    ]
    told = [f"{name} {value:.2f}{unit}" for name, value, unit in figures if value is not None]
    lines += [*paragraph(" · ".join(told), width), Text(), *_map(run, layer, head, width)]
    return [*lines, Text(), *_each_token(run, layer, head, width)]


def _each_token(run: Run, index: int, head: int, width: int) -> list[Text]:
    layer = run.layer(index)
    lines = [_title("Where each token looks", "its strongest keys", width)]
    if layer.top_keys is None or layer.top_weights is None:
        return [*lines, *paragraph("They were not kept.", width, style="dim")]
    labels, places = token_labels(run), _positions(layer).tolist()
    keys, weights = layer.top_keys[0, head].tolist(), layer.top_weights[0, head].tolist()
    shown = list(range(len(keys)))[:_MOST_TOKENS]
    names = [_short(_label(labels, places[i])) for i in shown]
    column = max(map(most_cells, names), default=0)
    for i, name in zip(shown, names, strict=True):
        start = f"{' ' * _INDENT}{pad(name, column, right=True)} → "
        looks = [
            (_label(labels, key), weight)
            for key, weight in zip(keys[i], weights[i], strict=True)
            if key >= 0
        ]
        lines.append(Text(start + _looks(looks, width - most_cells(start))))
    if len(shown) < len(keys):
        remark = f"{len(shown)} of {len(keys):,} tokens shown; --token shows any one"
        lines += paragraph(remark, width, style="dim")
    return lines


def _looks(looks: Iterable[tuple[str, float]], room: int, most: int = 3) -> str:
    """Tokens with their weights, as many as there is room for."""
    told = ""
    for label, weight in list(looks)[:most]:
        piece = f"{' · ' if told else ''}{_short(label)} {weight:.2f}"
        if most_cells(told + piece) > room:
            break
        told += piece
    return told or "nothing"


# ── one token ─────────────────────────────────────────────────────────────────────────────────


def render_token(
    run: Run, token: int, width: int = 80, *, layer: int | None = None, head: int | None = None
) -> list[Text]:
    """Where every head looks from one token: on average, each by itself, and what stands out.

    Needs q and k, unless one `head` is asked for.

    >>> import torch, regard
    >>> from regard.run import Layer, Options, Run
    >>> q = torch.eye(3)[None, None]
    >>> _, seen = regard.attention(q, q, q, scale=9.0, see=regard.See(top=3))
    >>> run = Run({"a": Layer("a", seen, Options(scale=9.0), q=q, k=q)})
    >>> print(*render_token(run, 1)[1:4], sep="\\n")
    Where “2” looks   token 2 of 3
        Mean over heads
        layer 0     2 1.00 · 1 0.00 · 3 0.00
    """
    labels = token_labels(run)
    name = _short(_label(labels, token), 30)
    lines = [Text(), _title(f"Where “{name}” looks", f"token {token + 1} of {len(labels)}", width)]
    links = [
        link
        for link in looks_of_token(run, token)
        if layer in (None, link.layer) and head in (None, link.head)
    ]
    if head is None:
        lines += _means(run, token, labels, width, layer)
    lines += [Text(), *_grid(links, labels, width)]
    chosen, everything = _links_that_stand_out(run, layer, head, query=token)
    best = _links(run, _by_key(chosen)[:_MOST_LINKS], width, everything)
    return [*lines, Text(), *best]


def _by_key(links: Sequence[Link]) -> list[Link]:
    return sorted(links, key=lambda link: -link.weight)


def _means(
    run: Run, token: int, labels: Sequence[str], width: int, layer: int | None
) -> list[Text]:
    means = mean_looks(run, token)
    lines = paragraph("Mean over heads", width, style="bold")
    rows = [(str(index), row) for index, row in enumerate(means) if layer in (None, index)]
    if len(rows) > 1:
        rows.insert(0, ("all", means.mean(0)))
    for name, row in rows:
        order = np.argsort(-row, kind="stable")[:4]
        start = f"{' ' * _INDENT}{'layer ' if name != 'all' else 'layers '}{name}".ljust(16)
        looks = [(_label(labels, int(key)), float(row[key])) for key in order]
        lines.append(Text(start + _looks(looks, width - len(start), most=4)))
    return lines


def _grid(links: Sequence[Link], labels: Sequence[str], width: int) -> list[Text]:
    """The strongest key of each head: a line a layer, a column a head."""
    title = "Strongest key of each head: a row a layer, a column a head"
    lines = paragraph(title, width, style="bold")
    heads = sorted({link.head for link in links})
    layers = sorted({link.layer for link in links})
    found = {(link.layer, link.head): link for link in links}
    room = width - _INDENT - 4
    column = max(min((room // max(len(heads), 1)) - 1, 10), 5)
    per_line = max(room // (column + 1), 1)
    for start in range(0, len(heads), per_line):
        some = heads[start : start + per_line]
        header = "".join(f" {head!s:<{column}}" for head in some)
        lines.append(Text(f"{' ' * _INDENT}    {header}".rstrip(), "dim"))
        for layer in layers:
            line = Text(" " * _INDENT).append(f"{layer:<3} ", "dim")
            for head in some:
                link = found.get((layer, head))
                label = "" if link is None else fit(_label(labels, link.key), column)
                style = "bold" if link is not None and link.weight >= 0.5 else ""
                line.append(" ").append(pad(label, column), style)
            lines.append(line)
    return lines


# ── a cut ─────────────────────────────────────────────────────────────────────────────────────


def render_effect(
    effect: Effect, cut: Sequence[tuple[int, int]], labels: Sequence[str], width: int = 80
) -> list[Text]:
    """What changed when heads (layer, head) were cut: after every block, and in the output.

    >>> import torch
    >>> from regard.run import Run
    >>> one, other = (Run(vectors={"block": torch.tensor([[[3.0, y]]])}) for y in (4.0, -4.0))
    >>> print(*render_effect(one.effect(other), [(0, 2)], ["love"])[1:4], sep="\\n")
    Without 0.2   what changed, block by block
        block   mean change  largest  at token
        0           160.00%  160.00%  love
    """
    heads = ", ".join(f"{layer}.{head}" for layer, head in cut)
    lines = [Text(), _title(f"Without {heads}", "what changed, block by block", width)]
    lines.append(Text(f"{' ' * _INDENT}block   mean change  largest  at token", "dim"))
    changes = [(str(index), change) for index, change in enumerate(effect.layers.values())]
    if effect.output is not None:
        changes.append(("output", effect.output))
    for name, change in changes:
        lines.append(_changed(name, change, labels))
    output = effect.output
    if output is not None and output.divergence is not None and output.flipped is not None:
        flipped = int(output.flipped.sum())
        lines += paragraph(
            f"Next word: {float(output.divergence.mean()):.3g} nats of divergence on average; the "
            f"most likely one is another after {flipped:,} of {output.flipped.numel():,} tokens.",
            width,
        )
    remark = "Change: the length of the difference, as a share of the vector's own."
    return lines + paragraph(remark, width, style="dim")


def _changed(name: str, change: Change, labels: Sequence[str]) -> Text:
    relative = change.relative.double().cpu().numpy()[0].reshape(-1)
    line = Text(f"{' ' * _INDENT}{name:<6}  ")
    line.append(f"{relative.mean():>11.2%}  {relative.max():>7.2%}")
    if len(relative) == len(labels) and relative.max() > 0:
        line.append(f"  {_short(labels[int(relative.argmax())], 24)}")
    return line


# ── a table ───────────────────────────────────────────────────────────────────────────────────


def render_table(table: pa.Table, width: int = 80) -> list[Text]:
    """The answer to a query: a line a row, columns cut to the width.

    >>> from regard.run import Run
    >>> print(*render_table(Run().sql("select 1 as one, 'a' as letter")), sep="\\n")
    one  letter
      1  a
    1 row
    """
    names = [visible(name) for name in table.column_names]
    rows = table.slice(0, _MOST_ROWS).to_pydict()
    values = list(rows.values())
    cells = [[_cell(value) for value in column] for column in values]
    right = [all(isinstance(x, int | float | None) for x in column) for column in values]
    widths = [
        max([most_cells(name), *map(most_cells, column)])
        for name, column in zip(names, cells, strict=True)
    ]
    while sum(widths) + 2 * (len(widths) - 1) > width and max(widths) > 4:
        widths[widths.index(max(widths))] -= 1
    header = [pad(fit(n, w), w, right=r) for n, w, r in zip(names, widths, right, strict=True)]
    lines = [Text(fit("  ".join(header).rstrip(), max(width, 1)), "bold")]
    for row in zip(*cells, strict=True):
        line = "  ".join(
            pad(fit(c, w), w, right=r) for c, w, r in zip(row, widths, right, strict=True)
        )
        lines.append(Text(fit(line.rstrip(), width)))
    count = _count(table.num_rows, "row")
    if table.num_rows > _MOST_ROWS:
        count = f"{_MOST_ROWS:,} of {count} shown; --json FILE writes all"
    return [*lines, *paragraph(count, width, indent=0, style="dim")]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "–" if value is None else visible(str(value))
