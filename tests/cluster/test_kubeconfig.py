"""Kubeconfigs: what a context means, and that nothing of it is skipped silently or quoted."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any, Final

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from egress.cluster import kubeconfig
from egress.cluster.api_call import call
from egress.cluster.api_server import ClientCertificate, ClusterApi
from egress.cluster.kubeconfig import read_kubeconfig
from egress.errors import EgressError, UnreadableError, UsageError
from tests.cluster.fake_api_server import AUTHORITY, TOKEN, FakeApiServer, running, whole

type Json = dict[str, Any]

CANARY: Final = "made-up-canary-in-a-kubeconfig"
PEM: Final = AUTHORITY.cert_pem.bytes()
PODS: Final = "/api/v1/namespaces/agents/pods"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def config(user: Json | None = None, cluster: Json | None = None, **context: str) -> Json:
    """A kubeconfig with one context, as `kubectl config` writes it."""
    server = {"server": "https://cluster.example:6443", "certificate-authority-data": encoded(PEM)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "current-context": "one",
        "clusters": [{"name": "home", "cluster": cluster if cluster is not None else server}],
        "users": [{"name": "me", "user": user if user is not None else {"token": TOKEN}}],
        "contexts": [{"name": "one", "context": {"cluster": "home", "user": "me", **context}}],
    }


def written(folder: Path, value: Json, name: str = "config") -> Path:
    path = folder / name
    with path.open("w") as file:
        YAML(typ="safe").dump(value, file)
    return path


def test_a_context_names_server_authority_user_and_namespace(tmp_path: Path) -> None:
    api = read_kubeconfig([written(tmp_path, config(namespace="agents"))])
    assert api == ClusterApi("cluster.example", 6443, "agents", PEM, TOKEN.encode())
    assert api.token() == TOKEN.encode()
    assert api.context().verify_mode is ssl.CERT_REQUIRED
    assert TOKEN not in repr(api)


def test_paths_in_a_kubeconfig_are_relative_to_its_folder(tmp_path: Path) -> None:
    cluster = {"server": "https://[fd00::1]/k8s/one/", "certificate-authority": "ca.crt"}
    (tmp_path / "token").write_text(TOKEN)
    api = read_kubeconfig([written(tmp_path, config({"tokenFile": "token"}, cluster))])
    assert (api.host, api.port, api.prefix, api.namespace) == ("fd00::1", 443, "/k8s/one", "default")
    assert (api.authority, api.token()) == (tmp_path / "ca.crt", TOKEN.encode())
    assert api.host_header == "[fd00::1]:443"


def test_of_two_files_the_first_entry_of_a_name_counts(tmp_path: Path) -> None:
    first = config({"token": "first"})
    first["clusters"] = []
    second = config({"token": "second"}, namespace="two")
    second["contexts"][0]["name"] = "two"
    paths = [written(tmp_path, first, "a"), written(tmp_path, second, "b")]
    assert read_kubeconfig(paths).token() == b"first"
    assert read_kubeconfig(paths, "two").namespace == "two"
    assert read_kubeconfig(paths, "two", "three").namespace == "three"


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("clusters", "insecure-skip-tls-verify", True),
        ("clusters", "proxy-url", "http://10.0.0.1"),
        ("users", "auth-provider", {"name": "gcp"}),
        ("users", "username", "me"),
        ("users", "password", CANARY),
        ("users", "as", "admin"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(tmp_path: Path, part: str, key: str, value: object) -> None:
    made = config()
    made[part][0][part[:-1]][key] = value
    with pytest.raises(EgressError, match=f"`{key}` of a {part[:-1]} cannot be used") as raised:
        read_kubeconfig([written(tmp_path, made)])
    assert CANARY not in f"{raised.value.message} {raised.value.hint}"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (config(cluster={"server": "http://cluster.example"}), "no address of an API server"),
        (config(cluster={"server": "https://cluster.example?x=1"}), "no address of an API server"),
        (config(cluster={"server": "https://a b"}), "no address of an API server"),
        (config(cluster={"server": "https://me:pass@cluster.example"}), "no address of an API server"),
        (config(cluster={"server": "https://cluster.example:99999"}), "no address of an API server"),
        (config(cluster={"server": "https://cluster.example"}), "no certificate-authority"),
        (config(cluster={"server": ["x"], "certificate-authority": "ca"}), "no address of an API server"),
        (config({"client-key-data": encoded(b"x")}), "needs its key"),
        (config({"client-certificate-data": "%%%"}), "is no base64"),
        (config({"token": ["x"]}), "text"),
        (config(namespace="a/b"), "namespace"),
        ({**config(), "current-context": "other"}, "no context has the name `other`"),
        ({**config(), "users": []}, "no user has the name `me`"),
        ({**config(), "current-context": ""}, "no current context"),
        ({**config(), "kind": "Pod"}, "is no kubeconfig"),
    ],
)
def test_a_kubeconfig_that_cannot_be_meant_is_refused(tmp_path: Path, value: Json, message: str) -> None:
    with pytest.raises(EgressError, match=message):
        read_kubeconfig([written(tmp_path, value)])


@pytest.mark.parametrize("data", [b"\xff", b"a: [", b"", b"[]", b"a: &x 1\nb: *x", b"kind: Config\n---\n{}"])
def test_another_text_is_no_kubeconfig(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "config").write_bytes(data)
    with pytest.raises(EgressError, match=str(tmp_path)):
        read_kubeconfig([tmp_path / "config"])


def test_a_kubeconfig_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, config())
    monkeypatch.setattr(kubeconfig, "MAX_KUBECONFIG_BYTES", 64)
    with pytest.raises(EgressError, match="more than 64 bytes"):
        read_kubeconfig([path])
    with pytest.raises(UsageError, match="more than 16"):
        read_kubeconfig([path] * 17)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "name"]), inner),
        max_leaves=6,
    ),
    st.sampled_from(["clusters", "users", "contexts", "current-context", "kind"]),
)
def test_whatever_stands_in_a_part_gives_an_api_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, value: object, key: str
) -> None:
    folder = tmp_path_factory.mktemp("kube")
    try:
        found = read_kubeconfig([written(folder, {**config(), key: value})])
    except EgressError as error:
        assert error.message  # noqa: PT017 - any other exception fails the test
    else:
        assert found.host == "cluster.example"


async def test_a_client_certificate_in_the_text_proves_who_calls(tmp_path: Path) -> None:
    issued = AUTHORITY.issue_cert("me@cluster.example")
    pair = (b"".join(each.bytes() for each in issued.cert_chain_pems), issued.private_key_pem.bytes())
    server = FakeApiServer(raw=whole(200, {"kind": "PodList"}), demands_certificate=True)
    async with running(tmp_path, server) as found:
        api = ClusterApi(
            found.host, found.port, "agents", PEM, TOKEN.encode(), certificate=ClientCertificate(*pair)
        )
        assert await asyncio.to_thread(call, api, "GET", PODS) == {"kind": "PodList"}
        with pytest.raises(UnreadableError, match="did not answer"):
            await asyncio.to_thread(call, found, "GET", PODS)


@pytest.mark.parametrize("data", [(b"x", b"y"), (PEM, CANARY.encode())])
def test_a_certificate_that_is_none_is_named_and_not_quoted(data: tuple[bytes, bytes]) -> None:
    api = ClusterApi("127.0.0.1", 1, "agents", PEM, certificate=ClientCertificate(*data))
    with pytest.raises(UnreadableError, match="the client certificate in the kubeconfig") as raised:
        api.context()
    assert CANARY not in f"{raised.value.message} {raised.value!r}"


def test_the_server_may_have_another_name_in_its_certificate(tmp_path: Path) -> None:
    cluster = {**config()["clusters"][0]["cluster"], "tls-server-name": "api.example"}
    assert read_kubeconfig([written(tmp_path, config(cluster=cluster))]).tls_name == "api.example"


def test_another_authority_in_the_kubeconfig_is_used(tmp_path: Path) -> None:
    other = trustme.CA().cert_pem.bytes()
    cluster = {"server": "https://127.0.0.1", "certificate-authority-data": encoded(other)}
    assert read_kubeconfig([written(tmp_path, config(cluster=cluster))]).authority == other
