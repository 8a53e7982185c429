"""Errors of a fleet, besides the errors of a single sandbox.

All are `SandboxError`, so a caller that handles that family handles these too.
"""

from __future__ import annotations

from egress.runtime.errors import SandboxError, SandboxExistsError


class SandboxDiffersError(SandboxExistsError):
    """A sandbox of this name exists with other settings. The message names fields, never values."""

    code = "sandbox.differs"


class FleetUnavailableError(SandboxError):
    """No process serves sandboxes here, or that process has ended."""

    code = "fleet.unavailable"


class FleetProtocolError(SandboxError):
    """A message on the socket of a fleet does not follow the protocol."""

    code = "fleet.protocol"


class FleetFaultError(SandboxError):
    """The process that serves sandboxes failed. Its log has the details."""

    code = "fleet.fault"


class ProxyFailedError(SandboxError):
    """The proxy of a fleet did not start, or did not restart."""

    code = "proxy.failed"

    def __init__(self, message: str, hint: str = "", *, status: int = SandboxError.exit_status) -> None:
        """`message` lists mistakes in the rules, one a line; `status` is the exit status of the proxy."""
        super().__init__(message, hint)
        self.exit_status = status


class ProcessNotFoundError(SandboxError):
    """The sandbox has no process of this id."""

    code = "process.not_found"


class ProcessEndedError(SandboxError):
    """A process ended before the text, the listener or the answer that a client waited for."""

    code = "process.ended"


class SessionNotFoundError(SandboxError):
    """The sandbox has no session of this id, or it was ended."""

    code = "session.not_found"


class SessionDiffersError(SandboxError):
    """A session of this id exists with other settings. The message names fields, never values."""

    code = "session.differs"


class SessionBusyError(SandboxError):
    """Too many commands wait for a session."""

    code = "session.busy"


class SnapshotNotFoundError(SandboxError):
    """No snapshot has this name."""

    code = "snapshot.not_found"


class SnapshotExistsError(SandboxError):
    """A snapshot of this name exists already."""

    code = "snapshot.exists"


class SnapshotQuotaError(SandboxError):
    """All snapshots together would take more space than they may."""

    code = "snapshot.quota"


class SnapshotDamagedError(SandboxError):
    """The files of a snapshot are not as they were written."""

    code = "snapshot.damaged"


class PreviewError(SandboxError):
    """A port cannot be shown to a browser."""

    code = "preview.failed"


class GrantRefusedError(SandboxError):
    """The rules, or another grant, leave no place for this grant."""

    code = "grant.refused"


class GrantBeyondError(GrantRefusedError):
    """The rule file delegates no such change to this sandbox."""

    code = "grant.not_delegated"


class GrantNotFoundError(SandboxError):
    """The sandbox has no grant of this id."""

    code = "grant.not_found"


class RequestNotLoggedError(SandboxError):
    """The log of this run has no request of this id."""

    code = "log.not_found"


class RulesRefusedError(SandboxError):
    """The rule files have mistakes; the last good rules stay in force."""

    code = "rules.refused"


class CheckFailedError(SandboxError):
    """The text of a rule file could not be checked within its limits."""

    code = "rules.unchecked"
