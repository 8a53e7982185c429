"""The gate is known by what it runs, and its arguments are read as click reads them."""

from __future__ import annotations

import pytest

from egress.kubernetes.gate_check import check_gate, gate_arguments, is_gate, option_values, proxy_hosts
from egress.kubernetes.manifest_node import ManifestNode
from egress.rules.language.document import Value
from tests.unit.kubernetes.manifest_samples import as_set, gate, shipped


def container(**fields: Value) -> ManifestNode:
    return ManifestNode(fields, (), [])


@pytest.mark.parametrize(
    "fields",
    [
        {"args": ["gate", "--proxy=a"]},
        {"command": ["egress"], "args": ["gate", "--proxy=a"]},
        {"command": ["egress", "gate"], "args": ["--proxy=a"]},
        {"command": ["egress", "gate", "--proxy=a"]},
    ],
)
def test_a_gate_runs_egress_gate(fields: dict[str, Value]) -> None:
    assert gate_arguments(container(**fields)) == ("--proxy=a",)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"name": "gate"},
        {"args": ["serve"]},
        {"command": ["sh", "-c", "egress gate"]},
        {"command": ["true"], "args": ["gate"]},
    ],
)
def test_nothing_else_is_a_gate(fields: dict[str, Value]) -> None:
    assert not is_gate(container(**fields))


def test_options_are_read_in_both_forms_and_other_words_stand_out() -> None:
    arguments = ("--blocked=a", "--blocked", "b", "--proxy=[fd00::1]:443", "--help", "--timeout")
    assert option_values(arguments) == {
        "--blocked": ["a", "b"],
        "--proxy": ["[fd00::1]:443"],
        "--help": [""],
        "--timeout": [""],
    }
    assert proxy_hosts(arguments) == {"fd00::1"}


def test_an_option_does_not_take_the_next_option_away() -> None:
    """`--passes --blocked=x`: click takes the second word for the value, and so does the check."""
    assert option_values(("--passes", "--blocked=x")) == {"--passes": ["--blocked=x"]}


def test_the_shipped_gate_has_no_finding_and_an_odd_number_of_passes_has() -> None:
    objects = shipped()
    (pod,) = as_set(objects).sandboxes
    assert list(check_gate(pod)) == []
    for passes in ("0", "2", "", "x", "-3"):
        gate(objects)["args"][-1] = f"--passes={passes}"
        (pod,) = as_set(objects).sandboxes
        assert "gate.passes" in {each.code for each in check_gate(pod)}


GATEWAY = "--gateway=10.96.0.92:3128"


@pytest.mark.parametrize(
    ("words", "path", "is_proof"),
    [
        ([GATEWAY, "--uid=$(POD_UID)"], "metadata.uid", True),
        ([GATEWAY, "--uid", "$(POD_UID)"], "metadata.uid", True),
        ([], "metadata.uid", False),
        ([GATEWAY], "metadata.uid", False),
        (["--uid=$(POD_UID)"], "metadata.uid", False),
        ([GATEWAY, "--uid=$(OTHER)"], "metadata.uid", False),
        ([GATEWAY, "--uid=$(POD_UID)"], "status.podIP", False),
        ([GATEWAY, "--uid=6f0c2f0e"], "metadata.uid", False),
        # The last one counts.
        ([GATEWAY, "--uid=$(POD_UID)", "--uid=6f0c2f0e"], "metadata.uid", False),
    ],
)
def test_a_gateway_that_tells_pods_apart_is_asked_for_the_uid_that_the_cluster_fills_in(
    words: list[str], path: str, *, is_proof: bool
) -> None:
    objects = shipped()
    kept = [each for each in gate(objects)["args"] if not each.startswith(("--gateway", "--uid"))]
    gate(objects)["args"] = [*kept, *words]
    gate(objects)["env"] = [{"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": path}}}]
    (pod,) = as_set(objects).sandboxes
    codes = {each.code for each in check_gate(pod, needs_uid=True)}
    assert ("gate.uid" not in codes) is is_proof
