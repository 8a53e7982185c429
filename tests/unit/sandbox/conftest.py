"""A sandbox out of plain processes of this machine, and one in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.runtime.fake import FakeRuntime
from egress.sandbox.handle import Sandbox
from tests.unit.sandbox.local_runtime import LocalRuntime


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[LocalRuntime]:
    runtime = LocalRuntime(tmp_path)
    yield runtime
    runtime.close()


@pytest.fixture
def box(runtime: LocalRuntime) -> Sandbox:
    return Sandbox.create(image="any", runtime=runtime)


@pytest.fixture
def fake() -> Iterator[FakeRuntime]:
    runtime = FakeRuntime()
    yield runtime
    runtime.close()
