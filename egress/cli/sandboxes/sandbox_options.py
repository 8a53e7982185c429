"""Options of `egress run` and similar commands: the sandbox, its limits, its environment."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypedDict

import click
from click.core import ParameterSource

from egress.cli.sandboxes.agents import AGENTS
from egress.errors import UnreadableError, UsageError, reason_of
from egress.rules.language.quantities import parse_duration
from egress.rules.language.report import MeaningError
from egress.runtime import mount_check
from egress.runtime.errors import SpecError
from egress.runtime.spec import WORKSPACE, Mount, SandboxLimits
from egress.sandbox.options import mib

type Command = Callable[..., int]


class SandboxOptions(TypedDict):
    """The options of `add_options`, as typed."""

    name: str | None
    image: str | None
    profile: str | None
    params: tuple[str, ...]
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
    """Return an unused name."""
    return f"run-{secrets.token_hex(4)}"


def read_mount(text: str) -> Mount:
    """Parse FOLDER, FOLDER:PATH or FOLDER:PATH:rw. Raises `UsageError`; mounting may raise `MountError`."""
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if not source or mode not in ("", "ro", "rw"):
        raise UsageError(
            f"--mount {text[:200]} is not a mount",
            "write FOLDER:PATH, with :rw to make it writable: --mount .:/workspace:rw",
        )
    # Links stay as they are here: the check of mounts resolves them.
    whole = Path(source).expanduser().absolute()
    return Mount(source=Path(os.path.normpath(whole)), target=target or WORKSPACE, writable=mode == "rw")


def checked_mount(text: str) -> Mount:
    """Parse a mount like `read_mount`, and check that its source exists and may be mounted at all.

    Raises `UsageError`, and `UnreadableError` if the source is missing.
    """
    shown = f"--mount {text[:200]}"
    try:
        mount = read_mount(text)
        # Checked here, so that a typo is reported before a proxy is started.
        mount.source.stat()
        mount_check.check_mounts((mount,), ())
    except OSError as error:
        reason = reason_of(error)
        raise UnreadableError(f"{shown}: {reason}", "name an existing folder or file") from None
    except SpecError as error:
        message = error.message.replace("mounts.target", "the part after the colon")
        raise UsageError(f"{shown}: {message}", error.hint) from None
    return mount


@contextmanager
def named_by_option() -> Iterator[None]:
    """Report an error of a spec field as an error of its option."""
    try:
        yield
    except SpecError as error:
        field, _, rest = error.message.partition(" ")
        # A field without an option was not typed by the user, so its error stays as it is.
        option = _FIELDS.get(field)
        if option is None:
            raise
        # The hint of the spec counts in MiB, which the option's text does not show.
        unit = " MiB" if field.endswith("_mib") else ""
        raise UsageError(f"{option} {rest}", f"{error.hint}{unit}") from None


_FIELDS: Final = {
    "name": "--name",
    "image": "--image",
    "workdir": "--workdir",
    "runtime": "--runtime",
    "mounts.source": "--mount",
    "mounts.target": "--mount",
    "snapshot": "--snapshot",
    "on_idle": "--on-idle",
    "idle_timeout": "--idle-timeout",
    "limits.memory_mib": "--memory",
    "limits.disk_mib": "--disk",
    "limits.cpus": "--cpus",
    "limits.processes": "--pids",
}


def read_seconds(option: str, text: str | None) -> float | None:
    """Parse `90s`, `10m`, `2h`. Raises `UsageError`."""
    if text is None:
        return None
    try:
        # Bare numbers are seconds here, as in rule files.
        return float(parse_duration(int(text) if text.isdecimal() else text))
    except MeaningError as error:
        raise UsageError(f"{option}: {error.message}", error.hint) from None


def read_mib(option: str, text: str | None, default: int) -> int:
    """Parse `512 MiB`, `2GiB`, `2g`. Raises `UsageError`."""
    if text is None:
        return default
    try:
        return mib(option, text)
    except SpecError as error:
        raise UsageError(error.message, "write a number with its unit, such as 512MiB or 2g") from None


def limits(
    memory: str | None, cpus: float | None, processes: int | None, disk: str | None = None
) -> SandboxLimits:
    """Return the requested limits, with defaults for the others."""
    usual = SandboxLimits()
    return SandboxLimits(
        memory_mib=read_mib("--memory", memory, usual.memory_mib),
        cpus=usual.cpus if cpus is None else cpus,
        processes=usual.processes if processes is None else processes,
        disk_mib=None if disk is None else read_mib("--disk", disk, 0),
    )


def add_options(command: Command) -> Command:
    """Add the options of commands that create a sandbox."""
    for option in reversed(_MAKING):
        command = option(command)
    return command


_FOR_ANY: Final = frozenset({"sandbox", "runtime_dir", "state_dir"})
"""Options that also apply to an existing sandbox."""


def refuse_for_existing(*more: str) -> None:
    """Raise `UsageError` for options about creating a sandbox: it exists already. `more` apply as well."""
    context = click.get_current_context()
    for each in context.command.params:
        # Asked of click, because a default looks like a typed value.
        is_given = context.get_parameter_source(each.name or "") is ParameterSource.COMMANDLINE
        if is_given and each.name not in {*_FOR_ANY, *more}:
            raise UsageError(
                f"{each.opts[0]} applies only to a new sandbox",
                "remove the option, or the name of the sandbox",
            )


_MAKING: Final = (
    click.option("--name", help="Name of the sandbox, here and in the log. [random]"),
    click.option("--image", help="An image of the engine; for namespaces a folder, or `host`. [a small one]"),
    click.option("--profile", help="Profile of the rules for the sandbox."),
    click.option(
        "--param",
        "params",
        multiple=True,
        metavar="NAME=VALUE",
        help="Value of the sandbox for a parameter of the rules.",
    ),
    click.option("--agent", help=f"Image, variables and rules for a known tool: {', '.join(AGENTS)}."),
    click.option(
        "--env", "asked", multiple=True, metavar="NAME[=VALUE]", help="Environment variable for the sandbox."
    ),
    click.option(
        "--mount",
        "mounted",
        multiple=True,
        metavar="FOLDER[:PATH[:rw]]",
        help="Mount a folder, read-only without :rw.",
    ),
    click.option("--workdir", default=WORKSPACE, show_default=True, help="Working folder of commands."),
    click.option("--memory", metavar="SIZE", help="Memory limit. [2 GiB]"),
    click.option(
        "--disk", metavar="SIZE", help="Limit on written data, which is kept in memory. [unlimited]"
    ),
    click.option("--cpus", type=float, help="CPU limit. [2]"),
    click.option("--pids", "processes", type=int, help="Process limit. [1024]"),
    click.option("--read-only", is_flag=True, help="Make everything but the workspace and /tmp read-only."),
    click.option("--timeout", metavar="TIME", help="Time limit: 90s, 10m, 2h."),
)
