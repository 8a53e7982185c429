"""Removes images of ours that a newer one has taken the place of: each version of Egress makes its own.

The newest ones of a kind are kept, so that two versions side by side do not build each other's images anew.
An image with a name that is not ours, or with a container, stays: the engine refuses, and the next time will
do.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.labels import IMAGE_LABEL
from egress.runtime.errors import EngineError

KEPT_IMAGES: Final = 3
"""Images of one kind that stay, the newest among them."""
KEPT_NAMES: Final = 4
"""Names by fingerprint that an image may have, from as many installations."""


def remove_superseded(engine: DockerEngine, repository: str) -> None:
    """Remove all but the newest images of a kind. Call it after a new one was made."""
    with suppress(EngineError):
        found = sorted(engine.images(f"{IMAGE_LABEL}={repository}"), key=lambda image: image.created)
        for image in found[:-KEPT_IMAGES]:
            for name in image.names:
                if name.startswith(f"{repository}:") and not name.endswith(":latest"):
                    _remove_name(engine, name)


def remove_stages(engine: DockerEngine, stages: Iterable[str]) -> None:
    """Remove what a build of several stages has left: images without a name, some as large as its result."""
    for stage in stages:
        # The engine keeps a stage that others were built on.
        _remove_name(engine, stage)


def remove_old_names(engine: DockerEngine, repository: str, current: str, prefix: str) -> None:
    """Remove names by fingerprint from the image that has the name `current`, if there are many."""
    with suppress(EngineError):
        for image in engine.images(f"{IMAGE_LABEL}={repository}"):
            old = [
                name for name in image.names if name.startswith(f"{repository}:{prefix}") and name != current
            ]
            if current in image.names and len(old) >= KEPT_NAMES:
                for name in old:
                    _remove_name(engine, name)


def _remove_name(engine: DockerEngine, name: str) -> None:
    # In use, or removed by somebody else at this moment: nothing is lost by either.
    with suppress(EngineError):
        engine.untag_image(name)
