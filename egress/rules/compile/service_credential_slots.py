"""Slots from which well-known services read a credential.

A service that reads several slots can be sent two credentials at once: ours, and one that the sandbox brought
along. It then works in the account of a stranger, who can read along. So an injection for such a service has
to strip the slots that it does not write. The lint says so, and the presets do it.
"""

from __future__ import annotations

from typing import Final

from egress.rules.language.hosts import HostPattern, parse_host_pattern
from egress.types import Slot

_AUTHORIZATION: Final = Slot("header", "authorization")

# Only services with more than one slot are listed: for all others an injection leaves nothing open.
_SLOTS_BY_HOST: Final[dict[str, tuple[Slot, ...]]] = {
    "api.anthropic.com": (Slot("header", "x-api-key"), _AUTHORIZATION),
    "api.cloudflare.com": (
        _AUTHORIZATION,
        Slot("header", "x-auth-key"),
        Slot("header", "x-auth-user-service-key"),
    ),
    "generativelanguage.googleapis.com": (
        Slot("header", "x-goog-api-key"),
        Slot("query", "key"),
        Slot("query", "access_token"),
        _AUTHORIZATION,
    ),
    "gitlab.com": (
        Slot("header", "private-token"),
        _AUTHORIZATION,
        Slot("header", "job-token"),
        Slot("header", "deploy-token"),
        Slot("query", "private_token"),
        Slot("query", "access_token"),
        Slot("query", "job_token"),
    ),
    "slack.com": (_AUTHORIZATION, Slot("query", "token")),
    "*.openai.azure.com": (Slot("header", "api-key"), _AUTHORIZATION),
}

_KNOWN: Final = tuple((parse_host_pattern(host), slots) for host, slots in _SLOTS_BY_HOST.items())


def credential_slots(pattern: HostPattern) -> tuple[Slot, ...]:
    """Return the slots of the service at these hosts; empty if it is not known, or reads only one."""
    return next((slots for known, slots in _KNOWN if known.covers(pattern) or pattern.covers(known)), ())
