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

from egress import settings
from egress.ca import public_roots
from egress.fleet import folders
from egress.fleet.choice import VARIABLE, Choice, Place, check, choose, open_runtime, read_kind
from egress.fleet.embedded import EmbeddedProxy
from egress.fleet.fleet import Fleet
from egress.fleet.lending import Lending
from egress.fleet.protocol import Sandboxes
from egress.fleet.remote import connected
from egress.fleet.withheld import Withheld
from egress.runtime.dressing import StandIns, kitted
from egress.runtime.gateway import ProxyGateway

_AUDIT: Final = "audit"
_RUNS: Final = "runs"


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
) -> Iterator[Sandboxes]:
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
    environ = settings.environment()
    folder = runtime_dir or settings.runtime_dir(environ)
    asked = read_kind(runtime, environ.get(VARIABLE))
    if all(each is None for each in (rules, runtime, seccomp, stand_ins)) and not options:
        remote = connected(folder / folders.SOCKET)
        if remote is not None and asked in (None, remote.about.kind):
            with remote:
                yield remote
            return
    choice = choose(asked)
    check(choice, seccomp, images)
    with embedded(
        choice, environ, folder, rules or (), seccomp=seccomp, stand_ins=stand_ins, options=options
    ) as fleet:
        yield fleet


@contextmanager
def embedded(
    choice: Choice,
    environ: Mapping[str, str],
    folder: Path,
    rules: Sequence[Path] = (),
    *,
    seccomp: Path | None = None,
    stand_ins: StandIns | None = None,
    options: Sequence[str] = (),
) -> Iterator[Fleet]:
    """Sandboxes of this process alone, with a proxy of their own."""
    state = settings.state_dir(environ)
    audit = audit_folder(state, environ)
    with ExitStack() as parts:
        parts.enter_context(_logs_aside())
        private = parts.enter_context(folders.private_folder(folder))
        proxy = EmbeddedProxy(private, environ, rules=rules, audit=audit, options=options)
        parts.callback(proxy.close)
        dress = kitted(public_roots()) if stand_ins is None else kitted(public_roots(), stand_ins)
        home = folders.home(folder, choice.kind)
        guarded = (folder, private, state, audit, *_own_files(environ, options))
        gateway = ProxyGateway(private)
        made, about = open_runtime(choice, Place(gateway, home, dress, guarded, seccomp))
        about = replace(about, audit=audit, runtime_dir=private)
        # By the environment that the proxy was started with: its secrets are read from there.
        withheld = Withheld.by(private, environ)
        lending = Lending.by(private, environ)
        fleet = Fleet(
            made,
            about=about,
            check=proxy.check,
            refuse=withheld.refuse,
            lend=lending.refuse,
            guilty=gateway.guilty,
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
    usual = Path(own) if own else state / _AUDIT
    return usual if folders.is_free(usual) else state / _RUNS / secrets.token_hex(4) / _AUDIT
