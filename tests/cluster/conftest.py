"""What trials on a real cluster share. They are for the night, and need what `make cluster` starts."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from egress.runtime.docker.engine import DockerEngine
from egress.runtime.docker.images import product_images
from scripts.cluster import images
from scripts.cluster.folders import node_folders
from scripts.cluster.running import find_running
from tests.cluster.agent_sandbox.controller import AgentSandbox, define
from tests.cluster.installed_chart import InstalledChart, installed, trusting_upstreams
from tests.cluster.running_cluster import RunningCluster
from tests.cluster.shipped_fence import Fence
from tests.cluster.stand_ins import Internet, internet, policy_engine
from tests.conftest import IS_NIGHTLY, LEFT_OUT

DEFINITIONS: Final = Path(__file__).parent / "agent_sandbox/definitions.yaml"


@pytest.fixture(scope="session")
def running() -> RunningCluster | None:
    if not IS_NIGHTLY or (node := find_running(node_folders())) is None:
        return None
    return RunningCluster.of(node)


@pytest.fixture
def cluster(running: RunningCluster | None, request: pytest.FixtureRequest) -> RunningCluster:
    """A cluster of one node; all trials share it, one after another."""
    if running is None:
        request.node.user_properties.append((LEFT_OUT, "a cluster, at night (make cluster-test)"))
        pytest.skip("needs a cluster, at night: make cluster-test")
    return running


@pytest.fixture(scope="session")
def outside(
    running: RunningCluster | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Internet | None]:
    if running is None:
        yield None
        return
    with internet(running, tmp_path_factory.mktemp("outside")) as found:
        yield found


@pytest.fixture
def canary(cluster: RunningCluster, outside: Internet | None) -> Internet:
    """The stand-in for the internet, which says who came."""
    assert outside is not None
    return outside


@pytest.fixture(scope="session")
def images_of_the_product(running: RunningCluster | None) -> None:
    """Both images, built by the recipes as they are shipped, under the names of the manifest."""
    if running is None:
        return
    engine = DockerEngine()
    for make, name in (
        (product_images.proxy_image, "egress-proxy"),
        (product_images.sandbox_image, "egress-sandbox"),
    ):
        images.load_as(running.folders, make(engine), name)


# Not for longer than a file: others need its namespace, or its address.
@pytest.fixture(scope="module")
def standing_fence(
    running: RunningCluster | None, outside: Internet | None, images_of_the_product: None
) -> Iterator[Fence | None]:
    if running is None or outside is None:
        yield None
        return
    found = Fence(running)
    found.remove()
    try:
        found.set_up(outside.authority)
        yield found
    finally:
        found.remove()


@pytest.fixture
def fence(cluster: RunningCluster, standing_fence: Fence | None) -> Iterator[Fence]:
    """The manifest as it is shipped, in force; what a trial adds to its namespace goes with the trial."""
    assert standing_fence is not None
    with standing_fence.kept_as_it_is():
        yield standing_fence


@pytest.fixture(scope="module")
def standing_gateway(
    running: RunningCluster | None, outside: Internet | None, images_of_the_product: None
) -> Iterator[InstalledChart | None]:
    if running is None or outside is None:
        yield None
        return
    define(running, str(DEFINITIONS))
    # Its job may reach the API server, and its gate nothing else, so policies have to be in force. Not for
    # longer than a file: other trials are about networks that enforce nothing.
    chart = InstalledChart(running, values=trusting_upstreams())
    with policy_engine(running), installed(chart, outside.authority) as found:
        yield found


@pytest.fixture
def gateway(cluster: RunningCluster, standing_gateway: InstalledChart | None) -> Iterator[InstalledChart]:
    """The chart, installed by helm; what a trial adds to its namespace goes with the trial."""
    assert standing_gateway is not None
    with standing_gateway.kept_as_it_is():
        yield standing_gateway


@pytest.fixture
def claims(gateway: InstalledChart) -> Iterator[AgentSandbox]:
    """The kinds of agent-sandbox, in the namespace of the chart."""
    found = AgentSandbox(gateway.cluster, gateway.namespace)
    yield found
    found.remove_all()


@pytest.fixture
def unfenced(cluster: RunningCluster, images_of_the_product: None) -> Iterator[str]:
    """A namespace where nothing is forbidden: what answers there would answer anywhere without a fence."""
    name = f"unfenced-{secrets.token_hex(3)}"
    cluster.make_namespace(name)
    yield name
    cluster.delete_namespace(name)


@pytest.fixture
def agent_sandbox(fence: Fence) -> Iterator[AgentSandbox]:
    """The kinds of agent-sandbox, in the namespace of the fence."""
    define(fence.cluster, str(DEFINITIONS))
    found = AgentSandbox(fence.cluster, fence.namespace)
    yield found
    found.remove_all()
