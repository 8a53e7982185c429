"""`egress serve`: run the proxy in the foreground."""

from __future__ import annotations

import asyncio
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egress import settings as process
from egress.cli import render, rulefiles
from egress.cli.render import BOLD, DIM, GOOD
from egress.errors import ContentError
from egress.policy.chosen import choose, read_chosen
from egress.policy.trust import Trust
from egress.proxy.settings import Effective, Settings, flag, read, shown, strangers, written
from egress.proxy.start import Start
from egress.rules.policy import Policy

if TYPE_CHECKING:
    from egress.proxy.start import Ready
    from egress.secrets import Captured

type Command = Callable[..., int]


def _options(command: Command) -> Command:
    """One option for every setting, in the order of the model."""
    for name in reversed(Settings.model_fields):
        command = _option(name)(command)
    return command


def _option(name: str) -> Callable[[Command], Command]:
    field = Settings.model_fields[name]
    text, default = field.description or "", _default(name)
    if field.annotation is bool:
        return click.option(f"{flag(name)}/--no-{flag(name)[2:]}", name, default=None, help=text)
    return click.option(
        flag(name),
        name,
        multiple=str(field.annotation).startswith("tuple"),
        metavar=shown(field).value,
        help=f"{text} [{default}]" if default else text,
    )


def _default(name: str) -> str:
    field = Settings.model_fields[name]
    if field.default_factory is not None or not field.default:
        return shown(field).default.replace("`", "")
    return written(name, field.default)


@click.command()
@click.option("--settings", "only_settings", is_flag=True, help="Show the settings in force, and end.")
@click.option("--json", "as_json", is_flag=True, help="Show them as JSON.")
@_options
def serve(only_settings: bool, as_json: bool, **given: object) -> int:
    """Run the proxy until it is told to stop.

    Every option can be set as a variable too: EGRESS_ and its name in capitals. The rules come from
    --rules, from your own configuration, or from a file here that you trust (`egress trust`).

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
    environ = process.environment()
    chosen = choose(effective.values.rules, process.config_dir(environ), Path())
    trust = Trust(effective.values.state_dir)
    loaded = read_chosen(chosen, trust, rulefiles.now())
    if loaded.policy is None:
        render.findings(loaded.findings, stderr=True)
        raise ContentError("these rules cannot be used, nothing was started", "put right what is listed")
    captured = _captured(effective.values, loaded.policy, environ)
    # Only now: the process may have been started anew, and would say it twice.
    render.findings(loaded.findings, stderr=True)
    _say_strangers(captured.environ)
    return _run(Start(effective, chosen, trust, loaded.policy, captured))


def _captured(values: Settings, policy: Policy, environ: Mapping[str, str]) -> Captured:
    """Take the secrets out of the environment, which may start this process anew, and harden it."""
    from egress.secrets import harden, take, variables

    captured = take(environ, variables(policy.secrets.values()), sys.orig_argv, container=values.container)
    harden()
    return captured


def _run(start: Start) -> int:
    # Until there is something to reload: by default it would end the process.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # This loads mitmproxy.
    from egress.proxy.clock import SystemClock
    from egress.proxy.server import Server

    return asyncio.run(Server(start, SystemClock()).run(lambda ready: _announce(ready, start)))


# What is said ---------------------------------------------------------------------------------------


def _announce(ready: Ready, start: Start) -> None:
    proxies = [f"http://{at}" for at in ready.addresses]
    hosts = render.count(len(start.policy.entries), "host")
    render.line(("egress is ready: ", GOOD), f"proxy {', '.join(proxies)}, {hosts} in {start.chosen.names}")
    render.line("  in the sandbox:")
    render.line("    ", (f"export HTTPS_PROXY={proxies[0]}", BOLD))
    render.line("    ", (_export_of_bundle(start.effective.values), BOLD))
    if ready.transparent:
        at = ", ".join(str(listen) for listen in ready.transparent)
        render.line(f"  whoever knows no proxy lands on {at}")
    if ready.names:
        answered = start.effective.values.answer
        render.line(f"  names: {', '.join(str(at) for at in ready.names)} answers with {answered}")
    if ready.handover is not None:
        render.line(f"  listeners are handed over at {ready.handover}")
    for secret, value in ready.placeholders:
        render.line(f"    a stand-in for {secret}: {value}")
    render.line(("  stop it with Ctrl-C; ", DIM), (f"ask it with curl --unix-socket {ready.control}", DIM))
    sys.stdout.flush()


def _export_of_bundle(values: Settings) -> str:
    words = ["egress", "ca", "export", "--bundle", "--force", "--out", "egress-ca.pem"]
    if values.sandbox != "default":
        words += ["--sandbox", values.sandbox]
    if values.state_dir != process.state_dir(process.environment()):
        words += ["--state-dir", str(values.state_dir)]
    return f'{shlex.join(words)}; export SSL_CERT_FILE="$PWD/egress-ca.pem"'


def _show_settings(effective: Effective, *, as_json: bool) -> None:
    if as_json:
        found = {name[2:]: {"value": value, "from": origin} for name, value, origin in effective.rows()}
        render.data(found)
    else:
        render.table([(name, value, (origin, DIM)) for name, value, origin in effective.rows()])


def _say_strangers(environ: Mapping[str, str]) -> None:
    for name, meant in strangers(environ):
        hint = f"; did you mean {meant}?" if meant else ""
        render.line(("warning: ", render.DOUBT), f"{name} is no setting, and does nothing{hint}", stderr=True)
