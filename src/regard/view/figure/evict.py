"""What policies of forgetting came to, for print: loss and needles over what is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.view.figure.lab import draw_lines
from regard.view.figure.sheet import Paper, Sheet


def draw(paper: Paper, document: Mapping[str, Any]) -> Sheet:
    """Two charts, a line a policy; that of the full cache is level."""
    remark = (
        f"{document['prefix']:,} tokens in the cache; the mean loss of "
        f"{document['continuation']:,} that follow, and how many of {document['needles']} hidden "
        "numbers are said."
    )
    sheet = Sheet(paper, f"What the cache of {document['model']} may forget", remark)
    full, *others = document["scores"]
    shares = sorted({each["keep"] for each in others}) or [1.0]
    names = list(dict.fromkeys(each["policy"] for each in others))
    charts = {"loss": "loss: mean −ln of the probability of what follows"}
    if document["needles"]:
        charts["found"] = f"needles found, of {document['needles']}"
    for field, title in charts.items():
        series = [{"name": full["policy"], "x": shares, "y": [full[field]] * len(shares)}]
        for name in names:
            own = sorted((each["keep"], each[field]) for each in others if each["policy"] == name)
            x, y = zip(*own, strict=True)
            series.append({"name": name, "x": x, "y": y})
        draw_lines(
            sheet, {"x": "share of the cache that is kept", "y": title, "series": series, "log": ""}
        )
    sheet.told = remark
    return sheet
