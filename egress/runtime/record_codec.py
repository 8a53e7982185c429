"""Records of this program as strict JSON: what is not written exactly so is no record.

A record is a struct of values and dataclasses, and is read by a later process, perhaps of another version.
A field that this version does not know may have meant something, so it is refused and never ignored. A field
that is missing has its default. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path

import msgspec

from egress.errors import EgressError


def encode_record(record: msgspec.Struct) -> bytes:
    """The text of a record."""
    return msgspec.json.encode(record, enc_hook=_plain) + b"\n"


def decode_record[R: msgspec.Struct](data: bytes, kind: type[R], max_bytes: int) -> R:
    """The record of a text. Raises `ValueError`, which does not quote the text."""
    if len(data) > max_bytes:
        raise ValueError("it is too long")
    try:
        raw = msgspec.json.decode(data)
        record = msgspec.convert(raw, kind, dec_hook=_of_plain)
    except EgressError as error:
        raise ValueError(error.message) from None
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(f"it has another form: {type(error).__name__}") from None
    # Dataclasses inside of the record accept unknown fields.
    if not _holds(msgspec.to_builtins(record, enc_hook=_plain), raw):
        raise ValueError("it has fields of another version")
    return record


def _plain(value: object) -> object:
    if isinstance(value, Path | IPv4Network):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(type(value).__name__)


def _of_plain(kind: type, value: object) -> object:
    if kind not in (Path, IPv4Network):
        raise NotImplementedError(kind.__name__)
    if not isinstance(value, str):
        raise ValueError(f"no text for {kind.__name__}")  # noqa: TRY004 - msgspec reports a ValueError
    return kind(value)


def _holds(whole: object, part: object) -> bool:
    """Return whether each field and value of `part` is in `whole`, at the same place."""
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(key in whole and _holds(whole[key], value) for key, value in part.items())
    if isinstance(whole, list | tuple) and isinstance(part, list):
        return len(whole) == len(part) and all(map(_holds, whole, part))
    return whole == part
