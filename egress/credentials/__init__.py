"""Turn secret values and a request head into the head that is sent upstream.

Pure: no clock, no socket, no file, no randomness. Rules are decided and secrets fetched elsewhere; the caller
passes what to write (`Injection`) and the values (`Secret`). A request that cannot carry its credential is
refused as a value, never sent without it.
"""

from __future__ import annotations

from egress.credentials.apply import apply_credentials
from egress.credentials.canary import Canaries, CanaryScan, CanarySighting
from egress.credentials.placeholder_search import NO_PLACEHOLDERS, Placeholders, PlaceholderSighting
from egress.credentials.result import AppliedHead, CredentialedHead, CredentialRefusal
from egress.credentials.secret_value_check import secret_from

__all__ = [
    "NO_PLACEHOLDERS",
    "AppliedHead",
    "Canaries",
    "CanaryScan",
    "CanarySighting",
    "CredentialRefusal",
    "CredentialedHead",
    "PlaceholderSighting",
    "Placeholders",
    "apply_credentials",
    "secret_from",
]
