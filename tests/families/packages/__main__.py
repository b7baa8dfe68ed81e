"""`python -m families.packages`: judge each package, and put the outcome into docs/models.md.

The exit code is 1 if a watched model is different, or a package is not there.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"

import torch

from families.packages import models, torch_models
from families.packages.judge import judge
from families.packages.section import replaced, section
from families.store import ROOT
from families.verdict import Verdict

# By the name under which each is installed.
PACKAGES: dict[str, Callable[[], Iterator[models.Trial]]] = {
    "torch (attention)": torch_models.multi_head_attention,
    "torch (Transformers)": torch_models.transformers,
    "torch (flex_attention)": torch_models.flex_attention,
    "torch (varlen)": torch_models.varlen,
    "x-transformers": models.x_transformers,
    "timm": models.timm,
    "diffusers": models.diffusers,
    "open_clip_torch": models.open_clip,
    "sentence-transformers": models.sentence_transformers,
    "torchtune": models.torchtune,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="packages", description=__doc__)
    parser.add_argument("--only", nargs="+", default=list(PACKAGES), help="names of packages")
    arguments = parser.parse_args()
    found: dict[str, list[Verdict]] = {}
    for package in arguments.only:
        found[package] = []
        torch.manual_seed(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for trial in PACKAGES[package]():
                verdict = judge(trial)
                found[package].append(verdict)
                print(
                    f"{package}, {verdict.family}: {verdict.kind}: {verdict.why[:160]}", flush=True
                )
    if found.keys() == PACKAGES.keys():
        path = ROOT / "docs" / "models.md"
        text = path.read_text() if path.exists() else ""
        path.write_text(replaced(text, section(found)))
    return int(any(each.kind == "different" for every in found.values() for each in every))


if __name__ == "__main__":
    sys.exit(main())
