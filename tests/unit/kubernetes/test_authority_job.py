"""The job of the authority is known by its label and its command, and by both together."""

from __future__ import annotations

from copy import deepcopy

import pytest

from egress.kubernetes.manifest_injection import inject_manifests
from egress.kubernetes.pod_injection import InjectionPlan
from tests.unit.kubernetes.manifest_samples import Json, as_set, codes, part, read, shipped


def job(labels: Json | None = None, **container: object) -> Json:
    made = deepcopy(part(shipped(), "Job"))
    template = made["spec"]["template"]
    if labels is not None:
        template["metadata"]["labels"] = labels
    template["spec"]["containers"][0] |= container
    return made


def test_the_job_is_neither_a_sandbox_nor_a_stranger() -> None:
    found = as_set(shipped())
    assert [pod.source.name for pod in found.strangers] == []
    assert [pod.source.name for pod in found.sandboxes] == ["workload"]
    assert codes(shipped()) == set()


@pytest.mark.parametrize(
    "other",
    [
        job({"app": "authority"}),
        job(args=["k8s", "check"]),
        job(command=["sh", "-c", "egress k8s ca"]),
        job(args=[]),
    ],
    ids=["label", "command", "shell", "nothing"],
)
def test_another_program_or_label_is_a_stranger(other: Json) -> None:
    objects = [each for each in shipped() if each["kind"] != "Job"]
    assert codes([*objects, other]) == {"label.missing"}


def test_the_job_is_not_completed_into_a_sandbox() -> None:
    plan = InjectionPlan("10.96.0.92", ("1.1.1.1:443", "$(KUBERNETES_SERVICE_HOST):443"))
    assert inject_manifests(read([job()]), plan).completed == ()
    assert inject_manifests(read([job({"app": "x"})]), plan).completed == ("Job agents/egress-authority",)
