"""Properties of manifests: hostile text is refused, and no set of policies without a finding opens a way."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from egress.kubernetes.gate_check import is_gate
from egress.kubernetes.manifest_check import check_manifests
from egress.kubernetes.manifest_injection import inject_manifests
from egress.kubernetes.manifest_node import ManifestNode
from egress.kubernetes.manifest_set import PodLabels
from egress.kubernetes.manifest_text import read_manifests
from egress.kubernetes.pod_injection import InjectionPlan
from egress.kubernetes.pod_shapes import POD_FIELDS
from egress.rules.language.document import MissingValue
from tests.tiers import examples
from tests.unit.kubernetes.manifest_samples import Json, codes, shipped, text_of

# Text -----------------------------------------------------------------------------------------

FRAGMENTS = st.sampled_from(
    [
        *(
            "a",
            ": ",
            "- ",
            "\n",
            "\n  ",
            "---\n",
            "...",
            "{",
            "}",
            "[",
            "]",
            ",",
            "&a ",
            "*a",
            "!!str ",
            "<<",
        ),
        *("|\n", "'", '"', "#", "yes", "0400", "kind: ", "items", "spec", "null", "~", "? ", "%YAML 1.1\n"),
        *("\t", "\ufeff"),
    ]
)
JSON_VALUES = st.recursive(
    st.booleans() | st.integers(-(10**17), 10**17) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(FRAGMENTS, max_size=40).map("".join) | st.text(max_size=60))
@settings(max_examples=examples(300))
def test_no_text_stops_the_check(text: str) -> None:
    found = check_manifests([read_manifests("m.yaml", text)], "", PodLabels())
    # No text of this kind has a sandbox in a fence, so each has a finding.
    assert found.findings


@given(st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=4))
@settings(max_examples=examples(100))
def test_json_is_read_as_json_or_refused(value: Json) -> None:
    read = read_manifests("m.json", json.dumps(value, ensure_ascii=False))
    if not read.findings:
        assert [document.value for document in read.documents] == [value]


def kubectl_reads(word: str) -> object:
    """The value of a word for the YAML parser of kubectl (go-yaml, version 2), from its `resolve.go`."""
    if word.lower() in {"y", "yes", "on", "true"} and word in {word.lower(), word.capitalize(), word.upper()}:
        return True
    if word.lower() in {"n", "no", "off", "false"} and word in {
        word.lower(),
        word.capitalize(),
        word.upper(),
    }:
        return False
    if word in {"~", "null", "Null", "NULL"}:
        return MissingValue()
    plain = word.replace("_", "")
    if word[0] in "+-0123456789":
        if re.fullmatch(r"[-+]?0[0-7]+", plain):
            return int(plain, 8)
        try:
            return int(plain, 0)
        except ValueError:
            pass
    is_float = re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", plain)
    return float(plain) if word[0] in "+-.0123456789" and is_float else word


@given(st.text("0123456789abcdefxoyesnftrul_.+-~EON", min_size=1, max_size=6))
@settings(max_examples=examples(600))
def test_a_word_that_is_read_is_read_as_kubectl_does(word: str) -> None:
    read = read_manifests("m.yaml", f"a: {word}\n")
    for document in read.documents:
        assert isinstance(document.value, dict)
        # The type counts: `1` is no `True`, and `1.0` no `1`.
        value, expected = document.value["a"], kubectl_reads(word)
        assert (type(value), value) == (type(expected), expected)


# Policies -------------------------------------------------------------------------------------

LABELS = st.sampled_from(
    [{}, {"egress": "workload"}, {"app": "egress-proxy"}, {"app": "database"}, {"x": "y"}]
)
SELECTORS = LABELS.map(lambda labels: {"matchLabels": labels}) | st.sampled_from(
    [
        {},
        {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["egress-proxy"]}]},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": ["egress-proxy"]}]},
        {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]},
    ]
)
PEERS = st.one_of(
    SELECTORS.map(lambda selector: {"podSelector": selector}),
    SELECTORS.map(lambda selector: {"namespaceSelector": {}, "podSelector": selector}),
    st.sampled_from(["0.0.0.0/0", "192.0.2.0/24"]).map(lambda cidr: {"ipBlock": {"cidr": cidr}}),
)
RULES = st.fixed_dictionaries(
    {},
    optional={"to": st.lists(PEERS, max_size=2), "ports": st.just([{"port": 443}])},
)
POLICY_SPECS = st.fixed_dictionaries(
    {"podSelector": SELECTORS},
    optional={
        "policyTypes": st.sampled_from([["Egress"], ["Ingress"], ["Ingress", "Egress"]]),
        "egress": st.lists(RULES, max_size=2),
    },
)
# Pods beside the sandbox, by their labels; and an address outside.
NEIGHBOURS: list[dict[str, str]] = [{"app": "database"}, {"x": "y"}, {}]
OUTSIDE = "192.0.2.9"


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """A second reading of selectors, written from the documentation of Kubernetes."""
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for each in selector.get("matchExpressions", []):
        has, value = each["key"] in labels, labels.get(each["key"])
        answer = {
            "Exists": has,
            "DoesNotExist": not has,
            "In": value in each.get("values", []),
            "NotIn": value not in each.get("values", []),
        }[each["operator"]]
        if not answer:
            return False
    return True


def directions(spec: dict[str, Any]) -> list[str]:
    """The directions of a policy; those that are left out are derived from its rules."""
    derived = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    found: list[str] = spec.get("policyTypes", derived)
    return found


def reaches(specs: list[dict[str, Any]], labels: dict[str, str], neighbour: dict[str, str] | None) -> bool:
    """Whether a pod reaches a neighbour, or with None the address outside, under all policies together."""
    mine = [spec for spec in specs if selects(spec["podSelector"], labels)]
    shutting = [spec for spec in mine if "Egress" in directions(spec)]
    if not shutting:
        return True
    for rule in (rule for spec in shutting for rule in spec.get("egress", [])):
        peers = rule.get("to")
        if not peers:
            return True
        for peer in peers:
            is_block = "ipBlock" in peer
            if neighbour is None and is_block:
                return True
            if neighbour is not None and not is_block and selects(peer["podSelector"], neighbour):
                return True
    return False


@given(st.lists(POLICY_SPECS, max_size=3), st.booleans())
@settings(max_examples=examples(200), deadline=None)
def test_policies_without_a_finding_lead_to_the_proxy_alone(specs: list[Any], with_shipped: bool) -> None:
    objects = [each for each in shipped() if with_shipped or each["kind"] != "NetworkPolicy"]
    objects += [
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": f"policy-{number}", "namespace": "agents"},
            "spec": spec,
        }
        for number, spec in enumerate(specs)
    ]
    found = {code for code in codes(objects) if code.startswith(("fence.", "policy."))}
    every = [each["spec"] for each in objects if each["kind"] == "NetworkPolicy"]
    labels = {"egress": "workload"}
    leaks = any(reaches(every, labels, neighbour) for neighbour in (*NEIGHBOURS, None))
    if leaks:
        assert found - {"policy.ports", "policy.ingress", "fence.ingress", "policy.types"}
    if with_shipped and not specs:
        assert not found


# Injection ------------------------------------------------------------------------------------

WORDS = st.text("abyes01.:/-_ #\n", max_size=6)
CONTAINER_FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "image": WORDS,
    "args": st.lists(WORDS, max_size=3),
    "command": st.sampled_from([["sh", "-c", "egress gate"], ["egress", "gate"]]),
    "restartPolicy": st.just("Always"),
    "env": st.lists(st.fixed_dictionaries({"name": st.sampled_from(["A", "HTTPS_PROXY"]), "value": WORDS})),
    "resources": st.sampled_from([{}, {"limits": {"cpu": 2}}, {"limits": {"cpu": "1m", "memory": "1Gi"}}]),
    "securityContext": st.fixed_dictionaries(
        {},
        optional={
            "privileged": st.booleans(),
            "runAsUser": st.sampled_from([0, 1000]),
            "capabilities": st.sampled_from([{}, {"drop": ["NET_RAW"]}, {"add": ["NET_RAW"]}]),
        },
    ),
    "volumeMounts": st.just([{"name": "own", "mountPath": "/own"}]),
}
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["a", "b", "c"])}, optional=CONTAINER_FIELDS), max_size=3
)
SPECS = st.fixed_dictionaries(
    {"containers": CONTAINERS},
    optional={
        "initContainers": CONTAINERS,
        "hostNetwork": st.booleans(),
        "dnsPolicy": st.just("ClusterFirst"),
        "volumes": st.sampled_from([[], [{"name": "own", "emptyDir": {}}], [{"name": "h", "hostPath": {}}]]),
        "securityContext": st.sampled_from([{}, {"fsGroup": 1000}, {"runAsNonRoot": False}]),
        "tolerations": st.lists(st.fixed_dictionaries({"key": WORDS}), max_size=2),
    },
)
KINDS = st.sampled_from([key for key in POD_FIELDS if key != ("", "Pod")])
OTHERS = st.fixed_dictionaries({"data": st.dictionaries(st.text(max_size=4), WORDS, max_size=3)})
PLAN = InjectionPlan(
    "10.96.0.92",
    ("$(KUBERNETES_SERVICE_HOST):443", "1.1.1.1:443"),
    variables={"HTTPS_PROXY": "http://10.96.0.92:3128"},
)
# The parts of a pod that belong to the proxy: whatever stood there is replaced.
REPLACED = {"dnsPolicy", "dnsConfig", "automountServiceAccountToken", "enableServiceLinks"}


def is_replaced(item: Any) -> bool:  # noqa: ANN401 - a value of a manifest
    """Whether an item of a list is a variable of the proxy, or a gate, which may prove too little."""
    is_variable = isinstance(item, dict) and item.get("name") == "HTTPS_PROXY"
    return is_variable or is_gate(ManifestNode(item, (), []))


def is_kept(before: Any, after: Any) -> bool:  # noqa: ANN401 - values of manifests
    """Whether everything that was there is there, in its order, beside what is new."""
    if isinstance(before, dict):
        return isinstance(after, dict) and all(
            key in after and is_kept(value, after[key])
            for key, value in before.items()
            if key not in REPLACED
        )
    if isinstance(before, list):
        wanted = [item for item in before if not is_replaced(item)]
        rest = iter(after)
        return all(any(is_kept(item, other) for other in rest) for item in wanted)
    return bool(before == after)


@given(KINDS, SPECS, OTHERS)
@settings(max_examples=examples(150), deadline=None)
def test_a_second_injection_changes_nothing_and_the_first_kept_all_else(
    kind: tuple[str, str], spec: Json, other: Json
) -> None:
    value: Json = {"spec": spec}
    for key in reversed(POD_FIELDS[kind]):
        value = {key: value}
    meta = {"metadata": {"name": "a", "namespace": "agents"}}
    workload = {"apiVersion": f"{kind[0]}/v1" if kind[0] else "v1", "kind": kind[1], **meta, **value}
    extra = {"apiVersion": "v1", "kind": "ConfigMap", **meta, **other}
    fence = [each for each in shipped() if each["kind"] != "Pod"]
    text = read_manifests("m.yaml", text_of([workload, extra, *fence]))
    if text.findings:
        return
    once = inject_manifests(text, PLAN)
    read = read_manifests("m.yaml", once.text)
    assert is_kept(workload, read.documents[0].value)
    assert [each.value for each in read.documents[1:]] == [each.value for each in text.documents[1:]]
    twice = inject_manifests(read, PLAN)
    assert (twice.text, twice.completed) == (once.text, ())
    # The other way round, too: the check of all files finds what the injection has told, and no more.
    found = {each.code for each in check_manifests([read], "", PodLabels()).findings}
    assert found == {each.code for each in once.findings}
