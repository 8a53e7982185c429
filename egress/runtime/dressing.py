"""The outfit of a sandbox out of the trust kit: the one that `egress.runtime.kit` makes of an admission."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from egress.runtime.gateway import Admission
from egress.runtime.kit.door import Door
from egress.runtime.kit.kit import make_kit
from egress.runtime.protocol import Dresser, Entrance, Outfit

StandIns = Callable[[Admission], Mapping[str, str]]
"""Values for variables in which programs insist on one, made of the stand-ins of an admission."""


def _none(_: Admission) -> Mapping[str, str]:
    return {}


def kitted(roots: bytes, stand_ins: StandIns = _none) -> Dresser:
    """Dress sandboxes in the whole kit; `roots` are those to be trusted besides, as PEM."""

    def dress(admission: Admission, entrance: Entrance) -> Outfit:
        kit = make_kit(
            admission.authority.encode("ascii"),
            roots,
            Door(entrance.host, entrance.port),
            stand_ins=stand_ins(admission),
        )
        return Outfit(
            folder=kit.folder,
            files={path: file.content for path, file in kit.files.items()},
            overmounts={each.target: each.source for each in kit.overmounts},
            variables=kit.variables,
        )

    return dress
