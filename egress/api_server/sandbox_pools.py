"""The pools that claims of agent-sandbox's clients may name: settings from a file of the operator.

A cluster has a template behind each warm pool, which the platform owns. Here a pool is a name in this file,
and nothing is kept ready for it. A claim chooses the pool, and a profile within it; it changes nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from egress.api.schema import ApiRequest, LimitSettings, Text
from egress.errors import ContentError, UnreadableError, reason_of
from egress.rules.language.document import Document, read

MAX_POOLS_BYTES: Final = 1024 * 1024
SUBDOMAIN_PATTERN: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
"""The name of an object in Kubernetes."""
_CURE: Final = "write `version: 1`, and below `pools:` a name with its settings, such as `python: {}`"


class SandboxPool(ApiRequest, frozen=True):
    """Settings of the sandboxes of one pool."""

    image: Text | None = None
    """The image; that of `egress up` if left out."""
    profile: Text | None = None
    """The profile of the rules for a claim that names none."""
    profiles: tuple[Text, ...] = ()
    """Further profiles, of which a claim may name one."""
    limits: LimitSettings = LimitSettings()

    def allows(self, profile: str) -> bool:
        """Return whether a claim may have this profile."""
        return profile == self.profile or profile in self.profiles


def read_pools(path: Path) -> Mapping[str, SandboxPool]:
    """Read the file. Raises `UnreadableError` and `ContentError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_POOLS_BYTES + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        told = reason_of(error) if isinstance(error, OSError) else "it is not UTF-8"
        raise UnreadableError(f"{path} cannot be read: {told}", "name a file of pools") from None
    if len(data) > MAX_POOLS_BYTES:
        raise ContentError(f"{path} has more than {MAX_POOLS_BYTES} bytes", "name fewer pools")
    return parse_pools(str(path), text)


def parse_pools(name: str, text: str) -> Mapping[str, SandboxPool]:
    """Read the text of a file of pools. Raises `ContentError`, with the place of the first mistake."""
    document, findings = read(name, text)
    for finding in findings:
        raise ContentError(f"{finding.place}: {finding.message}", finding.hint)
    top = document.value
    if not isinstance(top, dict) or set(top) != {"version", "pools"} or top["version"] != 1:
        raise ContentError(f"{name}:1:1: this is not a file of pools", _CURE)
    pools = top["pools"]
    if not isinstance(pools, dict):
        raise ContentError(f"{document.place(('pools',))}: `pools` names no pool", _CURE)
    return MappingProxyType({pool: _read_pool(document, pool, value) for pool, value in pools.items()})


def _read_pool(document: Document, name: str, value: object) -> SandboxPool:
    place = document.place(("pools", name), of_key=True)
    if not SUBDOMAIN_PATTERN.fullmatch(name):
        raise ContentError(
            f"{place}: this is not the name of a pool", "use lower-case letters, digits, - and dots"
        )
    try:
        return msgspec.convert(value, SandboxPool)
    except msgspec.ValidationError as error:
        fields = ", ".join(SandboxPool.__struct_fields__)
        raise ContentError(f"{place}: {error}", f"the fields of a pool are {fields}") from None
