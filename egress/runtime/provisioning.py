"""Makes provisions of sandboxes with the trust kit."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from egress.runtime.kit.kit import make_kit
from egress.runtime.protocol import Provisioner, Provisions
from egress.runtime.proxy_address import ProxyAddress
from egress.runtime.proxy_client import Admission

StandIns = Callable[[Admission], Mapping[str, str]]
"""Makes variables for programs that need a credential's value, from an admission's stand-ins."""


def _no_stand_ins(_: Admission) -> Mapping[str, str]:
    return {}


def trust_kit_provisioner(roots: bytes, stand_ins: StandIns = _no_stand_ins) -> Provisioner:
    """Provision sandboxes with the whole kit; `roots` are further trusted roots, as PEM."""

    def provision(admission: Admission, proxy: ProxyAddress) -> Provisions:
        authority = admission.authority.encode("ascii")
        kit = make_kit(authority, roots, proxy, stand_ins=stand_ins(admission))
        return Provisions(
            folder=kit.folder,
            files={path: file.content for path, file in kit.files.items()},
            overmounts={each.target: each.source for each in kit.overmounts},
            variables=kit.variables,
        )

    return provision
