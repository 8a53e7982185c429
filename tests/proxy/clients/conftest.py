"""What the proofs of clients share: the word by which a test says what it proves, and where it does so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.proxy.clients.stage import Stage, over_http1
from tests.proxy.lab.raw_upstream import RawUpstream


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "proves(client, *facts): what docs/clients.md says of this client")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage[RawUpstream]]:
    async with over_http1(tmp_path) as stage:
        yield stage
