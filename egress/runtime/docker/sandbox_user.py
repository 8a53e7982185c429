"""Gives each sandbox a user of its own, where nothing depends on the default user.

The kernel counts inotify instances and memory of pipes for a user id of the machine, over all containers. Two
sandboxes of one user id can take them from each other, and from that user of the machine. A container has no
user namespace of its own, so the id inside is the id outside. It can be a new one only if no file belongs to
the default user: neither in the image nor in a mounted folder of the machine.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from egress.runtime.docker.labels import IMAGE_LABEL
from egress.runtime.spec import DEFAULT_USER_ID, Spec

_FIRST_ID: Final = 0x60000000
"""Above the ids that login programs, engines and systemd assign, and below those of namespace sandboxes."""
_ID_COUNT: Final = 0x08000000
_ALL_IDS: Final = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class ImageOrigin:
    """What tells whether an image is as Egress built it."""

    labels: frozenset[str]
    steps: tuple[str, ...]
    """The instructions that made it, the newest first."""

    @property
    def is_built_here(self) -> bool:
        """Return whether Egress built the image, and nothing was added to it.

        Such an image has no file that only the default user may write. An image that was built on it inherits
        its labels, but has other instructions after the one that sets the label.
        """
        return IMAGE_LABEL in self.labels and (len(self.steps) == 1 or IMAGE_LABEL in self.steps[0])


def shares_default_user(spec: Spec, *, is_root: bool) -> bool:
    """Return whether a sandbox would run as the default user, without a need for that user. Pure."""
    is_default = (spec.user, spec.group) == (DEFAULT_USER_ID, DEFAULT_USER_ID)
    # A caller that is no root gave its own id, so that it can read and write the files of its sandbox.
    return is_root and is_default and not spec.mounts


def has_all_ids(uid_map: str) -> bool:
    """Return whether this process sees all user ids of the machine, by /proc/self/uid_map. Pure."""
    return any(int(line.split()[2]) == _ALL_IDS for line in uid_map.splitlines())


class OwnUsers:
    """Chooses the users of the sandboxes of one engine."""

    def __init__(
        self, origin_of: Callable[[str], ImageOrigin], maps_users: Callable[[], bool], *, is_root: bool
    ) -> None:
        """`maps_users` tells whether the engine maps the ids of containers to a range of its own."""
        self._origin_of = origin_of
        self._maps_users = maps_users
        self._is_root = is_root
        self._has_all_ids: bool | None = None
        self._built_here: dict[str, bool] = {}
        self._lock = threading.Lock()

    def assign(self, spec: Spec, image: str) -> Spec:
        """Return the spec with the user of this sandbox; `image` is the id of its image."""
        if not shares_default_user(spec, is_root=self._is_root) or not self._can_differ(image):
            return spec
        # Drawn at random, as other processes draw theirs: two equal ids are as good as excluded.
        own = _FIRST_ID + secrets.randbelow(_ID_COUNT)
        return replace(spec, user=own, group=own)

    def _can_differ(self, image: str) -> bool:
        with self._lock:
            if self._has_all_ids is None:
                self._has_all_ids = _reads_all_ids() and not self._maps_users()
            if not self._has_all_ids:
                return False
            if image not in self._built_here:
                self._built_here[image] = self._origin_of(image).is_built_here
            return self._built_here[image]


def is_own(spec: Spec) -> bool:
    """Return whether a sandbox has a user that `OwnUsers` chose."""
    return _FIRST_ID <= spec.user < _FIRST_ID + _ID_COUNT


def runs_as_root() -> bool:
    """Return whether this process is root."""
    return os.geteuid() == 0


def _reads_all_ids() -> bool:
    return has_all_ids(Path("/proc/self/uid_map").read_text(encoding="ascii"))
