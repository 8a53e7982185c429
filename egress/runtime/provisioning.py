"""The outfit of a sandbox out of the trust kit: the one that `egress.runtime.kit` makes of an admission."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from egress.runtime.kit.kit import make_kit
from egress.runtime.kit.proxy_address import ProxyAddress
from egress.runtime.protocol import Provisioner, Provisions, ProxyEndpoint
from egress.runtime.proxy_client import Admission

StandIns = Callable[[Admission], Mapping[str, str]]
"""Values for variables in which programs insist on one, made of the stand-ins of an admission."""


def _no_stand_ins(_: Admission) -> Mapping[str, str]:
    return {}


def trust_kit_provisioner(roots: bytes, stand_ins: StandIns = _no_stand_ins) -> Provisioner:
    """Dress sandboxes in the whole kit; `roots` are those to be trusted besides, as PEM."""

    def dress(admission: Admission, entrance: ProxyEndpoint) -> Provisions:
        kit = make_kit(
            admission.authority.encode("ascii"),
            roots,
            ProxyAddress(entrance.host, entrance.port),
            stand_ins=stand_ins(admission),
        )
        return Provisions(
            folder=kit.folder,
            files={path: file.content for path, file in kit.files.items()},
            overmounts={each.target: each.source for each in kit.overmounts},
            variables=kit.variables,
        )

    return dress
