"""Training: a recipe to a model, safe to kill at any moment, and exact to resume.

Start reading at `recipe`, which says what may be asked; `api` is the whole way; `loop` the steps.
"""

from regard.train._history import History, history
from regard.train.api import best_or_last, read_kept, train
from regard.train.diverged import Diverged
from regard.train.export import export_run
from regard.train.loop import Outcome, Progress
from regard.train.opened import OpenedRun, open_run
from regard.train.recipe import Recipe, read_recipe, shipped

__all__ = [
    "Diverged",
    "History",
    "OpenedRun",
    "Outcome",
    "Progress",
    "Recipe",
    "best_or_last",
    "export_run",
    "history",
    "open_run",
    "read_kept",
    "read_recipe",
    "shipped",
    "train",
]
