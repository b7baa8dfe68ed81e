"""What a model looked at: `Run`, its layers and heads, on disk and as tables.

- `Run`: one or more passes of a model, layer by layer; `Layer`, `Options`, `Head`: its parts
- `load`: a run that was saved; `RunError` if it cannot be
- `sql`: one query on several runs
"""

from __future__ import annotations

from regard.run._sql import sql
from regard.run.disk import load
from regard.run.effect import Change, Effect
from regard.run.errors import RunError
from regard.run.heads import Head
from regard.run.layer import Layer, Options
from regard.run.run import Run

__all__ = ["Change", "Effect", "Head", "Layer", "Options", "Run", "RunError", "load", "sql"]
