"""Small PDF and PPTX files, made for tests."""

from __future__ import annotations

import re
from io import BytesIO

import pptx as powerpoint
from pptx.util import Emu

__all__ = ["pdf", "pptx"]


def pdf(text: str) -> bytes:
    """One page with the lines of the text; what is no ASCII becomes a question mark."""
    lines = text.encode("ascii", "replace").splitlines()
    escaped = [re.sub(rb"([\\()])", rb"\\\1", line) for line in lines]
    shown = b"".join(b"(%s) Tj 0 -14 Td " % line for line in escaped)
    stream = b"BT /F1 12 Tf 50 700 Td " + shown + b"ET"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    content = b"%PDF-1.4\n"
    places = []
    for number, part in enumerate(objects, 1):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, part)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = len(content)
    content += b"xref\n0 6\n0000000000 65535 f \n" + table
    return content + b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % end


def pptx(text: str) -> bytes:
    """One slide with a text."""
    slides = powerpoint.Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[6])
    slide.shapes.add_textbox(*[Emu(99)] * 4).text_frame.text = text
    content = BytesIO()
    slides.save(content)
    return content.getvalue()
