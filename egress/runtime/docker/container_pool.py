"""Unassigned containers that are kept ready, for each kind of sandbox that was prepared.

A kind is a spec without name, profile, parameters, env and labels. Images are compared by id: containers of
an older image with the same name are discarded. Kinds with host mounts are not kept: the host folder may be
replaced before the container is used.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.prewarmer import Prewarmer
from egress.runtime.docker.unassigned_container import UnassignedContainer
from egress.runtime.errors import SpecError, UnsupportedError
from egress.runtime.spec import MAX_READY, NO_VALUES, Spec, check_ready_count

_PLACEHOLDER_NAME: Final = "ready"

Make = Callable[[Spec, str], UnassignedContainer]
"""Makes one of a kind, of the image with this id."""


def pool_key(spec: Spec) -> Spec:
    """The kind of a sandbox: its spec without what differs between sandboxes of one kind."""
    kind = replace(spec, name=_PLACEHOLDER_NAME, profile=None, parameters=NO_VALUES)
    return replace(kind, env=NO_VALUES, labels=NO_VALUES)


class ContainerPool:
    """The ready containers, by kind."""

    def __init__(self, engine: DockerEngine, make: Make, *, is_single: bool = False) -> None:
        """If `is_single`, no container is made ahead once one was asked for."""
        self._engine = engine
        self._is_single = is_single
        self._make = make
        self._kinds: list[tuple[Spec, int, Prewarmer[UnassignedContainer]]] = []
        self._lock = threading.Lock()

    def want(self, spec: Spec, count: int) -> None:
        """Keep this many ready; 0 ends it. Raises `SpecError`, `UnsupportedError` or `ImageMissingError`."""
        check_ready_count(count)
        if spec.mounts and count:
            raise UnsupportedError("a sandbox with mounts cannot be prepared", "prepare one without mounts")
        kind = pool_key(spec)
        if count:
            self._engine.image_id(kind.image)
        # Counted over all kinds: each ready container holds memory of this machine.
        with self._lock:
            others = [each for each in self._kinds if each[0] != kind]
            if sum(wanted for _, wanted, _ in others) + count > MAX_READY:
                raise SpecError("too many sandboxes to keep ready", f"keep at most {MAX_READY} in all")
            prewarmer = next((each[2] for each in self._kinds if each[0] == kind), None) or self._prewarmer(
                kind
            )
            self._kinds = [*others, (kind, count, prewarmer)] if count else others
        prewarmer.want(count)
        if not count:
            prewarmer.close()

    def take(self, spec: Spec, image: str) -> UnassignedContainer | None:
        """A ready container that is still intact; None if there is none."""
        kind = pool_key(spec)
        with self._lock:
            prewarmer = next((each[2] for each in self._kinds if each[0] == kind), None)
        try:
            return self._fitting(prewarmer, image)
        finally:
            if prewarmer is not None and self._is_single:
                prewarmer.want(0)

    def _fitting(
        self, prewarmer: Prewarmer[UnassignedContainer] | None, image: str
    ) -> UnassignedContainer | None:
        is_first = True
        # Behind one that does not fit none is waited for: each that is made could be as unfit.
        while prewarmer is not None and (container := prewarmer.take(awaits=is_first)) is not None:
            if container.image == image and self._is_intact(container):
                return container
            container.close()
            is_first = False
        return None

    def until_ready(self, timeout: float = 60.0) -> bool:
        """Wait until all wanted containers are ready; returns whether they are."""
        with self._lock:
            prewarmers = [each for _, _, each in self._kinds]
        return all(each.until_ready(timeout) for each in prewarmers)

    def close(self) -> None:
        with self._lock:
            prewarmers, self._kinds = [each for _, _, each in self._kinds], []
        for prewarmer in prewarmers:
            prewarmer.close()

    def _prewarmer(self, kind: Spec) -> Prewarmer[UnassignedContainer]:
        def make() -> UnassignedContainer:
            return self._make(kind, self._engine.image_id(kind.image))

        return Prewarmer("egress-pool", make, UnassignedContainer.close)

    def _is_intact(self, container: UnassignedContainer) -> bool:
        state = self._engine.container_state(container.container)
        return state is not None and state.state == "running" and container.cell.door_controller.is_connected
