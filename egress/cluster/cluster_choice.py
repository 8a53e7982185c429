"""The cluster that this process uses: of the kubeconfig, or the one that it is a pod of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from egress.cluster.api_server import NAMESPACE_PATTERN, ClusterApi, cluster_of_pod
from egress.cluster.kubeconfig import kubeconfig_paths, read_kubeconfig
from egress.errors import UsageError


def choose_cluster(environ: Mapping[str, str], context: str = "", namespace: str = "") -> ClusterApi:
    """Return the cluster of the kubeconfig, else the one of this pod: kubectl chooses alike.

    Raises `UsageError`, `ContentError` and `UnreadableError`.
    """
    paths = kubeconfig_paths(environ)
    if paths or context:
        if not paths:
            raise UsageError("a context needs a kubeconfig", "name the file in KUBECONFIG")
        return read_kubeconfig(paths, context, namespace, environ)
    if "KUBERNETES_SERVICE_HOST" not in environ:
        raise UsageError(
            "no cluster is known: there is no kubeconfig, and this is no pod",
            "name the file in KUBECONFIG, or run it in a pod with a service account",
        )
    found = cluster_of_pod(environ)
    if namespace and not NAMESPACE_PATTERN.fullmatch(namespace):
        raise UsageError("the namespace is not a name", "use letters, digits and -")
    return replace(found, namespace=namespace or found.namespace)
