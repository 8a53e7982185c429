"""The sandboxes of the bridge: an id of the client, and the sandbox that stands for it.

The client asks for an id once and keeps it. It may go on with it after it has deleted the sandbox, and after
`egress up` has ended: an id whose sandbox is gone gets a new, empty one with its next command.
"""

from __future__ import annotations

import base64
import re
import secrets
from typing import Final

from egress.api.schema import SandboxSettings
from egress.api_server.call import ApiCall
from egress.api_server.sandboxes import create_sandbox
from egress.fleet.errors import SandboxDiffersError
from egress.fleet.protocol import SandboxStatus
from egress.runtime.errors import SandboxNotFoundError

OWNER: Final = "openai-agents"
"""Tells the sandboxes of the bridge from others: a sandbox of another owner is not found here."""
NAME_PREFIX: Final = "bridge-"
IDLE_SECONDS: Final = 24 * 3600.0
"""A client that ends without a word leaves its sandbox, which is removed after this time without use."""
_ID_BYTES: Final = 16
_ID_PATTERN: Final = re.compile(r"[a-z2-7]{26}")


def random_id() -> str:
    """Return a new id: 128 bits of chance in base32."""
    return base64.b32encode(secrets.token_bytes(_ID_BYTES)).decode().rstrip("=").lower()


def sandbox_name(bridge_id: str) -> str:
    """Return the name of the sandbox of an id. Raises `SandboxNotFoundError` for one of another form."""
    if not _ID_PATTERN.fullmatch(bridge_id):
        raise SandboxNotFoundError("the id is not one of this bridge", "ask for one with POST /v1/sandbox")
    return f"{NAME_PREFIX}{bridge_id}"


def make_ready(call: ApiCall) -> None:
    """Make sure that the sandbox exists and takes commands. One that the fleet bars stays barred."""
    status = _find(call)
    if status is None:
        settings = SandboxSettings(
            profile=call.parts.get("profile"),
            labels={"client": OWNER},
            idle_timeout=IDLE_SECONDS,
            owner=OWNER,
        )
        create_sandbox(call, call.name, settings)
        return
    if status.info.profile != call.parts.get("profile"):
        raise SandboxDiffersError(
            f"the sandbox {call.name} exists with another profile", "use the URL with which it was created"
        )
    # It may have ended by itself, for lack of memory for example. The fleet refuses to start an offender.
    if status.info.state in ("created", "stopped"):
        call.fleet.start(call.name)


def is_running(call: ApiCall) -> bool:
    """Return whether the sandbox exists with its files. Creates nothing."""
    status = _find(call)
    return status is not None and status.info.state in ("running", "asleep")


def remove(call: ApiCall) -> None:
    """Remove the sandbox, if it exists."""
    if _find(call) is not None:
        call.fleet.remove(call.name)


def _find(call: ApiCall) -> SandboxStatus | None:
    try:
        status = call.fleet.status(call.name)
    except SandboxNotFoundError:
        return None
    if status.terms.owner != OWNER:
        raise SandboxNotFoundError(f"no sandbox of the bridge is named {call.name}", "use another id")
    return status
