"""The pod of a sandbox: the check of manifests finds nothing in it, and nothing of the spec is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.kubernetes.manifest_check import check_manifests
from egress.kubernetes.manifest_set import PodLabels
from egress.kubernetes.manifest_text import read_manifests
from egress.runtime.errors import SpecError, UnsupportedError
from egress.runtime.kubernetes.gateway import GatewayFacts
from egress.runtime.kubernetes.pod_manifest import check_spec, pod_manifest
from egress.runtime.kubernetes.settings import KubernetesSettings
from egress.runtime.spec import Mount, SandboxLimits, Spec
from egress.types import Severity

type Json = dict[str, Any]

FENCE = Path(__file__).parents[4] / "container/kubernetes.yaml"
FACTS = GatewayFacts("10.96.0.92", "egress-proxy", "-----BEGIN CERTIFICATE-----")


def made(settings: KubernetesSettings | None = None, **values: object) -> Json:
    spec = Spec(**{"name": "one", "image": "image:1", **values})  # type: ignore[arg-type]
    check_spec(spec)
    found = pod_manifest(spec, FACTS, settings or KubernetesSettings(), "0123")
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def container(pod: Json) -> Json:
    (found,) = pod["spec"]["containers"]
    assert isinstance(found, dict)
    return found


VARIANTS: list[dict[str, object]] = [
    {},
    {"read_only": True, "profile": "reader", "env": {"A": "1"}},
    {"limits": SandboxLimits(disk_mib=64, cpus=0.05, memory_mib=64), "user": 501, "group": 20},
]


@pytest.mark.parametrize("values", VARIANTS, ids=range(3))
def test_the_check_of_manifests_finds_nothing(values: dict[str, object]) -> None:
    pod = made(KubernetesSettings(blocked=("10.96.0.10:53",)), **values)
    pod["metadata"]["namespace"] = "agents"
    fence = read_manifests("fence", FENCE.read_text("utf-8"))
    found = check_manifests([fence, read_manifests("pod", json.dumps(pod))], "", PodLabels())
    assert [each for each in found.findings if each.severity is not Severity.NOTICE] == []
    assert found.sandboxes == 2
    # The twin: without its gate the same pod is found.
    pod["spec"]["initContainers"] = []
    weak = check_manifests([fence, read_manifests("pod", json.dumps(pod))], "", PodLabels())
    assert [each.code for each in weak.findings if each.severity is Severity.ERROR] == ["gate.missing"]


def test_the_gate_comes_first_and_from_the_image_of_the_gateway() -> None:
    gate = made(KubernetesSettings(blocked=("10.96.0.10:53",)))["spec"]["initContainers"][0]
    assert (gate["name"], gate["image"]) == ("egress-gate", "egress-proxy")
    assert {"--blocked=10.96.0.10:53", "--gateway=10.96.0.92:3128"} <= set(gate["args"])


def test_a_pod_has_an_end_an_owner_and_its_profile() -> None:
    pod = made(
        KubernetesSettings(lifetime=600, pull_secret="registry"), profile="reader", labels={"a": "b" * 99}
    )
    assert pod["metadata"]["labels"] == {
        "egress": "workload",
        "egress/owner": "0123",
        "app.kubernetes.io/managed-by": "egress",
    }
    notes = pod["metadata"]["annotations"]
    assert (notes["egress/profile"], json.loads(notes["egress/labels"])) == ("reader", {"a": "b" * 99})
    assert pod["spec"]["activeDeadlineSeconds"] == 600
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert not any(name.startswith("egress/p") for name in made()["metadata"]["annotations"])


def test_a_pod_asks_for_its_parameters_as_a_claim_does() -> None:
    notes = made(parameters={"repo": "acme/site"})["metadata"]["annotations"]
    assert notes["egress/param.repo"] == "acme/site"


def test_the_scripts_are_files_that_nothing_in_the_pod_can_write() -> None:
    pod = made()
    (volume,) = [each for each in pod["spec"]["volumes"] if "downwardAPI" in each]
    shown = {each["path"]: each["fieldRef"]["fieldPath"] for each in volume["downwardAPI"]["items"]}
    assert shown == {
        "supervisor.sh": "metadata.annotations['egress/supervisor.sh']",
        "begin.sh": "metadata.annotations['egress/begin.sh']",
    }
    assert set(map(len, pod["metadata"]["annotations"].values())) != {0}
    mount = next(each for each in container(pod)["volumeMounts"] if each["name"] == volume["name"])
    assert (mount["mountPath"], mount["readOnly"]) == ("/.egress", True)


def test_the_proxy_wins_over_a_variable_of_the_caller() -> None:
    found = container(made(env={"HTTPS_PROXY": "http://elsewhere", "A": "1"}))["env"]
    assert [each["value"] for each in found if each["name"] == "HTTPS_PROXY"] == ["http://10.96.0.92:3128"]
    assert {"name": "A", "value": "1"} in found


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40))
def test_a_value_arrives_as_it_was_whatever_the_kubelet_expands(value: str) -> None:
    found = next(each for each in container(made(env={"A": value}))["env"] if each["name"] == "A")
    assert expanded(found["value"]) == value


def expanded(text: str) -> str:
    """What the kubelet makes of a value: a doubled sign is one, and `$(NAME)` is a variable."""
    result, place = "", 0
    while place < len(text):
        if text[place] == "$" and text[place + 1 : place + 2] in ("$", "("):
            assert text[place + 1] == "$", "it would be expanded"
            place += 1
        result += text[place]
        place += 1
    return result


def test_limits_are_those_of_the_container_and_requests_are_small() -> None:
    found = container(made(limits=SandboxLimits(memory_mib=1024, cpus=1.5)))["resources"]
    assert found == {
        "limits": {"cpu": "1500m", "memory": "1024Mi"},
        "requests": {"cpu": "100m", "memory": "128Mi"},
    }
    small = container(made(limits=SandboxLimits(memory_mib=16, cpus=0.05)))["resources"]
    assert small["limits"] == small["requests"] == {"cpu": "50m", "memory": "16Mi"}


def test_a_limited_disk_is_in_memory_and_the_only_place_to_write() -> None:
    pod = made(limits=SandboxLimits(disk_mib=64, temporary_mib=32, memory_mib=512))
    disks = {each["name"]: each["emptyDir"] for each in pod["spec"]["volumes"] if "emptyDir" in each}
    assert disks == {
        "workspace": {"medium": "Memory", "sizeLimit": "64Mi"},
        "temporary": {"medium": "Memory", "sizeLimit": "32Mi"},
    }
    assert container(pod)["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"name": "HOME", "value": "/workspace"} in container(pod)["env"]
    assert container(pod)["resources"]["limits"]["memory"] == "596Mi"


@pytest.mark.parametrize("name", ["a_b", "a..b", "a.-b", "a-.b"])
def test_a_name_that_no_pod_can_have_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="name of a pod"):
        made(name=name)
    assert made(name="a-b.c")["metadata"]["name"] == "a-b.c"


def test_folders_ports_and_root_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="no folder of this machine"):
        made(mounts=(Mount(source=Path("/srv"), target="/srv"),))
    with pytest.raises(UnsupportedError, match="the port 8443"):
        made(ports=(443, 8443))
    with pytest.raises(SpecError, match="user or group is 0"):
        made(group=0)
