"""Options of commands that open sandboxes: where they are served, and how a proxy of their own is started."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from egress.cli import folder_options
from egress.cli.folder_options import FILE
from egress.proxy import setting_texts

type Command = Callable[..., int]


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """The options as typed."""

    rules: tuple[Path, ...] = ()
    runtime: str | None = None
    runtime_dir: Path | None = None
    state_dir: Path | None = None
    audit_dir: Path | None = None
    handlers: Path | None = None
    upstream_ca: tuple[Path, ...] = ()
    resolve: tuple[str, ...] = ()
    seccomp: Path | None = None

    @property
    def proxy_options(self) -> tuple[str, ...]:
        """Options for the proxy, besides those for its rules and folders."""
        return (
            *([f"--handlers={self.handlers.absolute()}"] if self.handlers else ()),
            *(f"--upstream-ca={path}" for path in self.upstream_ca),
            *(f"--resolve={text}" for text in self.resolve),
        )

    @property
    def words(self) -> tuple[str, ...]:
        """All of these options but the runtime folder, for another process with this working folder."""
        return tuple(self._words())

    @property
    def are_own(self) -> bool:
        """Whether only a proxy of this process can have them, apart from a kind of sandboxes."""
        return bool(self.rules or self.audit_dir or self.seccomp or self.proxy_options)

    def _words(self) -> Iterator[str]:
        yield from (f"--rules={path}" for path in self.rules)
        for flag, value in (
            ("--runtime", self.runtime),
            ("--state-dir", self.state_dir),
            ("--audit-dir", self.audit_dir),
            ("--seccomp", self.seccomp),
        ):
            if value:
                yield f"{flag}={value}"
        yield from self.proxy_options


def add_options(command: Command) -> Command:
    """Add the options; the command gets them as `source`."""

    @functools.wraps(command)
    def opened(*words: object, **given: object) -> int:
        own = {name: given.pop(name) for name in FleetOptions.__dataclass_fields__}
        return command(*words, source=FleetOptions(**own), **given)  # type: ignore[arg-type]

    for option in reversed(_OPTIONS):
        opened = option(opened)
    return opened


_OPTIONS: Final = (
    click.option("--rules", type=FILE, multiple=True, metavar="PATH", help=setting_texts.RULES),
    click.option(
        "--runtime",
        metavar="KIND",
        help="docker, namespace, kubernetes, or a runtime of the engine: runsc. [docker where it answers]",
    ),
    click.option(
        "--seccomp",
        type=FILE,
        metavar="FILE",
        help="Seccomp profile for containers, instead of the engine's default.",
    ),
    click.option("--handlers", type=FILE, metavar="FILE", help=setting_texts.HANDLERS),
    click.option("--upstream-ca", type=FILE, multiple=True, metavar="FILE", help=setting_texts.UPSTREAM_CA),
    click.option("--resolve", multiple=True, metavar="NAME=ADDRESS", help=setting_texts.RESOLVE),
    folder_options.state_dir,
    click.option("--audit-dir", type=FILE, metavar="FOLDER", help=setting_texts.AUDIT_DIR),
    folder_options.runtime_dir,
)
