"""`egress log archive`: write the log to standard output, for `egress log collect` to take."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from egress.cli.log import locations
from egress.errors import UnreadableError, UsageError, reason_of

MAX_KNOWN_BYTES: Final = 8 * 1024 * 1024


@click.command(short_help="Write the log to standard output, for `collect`.")
@locations.of_log
def archive(state_dir: Path | None, directory: Path | None) -> int:
    """Write a copy of the log to standard output: `egress log collect` runs it in the pods of a gateway.

    Standard input says which lines the other side has, as JSON; without any, everything is written. A proxy
    may go on writing meanwhile.

    \b
    Examples:
      egress log archive | wc -c
    """
    from egress.audit.log_copy import copied_parts, read_known, write_parts

    if sys.stdout.isatty():
        raise UsageError("a log is no text for a terminal", "send it to a file, or use `egress log tail`")
    folder = locations.folder(state_dir, directory)
    known = read_known(sys.stdin.buffer.read(MAX_KNOWN_BYTES))
    try:
        write_parts(copied_parts(folder, known), sys.stdout.buffer)
    except OSError as error:
        raise UnreadableError(
            f"the audit log in {folder} cannot be copied: {reason_of(error)}", "name its folder with --dir"
        ) from None
    return 0
