"""A fleet of pods: opened by name, without a proxy of this machine."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from egress import open_fleet
from egress.api.log_schema import AuditQuery
from egress.errors import EgressError, UnreadableError
from egress.fleet.cluster_fleet import open_cluster_fleet
from egress.runtime.errors import GatewayError, SpecError
from egress.runtime.spec import Command, Spec
from egress.sandbox.local_audit_log import LocalAuditLog
from tests.cluster.fake_api_server import AUTHORITY, TOKEN
from tests.runtime.kubernetes.fake_cluster import FakeCluster, served


def kubeconfig(folder: Path, port: int) -> Path:
    data = base64.b64encode(AUTHORITY.cert_pem.bytes()).decode()
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": data}
    path = folder / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": {"token": TOKEN}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "agents"}}],
            }
        )
    )
    return path


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("STATE", "RUNTIME"):
        monkeypatch.setenv(f"EGRESS_{name}_DIR", str(tmp_path / name.lower()))
    return tmp_path


def test_a_fleet_is_opened_by_its_kind_and_ends_with_its_sandboxes(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster()
    with served(cluster) as api:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(folders, api.port)))
        with open_fleet(runtime="kubernetes") as fleet:
            assert fleet.about.kind == "kubernetes"
            assert "namespace agents" in fleet.about.line
            assert "not compared with the secrets" in fleet.about.line
            fleet.create(Spec(name="one", image="image:1", profile="reader"))
            fleet.start("one")
            assert fleet.exec("one", Command(argv=("echo", "x"))).stdout == "x\n"
            assert cluster.pods["one"]["metadata"]["annotations"]["egress/profile"] == "reader"
            with pytest.raises(UnreadableError, match="no log of their own"):
                LocalAuditLog(fleet.about).query("one", AuditQuery())
            with pytest.raises(GatewayError, match="no proxy"):
                fleet.policies.show("one")
        assert cluster.sandboxes == []


@pytest.mark.parametrize(
    "settings", [{"rules": [Path("hosts.yaml")]}, {"audit_dir": Path("/log")}, {"seccomp": Path("/x.json")}]
)
def test_what_only_a_proxy_of_this_machine_has_is_refused(folders: Path, settings: dict[str, Path]) -> None:
    with pytest.raises(SpecError), open_fleet(runtime="kubernetes", **settings):  # type: ignore[arg-type]
        pass


def test_a_cluster_that_is_not_known_is_named(folders: Path) -> None:
    with (
        pytest.raises(EgressError, match="no cluster is known"),
        open_cluster_fleet({"HOME": str(folders)}, folders / "run"),
    ):
        pass


def test_a_fleet_that_cannot_be_opened_leaves_nothing(folders: Path) -> None:
    cluster = FakeCluster()
    cluster.services.clear()
    with served(cluster) as api:
        environ = {
            "KUBECONFIG": str(kubeconfig(folders, api.port)),
            "EGRESS_STATE_DIR": str(folders / "state"),
        }
        with pytest.raises(GatewayError), open_cluster_fleet(environ, folders / "run"):
            pass
    assert list(folders.glob("run/**/*.lease")) == []
