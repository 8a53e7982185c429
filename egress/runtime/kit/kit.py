"""Makes the kit of one sandbox from its certificate, the public roots, the proxy's address and a folder."""

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
from egress.runtime.kit.variables import variables
from egress.runtime.proxy_address import ProxyAddress

DEFAULT_FOLDER: Final = "/etc/egress"

READ_ONLY_MODE: Final = 0o444
"""Readable for all: apt, for one, downloads as its own user."""


@dataclass(frozen=True, slots=True)
class KitFile:
    """A file of the sandbox, owned by root there."""

    content: bytes
    mode: int = READ_ONLY_MODE


@dataclass(frozen=True, slots=True)
class Kit:
    """The files, mounts and variables of a sandbox, for use before its first process starts."""

    folder: str
    """The folder of all files, and of nothing else."""
    files: Mapping[str, KitFile]
    """The files, by absolute path in the sandbox."""
    overmounts: tuple[Overmount, ...]
    variables: Mapping[str, str]


def make_kit(
    authority: bytes,
    roots: bytes,
    proxy: ProxyAddress,
    *,
    folder: str = DEFAULT_FOLDER,
    stand_ins: Mapping[str, str] | None = None,
) -> Kit:
    """Make the kit of one sandbox; equal arguments give an equal kit.

    Args:
        authority: the certificate of the sandbox's authority, as PEM.
        roots: further trusted roots, as PEM; see `egress.ca.public_roots`.
        proxy: the address of the proxy, as seen from the sandbox.
        folder: the folder of the files inside the sandbox.
        stand_ins: worthless values, by the variable of a program that needs one.

    Raises `ContentError` for certificates, and `UsageError` for other invalid arguments.
    """
    place = KitPaths(folder)
    own, others = certificates.read_authority(authority), certificates.read_roots(roots)
    # The authority comes last in the bundle: some readers stop at the first certificate that matches.
    contents = {
        place.certificate: certificates.write([own]),
        place.bundle: certificates.write([*(der for der in others if der != own), own]),
        f"{place.hashed}/{certificates.file_name(own)}": certificates.write([own]),
        place.trust_store: trust_store(name_certificates(own, others)),
        place.wgetrc: config_files.wgetrc(place).encode("ascii"),
        place.apt: config_files.apt(place, proxy).encode("ascii"),
        f"{place.php}/egress.ini": config_files.php(place).encode("ascii"),
        place.maven: config_files.maven(proxy).encode("ascii"),
        place.chromium: config_files.chromium(own).encode("ascii"),
        place.firefox: config_files.firefox(place).encode("ascii"),
    }
    return Kit(
        folder=place.path,
        files=MappingProxyType({path: KitFile(content) for path, content in contents.items()}),
        overmounts=overmounts(place),
        variables=MappingProxyType(_add_stand_ins(stand_ins or {}, variables(place, proxy))),
    )


def _add_stand_ins(stand_ins: Mapping[str, str], own: dict[str, str]) -> dict[str, str]:
    for name, value in stand_ins.items():
        check_name(name)
        check_value(name, value)
        if name in own:
            raise UsageError(
                f"{name} is a variable of the kit and cannot hold a stand-in", "choose another name for it"
            )
    return {**own, **stand_ins}
