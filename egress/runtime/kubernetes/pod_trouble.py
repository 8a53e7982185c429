"""The error for a pod that will not become ready."""

from __future__ import annotations

from egress.runtime.errors import (
    EngineError,
    GatewayError,
    ImageMissingError,
    SandboxError,
    UnsupportedError,
)
from egress.runtime.kubernetes.pod_status import PodTrouble
from egress.runtime.spec import Spec


def trouble_error(spec: Spec, trouble: PodTrouble) -> SandboxError:
    """Return the error for what the API server says of a pod."""
    name, text = spec.name, trouble.text
    match trouble.kind:
        case "gate":
            return GatewayError(
                f"the gate of the sandbox {name} lets nothing start: {text}",
                "check the policies of the namespace, and whether its network enforces them",
            )
        case "gate-image":
            return GatewayError(
                f"the node has no image of the gate of the sandbox {name}: {text}",
                "give the node the image that the gateway runs from",
            )
        case "image":
            return ImageMissingError(
                f"the node has no image {spec.image}: {text}",
                "push it to a registry that the node can reach; name the Secret for it in "
                "EGRESS_KUBERNETES_PULL_SECRET",
            )
        case "shell":
            return UnsupportedError(
                f"the image of the sandbox {name} has no /bin/sh", "use an image with a POSIX shell"
            )
    return EngineError(f"the pod of the sandbox {name} does not start: {text}", "see `kubectl describe pod`")
