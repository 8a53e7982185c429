"""The option that names a file of handlers, and the ways to use it without a proxy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from egress.cli import folder_options

if TYPE_CHECKING:
    from egress.handlers.caller import HandlerCaller

of_handlers: Final = click.option(
    "--handlers",
    type=folder_options.FILE,
    help="File with the handlers, which are run in a process of their own.",
)


def with_handlers[T](path: Path, work: Callable[[HandlerCaller], Awaitable[T]]) -> T:
    """Load a file of handlers, do something with it, and end its process. Raises `EgressError`."""
    from egress.handlers.opening import open_handlers

    file = path.absolute()

    async def run() -> T:
        caller = await open_handlers(file, in_process=False)
        try:
            return await work(caller)
        finally:
            await caller.close()

    return asyncio.run(run())
