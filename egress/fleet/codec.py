"""Values of a runtime as JSON, and back: what one side writes the other reads as the same.

Reading checks as making does: a value that cannot be is refused with the error that says so.
"""

# ruff: noqa: D103 - what each function writes or reads is its name

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from egress.fleet.fields import Fields
from egress.fleet.protocol import About, Preview, Standing
from egress.fleet.terms import Terms
from egress.fleet.wire import wrong
from egress.runtime.spec import (
    Command,
    Event,
    EventKind,
    ExecResult,
    Info,
    Limits,
    Mount,
    Spec,
    State,
    Terminal,
)

Json = dict[str, object]

_STATES: Final[Mapping[str, State]] = {
    "created": "created", "running": "running", "paused": "paused", "stopped": "stopped"
}  # fmt: skip
_EVENTS: Final[Mapping[str, EventKind]] = {
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


def read_spec(fields: Fields) -> Spec:
    spec = Spec(
        name=fields.text("name"),
        image=fields.text("image"),
        profile=fields.text_or_none("profile"),
        user=fields.whole("user"),
        group=fields.whole("group"),
        workdir=fields.text("workdir"),
        env=fields.values("env"),
        mounts=tuple(_mount(each) for each in fields.inners("mounts")),
        limits=_limits(fields.inner("limits")),
        read_only=fields.is_true("read_only"),
        ports=fields.wholes("ports"),
        labels=fields.values("labels"),
    )
    fields.end()
    return spec


def _mount(fields: Fields) -> Mount:
    mount = Mount(
        source=Path(fields.text("source")), target=fields.text("target"), writable=fields.is_true("writable")
    )
    fields.end()
    return mount


def _limits(fields: Fields) -> Limits:
    limits = Limits(
        memory_mib=fields.whole("memory_mib"),
        cpus=fields.number("cpus"),
        processes=fields.whole("processes"),
        temporary_mib=fields.whole("temporary_mib"),
        disk_mib=fields.whole_or_none("disk_mib"),
    )
    fields.end()
    return limits


def write_terms(terms: Terms) -> Json:
    return {"timeout": terms.timeout, "idle_timeout": terms.idle_timeout, "owner": terms.owner}


def read_terms(fields: Fields) -> Terms:
    terms = Terms(
        timeout=fields.number_or_none("timeout"),
        idle_timeout=fields.number_or_none("idle_timeout"),
        owner=fields.text("owner"),
    )
    fields.end()
    return terms


# Commands -------------------------------------------------------------------------------------------


def write_command(command: Command) -> Json:
    """All but its input and the bytes that are kept, which are the business of whoever asks."""
    return {
        "argv": list(command.argv),
        "cwd": command.cwd,
        "env": dict(command.env),
        "timeout": command.timeout,
        "grace": command.grace,
        "terminal": None if command.terminal is None else write_terminal(command.terminal),
    }


def read_command(fields: Fields, most_output: int) -> Command:
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


def read_terminal(fields: Fields) -> Terminal:
    terminal = Terminal(columns=fields.whole("columns"), rows=fields.whole("rows"))
    fields.end()
    return terminal


def write_result(result: ExecResult) -> Json:
    """All but its output, which went before."""
    return {"exit_code": result.exit_code, "duration": result.duration, "timed_out": result.timed_out}


def read_result(fields: Fields, stdout: bytes, stderr: bytes, *, truncated: bool) -> ExecResult:
    result = ExecResult(
        exit_code=fields.whole("exit_code"),
        stdout=stdout,
        stderr=stderr,
        duration=fields.number("duration"),
        timed_out=fields.is_true("timed_out"),
        truncated=truncated,
    )
    fields.end()
    return result


# What there is --------------------------------------------------------------------------------------


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


def read_info(fields: Fields) -> Info:
    created = fields.text_or_none("created")
    info = Info(
        name=fields.text("name"),
        image=fields.text("image"),
        state=_known(_STATES, fields.text("state")),
        profile=fields.text_or_none("profile"),
        labels=fields.values("labels"),
        created=None if created is None else _moment(created),
        exit_code=fields.whole_or_none("exit_code"),
    )
    fields.end()
    return info


def write_standing(standing: Standing) -> Json:
    return {
        "info": write_info(standing.info),
        "terms": write_terms(standing.terms),
        "left": standing.left,
        "idle": standing.idle,
    }


def read_standing(fields: Fields) -> Standing:
    standing = Standing(
        info=read_info(fields.inner("info")),
        terms=read_terms(fields.inner("terms")),
        left=fields.number_or_none("left"),
        idle=fields.number("idle"),
    )
    fields.end()
    return standing


def write_event(event: Event) -> Json:
    return {"kind": event.kind, "sandbox": event.sandbox}


def read_event(fields: Fields) -> Event:
    event = Event(_known(_EVENTS, fields.text("kind")), fields.text("sandbox"))
    fields.end()
    return event


def write_preview(preview: Preview) -> Json:
    return {"sandbox": preview.sandbox, "port": preview.port, "url": preview.url}


def read_preview(fields: Fields) -> Preview:
    preview = Preview(fields.text("sandbox"), fields.whole("port"), fields.text("url"))
    fields.end()
    return preview


def write_about(about: About) -> Json:
    return {
        "kind": about.kind,
        "why": about.why,
        "cautions": list(about.cautions),
        "audit": None if about.audit is None else str(about.audit),
        "runtime_dir": None if about.runtime_dir is None else str(about.runtime_dir),
    }


def read_about(fields: Fields) -> About:
    about = About(
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


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise wrong() from None


def _known[T](values: Mapping[str, T], text: str) -> T:
    if text not in values:
        raise wrong()
    return values[text]
