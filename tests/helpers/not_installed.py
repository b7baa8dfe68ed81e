"""A plugin of pytest: import regard from `src` below, not from where it is installed."""

import sys
from pathlib import Path

sys.meta_path[:] = [
    finder for finder in sys.meta_path if type(finder).__name__ != "ScikitBuildRedirectingFinder"
]
sys.path.insert(0, str(Path.cwd() / "src"))
