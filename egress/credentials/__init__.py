"""Turn secret values and a request head into the head that is sent upstream.

Pure: no clock, no socket, no file, no randomness. It decides nothing about rules and fetches no
secret; it is told what to write (`Injection`) and given the values (`Secret`). A request that
cannot carry its credential is refused as a value, never sent bare.
"""

from __future__ import annotations

from egress.credentials.apply import apply
from egress.credentials.canary import Canaries, Seen
from egress.credentials.outcome import Applied, CredentialedHead, Refused
from egress.credentials.search import NO_PLACEHOLDERS, Placeholders, Sighting
from egress.credentials.value import secret_from
from egress.credentials.watch import Watch

__all__ = [
    "NO_PLACEHOLDERS",
    "Applied",
    "Canaries",
    "CredentialedHead",
    "Placeholders",
    "Refused",
    "Seen",
    "Sighting",
    "Watch",
    "apply",
    "secret_from",
]
