"""Where the API server is: from the files and variables of a pod, and from nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.cluster.api_server import MAX_TOKEN_BYTES, ClusterApi, cluster_of_pod
from egress.errors import UnreadableError, UsageError

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "namespace").write_text("agents\n")
    (tmp_path / "token").write_text("a.b-c_d\n")
    return tmp_path


def test_a_pod_knows_its_cluster(account: Path) -> None:
    api = cluster_of_pod(POD, account)
    assert api == ClusterApi("10.96.0.1", 443, "agents", account / "ca.crt", account / "token")
    assert api.token() == b"a.b-c_d"


@pytest.mark.parametrize(
    "environ", [{}, {**POD, "KUBERNETES_SERVICE_PORT": "x"}, {**POD, "KUBERNETES_SERVICE_PORT": "70000"}]
)
def test_no_pod_is_an_error(account: Path, environ: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="no pod of a cluster"):
        cluster_of_pod(environ, account)


@pytest.mark.parametrize("text", ["", "../kube-system", "A", "a/b"])
def test_a_namespace_is_a_name(account: Path, text: str) -> None:
    (account / "namespace").write_text(text)
    with pytest.raises(UsageError, match="names no namespace"):
        cluster_of_pod(POD, account)


@pytest.mark.parametrize("data", [b"", b"canary\r\nX: y", b"canary value", b"c" * (MAX_TOKEN_BYTES + 1)])
def test_a_token_that_is_none_is_refused_and_not_quoted(account: Path, data: bytes) -> None:
    (account / "token").write_bytes(data)
    with pytest.raises(UnreadableError, match="holds no token") as raised:
        cluster_of_pod(POD, account).token()
    assert "canary" not in f"{raised.value.message} {raised.value.hint}"


def test_missing_files_are_named(account: Path) -> None:
    (account / "token").unlink()
    api = cluster_of_pod(POD, account)
    for act in (api.token, api.context):
        with pytest.raises(UnreadableError, match=str(account)):
            act()
    (account / "ca.crt").write_text("no certificate")
    with pytest.raises(UnreadableError, match="cannot be used"):
        api.context()
