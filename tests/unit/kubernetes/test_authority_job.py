"""The job of the authority is known by its label and its command, and by both together."""

from __future__ import annotations

from copy import deepcopy
from typing import Final

import pytest

from egress.kubernetes.manifest_injection import inject_manifests
from egress.kubernetes.pod_injection import InjectionPlan
from tests.unit.kubernetes.manifest_samples import Json, as_set, codes, read, shipped

JOB: Final[Json] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "egress-authority", "namespace": "agents"},
    "spec": {
        "template": {
            "metadata": {"labels": {"app": "egress-authority"}},
            "spec": {"containers": [{"name": "ca", "image": "egress-proxy", "args": ["k8s", "ca"]}]},
        }
    },
}


def job(labels: Json | None = None, **container: object) -> Json:
    made = deepcopy(JOB)
    template = made["spec"]["template"]
    template["metadata"]["labels"] = {"app": "egress-authority"} if labels is None else labels
    template["spec"]["containers"][0] |= container
    return made


def test_the_job_is_neither_a_sandbox_nor_a_stranger() -> None:
    found = as_set([*shipped(), job()])
    assert [pod.source.name for pod in found.strangers] == []
    assert [pod.source.name for pod in found.sandboxes] == ["workload"]
    assert codes([*shipped(), job()]) == set()


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
    assert codes([*shipped(), other]) == {"label.missing"}


def test_the_job_is_not_completed_into_a_sandbox() -> None:
    plan = InjectionPlan("10.96.0.92", ("1.1.1.1:443", "$(KUBERNETES_SERVICE_HOST):443"))
    assert inject_manifests(read([job()]), plan).completed == ()
    assert inject_manifests(read([job({"app": "x"})]), plan).completed == ("Job agents/egress-authority",)
