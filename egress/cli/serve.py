"""`egress serve`: run the proxy in the foreground."""

from __future__ import annotations

import asyncio
import gc
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from egress import environment as process
from egress.cli import render, rule_options
from egress.cli.ca import ADDING, REPLACING
from egress.cli.render import BAD, BOLD, DIM, GOOD
from egress.errors import ContentError
from egress.logger import load_structlog
from egress.policy.profile_check import check_profile
from egress.policy.rule_source import choose_rules
from egress.policy.state_dir_ownership import check_state_dir, make_state_dir
from egress.policy.trust import TrustedFiles
from egress.proxy.process.rule_feed import RuleFeed, RuleFiles
from egress.proxy.process.start_values import StartValues
from egress.proxy.setting_values import ListenAddress
from egress.proxy.settings import (
    VARIABLE_PREFIX,
    EffectiveSettings,
    Settings,
    display_of,
    flag,
    format_setting,
    read,
)
from egress.rules.decide.policy import EMPTY_POLICY, Policy
from egress.types import Finding

if TYPE_CHECKING:
    from egress.proxy.process.lifecycle import OnWaiting
    from egress.proxy.process.start_values import ReadyReport
    from egress.secrets import CapturedEnvironment

type Command = Callable[..., int]

CA_FILE = "egress-ca.pem"
"""File name for the certificate in the printed commands."""


def _options(command: Command) -> Command:
    """Add an option for every setting, in the order of the model."""
    # Decorators apply from the inside out, so the last option is added first.
    for name in reversed(Settings.model_fields):
        command = _option(name)(command)
    return command


def _option(name: str) -> Callable[[Command], Command]:
    field = Settings.model_fields[name]
    text, default = field.description or "", _default(name)
    if field.annotation is bool:
        # No default, so that a variable can decide where no flag is given.
        return click.option(f"{flag(name)}/--no-{flag(name)[2:]}", name, default=None, help=text)
    return click.option(
        flag(name),
        name,
        multiple=str(field.annotation).startswith("tuple"),
        metavar=display_of(field).value,
        help=f"{text} [{default}]" if default else text,
    )


def _default(name: str) -> str:
    field = Settings.model_fields[name]
    if field.default_factory is not None or not field.default:
        return display_of(field).default.replace("`", "")
    return format_setting(name, field.default)


@click.command()
@click.option("--settings", "only_settings", is_flag=True, help="Show the effective settings and exit.")
@click.option("--json", "as_json", is_flag=True, help="Show the settings as JSON.")
@click.option("--held", is_flag=True, hidden=True, help="For a parent process: see `HeldStart`.")
@_options
def serve(only_settings: bool, as_json: bool, held: bool, **given: object) -> int:
    """Run the proxy in the foreground, until Ctrl-C or a signal.

    Every option can also be set as a variable: EGRESS_ and its name in capitals. The rules come from --rules,
    from your own configuration, or from a trusted file in this folder (`egress trust`).

    \b
    Examples:
      egress serve --rules hosts.yaml
      egress serve --settings
      EGRESS_LISTEN=127.0.0.1:8080 egress serve --rules hosts.yaml
    """
    effective = read({name: value for name, value in given.items() if value not in (None, ())})
    if only_settings:
        _show_settings(effective, as_json=as_json)
        return 0
    # Folders and rules are checked before secrets: a mistake should cost no restart of the process.
    environ = process.read_environment()
    check_state_dir(effective.values.state_dir)
    rules, policy, findings = _rules(effective.values, environ)
    captured = _captured(effective.values, policy, environ)
    start = StartValues(effective, rules, policy, captured, findings)
    if held:
        return _serve_held(start)
    # Elsewhere than on a terminal the log has it all, one event a line: a banner would be in between.
    if not sys.stdout.isatty():
        return _run(start, lambda _ready: None, lambda *_: None)
    return _run(start, lambda ready: _announce(ready, start), _say_waiting)


def _rules(values: Settings, environ: Mapping[str, str]) -> tuple[RuleFeed, Policy, tuple[Finding, ...]]:
    """Return where the rules come from, and those to start with. Raises `EgressError`."""
    if values.rules_configmap is not None:
        # No rules are read yet: until they are, everything is denied.
        return _configmap_rules(values.rules_configmap, values.service_account, environ), EMPTY_POLICY, ()
    # Imported here: only a starting proxy watches files.
    from egress.proxy.process.rule_file_watch import fingerprint

    chosen = choose_rules(values.rules, process.config_dir(environ), Path())
    found = RuleFiles(chosen, TrustedFiles(values.state_dir))
    # Taken before the rules are read, or a change in between would go unnoticed by the watcher.
    found = replace(found, seen=fingerprint(found.watched))
    loaded = found.read(rule_options.now())
    if loaded.policy is None:
        render.findings(loaded.findings, stderr=True)
        raise ContentError("these rules cannot be used; nothing was started", "fix the errors above")
    check_profile(loaded.policy, values.profile)
    return found, loaded.policy, loaded.findings


def _configmap_rules(name: str, account: Path, environ: Mapping[str, str]) -> RuleFeed:
    # Imported here: a proxy outside of a cluster needs neither TLS nor the reader of JSON by now.
    from egress.cluster.api_server import cluster_of_pod
    from egress.proxy.process.configmap_rules import configmap_rules

    return configmap_rules(cluster_of_pod(environ, account), name, environ.get("HOSTNAME", ""))


def _captured(values: Settings, policy: Policy, environ: Mapping[str, str]) -> CapturedEnvironment:
    """Take secrets out of the environment, which may restart this process, and harden it."""
    from egress.secrets import capture_environment, secret_variables
    from egress.secrets.harden import harden

    captured = capture_environment(
        environ, secret_variables(policy.secrets.values()), sys.orig_argv, container=values.container
    )
    # After the capture, whose restart would undo it.
    harden()
    return captured


def _serve_held(start: StartValues) -> NoReturn:
    """Serve for a parent process: load everything, wait for its word, and report to it alone."""
    from egress.proxy.process.held_start import HeldStart

    # After the capture, which may execute this process again with the same streams.
    held = HeldStart()
    _load_proxy()
    status = 0
    if held.wait():
        status = _run(start, lambda _ready: held.report_serving(), lambda *_: None)
    # All that the proxy had open is closed by now. The parent process need not wait until the interpreter has
    # taken its modules apart.
    sys.stderr.flush()
    os._exit(status)


def _load_proxy() -> None:
    """Import the proxy, whose modules stay for as long as the process."""
    # Not searched for garbage while they are made, nor ever after: a search takes longer the more there is.
    gc.disable()
    # structlog comes first: other modules load it, and would load rich below it.
    load_structlog()
    import egress.proxy.process.lifecycle  # noqa: F401

    gc.freeze()
    gc.enable()


def _run(start: StartValues, announce: Callable[[ReadyReport], None], waiting: OnWaiting) -> int:
    # Only now: unusable rules leave no folder behind.
    make_state_dir(start.effective.values.state_dir)
    # SIGHUP would end the process until there is a proxy to reload.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # This loads mitmproxy.
    _load_proxy()
    from egress.proxy.clock import SystemClock
    from egress.proxy.event_loop import FairEventLoop
    from egress.proxy.process.lifecycle import ProxyServer

    server = ProxyServer(start, SystemClock())
    return asyncio.run(server.run(announce, waiting), loop_factory=FairEventLoop)


# Output -----------------------------------------------------------------------------------------


def _announce(ready: ReadyReport, start: StartValues) -> None:
    proxies = ", ".join(f"http://{at}" for at in ready.addresses) or "only for handed-over listeners"
    hosts = render.count(len(start.policy.entries), "host")
    render.line(("egress is ready: ", GOOD), f"proxy {proxies}, {hosts} in {start.rules.names}")
    values = start.effective.values
    # First what most people need next, then what only some do.
    if ready.addresses:
        render.line("  To point another terminal of this machine at it:")
        command = shlex.join(["egress", "env", *_env_options(values)])
        render.line("    ", (f'eval "$({command})"', BOLD), whole=True)
        render.line("  To point a client elsewhere at it (run here, copy the file to the client):")
        for command in _client_commands(ready.addresses[0], values):
            render.line("    ", (command, BOLD), whole=True)
    # After the way for most clients the others, then what is for the operator.
    if ready.transparent:
        at = ", ".join(str(listen) for listen in ready.transparent)
        render.line(f"  clients without proxy support: {at} (transparent)")
    if ready.names:
        render.line(f"  DNS: {', '.join(str(at) for at in ready.names)}, answers {values.answer}")
    if ready.metrics is not None:
        render.line(f"  metrics for Prometheus: http://{ready.metrics}/metrics")
    if ready.handover is not None:
        render.line(f"  hand-over socket: {ready.handover}")
    for lack in ready.lacking:
        render.line(("  missing: ", BAD), f"the secret {lack.name} (from `{lack.scheme}:`): {lack.cause}")
        render.line(f"    {lack.cure}")
    for secret, value in ready.placeholders:
        render.line(f"    placeholder for {secret}: {value}", whole=True)
    render.line("  show its status:")
    render.line("    ", (shlex.join(["egress", "status", *_runtime_dir(values)]), BOLD), whole=True)
    render.line(("  stop it with Ctrl-C", DIM))
    sys.stdout.flush()


def _client_commands(at: ListenAddress, values: Settings) -> Iterator[str]:
    """Yield the commands that a client needs, one per line, to be copied."""
    # A client cannot dial 0.0.0.0, and this process does not know the address that it can.
    place = f"ADDRESS-OF-THIS-HOST:{at.port}" if ip_address(at.host).is_unspecified else str(at)
    if values.password_file is None:
        yield f"export HTTPS_PROXY=http://{place}"
    else:
        # The password itself is never printed.
        file = shlex.quote(str(values.password_file.absolute()))
        yield f'export HTTPS_PROXY="http://any:$(cat {file})@{place}"'
    yield shlex.join(["egress", "ca", "export", "--bundle", "--force", "--out", CA_FILE, *_authority(values)])
    for variable in (*REPLACING, *ADDING):
        yield f'export {variable}="$PWD/{CA_FILE}"'


def _authority(values: Settings) -> list[str]:
    """Return the options that name the authority, if another terminal would use another one."""
    named = ["--sandbox", values.sandbox] if values.sandbox != "default" else []
    if values.state_dir != process.state_dir(_elsewhere()):
        named += ["--state-dir", str(values.state_dir.absolute())]
    return named


def _env_options(values: Settings) -> list[str]:
    password = values.password_file
    named = [] if password is None else ["--password-file", str(password.absolute())]
    return [*_authority(values), *_runtime_dir(values), *named]


def _runtime_dir(values: Settings) -> list[str]:
    is_usual = values.runtime_dir == process.runtime_dir(_elsewhere())
    return [] if is_usual else ["--runtime-dir", str(values.runtime_dir.absolute())]


def _elsewhere() -> Mapping[str, str]:
    """Return the environment of another terminal: without variables set for this process alone."""
    found = process.read_environment()
    return {name: value for name, value in found.items() if not name.startswith(VARIABLE_PREFIX)}


def _say_waiting(connections: int, seconds: int, by_key: bool) -> None:
    again = "Ctrl-C again" if by_key else "a second signal"
    open_ones = render.count(connections, "connection")
    render.line(f"waiting up to {seconds}s for {open_ones}; {again} stops at once")
    sys.stdout.flush()


def _show_settings(effective: EffectiveSettings, *, as_json: bool) -> None:
    if as_json:
        found = {name[2:]: {"value": value, "from": origin} for name, value, origin in effective.rows()}
        render.data(found)
    else:
        render.table([(name, value, (origin, DIM)) for name, value, origin in effective.rows()])
