"""What the tests of a laid kit share: stages, and a word where this machine cannot have one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.proxy.clients.cache import UNDER_CI
from tests.proxy.clients.stage import Stage, over_http1
from tests.proxy.lab.raw_upstream import RawUpstream
from tests.runtime.kit.kit_mounts import why_not
from tests.runtime.kit.kit_stage import KitStage, whole


def pytest_configure(config: pytest.Config) -> None:
    # The clients come from files of tests, which have these marks on them.
    config.addinivalue_line("markers", "proves(client, *facts): what docs/clients.md says of this client")


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> None:
    """Leave a test out, with a word, where there are no such namespaces; under CI fail."""
    if missing := why_not():
        if UNDER_CI:
            pytest.fail(f"{missing} is missing", pytrace=False)
        request.node.user_properties.append(("left-out", missing))
        pytest.skip(f"needs {missing}")


@pytest.fixture
async def bare(tmp_path: Path) -> AsyncIterator[Stage[RawUpstream]]:
    """The proxy and an upstream; clients are given nothing yet."""
    async with over_http1(tmp_path) as stage:
        yield stage


@pytest.fixture
def stage(namespace: None, bare: Stage[RawUpstream], tmp_path: Path) -> KitStage[RawUpstream]:
    """The same, for clients with the whole kit."""
    return whole(bare, tmp_path)
