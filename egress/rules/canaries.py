"""Reading `canaries:`: values to plant, by name and shape. The values themselves are never in a file."""

from __future__ import annotations

from egress.rules.model import CanaryItem
from egress.rules.policy import Canary
from egress.rules.report import At, quoted
from egress.rules.secrets import NAME


def canary(name: str, model: CanaryItem, at: At) -> Canary:
    """The compiled canary; reports a name that is none."""
    if not NAME.fullmatch(name):
        at.key_error(
            f"{quoted(name)} is not the name of a canary",
            "names are lower case: a letter, then letters, digits, - and _",
        )
    return Canary(name, at.key_place, model.like, model.stop)
