"""What network policies mean, as rules for nftables: for a stand-in of the tests, and for no real cluster.

It reads what the API server has, and knows IPv4, numbered ports and nothing else. It shares no code with the
product, whose `egress k8s check` reads policies too: neither may hide a mistake of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

type Json = Mapping[str, Any]

TABLE: Final = "inet stand_in_policies"


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod with an address of its own."""

    namespace: str
    labels: Mapping[str, str]
    address: str


@dataclass(frozen=True, slots=True)
class Wishes:
    """All that the policies of a cluster say."""

    pods: Sequence[Pod]
    namespaces: Mapping[str, Mapping[str, str]]
    """The labels of each."""
    policies: Sequence[Json]
    pod_range: str
    is_shut_by_default: bool
    """Whether an address that belongs to no known pod is shut, as where the network waits for its engine."""


def render(wishes: Wishes) -> str:
    """Write the rules as a whole. nftables replaces the old ones by them at once."""
    lines = [f"table {TABLE}", f"delete table {TABLE}", f"table {TABLE} {{"]
    isolated: dict[str, list[str]] = {"egress": [], "ingress": []}
    for pod in wishes.pods:
        for direction in ("egress", "ingress"):
            selecting = [each for each in wishes.policies if _applies(each, pod, direction)]
            if selecting:
                chain = f"{direction}_{pod.address.replace('.', '_')}"
                isolated[direction].append(
                    f"    ip {_side(direction, is_own=True)} {pod.address} jump {chain}"
                )
                lines += _chain(chain, [*_openings(selecting, direction, wishes), "reject"])
    lines += _chain("unknown", list(_unknown(wishes)) if wishes.is_shut_by_default else [])
    lines += _chain("egress", isolated["egress"])
    lines += _chain("ingress", isolated["ingress"])
    # What was open when its rule came stays open: so it is with most engines, and so a pod may be lost early.
    lasting = "ct state established,related accept"
    for hook, jumps in (("forward", ("unknown", "egress", "ingress")), ("input", ("unknown", "egress"))):
        lines += _chain(
            hook,
            [f"type filter hook {hook} priority -100; policy accept;", lasting]
            + [f"jump {chain}" for chain in jumps],
        )
    return "\n".join([*lines, "}", ""])


def _unknown(wishes: Wishes) -> Iterator[str]:
    for side in ("ip saddr", "ip daddr"):
        known = f" {side} != {_set(pod.address for pod in wishes.pods)}" if wishes.pods else ""
        yield f"{side} {wishes.pod_range}{known} reject"


def matches(selector: Json, labels: Mapping[str, str]) -> bool:
    """Say whether a label selector selects these labels."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression(each, labels) for each in selector.get("matchExpressions") or ())


def _expression(wanted: Json, labels: Mapping[str, str]) -> bool:
    key, values = wanted["key"], wanted.get("values") or ()
    match wanted["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case other:
            raise ValueError(f"no operator of a selector: {other}")


def _applies(policy: Json, pod: Pod, direction: str) -> bool:
    spec = policy["spec"]
    types = spec.get("policyTypes") or ["Ingress", *(["Egress"] if "egress" in spec else [])]
    return (
        policy["metadata"]["namespace"] == pod.namespace
        and direction.capitalize() in types
        and matches(spec.get("podSelector") or {}, pod.labels)
    )


def _openings(policies: Sequence[Json], direction: str, wishes: Wishes) -> Iterator[str]:
    """The rules of all policies that select a pod: what one of them opens is open."""
    for policy in policies:
        for rule in policy["spec"].get(direction) or ():
            peers = rule.get("to" if direction == "egress" else "from") or ()
            places = [place for peer in peers for place in _places(peer, policy, direction, wishes)]
            for place in places if peers else [""]:
                for port in [_port(each) for each in rule.get("ports") or ()] or [""]:
                    yield " ".join(word for word in (place, port, "return") if word)


def _places(peer: Json, policy: Json, direction: str, wishes: Wishes) -> Iterator[str]:
    side = f"ip {_side(direction, is_own=False)}"
    if block := peer.get("ipBlock"):
        if ":" not in block["cidr"]:
            excepted = [each for each in block.get("except") or () if ":" not in each]
            yield f"{side} {block['cidr']}" + (f" {side} != {_set(excepted)}" if excepted else "")
        return
    if (selector := peer.get("namespaceSelector")) is None:
        namespaces = {policy["metadata"]["namespace"]}
    else:
        namespaces = {name for name, labels in wishes.namespaces.items() if matches(selector, labels)}
    found = [
        pod.address
        for pod in wishes.pods
        if pod.namespace in namespaces and matches(peer.get("podSelector") or {}, pod.labels)
    ]
    if found:
        yield f"{side} {_set(found)}"


def _port(port: Json) -> str:
    protocol = port.get("protocol", "TCP").lower()
    if (number := port.get("port")) is None:
        return f"meta l4proto {protocol}"
    if not isinstance(number, int):
        raise TypeError(f"a port by its name, which this stand-in does not know: {number}")
    return f"{protocol} dport {number}" + (f"-{port['endPort']}" if "endPort" in port else "")


def _side(direction: str, *, is_own: bool) -> str:
    """The field of a packet with the pod's own address, or that of its peer."""
    return "saddr" if (direction == "egress") is is_own else "daddr"


def _set(members: Iterable[str]) -> str:
    return f"{{ {', '.join(sorted(set(members)))} }}"


def _chain(name: str, rules: Sequence[str]) -> list[str]:
    return [f"  chain {name} {{", *(f"    {rule.strip()}" for rule in rules), "  }"]
