"""Values of a fleet as values of the API, and back: both sides of a call use the same functions."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final, TypedDict, cast

from msgspec import structs

from egress import __version__
from egress import errors as ours
from egress.api.process_schema import ProcessView
from egress.api.schema import (
    API_VERSION,
    MAX_PIECE_BYTES,
    CommandSettings,
    FleetView,
    LimitSettings,
    MountSettings,
    PreviewView,
    Problem,
    SandboxEventView,
    SandboxSettings,
    SandboxView,
    SnapshotView,
    StartMessage,
    TerminalSize,
)
from egress.api.session_schema import SessionView
from egress.errors import EgressError
from egress.fleet import errors as of_fleets
from egress.fleet.errors import FleetFaultError
from egress.fleet.lifetime import SandboxLifetime
from egress.fleet.process_interface import ProcessStatus
from egress.fleet.protocol import FleetInfo, Preview, SandboxStatus, Snapshot
from egress.fleet.session_interface import SessionStatus
from egress.runtime import errors as of_runtimes
from egress.runtime.spec import (
    Command,
    Event,
    EventKind,
    Info,
    Mount,
    RunRights,
    SandboxLimits,
    Spec,
    Terminal,
)


class RightsFields(TypedDict):
    """The fields of a request that ask for rights of a command."""

    profile: str | None
    params: dict[str, str]


# Sandboxes ----------------------------------------------------------------------------------------


def settings_of(spec: Spec, terms: SandboxLifetime, *, start: bool) -> SandboxSettings:
    """Return the settings that make this sandbox."""
    return SandboxSettings(
        image=spec.image,
        profile=spec.profile,
        params=dict(spec.parameters),
        env=dict(spec.env),
        labels=dict(spec.labels),
        limits=LimitSettings(**asdict(spec.limits)),
        mounts=tuple(
            MountSettings(source=str(each.source), target=each.target, writable=each.writable)
            for each in spec.mounts
        ),
        read_only=spec.read_only,
        ports=spec.ports,
        workdir=spec.workdir,
        user=spec.user,
        group=spec.group,
        timeout=terms.timeout,
        idle_timeout=terms.idle_timeout,
        on_idle=terms.on_idle,
        snapshot=terms.snapshot,
        owner=terms.owner,
        start=start,
    )


def spec_from(name: str, settings: SandboxSettings, defaults: Spec) -> Spec:
    """Return the sandbox that these settings make. Raises `SpecError` for impossible ones.

    `defaults` has the values of settings that were left out.
    """
    given = {name: value for name in _OPTIONAL_FIELDS if (value := getattr(settings, name)) is not None}
    wanted = {name: getattr(settings.limits, name) for name in LimitSettings.__struct_fields__}
    limits = {name: value for name, value in wanted.items() if value is not None}
    return replace(
        defaults,
        name=name,
        parameters=settings.params,
        env=settings.env,
        labels=settings.labels,
        limits=SandboxLimits(**limits),
        mounts=tuple(
            Mount(source=Path(each.source), target=each.target, writable=each.writable)
            for each in settings.mounts
        ),
        read_only=settings.read_only,
        ports=settings.ports,
        **given,
    )


_OPTIONAL_FIELDS: Final = ("image", "profile", "workdir", "user", "group")


def lifetime_from(settings: SandboxSettings) -> SandboxLifetime:
    """Return the lifetime that these settings ask for. Raises `SpecError` for an impossible one."""
    return SandboxLifetime(
        timeout=settings.timeout,
        idle_timeout=settings.idle_timeout,
        on_idle=settings.on_idle,
        snapshot=settings.snapshot,
        owner=settings.owner,
    )


def sandbox_view(status: SandboxStatus) -> SandboxView:
    """Return a sandbox for a client."""
    info, terms = status.info, status.terms
    return SandboxView(
        name=info.name,
        image=info.image,
        state=info.state,
        profile=info.profile,
        labels=dict(info.labels),
        created=info.created,
        exit_code=info.exit_code,
        timeout=terms.timeout,
        idle_timeout=terms.idle_timeout,
        on_idle=terms.on_idle,
        snapshot=terms.snapshot,
        owner=terms.owner,
        left=status.left,
        idle=status.idle,
    )


def info_of(view: SandboxView) -> Info:
    """Return the state of a sandbox from its view."""
    return Info(
        name=view.name,
        image=view.image,
        state=view.state,
        profile=view.profile,
        labels=view.labels,
        created=view.created,
        exit_code=view.exit_code,
    )


def status_of(view: SandboxView) -> SandboxStatus:
    """Return a sandbox and its remaining time from its view."""
    terms = SandboxLifetime(
        timeout=view.timeout,
        idle_timeout=view.idle_timeout,
        on_idle=view.on_idle,
        snapshot=view.snapshot,
        owner=view.owner,
    )
    return SandboxStatus(info=info_of(view), terms=terms, left=view.left, idle=view.idle)


def snapshot_view(snapshot: Snapshot) -> SnapshotView:
    """Return a snapshot for a client."""
    return SnapshotView(**asdict(snapshot))


def snapshot_of(view: SnapshotView) -> Snapshot:
    """Return a snapshot from its view."""
    return Snapshot(**structs.asdict(view))


def preview_view(preview: Preview) -> PreviewView:
    """Return a preview for a client."""
    return PreviewView(
        sandbox=preview.sandbox,
        port=preview.port,
        url=preview.url,
        origin=preview.origin,
        token=preview.token,
        left=preview.left,
    )


def preview_of(view: PreviewView) -> Preview:
    """Return a preview from its view."""
    return Preview(view.sandbox, view.port, view.origin, view.token, view.left)


def event_of(view: SandboxEventView) -> Event:
    """Return an event of a sandbox from its view."""
    # A kind of a later version is an event as well; only its name is new here.
    return Event(kind=cast("EventKind", view.kind), sandbox=view.sandbox)


# The fleet ----------------------------------------------------------------------------------------


def fleet_view(about: FleetInfo) -> FleetView:
    """Return the description of a fleet for a client."""
    return FleetView(
        version=__version__,
        api=API_VERSION,
        kind=about.kind,
        why=about.why,
        cautions=about.cautions,
        audit=_text(about.audit),
        run=about.run,
        runtime_dir=_text(about.runtime_dir),
        engine=_text(about.engine),
        image=about.image,
    )


def fleet_info(view: FleetView) -> FleetInfo:
    """Return the description of a fleet from its view."""
    return FleetInfo(
        kind=view.kind,
        why=view.why,
        cautions=view.cautions,
        audit=_path(view.audit),
        run=view.run,
        runtime_dir=_path(view.runtime_dir),
        engine=_path(view.engine),
        image=view.image,
    )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


# Commands -----------------------------------------------------------------------------------------


def start_message(command: Command, *, has_input: bool, is_detached: bool) -> StartMessage:
    """Return the message that starts this command. Its input follows in messages of its own."""
    return StartMessage(
        argv=command.argv,
        cwd=command.cwd,
        env=dict(command.env),
        timeout=command.timeout,
        grace=command.grace,
        terminal=terminal_size(command.terminal),
        stdin=has_input,
        detached=is_detached,
        **asked_rights(command.rights),
    )


def exec_settings(command: Command) -> CommandSettings | None:
    """Return the body of a request that runs this command; None for one that needs a stream of input."""
    given = b"" if command.input is None else command.input
    if command.terminal is not None or not isinstance(given, bytes) or len(given) > MAX_PIECE_BYTES:
        return None
    # Base64, because output need not be text. The server keeps none: it comes in the events.
    return CommandSettings(
        argv=command.argv,
        cwd=command.cwd,
        env=dict(command.env),
        timeout=command.timeout,
        grace=command.grace,
        input=base64.b64encode(given).decode(),
        encoding="base64",
        max_output=0,
        **asked_rights(command.rights),
    )


def asked_rights(rights: RunRights | None) -> RightsFields:
    """Return the rights of a command as fields of a request."""
    if rights is None:
        return {"profile": None, "params": {}}
    return {"profile": rights.profile, "params": dict(rights.parameters)}


def command_from(message: StartMessage, most_output: int) -> Command:
    """Return the command of a message. Raises `SpecError` for an impossible one."""
    terminal = terminal_from(message.terminal)
    # A command in a terminal has its input from there.
    is_closed = terminal is None and not message.stdin
    return Command(
        argv=message.argv,
        cwd=message.cwd,
        env=message.env,
        timeout=message.timeout,
        grace=message.grace,
        terminal=terminal,
        input=b"" if is_closed else None,
        most_output=most_output,
    )


def terminal_from(size: TerminalSize | None) -> Terminal | None:
    """Return the terminal of this size. Raises `SpecError` for an impossible one."""
    return None if size is None else Terminal(columns=size.columns, rows=size.rows)


def terminal_size(terminal: Terminal | None) -> TerminalSize | None:
    """Return the size of a terminal."""
    return None if terminal is None else TerminalSize(columns=terminal.columns, rows=terminal.rows)


def process_view(status: ProcessStatus) -> ProcessView:
    """Return a process for a client."""
    return ProcessView(**asdict(status))


def process_status(view: ProcessView) -> ProcessStatus:
    """Return a process from its view."""
    return ProcessStatus(**structs.asdict(view))


def session_view(status: SessionStatus) -> SessionView:
    """Return a session for a client."""
    return SessionView(**asdict(status))


def session_status(view: SessionView) -> SessionStatus:
    """Return a session from its view."""
    return SessionStatus(**structs.asdict(view))


# Errors -------------------------------------------------------------------------------------------


def problem_of(error: BaseException) -> Problem:
    """Return the error for the other side.

    An unexpected exception is reduced to its class name: its text may hold secrets.
    """
    if not isinstance(error, EgressError):
        error = FleetFaultError(
            f"the process that serves sandboxes failed ({type(error).__name__})", "see its log"
        )
    return Problem(type=error.code, message=error.message, hint=error.hint)


def error_of(problem: Problem) -> EgressError:
    """Return the error that the other side raised: the same class with the same text."""
    return _ERROR_CLASSES.get(problem.type, FleetFaultError)(problem.message, problem.hint)


def _list_error_classes() -> Iterator[tuple[str, type[EgressError]]]:
    for module in (ours, of_runtimes, of_fleets):
        for each in vars(module).values():
            is_one = isinstance(each, type) and issubclass(each, EgressError)
            # A class without its own code is sent as its parent.
            if is_one and each.__module__ == module.__name__ and "code" in vars(each):
                yield each.code, each


_ERROR_CLASSES: Final[Mapping[str, type[EgressError]]] = dict(_list_error_classes())
