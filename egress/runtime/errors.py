"""Errors of a sandbox, as its users see them.

Each class has a stable `code`. The message names the cause, and the hint the cure. Both can reach a model
that works in the sandbox, so they must not hold rules, secrets, or text from a sandbox.
"""

from __future__ import annotations

from typing import Self

from egress.errors import EgressError


class SandboxError(EgressError):
    """Abstract root of this family; raise one of its subclasses."""

    code = "sandbox"
    exit_status = 3

    def __init__(self, message: str, hint: str = "") -> None:
        # The code of the root says too little to act on.
        if type(self) is SandboxError:
            raise TypeError("SandboxError is abstract: raise a subclass that says what happened")
        super().__init__(message, hint)


class SpecError(SandboxError):
    """The requested sandbox or command is impossible."""

    code = "spec.invalid"
    exit_status = 2


class SpecTypeError(SpecError, TypeError):
    """An argument has the wrong type. The error is a `TypeError` too."""

    code = "spec.type"


class MountError(SpecError):
    """A folder or file of the host that no sandbox may see."""

    code = "mount.refused"


class SandboxExistsError(SandboxError):
    """A sandbox of this name exists already."""

    code = "sandbox.exists"


class SandboxNotFoundError(SandboxError):
    """No sandbox has this name."""

    code = "sandbox.not_found"

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the error for a name that no sandbox has."""
        return cls(f"no sandbox is named {name}", "list them with `egress ps`, or create it")


class SandboxStateError(SandboxError):
    """The state of the sandbox forbids this now: it is paused, or not started."""

    code = "sandbox.state"


class SandboxDiedError(SandboxError):
    """The sandbox ended while it was used."""

    code = "sandbox.died"


class SandboxTimeoutError(SandboxError, TimeoutError):
    """A wait ended without the awaited event. The error is a `TimeoutError` too."""

    code = "sandbox.timeout"
    exit_status = 1


class ExecTimeoutError(SandboxTimeoutError):
    """A command was ended by its timeout."""

    code = "exec.timeout"
    exit_status = 1


class CommandError(SandboxError):
    """A command exited with a status other than 0."""

    code = "exec.failed"
    exit_status = 1


class PathNotFoundError(SandboxError):
    """A path inside the sandbox does not exist."""

    code = "path.not_found"
    exit_status = 1


class ArchiveError(SandboxError):
    """An invalid tar archive, or one that no archiver of files would make."""

    code = "archive.refused"
    exit_status = 1


class ArchiveTooLargeError(ArchiveError):
    """An archive that grew beyond the size that it may have."""

    code = "archive.too_large"


class PortClosedError(SandboxError):
    """No program in the sandbox listens on this port, or only on an address that cannot be dialled."""

    code = "port.closed"
    exit_status = 1


class UnsupportedError(SandboxError):
    """This runtime, or this image, cannot do it."""

    code = "unsupported"


class ImageMissingError(SandboxError):
    """The engine has no image of this name."""

    code = "image.missing"


class EngineUnavailableError(SandboxError):
    """No engine answers."""

    code = "engine.unavailable"


class EngineError(SandboxError):
    """The engine answered, and failed to do it."""

    code = "engine.failed"


class GatewayError(SandboxError):
    """The proxy does not answer."""

    code = "gateway.unavailable"


class GatewayRefusedError(GatewayError):
    """The proxy answers, and refuses the sandbox."""

    code = "gateway.refused"


class DoorError(SandboxError):
    """The door of a sandbox did not open a port."""

    code = "door.failed"
