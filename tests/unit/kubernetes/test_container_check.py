"""Rights of a container: tests/unit/kubernetes/test_manifest_check.py has every weakness."""

from __future__ import annotations

from egress.kubernetes.container_check import check_container
from tests.unit.kubernetes.manifest_samples import Json, as_set, container, pod, shipped


def found(objects: list[Json]) -> set[str]:
    (sandbox,) = as_set(objects).sandboxes
    return {each.code for each in check_container(sandbox, list(sandbox.containers)[1])}


def test_a_container_inherits_from_its_pod_and_may_say_otherwise() -> None:
    objects = shipped()
    assert found(objects) == set()
    container(objects)["securityContext"] |= {"runAsNonRoot": False}
    assert found(objects) == {"container.root"}
    container(objects)["securityContext"] |= {"runAsNonRoot": True, "runAsUser": 1000}
    pod(objects)["securityContext"] = {}
    assert found(objects) == {"container.seccomp"}
    container(objects)["securityContext"] |= {"seccompProfile": {"type": "Localhost"}}
    assert found(objects) == set()


def test_an_absent_security_context_has_every_finding() -> None:
    objects = shipped()
    pod(objects).pop("securityContext")
    container(objects).pop("securityContext")
    assert found(objects) == {
        "container.escalation",
        "container.capabilities",
        "container.root",
        "container.seccomp",
    }


def test_a_name_or_a_url_in_a_variable_is_no_credential() -> None:
    objects = shipped()
    container(objects)["env"] = [{"name": "A", "value": "https://api.example.com/v1"}, {"name": "B"}]
    assert found(objects) == set()
