"""A fleet whose sandboxes are pods: their proxy is the gateway of a cluster, and none of this machine.

So nothing of a proxy can be said here: neither its rules nor its log. And nothing can be asked of it: which
variables hold a secret, or which sandbox sent a canary. The gateway refuses what it refuses by itself.
"""

from __future__ import annotations

import time
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


_machine_clock: Final = time.time  # noqa: TID251 - records are compared across processes


@contextmanager
def open_cluster_fleet(environ: Mapping[str, str], folder: Path, *, keeps: bool = False) -> Iterator[Fleet]:
    """Open a fleet in the namespace that the environment names.

    `folder` is the runtime folder. With `keeps`, sandboxes outlive a fleet that is killed, or leaves them,
    and those of the last such fleet come back; without, they end with the fleet. Raises errors of the
    cluster, and `GatewayError` without a gateway.
    """
    from egress.cluster.cluster_choice import choose_cluster  # noqa: PLC0415 - only for this kind
    from egress.fleet.fleet import Fleet  # noqa: PLC0415 - likewise
    from egress.fleet.kept_members import KeptMembers  # noqa: PLC0415 - likewise
    from egress.fleet.snapshot_store import SnapshotStore  # noqa: PLC0415 - likewise
    from egress.runtime.kubernetes.runtime import KubernetesRuntime  # noqa: PLC0415 - likewise
    from egress.runtime.kubernetes.settings import read_settings  # noqa: PLC0415 - likewise

    settings, limits = read_settings(environ), read_limits(environ)
    api = choose_cluster(environ, settings.context, settings.namespace)
    with ExitStack() as parts:
        home = folders.sandbox_home(folder, KUBERNETES_KIND)
        runtime = KubernetesRuntime(api, home, settings, keeps=keeps)
        undo = parts.enter_context(ExitStack())
        # A fleet that does not open leaves what was kept to the next one.
        undo.callback(runtime.leave if keeps else runtime.close)
        # The gateway knows which pods have no access, and goes on: nothing has to be remembered for it.
        kept = KeptMembers(runtime, _machine_clock, dict) if keeps else None
        snapshots = SnapshotStore(environment.state_dir(environ), limits)
        fleet = Fleet(runtime, snapshots=snapshots, kept=kept)
        # From here on the fleet ends the runtime.
        undo.pop_all()
        parts.callback(fleet.close)
        # Known only now: which sandboxes of the last fleet did not come back.
        losses = () if kept is None else kept.losses
        fleet.about = FleetInfo(
            kind=KUBERNETES_KIND,
            why=f"requested, in the namespace {api.namespace} of {api.host_header}",
            cautions=(*runtime.cautions, *losses, _CAUTION),
        )
        yield fleet
