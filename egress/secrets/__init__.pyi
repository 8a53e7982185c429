# What type checkers see of `egress.secrets`: each name is loaded when it is first asked for.

from egress.secrets.environment_capture import (
    HANDED_OVER_VARIABLE,
    CapturedEnvironment,
    capture_environment,
    secret_variables,
)
from egress.secrets.program_lookup import ProgramLookup
from egress.secrets.redact import Redactor
from egress.secrets.resolver import ResolverClock, SecretResolver
from egress.secrets.source_factory import UnavailableSecret, UnresolvableSecret, unresolvable_secrets

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
    "secret_variables",
    "unresolvable_secrets",
]
