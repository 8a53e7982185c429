"""Check the environment: variables that stop the proxy, do nothing, or lead in a circle.

Names of variables are reported, never their values: the address of a proxy may contain a password.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from egress.addons.withheld_options import check_key_log
from egress.doctor.diagnosis import Diagnosis, from_error, list_some, note, ok, warning
from egress.doctor.proxy_under_check import ProxyUnderCheck
from egress.errors import EgressError
from egress.proxy.ingress.port_owner import owner_of_port
from egress.proxy.setting_values import ListenAddress
from egress.proxy.settings import unknown_variables
from egress.tls.openssl_environment import check_environment

PROXIES: Final = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
UNVERIFIED: Final = {
    "GIT_SSL_NO_VERIFY": frozenset({"1", "true", "yes", "on"}),
    "NODE_TLS_REJECT_UNAUTHORIZED": frozenset({"0"}),
    "PYTHONHTTPSVERIFY": frozenset({"0"}),
}
"""Variables that make programs accept any certificate, with the values that do."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SOCKS_PORT: Final = 1080


def check(
    setup: ProxyUnderCheck, open_at: Collection[ListenAddress], heard_at: Collection[ListenAddress]
) -> Iterator[Diagnosis]:
    """Check every relevant variable.

    `open_at` is where the proxy listens, or would; `heard_at` where the running proxy reports to listen.
    """
    environ = setup.environ
    # Problems that stop the proxy come first, then those that mislead programs.
    found = [
        *_of_tls(environ),
        *_unknown(environ),
        *_circle(setup, open_at),
        *_led_here(environ, open_at, heard_at),
        *_unverified(environ),
    ]
    yield from found or [ok("environment", "no variable stops or misleads the proxy")]


def _of_tls(environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    """Report variables with which the intercept lane refuses to start."""
    try:
        check_environment(environ)
    except EgressError as error:
        yield from_error("openssl", error)
    try:
        check_key_log()
    except EgressError as error:
        yield from_error("mitmproxy", error)


def _unknown(environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    for name, meant in unknown_variables(environ):
        fix = (
            f"did you mean {meant}?" if meant else "remove it; docs/reference/settings.md lists all settings"
        )
        yield warning(name, "this is not a setting, and has no effect", fix)


def _circle(setup: ProxyUnderCheck, open_at: Collection[ListenAddress]) -> Iterator[Diagnosis]:
    """Report commands that would fetch a secret through the proxy that waits for the secret."""
    # A deadlock: the proxy waits for the command, and the command for the proxy.
    leading = _leading(setup.environ, open_at)
    secrets = setup.policy.secrets.values() if setup.policy else ()
    waiting = sorted(spec.name for spec in secrets if spec.scheme == "command")
    # Only a command inherits these variables; other sources use no proxy.
    if leading and waiting:
        yield warning(
            "circle",
            f"{list_some(leading)} points to this proxy itself, "
            f"also for the commands that fetch {list_some(waiting)} for it",
            f"start the proxy without it: `env {' '.join(f'-u {name}' for name in leading)} egress serve`",
        )


def _led_here(
    environ: Mapping[str, str], open_at: Collection[ListenAddress], heard_at: Collection[ListenAddress]
) -> Iterator[Diagnosis]:
    """Report variables that send programs to the proxy, and whether it is there."""
    alive = _leading(environ, heard_at)
    if alive:
        fact = f"{list_some(alive)} points to this proxy: programs started here use it"
        yield note("proxy", fact)
    # A variable can name several listeners; each missing one is reported.
    for at in open_at:
        if lost := [name for name in _leading(environ, [at]) if name not in alive]:
            yield _lost(lost, at)


def _lost(names: list[str], at: ListenAddress) -> Diagnosis:
    holder = owner_of_port(at)
    there = f"used by {holder}, not by this proxy" if holder else "where no proxy runs"
    return warning(
        "proxy",
        f"{list_some(names)} points to {at}, {there}: programs started here will fail",
        f"{'check what uses the port' if holder else 'start the proxy'}, or `unset {' '.join(names)}`",
    )


def _leading(environ: Mapping[str, str], places: Iterable[ListenAddress]) -> list[str]:
    """Return the variables that point to one of these addresses."""
    listeners = tuple(places)
    return [name for name in PROXIES if any(leads_to(environ.get(name, ""), at) for at in listeners)]


def _unverified(environ: Mapping[str, str]) -> Iterator[Diagnosis]:
    for name, values in UNVERIFIED.items():
        if environ.get(name, "").lower() in values:
            yield warning(
                name,
                "programs started here accept any certificate",
                f"`unset {name}`, and make them trust the proxy: `egress ca export`",
            )


def is_led_here(environ: Mapping[str, str], open_at: Iterable[ListenAddress]) -> bool:
    """Report whether programs with this environment use the proxy."""
    return bool(_leading(environ, open_at))


def leads_to(url: str, at: ListenAddress) -> bool:
    """Report whether the value of a proxy variable names this listener."""
    try:
        # curl and others accept an address without a scheme, and take it for http.
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    if (port or _DEFAULT_PORTS.get(parts.scheme, _SOCKS_PORT)) != at.port:
        return False
    listening = ip_address(at.host)
    # The name may resolve to either family, so any loopback listener counts.
    if host == "localhost":
        return listening.is_loopback or listening.is_unspecified
    try:
        dialled = ip_address(host)
    except ValueError:
        return False
    # A proxy that listens on the unspecified address is found on loopback, too.
    return dialled == listening or (dialled.is_loopback and listening.is_unspecified)
