"""The values of settings: how each kind is written, read and shown. Reads no environment and no file."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError
from pydantic_settings import NoDecode

from egress.rules.language import quantities
from egress.rules.language.hosts import HostError, canonical_wire_host, is_address
from egress.rules.language.report import MeaningError
from egress.telemetry.otlp_endpoint import FROM_ENVIRONMENT, CollectorEndpoint, Signal, read_endpoint

NO_ADDRESS: Final = "none"
"""The value that means no listener."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """An address and port to listen on; port 0 lets the kernel choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return ip_address(self.host).is_loopback


@dataclass(frozen=True, slots=True)
class AddressOverride:
    """A name, and the address that stands for it whatever a resolver says."""

    name: str
    address: IPv4Address | IPv6Address

    def __str__(self) -> str:
        return f"{self.name}={self.address}"


@dataclass(frozen=True, slots=True)
class HostPin:
    """A host, and a public key that may stand in the chain it is verified by."""

    host: str
    key: str

    def __str__(self) -> str:
        return f"{self.host}={self.key}"


@dataclass(frozen=True, slots=True)
class SettingDisplay:
    """How people see a setting: what to write, and its default where that depends on the machine."""

    value: str
    default: str = ""


def setting_error(message: str, hint: str = "") -> PydanticCustomError:
    """Return the error of a value that cannot be used."""
    # The braces of a template would be filled in.
    return PydanticCustomError("setting", "{message}", {"message": message, "hint": hint})


def _split(separator: str, value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(separator) if part.strip())
    return value


def _listen(value: object) -> object:
    if not isinstance(value, str):
        return value
    host, _, port = value.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if ":" in host and not is_bracketed:
        # Without brackets the end of the address could be read in two ways.
        raise setting_error("an IPv6 address needs brackets", "write it like [::1]:3128")
    try:
        # Names are left out on purpose: what they resolve to could be open to everybody.
        address = ip_address(host[1:-1] if is_bracketed else host)
    except ValueError:
        address = None
    if address is None or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65535:
        raise setting_error("this is not an address and a port", "write it like 127.0.0.1:3128")
    return ListenAddress(str(address), int(port))


def _metrics_listen(value: object) -> object:
    # A port alone is one of this machine: nothing else is open without a further word.
    is_port = isinstance(value, str) and re.fullmatch(r"[0-9]{1,5}", value)
    return _listen(f"127.0.0.1:{value}" if is_port else value)


def _collector(value: object) -> object:
    if not isinstance(value, str) or value == FROM_ENVIRONMENT:
        return value
    try:
        return read_endpoint(value)
    except ValueError as error:
        hint = f"write it like https://collector.example.com:4318, or {FROM_ENVIRONMENT}"
        raise setting_error(str(error), hint) from None


def _listens(value: object) -> object:
    found = _split(",", value)
    if found == ():
        raise setting_error("no address to listen on", f"name an address, or write {NO_ADDRESS}")
    # A list where each use of the option is one text.
    return () if found in ((NO_ADDRESS,), [NO_ADDRESS]) else found


def _override(value: object) -> object:
    if not isinstance(value, str):
        return value
    name, _, address = value.partition("=")
    try:
        return AddressOverride(canonical_wire_host(name), ip_address(address))
    except (HostError, ValueError):
        hint = "write it like api.example.com=192.0.2.1; separate several with commas"
        raise setting_error("expected NAME=ADDRESS", hint) from None


def _pin(value: object) -> object:
    if not isinstance(value, str):
        return value
    host, _, key = value.partition("=")
    try:
        digest = base64.b64decode(key.removeprefix("sha256/"), validate=True)
        if key.startswith("sha256/") and len(digest) == 32:
            return HostPin(host if is_address(host) else canonical_wire_host(host), key)
    except (HostError, ValueError, binascii.Error):
        pass
    hint = "write it like api.example.com=sha256/ and 44 characters; separate several with commas"
    raise setting_error("this is not a host and the pin of a key", hint)


def _address(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return ip_address(value)
    except ValueError:
        raise setting_error("this is not an address", "write it like 10.0.0.2, without a port") from None


def _ipv4(value: object) -> object:
    found = _address(value)
    if isinstance(found, IPv6Address):
        hint = "write it like 10.0.0.2; names are answered with IPv4 only"
        raise setting_error("this is not an IPv4 address", hint)
    return found


def _network(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return ip_network(value)
    except ValueError:
        raise setting_error("this is not a network", "write it like 192.0.2.0/24") from None


def _seconds(value: object) -> object:
    return _bound(quantities.parse_duration, value)


def _size(value: object) -> object:
    return _bound(quantities.parse_size, value)


def _bound(read: object, value: object) -> object:
    if not isinstance(value, str) or not callable(read):
        return value
    try:
        return read(int(value) if re.fullmatch(r"[0-9]{1,15}", value) else value)
    except MeaningError as error:
        raise setting_error(error.message, error.hint) from None


def is_plain_name(value: str) -> bool:
    """Tell whether a name fits a record, a path and a header, and is not folded by any file system."""
    return re.fullmatch(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?", value) is not None


PLAIN_NAME: Final = "up to 63 lower-case letters, digits, dots, - and _; a letter or digit at both ends"
"""How such a name is written, for people."""


def _plain(value: str) -> str:
    if not is_plain_name(value):
        raise setting_error("this is not a name", PLAIN_NAME)
    return value


Paths = Annotated[tuple[Path, ...], NoDecode, BeforeValidator(lambda value: _split(":", value))]
Commas = BeforeValidator(lambda value: _split(",", value))
Listens = Annotated[tuple[Annotated[ListenAddress, BeforeValidator(_listen)], ...], NoDecode, Commas]
MaybeListens = Annotated[
    tuple[Annotated[ListenAddress, BeforeValidator(_listen)], ...], NoDecode, BeforeValidator(_listens)
]
MetricsListen = Annotated[
    ListenAddress | None, BeforeValidator(_metrics_listen), SettingDisplay("ADDRESS:PORT")
]
Collector = Annotated[
    CollectorEndpoint | Literal["environment"] | None,
    BeforeValidator(_collector),
    SettingDisplay("URL|environment"),
]
SignalList = Annotated[
    tuple[Signal, ...], NoDecode, Field(min_length=1), Commas, SettingDisplay("traces|metrics|logs")
]
Overrides = Annotated[tuple[Annotated[AddressOverride, BeforeValidator(_override)], ...], NoDecode, Commas]
Pins = Annotated[tuple[Annotated[HostPin, BeforeValidator(_pin)], ...], NoDecode, Commas]
Address = Annotated[IPv4Address | IPv6Address, BeforeValidator(_address)]
Addresses = Annotated[tuple[Address, ...], NoDecode, Commas]
Networks = Annotated[
    tuple[Annotated[IPv4Network | IPv6Network, BeforeValidator(_network)], ...], NoDecode, Commas
]
Ipv4 = Annotated[IPv4Address | None, BeforeValidator(_ipv4)]
Seconds = Annotated[int, BeforeValidator(_seconds), SettingDisplay("TIME")]
Size = Annotated[int, BeforeValidator(_size), SettingDisplay("SIZE")]
PlainName = Annotated[str, AfterValidator(_plain)]
Name = Annotated[PlainName, SettingDisplay("NAME")]
Count = Annotated[int, Field(ge=1, le=1_000_000), SettingDisplay("NUMBER")]
