"""Blanks that are made ahead: for each kind of sandbox that was asked for, so many.

A kind is all of a spec but name, profile, env and labels. An image is meant by its content: where its name
means another one by now, what was made of the old one is thrown away. Kinds that mount something of the host
are not kept: what is there can be another thing when it is taken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.prewarmer import Prewarmer
from egress.runtime.docker.unassigned import UnassignedContainer
from egress.runtime.errors import SpecError, UnsupportedError
from egress.runtime.spec import MAX_READY, NO_VALUES, Spec, check_ready_count

_PLACEHOLDER_NAME: Final = "ready"

Make = Callable[[Spec, str], UnassignedContainer]
"""Makes one of a kind, of the image with this id."""


def pool_key(spec: Spec) -> Spec:
    """The same for all sandboxes of one kind."""
    return replace(spec, name=_PLACEHOLDER_NAME, profile=None, env=NO_VALUES, labels=NO_VALUES)


class ContainerPool:
    """What is ready, by kind."""

    def __init__(self, engine: DockerEngine, make: Make) -> None:
        self._engine = engine
        self._make = make
        self._kinds: list[tuple[Spec, int, Prewarmer[UnassignedContainer]]] = []
        self._lock = threading.Lock()

    def want(self, spec: Spec, count: int) -> None:
        """Keep so many; 0 ends it. Raises `SpecError`, `UnsupportedError` or `ImageMissingError`."""
        check_ready_count(count)
        if spec.mounts and count:
            raise UnsupportedError(
                "a sandbox that mounts something of the host is not made ahead", "prepare one without"
            )
        kind = pool_key(spec)
        if count:
            self._engine.image_id(kind.image)
        with self._lock:
            others = [each for each in self._kinds if each[0] != kind]
            if sum(wanted for _, wanted, _ in others) + count > MAX_READY:
                raise SpecError("too many sandboxes are to be kept ready", f"keep {MAX_READY} in all at most")
            shelf = next((each[2] for each in self._kinds if each[0] == kind), None) or self._prewarmer(kind)
            self._kinds = [*others, (kind, count, shelf)] if count else others
        shelf.want(count)
        if not count:
            shelf.close()

    def take(self, spec: Spec, image: str) -> UnassignedContainer | None:
        """One that is ready, and still is what it was; None where there is none."""
        kind = pool_key(spec)
        with self._lock:
            shelf = next((each[2] for each in self._kinds if each[0] == kind), None)
        while shelf is not None and (blank := shelf.take()) is not None:
            if blank.image == image and self._is_intact(blank):
                return blank
            blank.close()
        return None

    def until_ready(self, timeout: float = 60.0) -> bool:
        """Wait until all are there that are wanted; returns whether they are."""
        with self._lock:
            shelves = [shelf for _, _, shelf in self._kinds]
        return all(shelf.until_ready(timeout) for shelf in shelves)

    def close(self) -> None:
        with self._lock:
            shelves, self._kinds = [shelf for _, _, shelf in self._kinds], []
        for shelf in shelves:
            shelf.close()

    def _prewarmer(self, kind: Spec) -> Prewarmer[UnassignedContainer]:
        def make() -> UnassignedContainer:
            return self._make(kind, self._engine.image_id(kind.image))

        return Prewarmer("egress-pool", make, UnassignedContainer.close)

    def _is_intact(self, blank: UnassignedContainer) -> bool:
        condition = self._engine.container_state(blank.container)
        return (
            condition is not None and condition.state == "running" and blank.cell.door_controller.is_connected
        )
