"""What can go wrong with a fleet, beside what can go wrong with a sandbox.

They belong to the family of `egress.runtime.errors`, so that whoever is ready for that is ready for these.
"""

from __future__ import annotations

from egress.runtime.errors import SandboxError, SandboxExistsError


class SandboxDiffersError(SandboxExistsError):
    """There is a sandbox of this name, made in another way. The text names fields, never values."""

    code = "sandbox.differs"


class FleetUnavailableError(SandboxError):
    """Nobody serves sandboxes here, or whoever did has gone."""

    code = "fleet.unavailable"


class FleetProtocolError(SandboxError):
    """What came over the socket of a fleet is not what is spoken there."""

    code = "fleet.protocol"


class FleetFaultError(SandboxError):
    """The process that serves sandboxes made a mistake. Its log has more."""

    code = "fleet.fault"


class ProxyFailedError(SandboxError):
    """The proxy of a fleet did not start, or did not start again."""

    code = "proxy.failed"

    def __init__(self, message: str, hint: str = "", *, status: int = SandboxError.exit_status) -> None:
        """The message has mistakes in rules in further lines; `status` is that of the proxy's command."""
        super().__init__(message, hint)
        self.exit_status = status


class PreviewError(SandboxError):
    """A port cannot be shown to a browser."""

    code = "preview.failed"
