"""Where the values of secrets come from, and how long each may be used.

The resolver is the one door: it asks sources, keeps what they gave, and hands out `Secret`s. Nothing in
this room prints, logs or raises a value, and nothing reveals one: that is for `credentials` and `scrub`.
"""

from __future__ import annotations

from egress.secrets.environment_capture import (
    HANDED_OVER_VARIABLE,
    CapturedEnvironment,
    capture_environment,
    secret_variables,
)
from egress.secrets.harden import harden
from egress.secrets.program_lookup import ProgramLookup
from egress.secrets.redact import Redactor
from egress.secrets.resolver import ResolverClock, SecretResolver
from egress.secrets.source import UnavailableSecret, UnresolvableSecret, unresolvable_secrets

__all__ = [
    "HANDED_OVER_VARIABLE",
    "CapturedEnvironment",
    "ProgramLookup",
    "Redactor",
    "ResolverClock",
    "SecretResolver",
    "UnavailableSecret",
    "UnresolvableSecret",
    "capture_environment",
    "harden",
    "secret_variables",
    "unresolvable_secrets",
]
