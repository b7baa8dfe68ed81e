"""What is told of a corpus: in a few lines of a terminal, and in a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from regard.corpus.sketch import STATISTICS, Sketch, edges_of

if TYPE_CHECKING:
    from regard.corpus.corpus import Corpus

_LEADING = 3  # heads that a statistic is told of
_BARS = 32
_MOST = 60_000  # texts that a page names, those of all heads and statistics together
_SHARES = ("spread", "first", "self", "previous", "induction")  # from 0 to 1


def told(corpus: Corpus) -> dict[str, Any]:
    """What `regard corpus FOLDER` prints: the corpus, its heads, and those that lead, with the text
    in which the first of them does it most."""
    rows = corpus.sketches.to_pylist()
    leading: list[dict[str, Any]] = []
    for name in STATISTICS:
        known = [row for row in rows if row["statistic"] == name and row["queries"]]
        known.sort(key=lambda row: (-row["mean"], row["layer"], row["head"]))
        if known:
            first = known[0]
            found = corpus.most(first["layer"], first["head"], name, 1).to_pylist()
            leading.append({"statistic": name, "heads": known[:_LEADING], "text": found[0]})
    return {**_about(corpus), "heads": corpus.summary(), "leading": leading}


def document_of(corpus: Corpus, n: int = 20) -> dict[str, Any]:
    """What a page holds: of each statistic and head how it is distributed over the queries of all
    texts, and the `n` texts in which it is largest, fewer if there are very many heads.

    `grids`: by statistic, layer and head: mean, quantiles, least and most, None if it was not
    measured; `bars`: the share of the queries in each of 32 parts of `scale`, the last of which has
    all that is above. `most`: [text, value, link], `link` being a place in `links`, or −1.
    """
    layers = [each["heads"] for each in corpus.about["layers"]]
    n = max(min(n, _MOST // max(sum(layers) * len(STATISTICS), 1)), 1)
    rows = {(r["layer"], r["head"], r["statistic"]): r for r in corpus.sketches.to_pylist()}
    names = ("mean", "least", "q05", "q25", "median", "q75", "q95", "most")
    places = [(layer, head) for layer, heads in enumerate(layers) for head in range(heads)]
    scales = {name: _scale(corpus, name, places) for name in STATISTICS}
    grids, bars = dict[str, Any](), dict[str, Any]()
    for name in STATISTICS:
        grids[name] = [[None] * heads for heads in layers]
        bars[name] = [[None] * heads for heads in layers]
        for layer, head in places:
            row = rows[layer, head, name]
            if row["queries"]:
                grids[name][layer][head] = {key: _short(row[key]) for key in names}
                sketch = corpus.sketch(layer, head, name)
                bars[name][layer][head] = _bars(sketch, scales[name])
    most, links, ids = _most(corpus, layers, n)
    kinds: list[list[str]] = [[] for _ in layers]
    for row in corpus.summary():
        kinds[row["layer"]].append(row["kind"])
    return {
        **_about(corpus),
        "counted": corpus.about["texts"],
        "n": n,
        "statistics": list(STATISTICS),
        "kinds": kinds,
        "scale": scales,
        "grids": grids,
        "bars": bars,
        "most": most,
        "links": links,
        "texts": _texts(corpus, ids),
    }


def _about(corpus: Corpus) -> dict[str, Any]:
    names = ("units", "sources", "texts", "read", "tokens", "layers", "notes")
    return {
        "name": corpus.folder.name,
        "model": _model_name(corpus.recipe.model),
        "finished": corpus.is_finished,
        "done": corpus.units_done,
        **{name: corpus.about[name] for name in names},
        "reasons": corpus.reasons(),
        "min_weight": corpus.recipe.min_weight,
    }


def _model_name(model: str) -> str:
    """Of a folder, its name; of a name, itself."""
    return model.rstrip("/").rpartition("/")[2] if model.startswith("/") else model


def _short(number: float) -> float:
    return float(f"{number:.5g}")


def _scale(corpus: Corpus, name: str, places: list[tuple[int, int]]) -> float:
    """Where the last bar begins to have all that is larger."""
    if name in _SHARES:
        return 1.0
    ends = (corpus.sketch(layer, head, name).quantile(0.995) for layer, head in places)
    return max((end for end in ends if end), default=1.0)


def _bars(sketch: Sketch, scale: float) -> list[float]:
    places = np.array(sorted(sketch.bins), dtype=np.int64)
    low, high = edges_of(places)
    middle = np.where(np.isfinite(high), (low + high) / 2, low)
    bar = np.minimum((middle / scale * _BARS).astype(np.int64), _BARS - 1)
    counts = np.array([sketch.bins[place] for place in places.tolist()])
    return [_short(x) for x in np.bincount(bar, counts, _BARS) / max(sketch.count, 1)]


def _most(
    corpus: Corpus, layers: list[int], n: int
) -> tuple[dict[str, Any], list[list[Any]], list[int]]:
    """By statistic, layer and head the texts that have most of it; links; and the texts' ids."""
    from pyarrow.dataset import field

    most: dict[str, Any] = {name: [[[]] * heads for heads in layers] for name in STATISTICS}
    links: list[list[Any]] = []
    every: dict[int, None] = {}
    for layer, heads in enumerate(layers):
        names = ["text", "head", *STATISTICS]
        table = corpus.heads.to_table(names, field("layer") == layer)
        columns = {name: table[name].to_numpy() for name in names}
        chosen: list[tuple[str, int, list[tuple[int, float]]]] = []
        for head in range(heads):
            here = np.flatnonzero(columns["head"] == head)
            ids = columns["text"][here]
            for name in STATISTICS:
                values = columns[name][here]
                known = np.flatnonzero(~np.isnan(values))
                order = known[np.lexsort((ids[known], -values[known]))][:n]
                pairs = [*zip(ids[order].tolist(), values[order].tolist(), strict=True)]
                chosen.append((name, head, pairs))
        wanted = {text for _, _, pairs in chosen for text, _ in pairs}
        strongest = _strongest(corpus, layer, wanted)
        placed: dict[tuple[int, int], int] = {}
        for name, head, pairs in chosen:
            rows: list[list[Any]] = []
            for text, value in pairs:
                link = strongest.get((text, head))
                if link is not None and (text, head) not in placed:
                    placed[text, head] = len(links)
                    links.append(link)
                rows.append([text, _short(value), placed.get((text, head), -1)])
                every.setdefault(text)
            most[name][layer][head] = rows
    return most, links, list(every)


def _strongest(corpus: Corpus, layer: int, texts: set[int]) -> dict[tuple[int, int], list[Any]]:
    """By text and head the strongest link: the two tokens and the weight."""
    from pyarrow.dataset import field

    asked = (field("layer") == layer) & field("text").isin(sorted(texts))
    names = ["text", "head", "query_token", "key_token", "weight"]
    table = corpus.edges.to_table(names, asked)
    text, head = table["text"].to_numpy(), table["head"].to_numpy()
    # Rows stand in the order of falling weight, so that the first of each is the strongest.
    _, first = np.unique(text * (head.max(initial=0) + 1) + head, return_index=True)
    rows = table.take(first).to_pylist()
    return {
        (row["text"], row["head"]): [row["query_token"], row["key_token"], _short(row["weight"])]
        for row in rows
    }


def _texts(corpus: Corpus, ids: list[int]) -> dict[str, list[Any]]:
    """By id: source, position, tokens, beginning."""
    from pyarrow.dataset import field

    names = ["text", "source", "position", "tokens", "beginning"]
    rows = corpus.texts.to_table(names, field("text").isin(ids)).to_pylist()
    return {str(row["text"]): [row[name] for name in names[1:]] for row in rows}
