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
from egress.fleet.lifetime import SandboxLifetime
from egress.run_ticket import TicketStatement, read_statement
from egress.runtime.errors import EngineError, GatewayError, SpecError, UnsupportedError
from egress.runtime.spec import Command, RunRights, Spec
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


def test_sandboxes_of_a_fleet_that_keeps_come_back_with_their_lifetime(folders: Path) -> None:
    cluster = FakeCluster()
    with served(cluster) as api:
        environ = {
            "KUBECONFIG": str(kubeconfig(folders, api.port)),
            "EGRESS_STATE_DIR": str(folders / "state"),
        }
        run = folders / "run"
        with open_cluster_fleet(environ, run, keeps=True) as fleet:
            for name in ("one", "gone"):
                fleet.create(Spec(name=name, image="image:1"), SandboxLifetime(timeout=3600))
                fleet.start(name)
            fleet.change_lifetime("one", {"timeout": 7200})
            fleet.leave()
        assert cluster.sandboxes == ["gone", "one"]
        cluster.pods.pop("gone")
        # One that fails to open costs no sandbox, whatever fails.
        cluster.refused["GET /api/v1/namespaces/agents/pods/one"] = (500, {"message": "etcd"})
        with pytest.raises(EngineError, match="etcd"), open_cluster_fleet(environ, run, keeps=True):
            pass
        cluster.refused.clear()
        assert cluster.sandboxes == ["one"]
        with open_cluster_fleet(environ, run, keeps=True) as fleet:
            assert [info.name for info in fleet.list()] == ["one"]
            left = fleet.status("one").left
            assert left is not None
            assert 3600 < left <= 7200
            # The same request finds it again.
            assert (
                fleet.create(Spec(name="one", image="image:1"), SandboxLifetime(timeout=3600)).name == "one"
            )
            assert fleet.exec("one", Command(argv=("echo", "x"))).stdout == "x\n"
            assert "the sandbox gone is gone: its pod was removed" in fleet.about.line
        # The end of a fleet that is not told to leave is the end of its sandboxes.
        assert cluster.sandboxes == []


def test_a_run_in_a_pod_has_rights_of_its_own_until_it_ends(folders: Path) -> None:
    cluster = FakeCluster()
    with served(cluster) as api:
        environ = {
            "KUBECONFIG": str(kubeconfig(folders, api.port)),
            "EGRESS_STATE_DIR": str(folders / "state"),
        }
        with open_cluster_fleet(environ, folders / "run") as fleet:
            fleet.create(Spec(name="one", image="image:1"))
            fleet.start("one")

            def tickets() -> list[TicketStatement | None]:
                notes = cluster.pods["one"]["metadata"]["annotations"]
                return [read_statement(text) for name, text in notes.items() if "ticket" in name]

            rights = RunRights(profile="wide", parameters={"repo": "acme/site"})
            process = fleet.spawn("one", Command(argv=("cat",), rights=rights))
            [ticket] = tickets()
            assert ticket is not None
            assert (ticket.profile, ticket.params) == ("wide", {"repo": "acme/site"})
            process.close_input()
            process.wait(30)
            assert tickets() == []
            began = cluster.commands[-1]
            assert began.words[:2] == ["/bin/sh", "-c"]
            assert began.env["EGRESS_TICKET"].startswith("egress-run-")
            # At a port it would have to be delegated, which the rules of a gateway cannot be asked about.
            delegated = RunRights(profile="wide", is_delegated=True)
            with pytest.raises(UnsupportedError, match="delegate no tickets"):
                fleet.exec("one", Command(argv=("true",), rights=delegated))
            assert cluster.commands[-1] is began
