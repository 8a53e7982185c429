"""Manifests are completed once, keep all else, and are refused when a weakness remains."""

from __future__ import annotations

import pytest

from egress.errors import ContentError
from egress.kubernetes import manifest_injection
from egress.kubernetes.manifest_check import check_manifests
from egress.kubernetes.manifest_injection import InjectedManifests, inject_manifests, template_policy
from egress.kubernetes.manifest_set import PodLabels
from egress.kubernetes.manifest_text import read_manifests
from egress.kubernetes.pod_injection import InjectionPlan
from egress.kubernetes.pod_shapes import POD_FIELDS
from tests.unit.kubernetes.manifest_samples import SHIPPED, Json, agent_sandboxes, part, shipped, text_of

BLOCKED = ("$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)", "1.1.1.1:443")
PROXY = {"HTTPS_PROXY": "http://10.96.0.92:3128"}
PLAN = InjectionPlan("10.96.0.92", BLOCKED, variables=PROXY, tells_pods_apart=True)


def inject(text: str, *skipped: str) -> InjectedManifests:
    return inject_manifests(read_manifests("m.yaml", text), PLAN, "", skipped)


def codes(text: str) -> set[str]:
    read = [read_manifests("m.yaml", text)]
    return {finding.code for finding in check_manifests(read, "", PodLabels()).findings}


def fence() -> list[Json]:
    """The shipped objects without the workload."""
    return [each for each in shipped() if each["kind"] != "Pod"]


def bare(group: str, kind: str) -> Json:
    """An object of this kind with a pod that has nothing."""
    value: Json = {"metadata": {}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    for key in reversed(POD_FIELDS[group, kind]):
        value = {key: value}
    found: Json = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind} | value
    found["metadata"] = {"name": "a", "namespace": "agents"}
    return found


@pytest.mark.parametrize(("group", "kind"), POD_FIELDS)
def test_every_kind_of_workload_passes_the_check_afterwards_and_a_second_run_changes_nothing(
    group: str, kind: str
) -> None:
    text = text_of([*fence(), bare(group, kind)])
    assert codes(text)
    first = inject(text)
    assert first.is_usable
    assert first.completed == (f"{kind} agents/a",)
    assert codes(first.text) == set()
    second = inject(first.text)
    assert (second.text, second.completed) == (first.text, ())


def test_only_documents_that_need_it_are_written_anew() -> None:
    workload = "# mine\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n"
    others = "# head\nkind:   ConfigMap # odd\napiVersion: v1\nmetadata: {name: b}\n---\n# nothing\n---\n"
    done = inject(f"{others}{workload}--- # end\napiVersion: v1\nkind: Secret")
    assert done.text.startswith(f"{others}# mine\napiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n")
    assert done.text.endswith("--- # end\napiVersion: v1\nkind: Secret")


def test_the_shipped_manifest_is_complete() -> None:
    text = SHIPPED.read_text("utf-8")
    done = inject(text)
    assert (done.text, done.completed, done.findings) == (text, (), ())


def test_a_gate_for_another_proxy_or_with_a_finding_is_replaced() -> None:
    for change in ("--passes=1", "--help"):
        objects = shipped()
        part(objects, "Pod")["spec"]["initContainers"][0]["args"].append(change)
        assert "egress-gate" in inject(text_of(objects)).text
    other = SHIPPED.read_text("utf-8").replace("--gateway=10.96.0.92", "--gateway=10.96.0.93")
    assert "egress-gate" in inject(other).text


def test_a_template_gets_a_policy_and_a_pool_replaces_its_pods() -> None:
    objects = agent_sandboxes()
    part(objects, "SandboxTemplate")["spec"].pop("networkPolicy")
    part(objects, "SandboxWarmPool")["spec"].pop("updateStrategy")
    assert codes(text_of(objects)) == {"template.open", "pool.stale"}
    done = inject(text_of(objects))
    assert done.completed == ("SandboxTemplate agents/python", "SandboxWarmPool agents/pool")
    assert codes(done.text) == set()
    assert template_policy(PLAN)["egress"]


def test_a_template_that_has_a_policy_or_wants_none_keeps_it() -> None:
    objects = agent_sandboxes()
    spec = part(objects, "SandboxTemplate")["spec"]
    spec["networkPolicy"] = {"egress": []}
    assert "sandbox-router" not in inject(text_of(objects)).text
    spec.pop("networkPolicy")
    spec["networkPolicyManagement"] = "Unmanaged"
    assert "sandbox-router" not in inject(text_of(objects)).text


def test_a_right_that_somebody_set_is_an_error() -> None:
    objects = shipped()
    part(objects, "Pod")["spec"]["hostNetwork"] = True
    done = inject(text_of(objects))
    assert not done.is_usable
    assert [finding.code for finding in done.findings] == ["pod.host-network"]


def test_a_warning_is_told_and_does_not_stop() -> None:
    objects = shipped()
    env = [{"name": "K", "value": "ghp_" + "a1B2c3D4" * 5}]
    part(objects, "Pod")["spec"]["containers"][0]["env"] = env
    done = inject(text_of(objects))
    assert done.is_usable
    assert [finding.code for finding in done.findings] == ["container.credential"]


def test_a_skipped_object_and_objects_of_a_list() -> None:
    text = text_of([{"apiVersion": "v1", "kind": "List", "items": [bare("", "Pod"), bare("batch", "Job")]}])
    assert inject(text).completed == ("Pod agents/a", "Job agents/a")
    assert inject(text, "a").text == text


def test_text_that_cannot_be_read_and_values_of_a_wrong_type_are_refused() -> None:
    assert [each.code for each in inject("a: yes\n").findings] == ["manifest.text"]
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [], "hostNetwork": "no"}}
    assert {each.code for each in inject(text_of([pod])).findings} == {"manifest.shape", "pod.host-network"}
    labelled: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"egress": "workload"}}}
    assert not inject(text_of([labelled])).is_usable
    assert not inject(text_of([{**labelled, "spec": []}])).is_usable


def test_values_that_would_change_on_their_way_are_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_injection, "write_yaml", lambda value: "kind: Other\n")
    with pytest.raises(ContentError, match="cannot be written as they were read"):
        inject(text_of([bare("", "Pod")]))
