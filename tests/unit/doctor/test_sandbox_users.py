"""Whether sandboxes have users of their own is said, with what they share otherwise."""

from __future__ import annotations

from egress.doctor import sandbox_users
from egress.doctor.diagnosis import Level
from tests.unit.doctor.proxy_setups import is_content, needs_care

ALL_IDS = "         0          0 4294967295\n"


def test_root_gives_each_sandbox_its_own() -> None:
    found = sandbox_users.judged(0, ALL_IDS)
    assert found.level is Level.OK
    assert "mounts" in found.fact


def test_what_is_shared_is_said() -> None:
    needs_care(sandbox_users.judged(1000, ALL_IDS), Level.NOTE, "user 1000", "inotify")
    needs_care(sandbox_users.judged(0, "0 100000 65536\n"), Level.NOTE, "range of user ids", "inotify")


def test_this_process_is_judged() -> None:
    assert is_content(sandbox_users.check())
