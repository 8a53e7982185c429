"""The settings of sandboxes that are pods: their cluster, their namespace, and what their gate dials."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from egress.runtime.errors import SpecError

CONTEXT_VARIABLE: Final = "EGRESS_KUBERNETES_CONTEXT"
NAMESPACE_VARIABLE: Final = "EGRESS_KUBERNETES_NAMESPACE"
BLOCKED_VARIABLE: Final = "EGRESS_KUBERNETES_BLOCKED"
LIFETIME_VARIABLE: Final = "EGRESS_KUBERNETES_LIFETIME"
PULL_SECRET_VARIABLE: Final = "EGRESS_KUBERNETES_PULL_SECRET"

DEFAULT_LIFETIME: Final = 86400
"""Seconds after which the cluster itself ends a pod: nobody may be left who would."""
_MAX_LIFETIME: Final = 30 * 86400
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    """The settings of sandboxes that are pods."""

    context: str = ""
    """A context of the kubeconfig; empty for the current one."""
    namespace: str = ""
    """Empty for that of the context, or of this pod."""
    blocked: tuple[str, ...] = ()
    """More addresses that the gate dials and that must not answer, such as the cluster's name server."""
    lifetime: int = DEFAULT_LIFETIME
    pull_secret: str = ""
    """The Secret with which the node pulls images; empty for none."""


def read_settings(environ: Mapping[str, str]) -> KubernetesSettings:
    """Read the settings from variables. Raises `SpecError`, which names the variable."""
    lifetime = environ.get(LIFETIME_VARIABLE, "") or str(DEFAULT_LIFETIME)
    if not (lifetime.isascii() and lifetime.isdigit() and 60 <= int(lifetime[:9]) <= _MAX_LIFETIME):
        raise SpecError(f"{LIFETIME_VARIABLE} is no time", f"give seconds, from 60 to {_MAX_LIFETIME}")
    secret = environ.get(PULL_SECRET_VARIABLE, "")
    if secret and not _NAME.fullmatch(secret):
        raise SpecError(f"{PULL_SECRET_VARIABLE} is not the name of a Secret", "name one of the namespace")
    blocked = tuple(part for part in environ.get(BLOCKED_VARIABLE, "").split(",") if part)
    for each in blocked:
        _check_address(each)
    return KubernetesSettings(
        environ.get(CONTEXT_VARIABLE, ""),
        environ.get(NAMESPACE_VARIABLE, ""),
        blocked,
        int(lifetime),
        secret,
    )


def _check_address(text: str) -> None:
    host, _, port = text.rpartition(":")
    try:
        ip_address(host.removeprefix("[").removesuffix("]"))
        is_fine = port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536
    except ValueError:
        is_fine = False
    if not is_fine:
        raise SpecError(
            f"{BLOCKED_VARIABLE} holds something that is no address with a port",
            "write it like 10.96.0.10:53, and several with commas",
        )
