"""The gate of a pod: the first init container, which ends only when the fence is proved."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from egress.kubernetes.manifest_findings import ManifestFinding, finding_at
from egress.kubernetes.manifest_node import ManifestNode
from egress.kubernetes.pod_shapes import PodShape
from egress.rules.language.document import safe_excerpt

MIN_PASSES: Final = 3
GATE_OPTIONS: Final = frozenset(
    {"--blocked", "--proxy", "--gateway", "--uid", "--trust", "--passes", "--timeout"}
)
GATE_FIELDS: Final = frozenset({"metadata.uid", "status.hostIP", "status.podIP"})
_UID_WORD: Final = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_]{0,62})\)")
API_SERVER_WORD: Final = "$(KUBERNETES_SERVICE_HOST):"


def is_gate(container: ManifestNode) -> bool:
    """Report whether a container runs `egress gate`."""
    return gate_arguments(container) is not None


def gate_arguments(container: ManifestNode) -> tuple[str, ...] | None:
    """Return the arguments of `egress gate`; None if the container runs something else."""
    words = runs(container)
    return words[2:] if words[:2] == ("egress", "gate") else None


def runs(container: ManifestNode) -> tuple[str, ...]:
    """Return the command line of a container whose image is Egress's."""
    # Without `command` the image's own is run, and in an image of Egress that is `egress`.
    return (*(container.at("command").texts() or ("egress",)), *container.at("args").texts())


def option_values(arguments: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the values of each option, written as `--option=value` or as two words.

    A word that is neither an option of the gate nor a value of one stands under its own name.
    """
    values: dict[str, list[str]] = {}
    words = iter(arguments)
    for word in words:
        option, equals, value = word.partition("=")
        values.setdefault(option, []).append(value if equals else _value_of(option, words))
    return values


def _value_of(option: str, words: Iterator[str]) -> str:
    return next(words, "") if option in GATE_OPTIONS else ""


def proxy_hosts(arguments: tuple[str, ...]) -> set[str]:
    """Return the addresses at which a gate asks for the proxy."""
    options = option_values(arguments)
    return {_host(value) for name in ("--proxy", "--gateway") for value in options.get(name, ())}


def check_gate(
    pod: PodShape,
    *,
    leading: int = 0,
    diverted: frozenset[int] = frozenset(),
    needs_uid: bool = False,
) -> Iterator[ManifestFinding]:
    """Check that the gate is there, is first, holds back, and dials enough.

    Where the proxy tells pods apart, it also `needs_uid`: the proof that the proxy knows the pod.
    In a pod that locks its own network other parts of Egress are `leading`, and at `diverted` ports the proxy
    itself answers, whatever the address.
    """
    source, containers = pod.source, pod.spec.at("initContainers").items()
    gates = [each for each in containers if is_gate(each)]
    if not gates:
        yield finding_at("gate.missing", source, pod.spec)
        return
    gate = gates[0]
    if gate.path != containers[min(leading, len(containers) - 1)].path:
        yield finding_at("gate.not-first", source, gate, f"{containers[0].at('name').text()} is before it")
    if not gate.at("restartPolicy").is_missing:
        yield finding_at("gate.restart", source, gate.at("restartPolicy"))
    if gate.at("volumeMounts").items() or gate.at("volumeDevices").items():
        yield finding_at("gate.mounts", source, gate.at("volumeMounts"))
    # A variable of its own could lead the gate to another address, or to another program.
    for variable in (*gate.at("env").items(), *gate.at("envFrom").items()):
        field = variable.at("valueFrom", "fieldRef", "fieldPath").text()
        # An annotation is a value that its writer chose.
        if field not in GATE_FIELDS or _is_of_cluster(variable):
            yield finding_at("gate.env", source, variable)
    yield from _check_arguments(pod, gate, diverted)
    if not _proves_uid(gate, needs_uid=needs_uid):
        yield finding_at("gate.uid", source, gate)


def _proves_uid(gate: ManifestNode, *, needs_uid: bool) -> bool:
    """Report whether the gate asks its gateway for the pod by the UID that the cluster fills in."""
    options = option_values(gate_arguments(gate) or ())
    uids, gateways = options.get("--uid", []), options.get("--gateway", [])
    if not uids and not gateways:
        return not needs_uid
    fields = {
        each.at("name").text(): each.at("valueFrom", "fieldRef", "fieldPath").text()
        for each in gate.at("env").items()
    }
    # The last one counts, as it does for the command.
    name = _UID_WORD.fullmatch(uids[-1]) if uids else None
    return bool(gateways and gateways[-1] and name) and fields.get(name[1] if name else "") == "metadata.uid"


def _check_arguments(
    pod: PodShape, gate: ManifestNode, diverted: frozenset[int]
) -> Iterator[ManifestFinding]:
    source, node = pod.source, gate.at("args")
    options = option_values(gate_arguments(gate) or ())
    blocked = [value for value in options.get("--blocked", []) if _port(value) not in diverted]
    # Where its port is diverted, the proxy answers in the place of the API server.
    has_api_server = bool(diverted) or any(value.startswith(API_SERVER_WORD) for value in blocked)
    if not has_api_server or not any(_is_outside(value) for value in blocked):
        yield finding_at("gate.blocked", source, node)
    if not any((*options.get("--proxy", ()), *options.get("--gateway", ()))):
        yield finding_at("gate.proxy", source, node)
    if any(not value.isdigit() or int(value[:6]) < MIN_PASSES for value in options.get("--passes", ())):
        yield finding_at("gate.passes", source, node)
    # `--help` alone would end the gate with success.
    if unknown := sorted(options.keys() - GATE_OPTIONS):
        yield finding_at("gate.arguments", source, node, safe_excerpt(unknown[0]))


def _is_of_cluster(variable: ManifestNode) -> bool:
    return variable.at("name").text().startswith("KUBERNETES_")


def _host(value: str) -> str:
    return value.rpartition(":")[0].strip("[]")


def _port(value: str) -> int:
    port = value.rpartition(":")[2]
    return int(port) if port.isdigit() and len(port) <= 5 else 0


def _is_outside(value: str) -> bool:
    try:
        return ip_address(_host(value)).is_global
    except ValueError:
        return False
