"""What the options of `egress run` and its kin ask for: the sandbox, its terms, its environment."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypedDict

import click

from egress.errors import UnreadableError, UsageError, reason_of
from egress.rules.language.quantities import parse_duration
from egress.rules.language.report import MeaningError
from egress.runtime import mounts
from egress.runtime.errors import SpecError
from egress.runtime.spec import WORKSPACE, Mount, SandboxLimits
from egress.sandbox.options import mib

type Command = Callable[..., int]


class SandboxOptions(TypedDict):
    """The options of `making`, as they were typed."""

    name: str | None
    image: str | None
    profile: str | None
    agent: str | None
    asked: tuple[str, ...]
    mounted: tuple[str, ...]
    workdir: str
    memory: str | None
    disk: str | None
    cpus: float | None
    processes: int | None
    read_only: bool
    timeout: str | None


def fresh_name() -> str:
    """A name that nobody has."""
    return f"run-{secrets.token_hex(4)}"


def read_mount(text: str) -> Mount:
    """Read FOLDER, FOLDER:PATH or FOLDER:PATH:rw. Raises `UsageError`, and `MountError` later."""
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if not source or mode not in ("", "ro", "rw"):
        raise UsageError(
            f"--mount {text[:200]} cannot be read",
            "write FOLDER:PATH, and :rw behind it where the sandbox may write: --mount .:/workspace:rw",
        )
    whole = Path(source).expanduser().absolute()
    return Mount(source=Path(os.path.normpath(whole)), target=target or WORKSPACE, writable=mode == "rw")


def checked_mount(text: str) -> Mount:
    """Read one as `read_mount` does, and see whether it is there, and may be seen by anybody at all.

    Raises `UsageError`, and `UnreadableError` where nothing is there.
    """
    shown = f"--mount {text[:200]}"
    try:
        mount = read_mount(text)
        mount.source.stat()
        mounts.check_mounts((mount,), ())
    except OSError as error:
        reason = reason_of(error)
        raise UnreadableError(f"{shown}: {reason}", "name a folder or a file that is there") from None
    except SpecError as error:
        message = error.message.replace("mounts.target", "what stands behind the colon")
        raise UsageError(f"{shown}: {message}", error.hint) from None
    return mount


@contextmanager
def named_by_option() -> Iterator[None]:
    """Tell what is wrong with a field as what is wrong with the option that it came by."""
    try:
        yield
    except SpecError as error:
        field, _, rest = error.message.partition(" ")
        option = _FIELDS.get(field)
        if option is None:
            raise
        unit = " MiB" if field.endswith("_mib") else ""
        raise UsageError(f"{option} {rest}", f"{error.hint}{unit}") from None


_FIELDS: Final = {
    "name": "--name",
    "image": "--image",
    "workdir": "--workdir",
    "runtime": "--runtime",
    "mounts.source": "--mount",
    "mounts.target": "--mount",
    "limits.memory_mib": "--memory",
    "limits.disk_mib": "--disk",
    "limits.cpus": "--cpus",
    "limits.processes": "--pids",
}


def read_seconds(option: str, text: str | None) -> float | None:
    """Read `90s`, `10m`, `2h`. Raises `UsageError`."""
    if text is None:
        return None
    try:
        return float(parse_duration(int(text) if text.isdecimal() else text))
    except MeaningError as error:
        raise UsageError(f"{option}: {error.message}", error.hint) from None


def read_mib(option: str, text: str | None, default: int) -> int:
    """Read `512 MiB`, `2GiB`, `2g`. Raises `UsageError`."""
    if text is None:
        return default
    try:
        return mib(option, text)
    except SpecError as error:
        raise UsageError(error.message, "write a number with its unit, such as 512MiB or 2g") from None


def limits(
    memory: str | None, cpus: float | None, processes: int | None, disk: str | None = None
) -> SandboxLimits:
    """The limits that were asked for, and the usual ones where nothing was."""
    usual = SandboxLimits()
    return SandboxLimits(
        memory_mib=read_mib("--memory", memory, usual.memory_mib),
        cpus=usual.cpus if cpus is None else cpus,
        processes=usual.processes if processes is None else processes,
        disk_mib=None if disk is None else read_mib("--disk", disk, 0),
    )


def add_options(command: Command) -> Command:
    """The options of whatever makes a sandbox."""
    for option in reversed(_MAKING):
        command = option(command)
    return command


_MAKING: Final = (
    click.option("--name", help="What it is called, here and in the log. [made up]"),
    click.option("--image", help="An image of the engine; for namespaces a folder, or `host`. [a small one]"),
    click.option("--profile", help="The profile of the rules that holds for it."),
    click.option("--agent", help="Set what a known tool needs: claude-code, codex, opencode."),
    click.option("--env", "asked", multiple=True, metavar="NAME[=VALUE]", help="A variable for it."),
    click.option(
        "--mount", "mounted", multiple=True, metavar="FOLDER[:PATH[:rw]]", help="A folder that it sees."
    ),
    click.option("--workdir", default=WORKSPACE, show_default=True, help="Where commands start."),
    click.option("--memory", metavar="SIZE", help="Memory at most. [2 GiB]"),
    click.option("--disk", metavar="SIZE", help="What it can write at most, in memory. [no bound]"),
    click.option("--cpus", type=float, help="Processors at most. [2]"),
    click.option("--pids", "processes", type=int, help="Processes at most. [1024]"),
    click.option("--read-only", is_flag=True, help="Let it write in its workspace and /tmp alone."),
    click.option("--timeout", metavar="TIME", help="End it after this time: 90s, 10m, 2h."),
)
