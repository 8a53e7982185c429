"""Keeps the file system of a container as an image, for a snapshot.

Theory of operation. The engine commits what a container has written besides its mounts. Everything of ours in
a sandbox is a mount: the trust kit, the resolver, the supervisor, the pipe. So the image has empty files in
their places. The workspace is a volume and not part of it. Variables are given to each command, and are no
part of a container. Canary files are written by the sandbox's user outside of any mount, so a sandbox that
has some is refused.

The container is paused meanwhile: what was measured against the quota is what is kept.
"""

from __future__ import annotations

import re
from typing import Final

from egress.runtime.docker.engine import ContainerGoneError, DockerEngine
from egress.runtime.docker.isolation import Isolation
from egress.runtime.docker.labels import IMAGE_LABEL, LEASE_LABEL, ROLE_LABEL
from egress.runtime.errors import ArchiveTooLargeError, SandboxDiedError, SpecError, UnsupportedError
from egress.runtime.protocol import SAVED_IMAGE_REPOSITORY

_IMAGE_NAME: Final = re.compile(rf"{SAVED_IMAGE_REPOSITORY}:[a-z0-9][a-z0-9._-]{{0,120}}")
# An image inherits the labels of its container, and a container those of its image: with a lease of a dead
# owner every container of the image would be taken for a leftover.
_IMAGE_LABELS: Final = {ROLE_LABEL: "", LEASE_LABEL: "", IMAGE_LABEL: SAVED_IMAGE_REPOSITORY}


def check(name: str, planted: tuple[str, ...], isolation: Isolation) -> None:
    """Raise `UnsupportedError` for a sandbox that cannot be kept as an image."""
    if planted:
        raise UnsupportedError(
            f"the sandbox {name} has canary files, which an image would keep",
            "keep its workspace only, or plant canaries in variables",
        )
    if isolation.runtime:
        raise UnsupportedError(
            f"the engine's runtime {isolation.runtime} may keep written files to itself",
            "keep its workspace only",
        )


def save(engine: DockerEngine, container: str, image: str, max_bytes: int) -> int:
    """Make the image; returns its size. Raises `ArchiveTooLargeError`, and leaves nothing then."""
    repository, _, tag = _checked_name(image).partition(":")
    try:
        engine.pause_container(container)
        try:
            size = engine.written_bytes(container)
            if size > max_bytes:
                raise ArchiveTooLargeError(
                    f"the sandbox has written more than {max_bytes} bytes", "remove files in it"
                )
            engine.commit(container, repository, tag, _IMAGE_LABELS)
        finally:
            engine.resume_container(container)
    except ContainerGoneError:
        raise SandboxDiedError("the sandbox ended while it was kept", "start it again") from None
    return size


def remove(engine: DockerEngine, image: str) -> None:
    """Remove an image that `save` has made. Raises `EngineError` while a container uses it."""
    engine.untag_image(_checked_name(image))


def _checked_name(image: str) -> str:
    # The name may come from a file: no other image must be removed for it.
    if not _IMAGE_NAME.fullmatch(image):
        raise SpecError("this is not the name of an image of a snapshot", "take the snapshot again")
    return image
