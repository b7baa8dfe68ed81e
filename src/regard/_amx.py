"""Virtual machines that announce AMX and do not say how large its tiles are (CPUID leaf 0x1D is
empty): oneDNN then sets up none, and PyTorch's product of bfloat16 ends the process by an illegal
instruction. Our kernel's tiles are of the one size there is. Nothing here imports torch: it must
know beforehand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SETTING, WITHOUT = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16"  # as oneDNN reads them, once
REMEDY = f"export {SETTING}={WITHOUT}"

_PRODUCT = "import torch; x = torch.ones(128, 64).bfloat16(); x @ x.T"


def is_broken(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether such a product ends a process here; tried in one of its own, where there is AMX.

    >>> is_broken(Path("no such file"))
    False
    """
    if os.environ.get(SETTING) or not cpuinfo.exists():
        return False
    if " amx_tile" not in cpuinfo.read_text(encoding="utf-8"):
        return False
    done = subprocess.run([sys.executable, "-c", _PRODUCT], capture_output=True, check=False)
    return done.returncode < 0


def avoid() -> bool:
    """Have torch, here and in processes that are started, do without it where it is broken; says
    whether that was so."""
    if found := is_broken():
        os.environ[SETTING] = WITHOUT
    return found
