"""What the API server refuses in a namespace of the chart, pod by pod; each refusal has its good twin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Final

import pytest

from tests.chart.admission import refusals
from tests.chart.rendered_chart import EXAMPLES, Json, objects, one, parsed

type Change = Callable[[Json], object]

PODS: Final = "egress-agents-pods"
POLICIES: Final = "egress-agents-policies"
TEMPLATES: Final = "egress-agents-templates"
EXAMPLE: Final[dict[str, list[Json]]] = {file.stem: parsed(file.read_text("utf-8")) for file in EXAMPLES}
SAFE: Final[Json] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def workload() -> Json:
    return deepcopy(EXAMPLE["pod"][0])


def gateway() -> Json:
    return _pod_of(one(objects(), "StatefulSet"))


def _pod_of(owner: Json) -> Json:
    template = deepcopy(owner["spec"]["template"])
    return {"apiVersion": "v1", "kind": "Pod", **template}


def good_pods() -> Iterator[tuple[str, Json]]:
    yield "workload", workload()
    yield "job", _pod_of(EXAMPLE["job"][0])
    yield "template", _pod_of({"spec": {"template": EXAMPLE["agent-sandbox"][0]["spec"]["podTemplate"]}})
    yield "gateway", gateway()
    yield "authority", _pod_of(one(objects(), "Job"))
    yield "test", one(objects(), "Pod")


@pytest.mark.parametrize("pod", [pod for _, pod in good_pods()], ids=[name for name, _ in good_pods()])
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_what_the_chart_and_its_examples_make_is_admitted(pod: Json, operation: str) -> None:
    assert refusals(objects(), PODS, pod, operation) == []


def at(pod: Json, *path: str | int) -> Any:  # noqa: ANN401 - a part of a manifest
    place: Any = pod
    for step in path:
        place = place[step]
    return place


def put(*path: str | int, value: object) -> Change:
    def change(pod: Json) -> None:
        at(pod, *path[:-1])[path[-1]] = value

    return change


def drop(*path: str | int) -> Change:
    def change(pod: Json) -> None:
        del at(pod, *path[:-1])[path[-1]]

    return change


def add(*path: str | int, value: object) -> Change:
    return lambda pod: at(pod, *path).append(value)


GATE: Final = ("spec", "initContainers", 0)
MAIN: Final = ("spec", "containers", 0)
LABEL, OWN, FIRST = "needs the label egress=workload", "opens the way out", "first init container"
ARGUMENTS, GATE_PARTS, NAMES = "gate has to have these arguments", "gate has no volumes", "only name server"
NODE, VOLUMES, VARIABLE = (
    "shares neither network",
    "mounts no secret",
    "no secret of the cluster in a variable",
)
DEBUG, ACCOUNT = "ephemeral container", "service account"

WEAK: Final[dict[str, tuple[Change, str]]] = {
    "no label": (drop("metadata", "labels"), LABEL),
    "another label": (put("metadata", "labels", value={"egress": "worklaod"}), LABEL),
    "the gateway's label": (put("metadata", "labels", "app", value="egress-proxy"), OWN),
    "the job's label": (put("metadata", "labels", "app", value="egress-authority"), OWN),
    "the gateway's label alone": (put("metadata", "labels", value={"app": "egress-proxy"}), OWN),
    "the gateway's account": (put("spec", "serviceAccountName", value="egress-proxy"), ACCOUNT),
    "the job's account": (put("spec", "serviceAccountName", value="egress-authority"), ACCOUNT),
    "no gate": (drop("spec", "initContainers"), FIRST),
    "an empty list": (put("spec", "initContainers", value=[]), FIRST),
    "another first": (lambda pod: at(pod, "spec", "initContainers").insert(0, dict(at(pod, *MAIN))), FIRST),
    "a foreign gate": (put(*GATE, "image", value="example.com/egress-proxy"), FIRST),
    "a gate of another tag": (put(*GATE, "image", value="egress-proxy:old"), FIRST),
    "a shell in the gate": (put(*GATE, "command", value=["sh", "-c", "true"]), FIRST),
    "true in the gate": (put(*GATE, "command", value=["true"]), FIRST),
    "no arguments": (drop(*GATE, "args"), FIRST),
    "empty arguments": (put(*GATE, "args", value=[]), FIRST),
    "another command": (put(*GATE, "args", 0, value="status"), FIRST),
    "a gate beside": (put(*GATE, "restartPolicy", value="Always"), FIRST),
    "help": (add(*GATE, "args", value="--help"), ARGUMENTS),
    "one pass": (add(*GATE, "args", value="--passes=1"), ARGUMENTS),
    "two words": (add(*GATE, "args", value="--passes"), ARGUMENTS),
    "no api server": (lambda pod: at(pod, *GATE, "args").pop(1), ARGUMENTS),
    "no node": (lambda pod: at(pod, *GATE, "args").remove("--blocked=$(NODE_IP):10250"), ARGUMENTS),
    "no metadata": (lambda pod: at(pod, *GATE, "args").remove("--blocked=169.254.169.254:80"), ARGUMENTS),
    "no name server": (lambda pod: at(pod, *GATE, "args").remove("--blocked=10.96.0.10:53"), ARGUMENTS),
    "no canary": (lambda pod: at(pod, *GATE, "args").remove("--blocked=1.1.1.1:443"), ARGUMENTS),
    "no gateway": (lambda pod: at(pod, *GATE, "args").remove("--gateway=10.96.0.92:3128"), ARGUMENTS),
    # The last one would count.
    "a second gateway": (add(*GATE, "args", value="--gateway=10.244.0.9:3128"), ARGUMENTS),
    "a second pod": (add(*GATE, "args", value="--uid=6f0c2f0e"), ARGUMENTS),
    "no pod": (lambda pod: at(pod, *GATE, "args").remove("--uid=$(POD_UID)"), ARGUMENTS),
    "a canary of its own": (
        lambda pod: at(pod, *GATE, "args").__setitem__(
            at(pod, *GATE, "args").index("--blocked=1.1.1.1:443"), "--blocked=192.0.2.1:443"
        ),
        ARGUMENTS,
    ),
    "a value in the gate": (add(*GATE, "env", value={"name": "NODE_IP", "value": "192.0.2.1"}), GATE_PARTS),
    "an annotation as address": (
        put(*GATE, "env", 0, "valueFrom", "fieldRef", "fieldPath", value="metadata.annotations['x']"),
        GATE_PARTS,
    ),
    "the cluster's variable": (put(*GATE, "env", 0, "name", value="KUBERNETES_SERVICE_HOST"), GATE_PARTS),
    "a map in the gate": (put(*GATE, "envFrom", value=[{"configMapRef": {"name": "x"}}]), GATE_PARTS),
    "a mount in the gate": (
        put(*GATE, "volumeMounts", value=[{"name": "trust", "mountPath": "/opt/egress"}]),
        GATE_PARTS,
    ),
    "the cluster's names": (put("spec", "dnsPolicy", value="ClusterFirst"), NAMES),
    "no policy of names": (drop("spec", "dnsPolicy"), NAMES),
    "no name server of its own": (drop("spec", "dnsConfig"), NAMES),
    "another name server": (put("spec", "dnsConfig", "nameservers", value=["10.96.0.10"]), NAMES),
    "a second name server": (add("spec", "dnsConfig", "nameservers", value="8.8.8.8"), NAMES),
    "no name servers": (put("spec", "dnsConfig", "nameservers", value=[]), NAMES),
    "the node's network": (put("spec", "hostNetwork", value=True), NODE),
    "the node's processes": (put("spec", "hostPID", value=True), NODE),
    "the node's memory": (put("spec", "hostIPC", value=True), NODE),
    "a secret": (
        add("spec", "volumes", value={"name": "s", "secret": {"secretName": "egress-authority"}}),
        VOLUMES,
    ),
    "a projected secret": (
        add("spec", "volumes", value={"name": "s", "projected": {"sources": [{"secret": {"name": "x"}}]}}),
        VOLUMES,
    ),
    "a token": (
        add(
            "spec",
            "volumes",
            value={"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        ),
        VOLUMES,
    ),
    "a folder of the node": (
        add("spec", "volumes", value={"name": "h", "hostPath": {"path": "/"}}),
        VOLUMES,
    ),
    "the gateway's log": (
        add(
            "spec",
            "volumes",
            value={"name": "l", "persistentVolumeClaim": {"claimName": "state-egress-proxy-0"}},
        ),
        VOLUMES,
    ),
    "a secret in a variable": (
        add(*MAIN, "env", value={"name": "T", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}),
        VARIABLE,
    ),
    "a secret as variables": (put(*MAIN, "envFrom", value=[{"secretRef": {"name": "x"}}]), VARIABLE),
    "a debugger": (put("spec", "ephemeralContainers", value=[{"name": "d"}]), DEBUG),
    "a debugger with rights": (
        put(
            "spec",
            "ephemeralContainers",
            value=[
                {
                    "name": "d",
                    "securityContext": {**SAFE, "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN"]}},
                }
            ],
        ),
        DEBUG,
    ),
    "a privileged debugger": (
        put(
            "spec",
            "ephemeralContainers",
            value=[{"name": "d", "securityContext": {**SAFE, "privileged": True}}],
        ),
        DEBUG,
    ),
    "a debugger that drops little": (
        put(
            "spec",
            "ephemeralContainers",
            value=[{"name": "d", "securityContext": {**SAFE, "capabilities": {"drop": ["NET_RAW"]}}}],
        ),
        DEBUG,
    ),
}

FINE: Final[dict[str, Change]] = {
    "more labels": put("metadata", "labels", "agents.x-k8s.io/claim-uid", value="1"),
    "egress as command": put(*GATE, "command", value=["egress"]),
    "one more address": add(*GATE, "args", value="--blocked=192.0.2.9:443"),
    "a longer wait": add(*GATE, "args", value="--timeout=120"),
    "a second init container": lambda pod: at(pod, "spec", "initContainers").append(dict(at(pod, *MAIN))),
    "an account of its own": put("spec", "serviceAccountName", value="default"),
    "a volume of its own": add(
        "spec", "volumes", value={"name": "w", "persistentVolumeClaim": {"claimName": "workspace"}}
    ),
    "a projected map": add(
        "spec", "volumes", value={"name": "p", "projected": {"sources": [{"configMap": {"name": "x"}}]}}
    ),
    "a value": add(*MAIN, "env", value={"name": "A", "value": "b"}),
    "a safe debugger": put("spec", "ephemeralContainers", value=[{"name": "d", "securityContext": SAFE}]),
}


@pytest.mark.parametrize(("change", "message"), WEAK.values(), ids=WEAK)
def test_a_pod_that_opens_the_fence_is_refused(change: Change, message: str) -> None:
    pod = workload()
    change(pod)
    assert any(message in each for each in refusals(objects(), PODS, pod))


@pytest.mark.parametrize("change", FINE.values(), ids=FINE)
def test_a_pod_with_more_that_opens_nothing_is_admitted(change: Change) -> None:
    pod = workload()
    change(pod)
    assert refusals(objects(), PODS, pod) == []


@pytest.mark.parametrize(
    "change",
    [
        put(*MAIN, "image", value="egress-proxy:other"),
        put(*MAIN, "command", value=["sh"]),
        put("spec", "initContainers", value=[{"name": "x", "image": "egress-proxy"}]),
        put("spec", "ephemeralContainers", value=[{"name": "x", "securityContext": SAFE}]),
        put("spec", "serviceAccountName", value="egress-authority"),
        drop("spec", "serviceAccountName"),
        add("spec", "containers", value={"name": "x", "image": "busybox"}),
    ],
    ids=["image", "shell", "init", "debugger", "account", "no account", "neighbour"],
)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_nothing_else_runs_as_the_gateway(change: Change, operation: str) -> None:
    pod = gateway()
    change(pod)
    assert any(OWN in each for each in refusals(objects(), PODS, pod, operation))


def test_a_running_sandbox_cannot_become_the_gateway_nor_lose_its_label() -> None:
    for change in (WEAK["the gateway's label"][0], WEAK["no label"][0], WEAK["a debugger"][0]):
        pod = workload()
        change(pod)
        assert refusals(objects(), PODS, pod, "UPDATE") != []


def test_the_image_before_an_upgrade_can_be_named() -> None:
    pod = workload()
    at(pod, *GATE)["image"] = "egress-proxy:old"
    assert refusals(objects({"admission": {"images": ["egress-proxy:old"]}}), PODS, pod) == []


# Network policies ------------------------------------------------------------------------------


def policy(name: str, selected: Json, *egress: object) -> Json:
    spec = {"podSelector": selected, "policyTypes": ["Egress"], "egress": list(egress)}
    return {"kind": "NetworkPolicy", "metadata": {"name": name}, "spec": spec}


PROXY_PEER: Final[Json] = {"podSelector": {"matchLabels": {"app": "egress-proxy"}}}
ALL_PODS: Final[Json] = {}


def namespace(name: str) -> Json:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"to": []},
        {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}]},
        {"to": [{"ipBlock": {"cidr": "10.96.0.92/32"}}]},
        {"to": [{"podSelector": {}}]},
        {"to": [{"podSelector": {"matchLabels": {"app": "egress"}}}]},
        {"to": [{"podSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}]},
        {"to": [namespace("agents")]},
        {"to": [{**PROXY_PEER, "namespaceSelector": {}}]},
        {"to": [{**PROXY_PEER, **namespace("kube-system")}]},
        {"to": [PROXY_PEER, {"ipBlock": {"cidr": "1.1.1.1/32"}}]},
        {"ports": [{"port": 53}]},
        {
            "to": [{**namespace("kube-system"), "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}],
            "ports": [{"port": 53, "protocol": "UDP"}],
        },
    ],
    ids=str,
)
def test_a_policy_that_opens_more_than_the_gateway_is_refused(rule: Json) -> None:
    good = {"to": [PROXY_PEER], "ports": [{"port": 3128}]}
    for selected in (
        ALL_PODS,
        {"matchLabels": {"egress": "workload"}},
        {"matchLabels": {"app": "egress-proxy"}},
    ):
        found = policy("tools", selected, good, rule)
        assert any("network policies add up" in each for each in refusals(objects(), POLICIES, found))
        assert refusals(objects(), POLICIES, policy("tools", selected, good)) == []


def test_policies_that_shut_or_lead_to_the_gateway_are_admitted() -> None:
    nothing = {"kind": "NetworkPolicy", "metadata": {"name": "x"}, "spec": {"podSelector": {}}}
    own = policy("x", ALL_PODS, {"to": [{**PROXY_PEER, **namespace("agents")}]})
    chart = [each for each in objects() if each["kind"] == "NetworkPolicy"]
    assert len(chart) == 4
    for found in (nothing, own, *chart):
        assert refusals(objects(), POLICIES, found) == []


@pytest.mark.parametrize("name", ["proxy", "authority"])
def test_the_name_of_the_gateways_policy_opens_nothing_for_a_sandbox(name: str) -> None:
    everywhere = {"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}
    label = {"proxy": "egress-proxy", "authority": "egress-authority"}[name]
    own = policy(name, {"matchLabels": {"app": label}}, everywhere)
    assert refusals(objects(), POLICIES, own) == []
    for selected in (ALL_PODS, {"matchLabels": {"egress": "workload"}}, {"matchLabels": {"app": "other"}}):
        assert refusals(objects(), POLICIES, policy(name, selected, everywhere)) != []


# Templates of agent-sandbox --------------------------------------------------------------------


def template(**spec: object) -> Json:
    made = deepcopy(EXAMPLE["agent-sandbox"][0])
    made["spec"] = {key: value for key, value in {**made["spec"], **spec}.items() if value is not None}
    return made


@pytest.mark.parametrize(
    "spec",
    [
        {"networkPolicy": None},
        {"networkPolicy": None, "networkPolicyManagement": None},
        {"networkPolicyManagement": "Unmanaged"},
        {"networkPolicy": {"egress": [{}]}},
        {"networkPolicy": {"egress": [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}]}},
    ],
    ids=str,
)
def test_a_template_that_the_controller_would_open_is_refused(spec: Json) -> None:
    assert refusals(objects(), TEMPLATES, template(**spec)) != []


def test_a_template_with_the_gateway_or_marked_is_admitted() -> None:
    assert refusals(objects(), TEMPLATES, template()) == []
    assert refusals(objects(), TEMPLATES, template(networkPolicyManagement=None)) == []
    assert refusals(objects(), TEMPLATES, template(networkPolicy={"egress": []})) == []
    marked = template(networkPolicyManagement="Unmanaged")
    marked["metadata"]["annotations"] = {"egress/unmanaged": "accepted"}
    assert refusals(objects(), TEMPLATES, marked) == []


# Where they hold -------------------------------------------------------------------------------


def test_the_policies_hold_in_the_namespace_of_the_chart_and_deny() -> None:
    bindings = [each for each in objects() if each["kind"] == "ValidatingAdmissionPolicyBinding"]
    names = {each["metadata"]["name"] for each in objects() if each["kind"] == "ValidatingAdmissionPolicy"}
    assert {each["spec"]["policyName"] for each in bindings} == names == {PODS, POLICIES, TEMPLATES}
    for each in bindings:
        assert each["spec"]["validationActions"] == ["Deny"]
        # This label is the API server's own: nobody can take it off a namespace.
        assert each["spec"]["matchResources"] == {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "agents"}}
        }
