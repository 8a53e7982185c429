"""The gateway of a namespace: what is missing is named before a pod is made."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from egress.cluster.api_server import ClusterApi
from egress.runtime.errors import EngineError, EngineUnavailableError, GatewayError, UnsupportedError
from egress.runtime.kubernetes.gateway import ClusterGateway, GatewayFacts
from tests.runtime.kubernetes.fake_cluster import BASE, CERTIFICATE, FakeCluster, served


def test_the_facts_are_address_image_and_certificate() -> None:
    with served(FakeCluster()) as api:
        gateway = ClusterGateway(api)
        assert gateway.facts() == GatewayFacts("10.96.0.92", "proxy:1", CERTIFICATE)
        assert gateway.admit("one").authority == CERTIFICATE
        gateway.hand_over("one", ())
        gateway.dismiss("one")
        for act in (lambda: gateway.bar("one", "killed"), gateway.open_liveness):
            with pytest.raises(UnsupportedError):
                act()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda cluster: cluster.services.clear(), "agents has no gateway"),
        (lambda cluster: cluster.configmaps.clear(), "has no certificate of a gateway"),
        (lambda cluster: cluster.pods.clear(), "has no pod of a gateway"),
        (lambda cluster: cluster.configmaps["egress-trust"]["data"].pop("bundle.pem"), "lacks ca.pem or"),
        (lambda cluster: cluster.services["egress-proxy"].update(spec={"clusterIP": "None"}), "no address"),
        (
            lambda cluster: cluster.configmaps["egress-trust"]["data"].update(
                x="-----BEGIN PRIVATE KEY-----"
            ),
            "holds a private key",
        ),
    ],
)
def test_what_is_missing_is_named(spoil: Callable[[FakeCluster], object], message: str) -> None:
    cluster = FakeCluster()
    spoil(cluster)
    with served(cluster) as api, pytest.raises(GatewayError, match=message):
        ClusterGateway(api).facts()


def test_a_right_that_is_missing_is_told_from_a_gateway_that_is() -> None:
    cluster = FakeCluster()
    cluster.refused[f"GET {BASE}/services/egress-proxy"] = (403, {"message": "services is forbidden"})
    with served(cluster) as api, pytest.raises(EngineError, match="services is forbidden"):
        ClusterGateway(api).facts()


def test_something_else_than_a_service_is_an_error() -> None:
    cluster = FakeCluster()
    cluster.services["egress-proxy"] = {"spec": ["x"]}
    with served(cluster) as api, pytest.raises(EngineError, match="something else than Kubernetes"):
        ClusterGateway(api).facts()


def test_nobody_answers() -> None:
    cluster = FakeCluster()
    with served(cluster) as api:
        gone = ClusterApi(api.host, 1, api.namespace, api.authority, api.token_source)
        with pytest.raises(EngineUnavailableError, match="did not answer"):
            ClusterGateway(gone).facts()
