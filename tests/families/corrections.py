"""What the names of a configuration do not tell: families whose sizes depend on one another."""

from __future__ import annotations

from typing import Any

# `needs`: what the family's configuration cannot be made without. `sizes`: put over the shrink's.
CORRECTIONS: dict[str, dict[str, Any]] = {}
