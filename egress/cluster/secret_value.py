"""The value of one key of a Secret, and a reader that asks the API server for it each time."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from egress.cluster.api_call import ApiRefusedError, call
from egress.cluster.api_server import ClusterApi
from egress.errors import ContentError, UnreadableError
from egress.kubernetes.named_object import NamedObject, read_named_object

MAX_VALUE_BYTES: Final = 64 * 1024


def value_of(found: NamedObject | None, name: str, key: str) -> bytes:
    """Return the value of a key. Raises `UnreadableError`, which quotes no value."""
    if found is None:
        raise UnreadableError(
            f"the Secret {name} does not exist", "create it in the namespace of the proxy, or correct `from:`"
        )
    text = (found.data or {}).get(key)
    if text is None:
        raise UnreadableError(f"the Secret {name} has no key {key}", "add the key, or correct `from:`")
    if len(text) > MAX_VALUE_BYTES * 4 // 3 + 4:
        raise UnreadableError(
            f"the key {key} of the Secret {name} is larger than 64 KiB",
            "check that `from:` names a credential and not another key",
        )
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        value = b""
    # One spelling of each value: what a lenient reader takes for something else is no value.
    if base64.b64encode(value).decode("ascii") != text or len(value) > MAX_VALUE_BYTES:
        raise UnreadableError(f"the key {key} of the Secret {name} is not in base64", "write the Secret anew")
    return value


@dataclass(frozen=True, slots=True)
class SecretReader:
    """Reads Secrets without a watch, as for a single look at each."""

    api: ClusterApi

    def watch(self, name: str, changed: Callable[[str], None]) -> None:
        """Do nothing: each value is asked for."""

    def keep(self, names: frozenset[str]) -> None:
        """Do nothing: nothing is watched."""

    def value(self, name: str, key: str) -> bytes:
        """Return the value of a key; blocks. Raises `UnreadableError`."""
        try:
            answer = call(self.api, "GET", self.api.namespaced("secrets", name))
        except ApiRefusedError as error:
            if error.status == 404:
                return value_of(None, name, key)
            raise UnreadableError(error.message, error.hint) from None
        try:
            return value_of(read_named_object(msgspec.json.encode(answer)), name, key)
        except ContentError as error:
            raise UnreadableError(error.message, error.hint) from None
