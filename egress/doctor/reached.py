"""What came of asking one upstream for its certificate. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from egress.doctor.diagnosis import Diagnosis

Misfit = Literal["", "early", "late"]


@dataclass(frozen=True, slots=True)
class Reached:
    """One host and port of the rules."""

    diagnosis: Diagnosis
    begins: int | None = None
    """From when to when its certificate is valid, where it was verified."""
    ends: int | None = None
    misfit: Misfit = ""
    """What the clock says of its certificate, where that is the trouble."""
