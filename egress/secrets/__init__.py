"""Where the values of secrets come from, and how long each may be used.

The resolver is the one door: it asks sources, keeps what they gave, and hands out `Secret`s. Nothing in
this room prints, logs or raises a value, and nothing reveals one: that is for `credentials` and `scrub`.
"""

from __future__ import annotations

from egress.secrets.environ import HANDED_OVER, Captured, take, variables
from egress.secrets.harden import harden
from egress.secrets.programs import Programs
from egress.secrets.redact import Redactor
from egress.secrets.resolver import Clock, Resolver
from egress.secrets.source import Lacking, Unresolvable, unresolvable

__all__ = [
    "HANDED_OVER",
    "Captured",
    "Clock",
    "Lacking",
    "Programs",
    "Redactor",
    "Resolver",
    "Unresolvable",
    "harden",
    "take",
    "unresolvable",
    "variables",
]
