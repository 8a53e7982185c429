"""Sources of secret values, and how long each value may be used.

All access goes through the resolver: it asks sources, keeps their values, and hands out `Secret`s. Modules
here never print, log, raise or reveal a value: revealing is for `credentials` and `scrub`.
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
