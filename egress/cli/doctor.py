"""`egress doctor`: find problems around the proxy, and their fixes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from egress import __version__
from egress import environment as process
from egress.cli import render
from egress.cli.ca import ADDING, REPLACING
from egress.cli.control_client import ask_proxy
from egress.cli.render import BAD, BOLD, DIM, DOUBT, GOOD, count
from egress.cli.serve import serve
from egress.doctor import versions
from egress.doctor.diagnosis import Diagnosis, DiagnosisGroup, Level, fault, from_error
from egress.errors import EgressError, UsageError
from egress.proxy.settings import EffectiveSettings, Settings, read

if TYPE_CHECKING:
    from egress.rules.decide.policy import Policy
    from egress.secrets import CapturedEnvironment

type Tell = Callable[[DiagnosisGroup], None]

WITHOUT = frozenset(
    {
        "handover",
        "audit_rotate",
        "audit_keep",
        "audit_quota",
        "audit_on_full",
        "head_timeout",
        "connect_timeout",
        "answer_timeout",
        "idle_timeout",
        "drain",
        "log_level",
        "log_format",
    }
)
"""Settings of `egress serve` that no check depends on; they may still be set as variables."""

_STYLES = {Level.OK: GOOD, Level.NOTE: DIM, Level.WARNING: DOUBT, Level.FAULT: BAD}
_WIDEST_NAME = 32
_FIX = 11
"""Indent of a fix: below the name of its subject."""


def _options() -> list[click.Parameter]:
    """Return the options of `egress serve` that matter for checks."""
    return [option for option in serve.params if option.name in Settings.model_fields.keys() - WITHOUT]


@click.command(params=_options())
@click.option("--offline", is_flag=True, help="Do not connect to upstreams.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
@click.option("--image", metavar="IMAGE", help="Test the HTTPS clients of an image in a sandbox instead.")
@click.option("--runtime", metavar="KIND", help="With --image: docker or namespace.")
def doctor(offline: bool, as_json: bool, image: str | None, runtime: str | None, **given: object) -> int:
    """Find problems around the proxy, and show how to fix them.

    Checks versions, rules, secrets, keys, folders, ports, the audit log, the clock and the hosts of the
    rules, as `egress serve` with the same options would find them. Changes nothing. Each secret is fetched
    once and never shown; each host gets a TLS handshake and no request. The exit status is 1 if there is a
    fault.

    With --image, it checks none of that. It starts the image in a sandbox with its own proxy, and lets the
    HTTPS clients in it (curl, git, Python, Node, Java ...) ask a server on this machine: which of them trust
    the proxy, and get a credential? `host` means the programs of this machine, in namespaces.

    \b
    Examples:
      egress doctor
      egress doctor --rules config/hosts.yaml --offline
      egress doctor --json
      egress doctor --image my-agents
    """
    # Lazy: sandboxes and their engine are of no use to the other checks.
    if image is not None:
        from egress.cli.sandboxes.stacks.image_doctor import examine_image

        return examine_image(image, runtime, as_json=as_json)
    if runtime is not None:
        raise UsageError("--runtime needs --image", "name the image with --image")
    effective = read({name: value for name, value in given.items() if value not in (None, ())})
    tell = _ignore if as_json else _show
    groups = _examined(effective, tell, offline=offline)
    if as_json:
        render.data(_as_data(groups))
    else:
        _sum_up(groups)
    return int(_number(groups, Level.FAULT) > 0)


def _examined(effective: EffectiveSettings, tell: Tell, *, offline: bool) -> Sequence[DiagnosisGroup]:
    try:
        # This loads mitmproxy.
        from egress.doctor.examine import examine
    except Exception as error:  # noqa: BLE001 - a broken package is a finding
        return [_broken(error, tell)]
    from egress.doctor import rules
    from egress.doctor.proxy_under_check import ProxyUnderCheck
    from egress.proxy.clock import SystemClock

    environ, clock = process.read_environment(), SystemClock()
    found = rules.read(effective, process.config_dir(environ), clock.now())
    # After the rules, which name the variables that hold secrets.
    captured, trouble = _captured(effective.values, found.policy, environ)
    setup = ProxyUnderCheck(
        effective=effective,
        policy=found.policy,
        captured=captured,
        clock=clock,
        ask=partial(ask_proxy, "GET", "/status", None, effective.values.runtime_dir),
        replacing=REPLACING,
        adding=ADDING,
        until=found.until,
    )
    beforehand = {"rules": found.diagnoses, "secrets": trouble}
    return asyncio.run(examine(setup, beforehand, tell, offline=offline))


def _captured(
    values: Settings, policy: Policy | None, environ: Mapping[str, str]
) -> tuple[CapturedEnvironment, list[Diagnosis]]:
    """Take secrets out of the environment like `egress serve`, which may restart this process."""
    from egress.secrets import CapturedEnvironment, capture_environment, secret_variables
    from egress.secrets.harden import harden

    trouble = []
    # Without usable rules no variable is known to be a secret, and none is fetched.
    names = secret_variables(policy.secrets.values()) if policy else frozenset()
    try:
        captured = capture_environment(environ, names, sys.orig_argv, container=values.container)
    except EgressError as error:
        # Without a restart the secrets stay in the process; at least no check gets to see them.
        captured = CapturedEnvironment(
            {}, {name: text for name, text in environ.items() if name not in names}
        )
        trouble.append(from_error("environment", error))
    try:
        harden()
    except EgressError as error:
        trouble.append(from_error("memory", error))
    return captured, trouble


def _broken(error: Exception, tell: Tell) -> DiagnosisGroup:
    """Report a package that cannot be loaded; all other checks depend on it."""
    name = getattr(error, "name", None) or type(error).__name__
    fact = f"the proxy cannot be loaded because of {name}; nothing else was checked"
    cure = "reinstall Egress in its own virtual environment"
    group = DiagnosisGroup("versions", (*versions.check(), fault("egress", fact, cure)))
    tell(group)
    return group


# Output -----------------------------------------------------------------------------------------


def _ignore(group: DiagnosisGroup) -> None:
    """Print nothing until all results are known."""


def _show(group: DiagnosisGroup) -> None:
    render.line((group.name, BOLD))
    width = min(max((len(item.name) for item in group.diagnoses), default=0), _WIDEST_NAME)
    for item in group.diagnoses:
        level = (f"{item.level:<7}", _STYLES[item.level])
        render.table([[level, item.name.ljust(width), item.fact]], indent=2)
        if item.fix:
            # A command in a fix must come out in one piece, to be copied.
            render.line(" " * _FIX, ("fix: ", DIM), item.fix, whole="`" in item.fix)


def _sum_up(groups: Sequence[DiagnosisGroup]) -> None:
    total = sum(len(group.diagnoses) for group in groups)
    faults, warnings = _number(groups, Level.FAULT), _number(groups, Level.WARNING)
    bad = count(faults, "fault") if faults else "no fault"
    doubtful = f", {count(warnings, 'warning')}" if warnings else ""
    render.line()
    render.line((bad, BAD if faults else GOOD), (doubtful, DOUBT), f" in {count(total, 'check')}")


def _number(groups: Sequence[DiagnosisGroup], level: Level) -> int:
    return sum(item.level is level for group in groups for item in group.diagnoses)


def _as_data(groups: Sequence[DiagnosisGroup]) -> dict[str, object]:
    faults = _number(groups, Level.FAULT)
    return {
        "ok": not faults,
        "version": __version__,
        "faults": faults,
        "warnings": _number(groups, Level.WARNING),
        "checks": [{"group": group.name, **asdict(item)} for group in groups for item in group.diagnoses],
    }
