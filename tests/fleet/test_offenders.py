"""An offender is stopped once, tried again after a failure, and not started; `test_fleet.py` has the rest."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from egress.errors import UnreadableError
from egress.fleet.offenders import CanaryOffenders
from egress.runtime.errors import SandboxStateError
from egress.runtime.fake import FakeRuntime
from tests.fleet.memory_fleet import spec


@contextmanager
def _alone(_: str) -> Iterator[None]:
    yield


def test_it_is_refused_until_it_is_no_offender_any_more() -> None:
    runtime, named = FakeRuntime(images={"any"}), {"one"}
    runtime.create(spec("one"))
    runtime.start("one")
    offenders = CanaryOffenders(runtime.stop, {}, threading.Condition(), _alone, lambda: named)
    offenders.refuse("one")
    offenders.stop_new()
    assert runtime.info("one").state == "stopped"
    with pytest.raises(SandboxStateError, match="sent a canary"):
        offenders.refuse("one")
    named.clear()
    offenders.refuse("one")


def test_without_a_proxy_the_check_waits() -> None:
    def gone() -> set[str]:
        raise UnreadableError("no proxy")

    CanaryOffenders(FakeRuntime().stop, {}, threading.Condition(), _alone, gone).stop_new()
