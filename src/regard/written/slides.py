"""The text of PDF files and PowerPoint slides: lines and tables; pictures are only named."""

from __future__ import annotations

import logging
from io import BytesIO
from typing import Any

from regard._extras import need

__all__ = ["is_slides", "text_of_slides"]


def is_slides(suffix: str) -> bool:
    return suffix in (".pdf", ".pptx")


def text_of_slides(content: bytes, suffix: str) -> str:
    """The text page by page. Raises ValueError where the file is none of its kind."""
    text = _pdf(content) if suffix == ".pdf" else _pptx(content)
    return text.encode("utf-8", "replace").decode()  # a damaged file may have half a letter


def _pdf(content: bytes) -> str:
    pypdf = need("check", "pypdf", "slides")
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what it mends is of no account here
    try:
        pages = pypdf.PdfReader(BytesIO(content)).pages
        parts = [_page(n, page.extract_text(), len(page.images)) for n, page in enumerate(pages, 1)]
    except (pypdf.errors.PyPdfError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"no PDF that can be read: {error}") from None
    return "\n".join(parts)


def _pptx(content: bytes) -> str:
    pptx = need("check", "pptx", "slides")
    try:
        slides = pptx.Presentation(BytesIO(content)).slides
    except Exception as error:  # noqa: BLE001 - whatever zipfile and lxml say of a broken file
        raise ValueError(f"no PPTX that can be read: {error}") from None
    parts = []
    for number, slide in enumerate(slides, 1):
        texts = [_shape(shape) for shape in slide.shapes]
        pictures = sum(shape.shape_type == 13 for shape in slide.shapes)
        parts.append(_page(number, "\n\n".join(filter(None, texts)), pictures))
    return "\n".join(parts)


def _shape(shape: Any) -> str:
    """A table as lines of tabs; else the paragraphs of its text."""
    if shape.has_table:
        rows = ("\t".join(cell.text for cell in row.cells) for row in shape.table.rows)
        return "\n".join(rows)
    return shape.text_frame.text if shape.has_text_frame else ""


def _page(number: int, text: str, pictures: int) -> str:
    note = f"\n\n(Page {number} has pictures: what stands in them is not read.)" if pictures else ""
    return f"{text}{note}\n"
