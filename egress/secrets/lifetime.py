"""How long a value may be used after its source has confirmed it."""

from __future__ import annotations

import math
from typing import NamedTuple


class Lifetime(NamedTuple):
    """Seconds since the source last gave or confirmed the value."""

    due: float
    """From here on the next use asks the source again, and goes on with the value meanwhile."""
    end: float
    """From here on the value is not used any more, whatever the source does."""


FOR_EVER = Lifetime(math.inf, math.inf)
