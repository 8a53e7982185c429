"""The kit as a whole: put together from one certificate, the public roots, the door and a folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from egress.errors import UsageError
from egress.runtime.environ import check_name, check_value
from egress.runtime.kit import certificates, config_files
from egress.runtime.kit.distro_paths import Overmount, overmounts
from egress.runtime.kit.java_trust_store import name_certificates, trust_store
from egress.runtime.kit.paths import KitPaths
from egress.runtime.kit.proxy_address import ProxyAddress
from egress.runtime.kit.variables import variables

DEFAULT_FOLDER: Final = "/etc/egress"

READ_ONLY_MODE: Final = 0o444
"""By everybody: apt, for one, fetches as a user of its own."""


@dataclass(frozen=True, slots=True)
class KitFile:
    """One file as it is to lie in the sandbox, owned by root there."""

    content: bytes
    mode: int = READ_ONLY_MODE


@dataclass(frozen=True, slots=True)
class Kit:
    """What is laid, mounted and set in a sandbox before its first process begins."""

    folder: str
    """Holds all the files; nothing else belongs there."""
    files: Mapping[str, KitFile]
    """By their whole path inside the sandbox."""
    overmounts: tuple[Overmount, ...]
    variables: Mapping[str, str]


def make_kit(
    authority: bytes,
    roots: bytes,
    door: ProxyAddress,
    *,
    folder: str = DEFAULT_FOLDER,
    stand_ins: Mapping[str, str] | None = None,
) -> Kit:
    """Make the kit of one sandbox; equal arguments make an equal kit.

    Args:
        authority: the certificate of the sandbox's authority, as PEM.
        roots: whom else the sandbox is to trust, as PEM; see `egress.ca.public_roots`.
        door: where the proxy is, as seen from the sandbox.
        folder: where the files will lie inside the sandbox.
        stand_ins: values that are worth nothing, by the variable in which a program insists on one.

    Raises `ContentError` for certificates and `UsageError` for anything else that cannot be used.
    """
    place = KitPaths(folder)
    own, others = certificates.read_authority(authority), certificates.read_roots(roots)
    contents = {
        place.certificate: certificates.write([own]),
        place.bundle: certificates.write([*(der for der in others if der != own), own]),
        f"{place.hashed}/{certificates.file_name(own)}": certificates.write([own]),
        place.trust_store: trust_store(name_certificates(own, others)),
        place.wgetrc: config_files.wgetrc(place).encode("ascii"),
        place.apt: config_files.apt(place, door).encode("ascii"),
        f"{place.php}/egress.ini": config_files.php(place).encode("ascii"),
        place.maven: config_files.maven(door).encode("ascii"),
        place.chromium: config_files.chromium(own).encode("ascii"),
        place.firefox: config_files.firefox(place).encode("ascii"),
    }
    return Kit(
        folder=place.path,
        files=MappingProxyType({path: KitFile(content) for path, content in contents.items()}),
        overmounts=overmounts(place),
        variables=MappingProxyType(_add_stand_ins(stand_ins or {}, variables(place, door))),
    )


def _add_stand_ins(stand_ins: Mapping[str, str], own: dict[str, str]) -> dict[str, str]:
    for name, value in stand_ins.items():
        check_name(name)
        check_value(name, value)
        if name in own:
            raise UsageError(
                f"{name} is a variable of the kit and cannot hold a stand-in", "take another name for it"
            )
    return {**own, **stand_ins}
