"""The manifest has the shape that keeps a workload in: no cluster is asked here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, ip_address
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from egress.address_check import classify_address
from egress.cluster.authority_objects import AUTHORITY_KEY, AUTHORITY_NAME, TRUST_NAME
from egress.doctor.fence import read_address
from egress.kubernetes.authority_job import AUTHORITY_COMMAND
from egress.policy.bundled_presets import preset_texts
from egress.rules.compile.load import RuleText, load
from tests.cli.command import egress
from tests.container.recipe_folder import FOLDER

type Json = Mapping[str, Any]

FILE: Final = FOLDER / "kubernetes.yaml"
PARTS: Final[list[Json]] = list(YAML(typ="safe", pure=True).load_all(FILE.read_text("utf-8")))
ADDRESS: Final = "10.96.0.92"


def part(kind: str, name: str) -> Json:
    (found,) = [each for each in PARTS if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


GATEWAY: Final = part("StatefulSet", "egress-proxy")["spec"]
PROXY: Final = GATEWAY["template"]
WORKLOAD: Final = part("Pod", "workload")
PODS: Final = [PROXY["spec"], WORKLOAD["spec"]]


def containers() -> Iterator[Json]:
    for pod in PODS:
        yield from (*pod.get("initContainers", ()), *pod["containers"])


def test_every_part_has_a_name_in_one_namespace() -> None:
    assert len({(each["kind"], each["metadata"]["name"]) for each in PARTS}) == len(PARTS)
    of_cluster = [each for each in PARTS if "namespace" not in each["metadata"]]
    # Names of the cluster carry the namespace, so that two namespaces are no trouble.
    assert all("agents" in each["metadata"]["name"] for each in of_cluster)
    assert {each["kind"] for each in of_cluster} == {
        "Namespace",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
    assert {each["metadata"].get("namespace") for each in PARTS if each not in of_cluster} == {"agents"}


@pytest.mark.parametrize("pod", PODS, ids=["proxy", "workload"])
def test_no_pod_has_rights_or_a_token_of_the_cluster(pod: Json) -> None:
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_proxy_and_workload_are_pods_of_their_own() -> None:
    assert [len(pod["containers"]) for pod in PODS] == [1, 1]
    assert "initContainers" not in PROXY["spec"]


def test_nothing_of_the_workload_starts_before_the_gate() -> None:
    gate, *others = WORKLOAD["spec"]["initContainers"]
    assert (gate["name"], gate["args"][0], others) == ("gate", "gate", [])
    # A gate that goes on beside the workload would hold nothing back.
    assert "restartPolicy" not in gate
    assert not gate.get("volumeMounts")


def test_the_gate_dials_what_answers_without_a_fence_and_every_way_to_the_proxy() -> None:
    (gate,) = WORKLOAD["spec"]["initContainers"]
    words = [word.removeprefix("--").partition("=") for word in gate["args"][1:]]
    blocked = [value for option, _, value in words if option == "blocked"]
    assert blocked[:2] == ["$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)", "$(NODE_IP):10250"]
    others = [read_address(text) for text in blocked[2:]]
    assert any(ip_address(at.host).is_global for at in others)
    assert {(at.host, at.port) for at in others} >= {("169.254.169.254", 80), ("10.96.0.10", 53)}
    [(asked, uid)] = [
        (read_address(gateway), uid)
        for gateway in (value for option, _, value in words if option == "gateway")
        for uid in (value for option, _, value in words if option == "uid")
    ]
    assert asked.host == ADDRESS
    # The gate also dials the ports of names and of transparent TLS there.
    assert {asked.port, 443, 53} <= {each["port"] for each in service()["ports"]}
    assert uid == "$(POD_UID)"
    # Kubernetes leaves a variable that is not set as it stands, and then the gate does not open.
    fields = {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in gate["env"]}
    assert fields == {"NODE_IP": "status.hostIP", "POD_UID": "metadata.uid"}


def test_every_limit_of_a_processor_has_a_request_beside_it() -> None:
    for container in containers():
        found = container["resources"]
        assert found["limits"].keys() - {"memory"} <= found["requests"].keys()
        assert "memory" in found["requests"]


def test_what_is_mounted_is_there() -> None:
    claims = [each["metadata"]["name"] for each in GATEWAY["volumeClaimTemplates"]]
    for pod, more in zip(PODS, (claims, []), strict=True):
        volumes = {*(each["name"] for each in pod["volumes"]), *more}
        for container in pod["containers"]:
            assert {each["name"] for each in container["volumeMounts"]} == volumes


def test_the_workload_sees_neither_secret_nor_state() -> None:
    kinds = {kind for each in WORKLOAD["spec"]["volumes"] for kind in each if kind != "name"}
    assert kinds == {"configMap", "emptyDir"}


def test_everybody_is_shut_in_who_is_not_named() -> None:
    rule = part("NetworkPolicy", "nothing")["spec"]
    assert rule == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_a_workload_reaches_the_proxy_and_nobody_else() -> None:
    rule = part("NetworkPolicy", "workload-to-proxy")["spec"]
    assert rule["podSelector"]["matchLabels"].items() <= WORKLOAD["metadata"]["labels"].items()
    (way,) = rule["egress"]
    (to,) = way["to"]
    assert list(to) == ["podSelector"]
    assert to["podSelector"]["matchLabels"].items() <= PROXY["metadata"]["labels"].items()
    opened = {(each["port"], each.get("protocol", "TCP")) for each in way["ports"]}
    offered = {(each["port"], each.get("protocol", "TCP")) for each in service()["ports"]}
    assert opened == offered


def test_the_labels_of_the_workload_give_it_no_rights_of_the_proxy() -> None:
    chosen = part("NetworkPolicy", "proxy")["spec"]["podSelector"]["matchLabels"]
    assert not chosen.items() <= WORKLOAD["metadata"]["labels"].items()


def test_only_workloads_reach_the_proxy() -> None:
    workloads, replicas = part("NetworkPolicy", "proxy")["spec"]["ingress"]
    (source,) = workloads["from"]
    assert source["podSelector"]["matchLabels"].items() <= WORKLOAD["metadata"]["labels"].items()
    # The replicas compare what they know, at the port of readiness and at no other.
    assert replicas["from"] == [{"podSelector": {"matchLabels": {"app": "egress-proxy"}}}]
    assert replicas["ports"] == [{"port": 8081}]


def test_the_proxy_reaches_nothing_near() -> None:
    blocks = [
        to["ipBlock"]
        for way in part("NetworkPolicy", "proxy")["spec"]["egress"]
        for to in way["to"]
        if "ipBlock" in to
    ]
    (block,) = [each for each in blocks if each["cidr"] == "0.0.0.0/0"]
    # Beside what is far there is the API server, and nothing with more than one address.
    assert {each["cidr"] for each in blocks} == {"0.0.0.0/0", "::/0", "10.96.0.1/32"}
    shut = [IPv4Network(each) for each in block["except"]]
    for address in ("10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"):
        assert not classify_address(address).allowed
        assert any(IPv4Network(f"{address}/32").subnet_of(each) for each in shut), address


def test_names_are_answered_by_the_proxy_alone() -> None:
    assert WORKLOAD["spec"]["dnsPolicy"] == "None"
    assert WORKLOAD["spec"]["dnsConfig"] == {"nameservers": [ADDRESS]}
    assert service()["clusterIP"] == ADDRESS


def test_the_service_leads_to_the_ports_of_the_pod() -> None:
    (proxy,) = PROXY["spec"]["containers"]
    named = {each["name"]: each["containerPort"] for each in proxy["ports"]}
    for each in service()["ports"]:
        assert named[each["targetPort"]] == each["port"]


def test_every_replica_writes_a_log_of_its_own() -> None:
    assert GATEWAY["replicas"] == 2
    (claim,) = GATEWAY["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    (container,) = PROXY["spec"]["containers"]
    state = next(each["value"] for each in container["env"] if each["name"] == "EGRESS_STATE_DIR")
    mount = next(each["mountPath"] for each in container["volumeMounts"] if each["name"] == "state")
    # Below the volume: what a cluster mounts is open to its group.
    assert Path(state).parent == Path(mount)


def test_replicas_show_one_authority_whose_key_no_other_pod_mounts() -> None:
    (secret,) = [each["secret"] for each in PROXY["spec"]["volumes"] if each["name"] == "authority"]
    assert secret["secretName"] == AUTHORITY_NAME
    (container,) = PROXY["spec"]["containers"]
    (mount,) = [each["mountPath"] for each in container["volumeMounts"] if each["name"] == "authority"]
    assert f"--authority-file={mount}/{AUTHORITY_KEY}" in container["args"]
    (trust,) = [each["configMap"] for each in WORKLOAD["spec"]["volumes"] if each["name"] == "trust"]
    assert trust == {"name": TRUST_NAME}
    (job,) = part("Job", "egress-authority")["spec"]["template"]["spec"]["containers"]
    assert tuple(job["args"]) == AUTHORITY_COMMAND[1:]
    for rule in part("Role", "egress-proxy")["rules"]:
        assert "secrets" not in rule["resources"]


def test_a_sandbox_stays_with_one_replica() -> None:
    assert service()["sessionAffinity"] == "ClientIP"


def test_the_command_line_is_one(tmp_path: Path) -> None:
    (proxy,) = PROXY["spec"]["containers"]
    done = egress(*proxy["args"], "--settings", cwd=tmp_path)
    assert done.status == 0, done.err
    assert f"{ADDRESS} " in done.out


def test_the_rules_are_without_findings() -> None:
    text = part("ConfigMap", "egress-rules")["data"]["hosts.yaml"]
    assert load([RuleText("hosts.yaml", text)], preset_texts(), 1_800_000_000).findings == ()


def service() -> Json:
    found: Json = part("Service", "egress-proxy")["spec"]
    return found
