"""Every weakness has its code, and the manifest that Egress ships has none."""

from __future__ import annotations

from typing import Any

import pytest

from egress.kubernetes.manifest_check import AcceptedRisk, check_manifests
from egress.kubernetes.manifest_findings import FINDING_CODES
from egress.kubernetes.manifest_objects import MAX_OBJECTS
from egress.kubernetes.manifest_set import PodLabels
from egress.kubernetes.manifest_text import read_manifests
from egress.types import Severity
from tests.unit.kubernetes.manifest_samples import (
    SHIPPED,
    Change,
    Json,
    agent_sandboxes,
    changed,
    checked,
    codes,
    container,
    gate,
    part,
    pod,
    shipped,
    text_of,
)

PROXY_PODS = {"podSelector": {"matchLabels": {"app": "egress-proxy"}}}
NAME_SERVERS = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
    "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
}
POD_OF_PROXY = ("spec", "template", "spec", "containers", 0)
TOKEN = "ghp_" + "a1B2c3D4" * 5


def policy(spec: Json) -> Change:
    """Add a policy, as anybody in the namespace can."""
    added = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "added", "namespace": "agents"},
        "spec": {"podSelector": {}, **spec},
    }
    return lambda objects: objects.append(added)


def opening(*peers: Json, ports: list[Json] | None = None) -> Change:
    """Add a policy for sandboxes that opens these peers."""
    rule: Json = ({"to": list(peers)} if peers else {}) | ({"ports": ports} if ports else {})
    selector = {"matchLabels": {"egress": "workload"}}
    return policy({"podSelector": selector, "policyTypes": ["Egress"], "egress": [rule]})


def policies(objects: list[Json], *names: str) -> None:
    """Remove policies."""
    for name in names:
        objects.remove(part(objects, "NetworkPolicy", name))


def on_pod(**fields: object) -> Change:
    return lambda objects: pod(objects).update(fields)


def on_container(**fields: object) -> Change:
    return lambda objects: container(objects).update(fields)


def on_context(**fields: object) -> Change:
    return lambda objects: container(objects)["securityContext"].update(fields)


def on_gate(**fields: object) -> Change:
    return lambda objects: gate(objects).update(fields)


def with_argument(word: str) -> Change:
    return lambda objects: gate(objects)["args"].append(word)


def without_arguments(*starts: str) -> Change:
    def change(objects: list[Json]) -> None:
        gate(objects)["args"] = [word for word in gate(objects)["args"] if not word.startswith(starts)]

    return change


def volume(**source: object) -> Change:
    return lambda objects: pod(objects)["volumes"].append({"name": "added", **source})


def added(kind: str, api_version: str, **fields: object) -> Change:
    meta = {"name": "added", "namespace": "agents"}
    return lambda objects: objects.append(
        {"apiVersion": api_version, "kind": kind, "metadata": meta, **fields}
    )


def on(kind: str, name: str, path: tuple[Any, ...], value: object) -> Change:
    """Replace one value of an object."""

    def change(objects: list[Json]) -> None:
        found: Any = part(objects, kind, name)
        for step in path[:-1]:
            found = found[step]
        found[path[-1]] = value

    return change


def unshut(objects: list[Json]) -> None:
    policies(objects, "nothing", "workload-to-proxy")


def sidecar_first(objects: list[Json]) -> None:
    helper = {**container(objects), "name": "helper", "restartPolicy": "Always"}
    pod(objects)["initContainers"].insert(0, helper)


WEAKENED: list[tuple[str, Change]] = [
    ("manifest.empty", lambda objects: objects.remove(part(objects, "Pod"))),
    ("manifest.shape", on_container(ports="none")),
    ("manifest.duplicate", lambda objects: objects.append(part(objects, "NetworkPolicy", "nothing"))),
    ("fence.none", unshut),
    ("fence.label", lambda objects: policies(objects, "nothing")),
    ("fence.ingress", on("NetworkPolicy", "nothing", ("spec", "policyTypes"), ["Egress"])),
    ("policy.types", policy({"ingress": []})),
    ("policy.everywhere", opening()),
    ("policy.everywhere", opening({})),
    ("policy.everywhere", policy({"policyTypes": ["Egress"], "egress": [{}]})),
    ("policy.everywhere", policy({"egress": [{"ports": [{"port": 443}]}]})),
    ("policy.address", opening({"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}})),
    ("policy.address", opening(PROXY_PODS, {"ipBlock": {"cidr": "192.0.2.7/32"}})),
    ("policy.dns", opening(NAME_SERVERS, ports=[{"port": 53, "protocol": "UDP"}])),
    ("policy.namespace", opening({"namespaceSelector": {}, **PROXY_PODS})),
    ("policy.namespace", opening({"namespaceSelector": {"matchLabels": {"team": "a"}}, **PROXY_PODS})),
    ("policy.pods", opening({"podSelector": {}})),
    ("policy.pods", opening({"podSelector": {"matchLabels": {"app": "database"}}})),
    ("policy.ports", opening(PROXY_PODS)),
    ("policy.ports", opening(PROXY_PODS, ports=[{"port": 1, "endPort": 65535}])),
    ("policy.ingress", policy({"policyTypes": ["Ingress"], "ingress": [{}]})),
    ("policy.unread", added("CiliumNetworkPolicy", "cilium.io/v2", spec={})),
    ("policy.unread", added("AdminNetworkPolicy", "policy.networking.k8s.io/v1alpha1", spec={})),
    ("label.missing", on("Pod", "workload", ("metadata", "labels"), {})),
    ("label.proxy", on("Pod", "workload", ("metadata", "labels", "app"), "egress-proxy")),
    ("pod.host-network", on_pod(hostNetwork=True)),
    ("pod.host-pid", on_pod(hostPID=True)),
    ("pod.host-ipc", on_pod(hostIPC=True)),
    ("pod.host-path", volume(hostPath={"path": "/"})),
    ("pod.host-port", on_container(ports=[{"containerPort": 80, "hostPort": 80}])),
    ("pod.token", on_pod(automountServiceAccountToken=True)),
    ("pod.token", lambda objects: pod(objects).pop("automountServiceAccountToken")),
    ("pod.token", volume(projected={"sources": [{"serviceAccountToken": {"path": "token"}}]})),
    ("pod.secret", volume(secret={"secretName": "egress-token"})),
    ("pod.secret", volume(projected={"sources": [{"secret": {"name": "egress-token"}}]})),
    ("pod.secret", volume(csi={"driver": "secrets-store.csi.k8s.io"})),
    ("pod.proxy-volume", volume(persistentVolumeClaim={"claimName": "state-egress-proxy-0"})),
    ("pod.volume", volume(nfs={"server": "nfs.example.com", "path": "/"})),
    ("pod.volume", volume(gitRepo={"repository": "https://git.example.com/x"})),
    ("pod.dns", on_pod(dnsPolicy="ClusterFirst")),
    ("pod.dns", lambda objects: pod(objects).pop("dnsPolicy")),
    ("pod.dns", on_pod(dnsConfig={"nameservers": ["10.96.0.92", "1.1.1.1"]})),
    ("pod.dns", on_pod(dnsConfig={})),
    ("pod.service-links", on_pod(enableServiceLinks=True)),
    ("pod.unread", added("Rollout", "argoproj.io/v1", spec={"template": {"containers": [{"name": "x"}]}})),
    ("pod.unread", added("Workflow", "argoproj.io/v1", spec={"templates": [{"container": {"image": "x"}}]})),
    ("namespace.security", on("Namespace", "agents", ("metadata", "labels"), {})),
    ("container.privileged", on_context(privileged=True)),
    ("container.privileged", on_context(windowsOptions={"hostProcess": True})),
    ("container.escalation", on_context(allowPrivilegeEscalation=True)),
    ("container.capabilities", on_context(capabilities={})),
    ("container.capabilities", on_context(capabilities={"drop": ["ALL"], "add": ["NET_RAW"]})),
    ("container.root", on_context(runAsNonRoot=False)),
    ("container.root", on_context(runAsUser=0)),
    ("container.seccomp", on_context(seccompProfile={"type": "Unconfined"})),
    ("container.proc", on_context(procMount="Unmasked")),
    ("container.secret", on_container(env=[{"name": "K", "valueFrom": {"secretKeyRef": {"name": "s"}}}])),
    ("container.secret", on_container(envFrom=[{"secretRef": {"name": "s"}}])),
    ("container.credential", on_container(env=[{"name": "K", "value": TOKEN}])),
    ("container.requests", on_container(resources={"limits": {"cpu": "2"}})),
    ("container.privileged", on_gate(securityContext={"privileged": True})),
    ("gate.missing", lambda objects: pod(objects).pop("initContainers")),
    ("gate.missing", on_gate(args=["status"])),
    ("gate.missing", on_gate(command=["sh", "-c", "true"])),
    ("gate.not-first", sidecar_first),
    ("gate.restart", on_gate(restartPolicy="Always")),
    ("gate.blocked", without_arguments("--blocked")),
    ("gate.blocked", without_arguments("--blocked=1.1.1.1")),
    ("gate.blocked", without_arguments("--blocked=$(KUB")),
    ("gate.proxy", without_arguments("--gateway")),
    ("gate.passes", with_argument("--passes=1")),
    ("gate.uid", without_arguments("--uid")),
    ("gate.uid", without_arguments("--gateway", "--uid")),
    ("gate.uid", with_argument("--uid=6f0c2f0e")),
    ("gate.arguments", with_argument("--help")),
    ("gate.env", on_gate(env=[{"name": "NODE_IP", "value": "192.0.2.1"}])),
    (
        "gate.env",
        on_gate(
            env=[
                {"name": "NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['node']"}}}
            ]
        ),
    ),
    (
        "gate.env",
        on_gate(
            env=[
                {
                    "name": "KUBERNETES_SERVICE_HOST",
                    "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['a']"}},
                }
            ]
        ),
    ),
    ("gate.mounts", on_gate(volumeMounts=[{"name": "workspace", "mountPath": "/usr"}])),
    ("proxy.program", on("StatefulSet", "egress-proxy", (*POD_OF_PROXY, "args"), ["status"])),
    ("proxy.ingress", policy({"policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}]})),
    ("proxy.egress", on("NetworkPolicy", "proxy", ("spec", "egress", 0, "to", 0, "ipBlock", "except"), [])),
]
WEAKENED_AGENT_SANDBOXES: list[tuple[str, Change]] = [
    ("template.open", lambda objects: part(objects, "SandboxTemplate")["spec"].pop("networkPolicy")),
    ("template.env", on("SandboxTemplate", "", ("spec", "envVarsInjectionPolicy"), "Overrides")),
    (
        "policy.address",
        on(
            "SandboxTemplate",
            "",
            ("spec", "networkPolicy", "egress", 0, "to", 0),
            {"ipBlock": {"cidr": "0.0.0.0/0"}},
        ),
    ),
    ("pool.stale", lambda objects: part(objects, "SandboxWarmPool")["spec"].pop("updateStrategy")),
    ("pool.template", on("SandboxWarmPool", "", ("spec", "sandboxTemplateRef", "name"), "other")),
    ("claim.pool", on("SandboxClaim", "", ("spec", "warmPoolRef", "name"), "other")),
    ("container.credential", on("SandboxClaim", "", ("spec", "env"), [{"name": "K", "value": TOKEN}])),
    (
        "label.proxy",
        on("SandboxClaim", "", ("spec", "additionalPodMetadata"), {"labels": {"app": "egress-proxy"}}),
    ),
]
TEXT_CODES = {"manifest.text", "manifest.size"}


def numbered(cases: list[tuple[str, Change]]) -> list[str]:
    return [f"{code}-{number}" for number, (code, _) in enumerate(cases)]


def test_the_shipped_manifest_has_no_finding() -> None:
    found = check_manifests([read_manifests("k.yaml", SHIPPED.read_text("utf-8"))], "", PodLabels())
    assert found.findings == ()
    assert (found.objects, found.sandboxes, found.policies) == (23, 1, 4)
    assert checked(shipped()).findings == ()


def test_the_objects_of_agent_sandbox_have_no_finding_with_that_pod() -> None:
    assert checked(agent_sandboxes()).findings == ()


@pytest.mark.parametrize(("code", "change"), WEAKENED, ids=numbered(WEAKENED))
def test_a_weakness_is_named_by_its_code(code: str, change: Change) -> None:
    assert code in codes(changed(shipped(), change))


@pytest.mark.parametrize(("code", "change"), WEAKENED_AGENT_SANDBOXES, ids=numbered(WEAKENED_AGENT_SANDBOXES))
def test_a_weakness_of_agent_sandbox_is_named_by_its_code(code: str, change: Change) -> None:
    assert code in codes(changed(agent_sandboxes(), change))


def test_every_code_has_a_weakness_that_shows_it() -> None:
    shown = {code for code, _ in (*WEAKENED, *WEAKENED_AGENT_SANDBOXES)}
    # Those of a pod that locks its own network have a test file of their own.
    others = {code for code in FINDING_CODES if code.startswith("sidecar.")}
    assert shown | TEXT_CODES == FINDING_CODES.keys() - others


def test_a_mistake_in_the_text_is_the_only_finding() -> None:
    found = check_manifests([read_manifests("k.yaml", "kind: yes\n")], "", PodLabels())
    assert [each.code for each in found.findings] == ["manifest.text"]


def test_more_objects_than_are_read_are_an_error() -> None:
    objects = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}] * (MAX_OBJECTS + 1)
    listed = {"apiVersion": "v1", "kind": "List", "items": [*shipped(), *objects]}
    assert "manifest.size" in codes([listed])


def test_a_finding_names_file_line_document_object_and_path() -> None:
    text = text_of(changed(shipped(), on_context(privileged=True)))
    (finding,) = check_manifests([read_manifests("k.yaml", text)], "", PodLabels()).findings
    assert finding.place.file == "k.yaml"
    assert finding.place.line == 2 * finding.document - 1 == 33
    assert finding.title == "Pod agents/workload"
    assert finding.path == "spec.containers[0].securityContext.privileged"


def test_policies_of_another_namespace_confine_nobody_here() -> None:
    objects = shipped()
    for each in objects:
        if each["kind"] == "NetworkPolicy":
            each["metadata"]["namespace"] = "elsewhere"
    assert {"fence.none", "proxy.ingress"} <= codes(objects)


def test_an_accepted_finding_is_a_notice_and_others_are_not() -> None:
    objects = changed(shipped(), lambda each: (on_pod(hostPID=True)(each), on_pod(hostIPC=True)(each)))
    for name in ("", "workload", "agents/workload"):
        found = checked(objects, AcceptedRisk("pod.host-pid", name)).findings
        severities = {each.code: each.severity for each in found}
        assert severities == {"pod.host-pid": Severity.NOTICE, "pod.host-ipc": Severity.ERROR}
    found = checked(objects, AcceptedRisk("pod.host-pid", "load")).findings
    assert {each.severity for each in found} == {Severity.ERROR}


def test_no_value_of_a_variable_is_ever_quoted() -> None:
    found = checked(changed(shipped(), on_container(env=[{"name": "K", "value": TOKEN}])))
    assert TOKEN not in repr(found)
