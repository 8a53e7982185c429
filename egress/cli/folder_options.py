"""The options for folders of a proxy: `--state-dir` and `--runtime-dir` mean the same on every command."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from egress import environment
from egress.proxy import setting_texts

type Command = Callable[..., int]

FILE: Final = click.Path(path_type=Path, readable=False)
"""A path as typed. With `readable`, click would report an unreadable file as a wrong command line."""
state_dir: Final = click.option("--state-dir", type=FILE, metavar="FOLDER", help=setting_texts.STATE_DIR)
runtime_dir: Final = click.option(
    "--runtime-dir", type=FILE, metavar="FOLDER", help=setting_texts.RUNTIME_DIR
)


def of_running(command: Command) -> Command:
    """Add the options that say which running process is meant; the command gets `runtime_dir`."""

    @functools.wraps(command)
    def located(*words: object, runtime_dir: Path | None, state_dir: Path | None, **given: object) -> int:
        return command(*words, runtime_dir=runtime_dir or runtime_dir_in(state_dir), **given)

    return runtime_dir(state_dir(located))


def runtime_dir_in(state: Path | None) -> Path | None:
    """Return the runtime folder of a proxy with this state folder; None for the usual one."""
    return None if state is None else environment.runtime_dir(with_state_dir(state))


def with_state_dir(state: Path | None) -> dict[str, str]:
    """Return the environment with another state folder, as `egress serve` takes `--state-dir`."""
    environ = dict(environment.read_environment())
    return environ if state is None else {**environ, "EGRESS_STATE_DIR": str(state)}
