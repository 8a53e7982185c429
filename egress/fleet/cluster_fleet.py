"""A fleet whose sandboxes are pods: their proxy is the gateway of a cluster, and none of this machine.

So nothing of a proxy can be said here: neither its rules nor its log. And nothing can be asked of it: which
variables hold a secret, or which sandbox sent a canary. The gateway refuses what it refuses by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from egress import environment
from egress.fleet import folders
from egress.fleet.protocol import FleetInfo
from egress.fleet.runtime_choice import KUBERNETES_KIND
from egress.fleet.snapshot_limits import read_limits
from egress.runtime.errors import SpecError

if TYPE_CHECKING:
    from egress.fleet.fleet import Fleet

_CAUTION: Final = "variables are not compared with the secrets of the gateway, which nobody outside may read"


def refuse_own_proxy(
    *,
    rules: Sequence[Path] | None,
    audit_dir: Path | None,
    seccomp: Path | None,
    options: Sequence[str],
) -> None:
    """Refuse settings of a proxy of this machine. Raises `SpecError`."""
    if rules or audit_dir is not None or options:
        raise SpecError(
            "sandboxes on Kubernetes have the rules and the log of the gateway there",
            "change the ConfigMap egress-rules of the namespace, or the values of the chart",
        )
    if seccomp is not None:
        raise SpecError(
            "a seccomp profile needs the docker runtime", "omit it: pods have the default of their node"
        )


@contextmanager
def open_cluster_fleet(environ: Mapping[str, str], folder: Path) -> Iterator[Fleet]:
    """Open a fleet in the namespace that the environment names. Its sandboxes end with it.

    `folder` is the runtime folder. Raises errors of the cluster, and `GatewayError` without a gateway.
    """
    from egress.cluster.cluster_choice import choose_cluster  # noqa: PLC0415 - only for this kind
    from egress.fleet.fleet import Fleet  # noqa: PLC0415 - likewise
    from egress.fleet.snapshot_store import SnapshotStore  # noqa: PLC0415 - likewise
    from egress.runtime.kubernetes.runtime import KubernetesRuntime  # noqa: PLC0415 - likewise
    from egress.runtime.kubernetes.settings import read_settings  # noqa: PLC0415 - likewise

    settings, limits = read_settings(environ), read_limits(environ)
    api = choose_cluster(environ, settings.context, settings.namespace)
    with ExitStack() as parts:
        runtime = KubernetesRuntime(api, folders.sandbox_home(folder, KUBERNETES_KIND), settings)
        about = FleetInfo(
            kind=KUBERNETES_KIND,
            why=f"requested, in the namespace {api.namespace} of {api.host_header}",
            cautions=(*runtime.cautions, _CAUTION),
        )
        undo = parts.enter_context(ExitStack())
        undo.callback(runtime.close)
        fleet = Fleet(runtime, about=about, snapshots=SnapshotStore(environment.state_dir(environ), limits))
        # From here on the fleet ends the runtime.
        undo.pop_all()
        parts.callback(fleet.close)
        yield fleet
