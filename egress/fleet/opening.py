"""`open_fleet`: sandboxes to work with, from wherever they are to be had.

Those that `egress up` serves are taken where nothing else is asked for. Otherwise a proxy is started for this
process alone, with a runtime of the kind there is, and all of it ends with the context.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import structlog

from egress import environment
from egress.ca import public_roots
from egress.fleet import folders
from egress.fleet.embedded_proxy import EmbeddedProxy
from egress.fleet.env_policy import EnvironmentPolicy
from egress.fleet.fleet import Fleet
from egress.fleet.mount_policy import MountPolicy
from egress.fleet.protocol import SandboxFleet
from egress.fleet.remote import connect_if_served
from egress.fleet.runtime_choice import (
    RUNTIME_VARIABLE,
    RuntimeChoice,
    RuntimeParameters,
    check_choice,
    choose_runtime,
    open_runtime,
    read_kind,
)
from egress.runtime.provisioning import StandIns, trust_kit_provisioner
from egress.runtime.proxy_client import ControlProxyClient

_AUDIT_FOLDER: Final = "audit"
_RUNS_FOLDER: Final = "runs"


@contextmanager
def open_fleet(
    *,
    rules: Sequence[Path] | None = None,
    runtime: str | None = None,
    runtime_dir: Path | None = None,
    seccomp: Path | None = None,
    stand_ins: StandIns | None = None,
    options: Sequence[str] = (),
    images: Sequence[str] = (),
) -> Iterator[SandboxFleet]:
    """Open the sandboxes that are served in the runtime folder, or ones of this process alone.

    Args:
        rules: files or folders of rules; without any, those that `egress serve` would find.
        runtime: the kind of sandboxes: docker, namespace, or docker with a runtime of the engine, such as
            runsc; else by `EGRESS_RUNTIME`, else what there is.
        runtime_dir: where sockets are; else as `egress serve` has it.
        seccomp: a profile for containers, in the place of the engine's own.
        stand_ins: variables in which programs insist on a value, made of what was admitted.
        options: further ones for `egress serve`.
        images: what sandboxes of this process alone will be made of: no proxy is started without them.

    Whoever names rules, a kind or options means them, and gets sandboxes of his own. Raises errors of
    `egress.runtime.errors` and `egress.fleet.errors`, and `EgressError` for settings that cannot be.
    """
    environ = environment.read_environment()
    folder = runtime_dir or environment.runtime_dir(environ)
    asked = read_kind(runtime, environ.get(RUNTIME_VARIABLE))
    if all(each is None for each in (rules, runtime, seccomp, stand_ins)) and not options:
        remote = connect_if_served(folder / folders.SOCKET_NAME)
        if remote is not None and asked in (None, remote.about.kind):
            with remote:
                yield remote
            return
    choice = choose_runtime(asked)
    check_choice(choice, seccomp, images)
    with open_embedded(
        choice, environ, folder, rules or (), seccomp=seccomp, stand_ins=stand_ins, options=options
    ) as fleet:
        yield fleet


@contextmanager
def open_embedded(
    choice: RuntimeChoice,
    environ: Mapping[str, str],
    folder: Path,
    rules: Sequence[Path] = (),
    *,
    seccomp: Path | None = None,
    stand_ins: StandIns | None = None,
    options: Sequence[str] = (),
) -> Iterator[Fleet]:
    """Sandboxes of this process alone, with a proxy of their own."""
    state = environment.state_dir(environ)
    audit = audit_folder(state, environ)
    with ExitStack() as parts:
        parts.enter_context(_logs_aside())
        private = parts.enter_context(folders.private_folder(folder))
        proxy = EmbeddedProxy(private, environ, rules=rules, audit=audit, options=options)
        parts.callback(proxy.close)
        dress = (
            trust_kit_provisioner(public_roots())
            if stand_ins is None
            else trust_kit_provisioner(public_roots(), stand_ins)
        )
        home = folders.sandbox_home(folder, choice.kind)
        guarded = (folder, private, state, audit, *_own_files(environ, options))
        gateway = ControlProxyClient(private)
        made, about = open_runtime(choice, RuntimeParameters(gateway, home, dress, guarded, seccomp))
        about = replace(about, audit=audit, runtime_dir=private)
        # By the environment that the proxy was started with: its secrets are read from there.
        withheld = EnvironmentPolicy.for_proxy(private, environ)
        lending = MountPolicy.for_proxy(private, environ)
        fleet = Fleet(
            made,
            about=about,
            check=proxy.check,
            refuse=withheld.check,
            lend=lending.check,
            guilty=gateway.canary_offenders,
        )
        parts.callback(fleet.close)
        yield fleet


def _own_files(environ: Mapping[str, str], options: Sequence[str]) -> Iterator[Path]:
    """What the settings place elsewhere, and no sandbox may see: the log, its key, a password."""
    for flag in ("--audit-dir", "--audit-key", "--password-file", "--state-dir"):
        if own := environ.get("EGRESS_" + flag[2:].upper().replace("-", "_")):
            yield Path(own)
        for word, after in pairwise((*options, "")):
            if word == flag and after:
                yield Path(after)
            elif word.startswith(f"{flag}="):
                yield Path(word.removeprefix(f"{flag}="))


@contextmanager
def _logs_aside() -> Iterator[None]:
    """Where nobody set logs up, keep them off the standard output: it is that of what runs in sandboxes."""
    if structlog.is_configured():
        yield
        return
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    try:
        yield
    finally:
        structlog.reset_defaults()


def audit_folder(state: Path, environ: Mapping[str, str]) -> Path:
    """Where the requests are recorded: in the usual place, or in one beside it where another proxy writes."""
    own = environ.get("EGRESS_AUDIT_DIR")
    usual = Path(own) if own else state / _AUDIT_FOLDER
    return (
        usual if folders.is_log_free(usual) else state / _RUNS_FOLDER / secrets.token_hex(4) / _AUDIT_FOLDER
    )
