"""The proxy is put into a pod, in the order in which its parts have to start."""

from __future__ import annotations

from copy import deepcopy

import pytest

from egress.errors import ContentError
from egress.kubernetes.sidecar_injection import inject_sidecar
from tests.unit.kubernetes.sidecar_samples import PLAN, injected, part

OURS = ["egress-lock", "egress-trust", "egress-proxy", "egress-gate"]


def test_the_parts_come_first_and_in_their_order() -> None:
    pod = injected(initContainers=[{"name": "setup", "image": "setup:1"}])
    assert [each["name"] for each in pod["spec"]["initContainers"]] == [*OURS, "setup"]


def test_a_second_time_changes_nothing() -> None:
    pod = injected()
    again = deepcopy(pod)
    inject_sidecar(again, PLAN)
    assert again == pod


def test_only_the_lock_is_root_and_has_a_right() -> None:
    pod = injected()
    contexts = {name: part(pod, name)["securityContext"] for name in (*OURS, "agent")}
    added = {name: each["capabilities"].get("add", []) for name, each in contexts.items()}
    assert {name: rights for name, rights in added.items() if rights} == {"egress-lock": ["NET_ADMIN"]}
    users = {name: each["runAsUser"] for name, each in contexts.items()}
    assert users == {
        "egress-lock": 0,
        "egress-trust": 10001,
        "egress-proxy": 10001,
        "egress-gate": 1000,
        "agent": 1000,
    }


def test_a_user_that_somebody_gave_the_pod_stays() -> None:
    assert "runAsUser" not in part(injected(securityContext={"runAsUser": 4242}), "agent")["securityContext"]


def test_the_name_server_of_the_pod_stays_since_the_lock_diverts_names() -> None:
    assert "dnsPolicy" not in injected()["spec"]


def test_a_secret_is_mounted_by_the_proxy_alone() -> None:
    pod = injected()
    spec = pod["spec"]
    mounting = [
        each["name"]
        for each in (*spec["initContainers"], *spec["containers"])
        if any(mount["name"] == "egress-secret-egress-token" for mount in each.get("volumeMounts", []))
    ]
    assert mounting == ["egress-proxy"]


def test_the_proxy_listens_on_the_loopback_device_alone() -> None:
    arguments = part(injected(), "egress-proxy")["args"]
    listening = [word for word in arguments if word.startswith(("--listen", "--transparent", "--dns="))]
    assert len(listening) == 3
    assert all("=127.0.0.1" in word for word in listening)
    assert "--own-address=10.96.0.0/12" in arguments


@pytest.mark.parametrize("name", OURS)
def test_a_workload_with_a_name_of_ours_is_an_error(name: str) -> None:
    with pytest.raises(ContentError, match=f"another container has the name {name}"):
        injected(containers=[{"name": name, "image": "agent:1"}])


def test_the_sysctl_for_low_ports_stands_beside_those_of_the_pod() -> None:
    other = {"name": "net.ipv4.tcp_syncookies", "value": "1"}
    sysctls = injected(securityContext={"sysctls": [other]})["spec"]["securityContext"]["sysctls"]
    assert sysctls == [other, {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]
