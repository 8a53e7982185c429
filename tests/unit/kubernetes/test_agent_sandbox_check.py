"""Templates, pools and claims: tests/unit/kubernetes/test_manifest_check.py has every weakness."""

from __future__ import annotations

from egress.kubernetes.agent_sandbox_check import check_agent_sandbox
from tests.unit.kubernetes.manifest_samples import Json, agent_sandboxes, as_set, part


def found(objects: list[Json]) -> set[str]:
    return {each.code for each in check_agent_sandbox(as_set(objects))}


def test_a_label_of_a_claim_that_brings_another_policy_is_judged_with_it() -> None:
    objects = agent_sandboxes()
    spec = part(objects, "SandboxClaim")["spec"]
    spec["additionalPodMetadata"] = {"labels": {"sandbox.users.io/team": "a"}}
    assert found(objects) == set()
    objects.append(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "team", "namespace": "agents"},
            "spec": {
                "podSelector": {"matchLabels": {"sandbox.users.io/team": "a"}},
                "policyTypes": ["Egress"],
                "egress": [{}],
            },
        }
    )
    assert found(objects) == {"policy.everywhere"}


def test_a_claim_of_the_first_version_names_its_template_itself() -> None:
    objects = agent_sandboxes()
    claim = part(objects, "SandboxClaim")
    claim["apiVersion"] = "extensions.agents.x-k8s.io/v1alpha1"
    claim["spec"] = {"sandboxTemplateRef": {"name": "python"}}
    assert found(objects) == set()
    claim["spec"] = {"sandboxTemplateRef": {"name": "other"}}
    assert found(objects) == {"claim.pool"}


def test_an_unmanaged_template_is_fine_behind_the_policies_of_its_namespace() -> None:
    objects = agent_sandboxes()
    spec = part(objects, "SandboxTemplate")["spec"]
    spec.pop("networkPolicy")
    spec["networkPolicyManagement"] = "Unmanaged"
    assert found(objects) == set()
