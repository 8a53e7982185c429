"""`egress k8s ca`: without a cluster it says how to name one. tests/cluster has what it writes."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from egress.cli.main import main
from egress.cluster import authority_objects
from egress.cluster.api_call import ApiRefusedError
from egress.cluster.api_server import ClusterApi

type Json = Mapping[str, Any]

KUBECONFIG: Final[Json] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "lab",
    "clusters": [
        {"name": "lab", "cluster": {"server": "https://192.0.2.1:6443", "certificate-authority": "ca.crt"}}
    ],
    "users": [{"name": "me", "user": {"token": "made-up"}}],
    "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me", "namespace": "agents"}}],
}


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Take the calls to an API server, and keep what they create."""
    found: dict[str, Any] = {}

    def take(_api: ClusterApi, _method: str, path: str, body: Json | None = None) -> dict[str, Any]:
        if body is None:
            return dict(found[path])
        at = f"{path}/{body['metadata']['name']}"
        if at in found:
            raise ApiRefusedError("it exists", "", 409, "AlreadyExists")
        found[at] = body
        return dict(body)

    (tmp_path / "config").write_text(json.dumps(KUBECONFIG), "utf-8")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(authority_objects, "call", take)
    return found


def test_both_objects_are_made_and_a_second_run_leaves_them(
    stored: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["k8s", "ca", "--namespace", "blue"]) == 0
    assert sorted(stored) == [
        "/api/v1/namespaces/blue/configmaps/egress-trust",
        "/api/v1/namespaces/blue/secrets/egress-authority",
    ]
    first = capfd.readouterr().out
    assert first.count("made the ") == 2
    assert main(["k8s", "ca", "--namespace", "blue"]) == 0
    second = capfd.readouterr().out
    assert second.count("left the ") == 2
    # The same authority, by its fingerprint; and never its key.
    assert first.splitlines()[-1] == second.splitlines()[-1]
    assert "PRIVATE" not in first + second


def test_a_secret_that_is_no_authority_stops_it(
    stored: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    text = base64.b64encode(b"canary-of-a-key").decode()
    stored["/api/v1/namespaces/agents/secrets/egress-authority"] = {"data": {"authority.pem": text}}
    assert main(["k8s", "ca"]) == 1
    said = capfd.readouterr()
    assert "the Secret agents/egress-authority contains no certificate authority" in said.err
    assert "canary" not in said.out + said.err
    assert len(stored) == 1


def test_without_a_cluster_it_says_how_to_name_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["k8s", "ca"]) == 2
    assert "KUBECONFIG" in capfd.readouterr().err
