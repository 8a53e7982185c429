"""`egress doctor`: what is wrong around the proxy, and what to do about it."""

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
"""Settings of `egress serve` that make no difference to what is looked at; as variables they may stay set."""

_STYLES = {Level.OK: GOOD, Level.NOTE: DIM, Level.WARNING: DOUBT, Level.FAULT: BAD}
_WIDEST_NAME = 32
_FIX = 11
"""Where a fix begins: below the name of what it is for."""


def _options() -> list[click.Parameter]:
    """The options of `egress serve` that matter, which are those of that command."""
    return [option for option in serve.params if option.name in Settings.model_fields.keys() - WITHOUT]


@click.command(params=_options())
@click.option("--offline", is_flag=True, help="Ask no upstream.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON.")
@click.option("--image", metavar="IMAGE", help="Try the stacks of an image in a sandbox instead.")
@click.option("--runtime", metavar="KIND", help="With --image: docker or namespace.")
def doctor(offline: bool, as_json: bool, image: str | None, runtime: str | None, **given: object) -> int:
    """Find what is wrong around the proxy, and say how to put it right.

    It looks at versions, rules, secrets, keys, folders, ports, the audit log, the clock and the hosts of the
    rules, as `egress serve` with the same options would find them. Nothing is changed. Each secret is asked
    for once and never shown; each host is asked for a TLS handshake, and sent nothing. The exit status is 1
    when there is a fault.

    With --image it looks at nothing of that, but starts the image in a sandbox behind a proxy of its own, and
    has what it finds there (curl, git, Python, Node, Java ...) ask a server on this machine: which of them
    trust the proxy, and are given a credential. `host` is an image of namespaces: this machine's programs.

    \b
    Examples:
      egress doctor
      egress doctor --rules config/hosts.yaml --offline
      egress doctor --json
      egress doctor --image my-agents
    """
    if image is not None:
        from egress.cli.sandboxes.stacks.image_doctor import examine_image

        return examine_image(image, runtime, as_json=as_json)
    if runtime is not None:
        raise UsageError("--runtime is for the sandbox of an image", "name the image with --image")
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
    except Exception as error:  # noqa: BLE001 - a package that is broken is what the doctor is there for
        return [_broken(error, tell)]
    from egress.doctor import rules
    from egress.doctor.proxy_setup import ProxySetup
    from egress.proxy.clock import SystemClock

    environ, clock = process.read_environment(), SystemClock()
    found = rules.read(effective, process.config_dir(environ), clock.now())
    captured, trouble = _captured(effective.values, found.policy, environ)
    patient = ProxySetup(
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
    return asyncio.run(examine(patient, beforehand, tell, offline=offline))


def _captured(
    values: Settings, policy: Policy | None, environ: Mapping[str, str]
) -> tuple[CapturedEnvironment, list[Diagnosis]]:
    """Take the secrets out of the environment as `egress serve` does, which may start this process anew."""
    from egress.secrets import CapturedEnvironment, capture_environment, harden, secret_variables

    trouble = []
    names = secret_variables(policy.secrets.values()) if policy else frozenset()
    try:
        captured = capture_environment(environ, names, sys.orig_argv, container=values.container)
    except EgressError as error:
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
    """What can be said when a package cannot be loaded: all others hang on it."""
    name = getattr(error, "name", None) or type(error).__name__
    fact = f"the proxy cannot be loaded, because of {name}, and nothing else was looked at"
    cure = "install Egress again, into a virtual environment of its own"
    group = DiagnosisGroup("versions", (*versions.check(), fault("egress", fact, cure)))
    tell(group)
    return group


# What is said ---------------------------------------------------------------------------------------


def _ignore(group: DiagnosisGroup) -> None:
    """Say nothing before all is known."""


def _show(group: DiagnosisGroup) -> None:
    render.line((group.name, BOLD))
    width = min(max((len(item.name) for item in group.diagnoses), default=0), _WIDEST_NAME)
    for item in group.diagnoses:
        level = (f"{item.level:<7}", _STYLES[item.level])
        render.table([[level, item.name.ljust(width), item.fact]], indent=2)
        if item.fix:
            # A command in it has to come out in one piece.
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
