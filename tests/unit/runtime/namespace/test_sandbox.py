"""One sandbox, whole; real ones are in tests/runtime/namespace."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from egress.runtime.door.controller import DoorController
from egress.runtime.mounted_files import MountedFiles
from egress.runtime.namespace.cgroups import ControlGroups
from egress.runtime.namespace.launcher_client import LauncherClient
from egress.runtime.namespace.sandbox import NamespaceSandbox
from egress.runtime.protocol import Provisions
from egress.runtime.spec import Spec


class Told:
    """Groups and a space that remember what they were told."""

    def __init__(self, *, can_freeze: bool) -> None:
        self.freezer = Path("/group") if can_freeze else None
        self.can_freeze = can_freeze
        self.calls: list[str] = []

    def freeze(self, *, is_frozen: bool) -> None:
        self.calls.append(f"freeze {is_frozen}")

    def pause_commands(self, *, is_paused: bool) -> None:
        self.calls.append(f"hold {is_paused}")

    def stop(self) -> None:
        self.calls.append("stop")


def box(told: Told) -> NamespaceSandbox:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    spec = Spec(name="one", image="host")
    found = NamespaceSandbox(
        spec,
        Provisions(),
        MountedFiles(Path("/"), {}),
        cast("DoorController", None),
        cast("ControlGroups", told),
        now,
        ExitStack(),
    )
    found.launcher = cast("LauncherClient", told)
    return found


@pytest.mark.parametrize(("can_freeze", "way"), [(True, "freeze"), (False, "hold")])
def test_it_is_frozen_where_it_can_be_and_held_elsewhere(can_freeze: bool, way: str) -> None:
    told = Told(can_freeze=can_freeze)
    found = box(told)
    found.pause(is_paused=True)
    found.pause(is_paused=False)
    assert told.calls == [f"{way} True", f"{way} False"]


def test_the_next_start_is_not_frozen() -> None:
    told = Told(can_freeze=True)
    box(told).end()
    assert told.calls == ["stop", "freeze False"]
