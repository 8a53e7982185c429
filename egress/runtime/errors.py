"""What can go wrong with a sandbox, as those who use one are told.

Each class has a stable `code`. The text names the cause, and the hint the cure; both can reach a model that
works in the sandbox, so they hold nothing of the rules, no secret, and nothing that a sandbox said.
"""

from __future__ import annotations

from egress.errors import EgressError


class SandboxError(EgressError):
    """Abstract root of this family; raise one of the classes below."""

    code = "sandbox"
    exit_status = 3

    def __init__(self, message: str, hint: str = "") -> None:
        if type(self) is SandboxError:
            raise TypeError("SandboxError is abstract: raise a subclass that says what happened")
        super().__init__(message, hint)


class SpecError(SandboxError):
    """What was asked for can be no sandbox, or no command."""

    code = "spec.invalid"
    exit_status = 2


class MountError(SpecError):
    """A folder or file of the host that no sandbox gets."""

    code = "mount.refused"


class SandboxExistsError(SandboxError):
    """There is a sandbox of this name already."""

    code = "sandbox.exists"


class SandboxNotFoundError(SandboxError):
    """There is no sandbox of this name."""

    code = "sandbox.not_found"


class SandboxStateError(SandboxError):
    """The sandbox is there, and cannot do this now: it is paused, or not started."""

    code = "sandbox.state"


class SandboxDiedError(SandboxError):
    """The sandbox ended while it was used."""

    code = "sandbox.died"


class ExecTimeoutError(SandboxError):
    """A command was ended because its time was over."""

    code = "exec.timeout"
    exit_status = 1


class CommandError(SandboxError):
    """A command ended with another status than 0."""

    code = "exec.failed"
    exit_status = 1


class PathNotFoundError(SandboxError):
    """A path inside the sandbox does not exist."""

    code = "path.not_found"
    exit_status = 1


class ArchiveError(SandboxError):
    """A tar archive that is none, or that no archive of files would look like."""

    code = "archive.refused"
    exit_status = 1


class PortClosedError(SandboxError):
    """Nothing in the sandbox listens on this port, or not on an address that others can dial."""

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
    """The engine answered, and did not do what it was asked for."""

    code = "engine.failed"


class GatewayError(SandboxError):
    """The proxy does not answer."""

    code = "gateway.unavailable"


class GatewayRefusedError(GatewayError):
    """The proxy answers, and does not take the sandbox, or not so."""

    code = "gateway.refused"


class DoorError(SandboxError):
    """The door of a sandbox did not open."""

    code = "door.failed"
