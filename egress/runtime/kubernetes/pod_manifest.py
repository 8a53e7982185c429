"""The pod of a sandbox, as a manifest: complete by what `egress k8s inject` writes. Pure.

The image decides nothing about how it runs: neither user, nor entry point. The first process only waits;
commands come later. The scripts of commands are annotations of the pod itself, which the kubelet shows as
files that nothing in the pod can write: whatever image is used, it needs a POSIX shell and no more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from egress.kubernetes.pod_identity import PARAMETER_PREFIX, PROFILE_ANNOTATION
from egress.kubernetes.pod_injection import (
    BLOCKED_ADDRESSES,
    TRUST_FOLDER,
    InjectionPlan,
    inject_pod,
)
from egress.kubernetes.value_edits import Fields
from egress.rules.language.document import Value
from egress.runtime import tmpfs
from egress.runtime.errors import SpecError, UnsupportedError
from egress.runtime.kit.trust_folder_variables import trust_folder_variables
from egress.runtime.kubernetes.gateway import TRUST_NAME, GatewayFacts
from egress.runtime.kubernetes.pod_status import CONTAINER_NAME
from egress.runtime.kubernetes.settings import KubernetesSettings
from egress.runtime.proc_scripts import SUPERVISOR_PATH, SUPERVISOR_SCRIPT
from egress.runtime.proxy_address import ProxyAddress
from egress.runtime.spec import MIB, SandboxLimits, Spec

OWNER_LABEL: Final = "egress/owner"
"""The runtime that made the pod."""
LABELS_ANNOTATION: Final = "egress/labels"
"""Labels of the user, whose values may be longer than those of the cluster."""
SCRIPTS_FOLDER: Final = "/.egress"
_SCRIPTS_VOLUME: Final = "egress-scripts"
_BEGIN_SCRIPT: Final = Path(__file__).with_name("begin.sh").read_text(encoding="ascii")
SCRIPTS: Final = {
    SUPERVISOR_PATH.removeprefix(f"{SCRIPTS_FOLDER}/"): SUPERVISOR_SCRIPT,
    "begin.sh": _BEGIN_SCRIPT,
}
"""The text of each script, by its name. An annotation of the pod has the same name behind `egress/`."""
_WAIT_SCRIPT: Final = "while :; do sleep 3600; done"
"""The first process: no signal from inside reaches it, since it asks for none."""
_TEMP_FOLDER: Final = "/tmp"  # noqa: S108 - that of the sandbox
_MEMORY_REQUEST_MIB: Final = 128
_CPU_REQUEST: Final = 0.1
_GATEWAY_PORTS: Final = frozenset({80, 443})
_POD_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")


def check_name(name: str) -> None:
    """Refuse a name that no pod and no pool can have. Raises `SpecError`."""
    if not _POD_NAME.fullmatch(name):
        raise SpecError(
            "name is not the name of a pod",
            "use lower-case letters, digits and -, and dots between letters or digits",
        )


def check_spec(spec: Spec) -> None:
    """Refuse what no pod of ours can have. Raises `SpecError` and `UnsupportedError`."""
    check_name(spec.name)
    if spec.mounts:
        raise UnsupportedError(
            "a pod sees no folder of this machine", "copy the files: `egress cp`, or `files.upload`"
        )
    refuse_ports(spec.ports)
    if not spec.user or not spec.group:
        raise SpecError("user or group is 0, which no pod of a sandbox is", "name another one")


def refuse_ports(ports: tuple[int, ...]) -> None:
    """Refuse ports on which the gateway's Service does not listen. Raises `UnsupportedError`."""
    if others := sorted(set(ports) - _GATEWAY_PORTS):
        raise UnsupportedError(
            f"the port {others[0]} does not lead to the gateway of a cluster",
            "use a client that reads the variables of a proxy: those reach every port",
        )


def pod_manifest(spec: Spec, facts: GatewayFacts, settings: KubernetesSettings, owner: str) -> Fields:
    """Make the pod of a sandbox."""
    annotations: Fields = {f"egress/{name}": text for name, text in SCRIPTS.items()}
    annotations[LABELS_ANNOTATION] = msgspec.json.encode(dict(spec.labels)).decode()
    annotations.update(wished_annotations(spec))
    pod: Fields = {
        "metadata": {
            "name": spec.name,
            "labels": {OWNER_LABEL: owner, "app.kubernetes.io/managed-by": "egress"},
            "annotations": annotations,
        },
        "spec": {
            # The container starts again after its memory ran out; its volumes stay.
            "restartPolicy": "Always",
            "activeDeadlineSeconds": settings.lifetime,
            "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsUser": spec.user, "runAsGroup": spec.group, "fsGroup": spec.group},
            "containers": [_container(spec)],
            "volumes": _volumes(spec),
            **({"imagePullSecrets": [{"name": settings.pull_secret}]} if settings.pull_secret else {}),
        },
    }
    plan = InjectionPlan(
        facts.address,
        (*BLOCKED_ADDRESSES, *settings.blocked),
        facts.image,
        TRUST_NAME,
        trust_folder_variables(ProxyAddress(facts.address).url, TRUST_FOLDER),
        tells_pods_apart=True,
    )
    inject_pod(pod, plan, keeps_gate=False)
    return {"apiVersion": "v1", "kind": "Pod", **pod}


def wished_annotations(spec: Spec) -> dict[str, str]:
    """Return the annotations by which the gateway knows the rights of a sandbox."""
    profile = {} if spec.profile is None else {PROFILE_ANNOTATION: spec.profile}
    return {**profile, **{f"{PARAMETER_PREFIX}{name}": value for name, value in spec.parameters.items()}}


def _container(spec: Spec) -> Fields:
    folder = os.path.normpath(spec.workdir)
    mounts: list[Value] = [
        {"name": _SCRIPTS_VOLUME, "mountPath": SCRIPTS_FOLDER, "readOnly": True},
        {"name": "workspace", "mountPath": folder},
    ]
    if spec.has_read_only_image:
        mounts.append({"name": "temporary", "mountPath": _TEMP_FOLDER})
    # A limited disk is the only place that can be written, so it is the home as well.
    home = {"HOME": folder} if spec.limits.disk_mib is not None and not spec.read_only else {}
    return {
        "name": CONTAINER_NAME,
        "image": spec.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", _plain(_WAIT_SCRIPT)],
        "workingDir": folder,
        "env": _variables({**home, **spec.env}),
        "resources": _resources(spec.limits),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": spec.has_read_only_image,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _variables(values: Mapping[str, str]) -> list[Value]:
    return [{"name": name, "value": _plain(value)} for name, value in values.items()]


def _plain(text: str) -> str:
    """Return a text that the kubelet gives to the container as it was."""
    return text.replace("$", "$$")


def _resources(limits: SandboxLimits) -> Fields:
    # Volumes in memory count as memory of the container.
    memory = tmpfs.memory_limit(limits) // MIB
    return {
        "limits": {"cpu": f"{round(limits.cpus * 1000)}m", "memory": f"{memory}Mi"},
        # Requests of their own: a pod without them asks for as much as its limits.
        "requests": {
            "cpu": f"{round(min(limits.cpus, _CPU_REQUEST) * 1000)}m",
            "memory": f"{min(memory, _MEMORY_REQUEST_MIB)}Mi",
        },
    }


def _volumes(spec: Spec) -> list[Value]:
    items: list[Value] = [
        {"path": name, "fieldRef": {"fieldPath": f"metadata.annotations['egress/{name}']"}}
        for name in SCRIPTS
    ]
    disk = spec.limits.disk_mib
    found: list[Value] = [
        {"name": _SCRIPTS_VOLUME, "downwardAPI": {"items": items}},
        {"name": "workspace", "emptyDir": {} if disk is None else _in_memory(disk)},
    ]
    if spec.has_read_only_image:
        found.append({"name": "temporary", "emptyDir": _in_memory(spec.limits.temporary_mib)})
    return found


def _in_memory(mib: int) -> Fields:
    return {"medium": "Memory", "sizeLimit": f"{mib}Mi"}
