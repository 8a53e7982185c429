"""Values of a runtime as JSON, and back: the reading side gets an equal value.

Values are checked when read, as when made: an impossible value is refused with its usual error.
"""

# ruff: noqa: D103 - the names of these functions are their documentation

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from egress import errors as ours
from egress.errors import EgressError
from egress.fleet import errors as of_fleets
from egress.fleet.errors import FleetFaultError
from egress.fleet.json_fields import JsonFields
from egress.fleet.lifetime import SandboxLifetime
from egress.fleet.protocol import FleetInfo, Preview, SandboxStatus
from egress.fleet.rpc_frames import protocol_error
from egress.runtime import errors as of_runtimes
from egress.runtime.spec import (
    Command,
    Event,
    EventKind,
    ExecResult,
    Info,
    Mount,
    SandboxLimits,
    Spec,
    State,
    Terminal,
)

Json = dict[str, object]

_STATE_NAMES: Final[Mapping[str, State]] = {
    "created": "created", "running": "running", "paused": "paused", "stopped": "stopped"
}  # fmt: skip
_EVENT_KINDS: Final[Mapping[str, EventKind]] = {
    "created": "created",
    "started": "started",
    "died": "died",
    "out-of-memory": "out-of-memory",
    "paused": "paused",
    "resumed": "resumed",
    "removed": "removed",
}


# Specifications -------------------------------------------------------------------------------------


def write_spec(spec: Spec) -> Json:
    limits = spec.limits
    return {
        "name": spec.name,
        "image": spec.image,
        "profile": spec.profile,
        "user": spec.user,
        "group": spec.group,
        "workdir": spec.workdir,
        "env": dict(spec.env),
        "mounts": [
            {"source": str(each.source), "target": each.target, "writable": each.writable}
            for each in spec.mounts
        ],
        "limits": {
            "memory_mib": limits.memory_mib,
            "cpus": limits.cpus,
            "processes": limits.processes,
            "temporary_mib": limits.temporary_mib,
            "disk_mib": limits.disk_mib,
        },
        "read_only": spec.read_only,
        "ports": list(spec.ports),
        "labels": dict(spec.labels),
    }


def read_spec(fields: JsonFields) -> Spec:
    spec = Spec(
        name=fields.text("name"),
        image=fields.text("image"),
        profile=fields.text_or_none("profile"),
        user=fields.integer("user"),
        group=fields.integer("group"),
        workdir=fields.text("workdir"),
        env=fields.values("env"),
        mounts=tuple(_mount(each) for each in fields.inners("mounts")),
        limits=_limits(fields.inner("limits")),
        read_only=fields.is_true("read_only"),
        ports=fields.integers("ports"),
        labels=fields.values("labels"),
    )
    fields.end()
    return spec


def _mount(fields: JsonFields) -> Mount:
    mount = Mount(
        source=Path(fields.text("source")), target=fields.text("target"), writable=fields.is_true("writable")
    )
    fields.end()
    return mount


def _limits(fields: JsonFields) -> SandboxLimits:
    limits = SandboxLimits(
        memory_mib=fields.integer("memory_mib"),
        cpus=fields.number("cpus"),
        processes=fields.integer("processes"),
        temporary_mib=fields.integer("temporary_mib"),
        disk_mib=fields.integer_or_none("disk_mib"),
    )
    fields.end()
    return limits


def write_lifetime(terms: SandboxLifetime) -> Json:
    return {"timeout": terms.timeout, "idle_timeout": terms.idle_timeout, "owner": terms.owner}


def read_lifetime(fields: JsonFields) -> SandboxLifetime:
    terms = SandboxLifetime(
        timeout=fields.number_or_none("timeout"),
        idle_timeout=fields.number_or_none("idle_timeout"),
        owner=fields.text("owner"),
    )
    fields.end()
    return terms


# Commands -------------------------------------------------------------------------------------------


def write_command(command: Command) -> Json:
    """Every field but the input and the output limit, which the caller's side keeps."""
    return {
        "argv": list(command.argv),
        "cwd": command.cwd,
        "env": dict(command.env),
        "timeout": command.timeout,
        "grace": command.grace,
        "terminal": None if command.terminal is None else write_terminal(command.terminal),
    }


def read_command(fields: JsonFields, most_output: int) -> Command:
    terminal = fields.inner_or_none("terminal")
    command = Command(
        argv=fields.texts("argv"),
        cwd=fields.text_or_none("cwd"),
        env=fields.values("env"),
        timeout=fields.number_or_none("timeout"),
        grace=fields.number("grace"),
        terminal=None if terminal is None else read_terminal(terminal),
        most_output=most_output,
    )
    fields.end()
    return command


def write_terminal(terminal: Terminal) -> Json:
    return {"columns": terminal.columns, "rows": terminal.rows}


def read_terminal(fields: JsonFields) -> Terminal:
    terminal = Terminal(columns=fields.integer("columns"), rows=fields.integer("rows"))
    fields.end()
    return terminal


def write_result(result: ExecResult) -> Json:
    """Every field but the output, which was sent before."""
    return {"exit_code": result.exit_code, "duration": result.duration, "timed_out": result.timed_out}


def read_result(fields: JsonFields, stdout: bytes, stderr: bytes, *, truncated: bool) -> ExecResult:
    result = ExecResult(
        exit_code=fields.integer("exit_code"),
        stdout=stdout,
        stderr=stderr,
        duration=fields.number("duration"),
        timed_out=fields.is_true("timed_out"),
        truncated=truncated,
    )
    fields.end()
    return result


# State ----------------------------------------------------------------------------------------------


def write_info(info: Info) -> Json:
    return {
        "name": info.name,
        "image": info.image,
        "state": info.state,
        "profile": info.profile,
        "labels": dict(info.labels),
        "created": None if info.created is None else info.created.isoformat(),
        "exit_code": info.exit_code,
    }


def read_info(fields: JsonFields) -> Info:
    created = fields.text_or_none("created")
    info = Info(
        name=fields.text("name"),
        image=fields.text("image"),
        state=_lookup(_STATE_NAMES, fields.text("state")),
        profile=fields.text_or_none("profile"),
        labels=fields.values("labels"),
        created=None if created is None else _timestamp(created),
        exit_code=fields.integer_or_none("exit_code"),
    )
    fields.end()
    return info


def write_status(status: SandboxStatus) -> Json:
    return {
        "info": write_info(status.info),
        "terms": write_lifetime(status.terms),
        "left": status.left,
        "idle": status.idle,
    }


def read_status(fields: JsonFields) -> SandboxStatus:
    status = SandboxStatus(
        info=read_info(fields.inner("info")),
        terms=read_lifetime(fields.inner("terms")),
        left=fields.number_or_none("left"),
        idle=fields.number("idle"),
    )
    fields.end()
    return status


def write_event(event: Event) -> Json:
    return {"kind": event.kind, "sandbox": event.sandbox}


def read_event(fields: JsonFields) -> Event:
    event = Event(_lookup(_EVENT_KINDS, fields.text("kind")), fields.text("sandbox"))
    fields.end()
    return event


def write_preview(preview: Preview) -> Json:
    return {"sandbox": preview.sandbox, "port": preview.port, "url": preview.url}


def read_preview(fields: JsonFields) -> Preview:
    preview = Preview(fields.text("sandbox"), fields.integer("port"), fields.text("url"))
    fields.end()
    return preview


def write_about(about: FleetInfo) -> Json:
    return {
        "kind": about.kind,
        "why": about.why,
        "cautions": list(about.cautions),
        "audit": None if about.audit is None else str(about.audit),
        "runtime_dir": None if about.runtime_dir is None else str(about.runtime_dir),
    }


def read_about(fields: JsonFields) -> FleetInfo:
    about = FleetInfo(
        kind=fields.text("kind"),
        why=fields.text("why"),
        cautions=fields.texts("cautions"),
        audit=_path(fields.text_or_none("audit")),
        runtime_dir=_path(fields.text_or_none("runtime_dir")),
    )
    fields.end()
    return about


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _timestamp(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise protocol_error() from None


def _lookup[T](values: Mapping[str, T], text: str) -> T:
    if text not in values:
        raise protocol_error()
    return values[text]


# Errors cross the socket by code, and are raised as the same class with the same text.
def write_error(error: BaseException) -> dict[str, object]:
    """The error for the other side.

    An unexpected exception is reduced to its class name: its text may hold secrets.
    """
    if not isinstance(error, EgressError) or error.code not in _ERROR_CLASSES:
        error = FleetFaultError(
            f"the process that serves sandboxes failed ({type(error).__name__})", "see its log"
        )
    return {"code": error.code, "message": error.message, "hint": error.hint}


def read_error(fields: JsonFields) -> EgressError:
    """The error that was written there."""
    code, message, hint = fields.text("code"), fields.text("message"), fields.text("hint")
    fields.end()
    return _ERROR_CLASSES.get(code, FleetFaultError)(message, hint)


def _list_error_classes() -> Iterator[tuple[str, type[EgressError]]]:
    for module in (ours, of_runtimes, of_fleets):
        for each in vars(module).values():
            is_one = isinstance(each, type) and issubclass(each, EgressError)
            # A class without its own code is sent as its parent.
            if is_one and each.__module__ == module.__name__ and "code" in vars(each):
                yield each.code, each


_ERROR_CLASSES: Final[Mapping[str, type[EgressError]]] = dict(_list_error_classes())
