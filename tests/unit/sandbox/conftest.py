"""A sandbox out of plain processes of this machine, and one in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.runtime.fake import FakeRuntime
from egress.sandbox.handle import Sandbox
from tests.unit.sandbox.local_runtime import LocalRuntime


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Sandbox]:
    runtime = LocalRuntime(tmp_path)
    yield Sandbox.create(image="any", runtime=runtime)
    runtime.close()


@pytest.fixture
def fake() -> Iterator[FakeRuntime]:
    runtime = FakeRuntime()
    yield runtime
    runtime.close()
