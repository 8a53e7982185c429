"""The options of `egress k8s inject --sidecar`, read into the parts that each pod gets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final

from egress.doctor.fence import FenceAddress
from egress.errors import UsageError

if TYPE_CHECKING:
    from egress.kubernetes.manifest_set import PodLabels
    from egress.kubernetes.sidecar_injection import SidecarPlan

LOOPBACK_PROXY: Final = "http://127.0.0.1:3128"
# The ports of the proxy answer at every address behind the lock of a network, so others are dialled.
BLOCKED_ADDRESSES: Final = ("$(NODE_IP):10250", "1.1.1.1:853")
# As long as the name of a volume may be with the words that are written before it.
_OBJECT_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,46}[a-z0-9])?")


def sidecar_plan(
    more: Iterable[FenceAddress],
    image: str,
    rules: str,
    secrets: tuple[str, ...],
    networks: Iterable[str],
    variables: Mapping[str, str],
    labels: PodLabels,
) -> SidecarPlan:
    """Return the parts of every pod. Raises `UsageError` for an option that cannot be."""
    from egress.kubernetes.diverted_ports import DIVERTED_PORTS
    from egress.kubernetes.sidecar_injection import SidecarPlan

    dialled = [*BLOCKED_ADDRESSES]
    for each in more:
        if each.port in DIVERTED_PORTS:
            raise UsageError(
                f"--blocked: behind the lock the proxy answers at {each}", "name another port of the address"
            )
        dialled.append(str(each))
    for name in (rules, *secrets):
        if not _OBJECT_NAME.fullmatch(name):
            raise UsageError(f"`{name[:100]}` is not the name of an object", "name a ConfigMap or a Secret")
    own = tuple(_network(text) for text in networks)
    return SidecarPlan(tuple(dialled), image, rules, secrets, own, variables, labels)


def _network(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError:
        raise UsageError(
            f"--own-address: `{text[:100]}` is not a network", "write it as 10.96.0.0/12"
        ) from None
