"""The environment: what keeps the proxy from starting, what does nothing, and what leads in a circle.

Names of variables are told, never what they hold: the address of a proxy can have a password in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from egress.addons.mitm_master import check_options, safe_options
from egress.doctor.diagnosis import Diagnosis, from_error, list_some, note, ok, warning
from egress.doctor.proxy_setup import ProxySetup
from egress.errors import EgressError
from egress.proxy.ingress.port_owner import owner_of_port
from egress.proxy.settings import ListenAddress, unknown_variables
from egress.tls.openssl_environment import check_environment

PROXIES: Final = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
UNVERIFIED: Final = {
    "GIT_SSL_NO_VERIFY": frozenset({"1", "true", "yes", "on"}),
    "NODE_TLS_REJECT_UNAUTHORIZED": frozenset({"0"}),
    "PYTHONHTTPSVERIFY": frozenset({"0"}),
}
"""Variables by which programs take any certificate, and the values that do it."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SOCKS_PORT: Final = 1080


def check(
    patient: ProxySetup, open_at: Collection[ListenAddress], heard_at: Collection[ListenAddress]
) -> Iterator[Diagnosis]:
    """Look at every variable that matters.

    `open_at` is where the proxy listens, or would; `heard_at`, where the one that runs says that it does.
    """
    environ = patient.environ
    found = [
        *_of_tls(environ),
        *_unknown(environ),
        *_circle(patient, open_at),
        *_led_here(environ, open_at, heard_at),
        *_unverified(environ),
    ]
    yield from found or [ok("environment", "nothing in it keeps the proxy from starting, or misleads it")]


def _of_tls(environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    """What the lane that reads refuses to start with."""
    try:
        check_environment(environ)
    except EgressError as error:
        yield from_error("openssl", error)
    try:
        check_options(safe_options())
    except EgressError as error:
        yield from_error("mitmproxy", error)


def _unknown(environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    for name, meant in unknown_variables(environ):
        fix = f"did you mean {meant}?" if meant else "take it away; docs/reference/settings.md lists them all"
        yield warning(name, "this is not a setting, and has no effect", fix)


def _circle(patient: ProxySetup, open_at: Collection[ListenAddress]) -> Iterator[Diagnosis]:
    """Commands that fetch secrets are given the proxy of the environment, and must not wait for this one."""
    leading = _leading(patient.environ, open_at)
    secrets = patient.policy.secrets.values() if patient.policy else ()
    waiting = sorted(spec.name for spec in secrets if spec.scheme == "command")
    if leading and waiting:
        yield warning(
            "circle",
            f"{list_some(leading)} leads to this very proxy, "
            f"also for the commands that fetch {list_some(waiting)} for it",
            f"start the proxy without: `env {' '.join(f'-u {name}' for name in leading)} egress serve`",
        )


def _led_here(
    environ: Mapping[str, str], open_at: Collection[ListenAddress], heard_at: Collection[ListenAddress]
) -> Iterator[Diagnosis]:
    """Programs that are led to the proxy go through it, if it is there."""
    alive = _leading(environ, heard_at)
    if alive:
        fact = f"{list_some(alive)} leads to this very proxy: programs that are started here go through it"
        yield note("proxy", fact)
    for at in open_at:
        if lost := [name for name in _leading(environ, [at]) if name not in alive]:
            yield _lost(lost, at)


def _lost(names: list[str], at: ListenAddress) -> Diagnosis:
    holder = owner_of_port(at)
    there = f"which {holder} has, and no proxy that answers here" if holder else "where no proxy runs"
    return warning(
        "proxy",
        f"{list_some(names)} leads to {at}, {there}: programs that are started here will fail",
        f"{'see what has the port' if holder else 'start the proxy'}, or `unset {' '.join(names)}`",
    )


def _leading(environ: Mapping[str, str], places: Iterable[ListenAddress]) -> list[str]:
    """The variables that lead to one of these places."""
    ways = tuple(places)
    return [name for name in PROXIES if any(leads_to(environ.get(name, ""), at) for at in ways)]


def _unverified(environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    for name, values in UNVERIFIED.items():
        if environ.get(name, "").lower() in values:
            yield warning(
                name,
                "programs that are started here take any certificate for good",
                f"`unset {name}`, and let them trust the proxy: `egress ca export`",
            )


def is_led_here(environ: Mapping[str, str], open_at: Iterable[ListenAddress]) -> bool:
    """Whether programs with this environment go through the proxy."""
    return bool(_leading(environ, open_at))


def leads_to(url: str, at: ListenAddress) -> bool:
    """Whether the value of a proxy variable names this listener."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    if (port or _DEFAULT_PORTS.get(parts.scheme, _SOCKS_PORT)) != at.port:
        return False
    listening = ip_address(at.host)
    if host == "localhost":
        return listening.is_loopback or listening.is_unspecified
    try:
        dialled = ip_address(host)
    except ValueError:
        return False
    return dialled == listening or (dialled.is_loopback and listening.is_unspecified)
