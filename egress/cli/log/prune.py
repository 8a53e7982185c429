"""`egress log prune`: delete old lines."""

from __future__ import annotations

import os
import pwd
import re
from pathlib import Path

import click

from egress.cli import folder_options, render
from egress.cli.log import filter_options, locations
from egress.cli.render import DIM, GOOD, count
from egress.errors import UsageError

_SIZE = re.compile(r"([0-9]{1,12})\s*([kMGT]?)i?B?")
_UNITS = {"": 1, "k": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


@click.command(short_help="Delete old files of the log, and keep the chain.")
@click.option(
    "--older-than",
    metavar="MOMENT",
    default="",
    help="Delete files whose lines are all older: `30d`, or a day.",
)
@click.option(
    "--keep-files", type=click.IntRange(1, 1_000_000), metavar="NUMBER", help="Keep at most this many files."
)
@click.option("--keep-size", metavar="SIZE", default="", help="Keep at most this size, such as `10G`.")
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("--force", is_flag=True, help="Delete even if the log fails verification.")
@click.option("--key", type=folder_options.FILE, metavar="FILE", help="The key of the log.")
@locations.of_log
def prune(
    older_than: str,
    keep_files: int | None,
    keep_size: str,
    dry_run: bool,
    force: bool,
    key: Path | None,
    state_dir: Path | None,
    directory: Path | None,
) -> int:
    """Delete the oldest files of the audit log; the rest can still be verified.

    Deletes whole files, never the newest. A log that fails verification is evidence, and is only pruned with
    --force. The proxy may run meanwhile. A line of the log records who deleted what.

    \b
    Examples:
      egress log prune --older-than 30d --dry-run
      egress log prune --keep-size 10G
    """
    from egress.proxy.clock import SystemClock
    from egress.review import pruning

    keep = pruning.Retention(
        filter_options.moment(older_than, "--older-than"), keep_files or 0, _size(keep_size)
    )
    folder, file = locations.folder_and_key(state_dir, directory, key)
    known = locations.read_key(file, folder)
    clock = SystemClock()
    now = clock.now_ns() // 1000
    # Verifies first: pruning a damaged log would destroy the evidence of the damage.
    found = pruning.prune(folder, known, keep, by=_user(), now=now, is_trial=dry_run, is_forced=force)
    what = "would be deleted" if dry_run else "deleted"
    for name in found.files:
        render.line((f"{what}: ", DIM), name)
    total = f"{count(len(found.files), 'file')} {what}, {found.size} bytes"
    render.line(("ok ", GOOD), f"{total}; the log begins with {found.first}, {found.kept} bytes")
    # The line comes from the only writer of the log: a running proxy, or this command if none runs.
    if found.files and not dry_run and not pruning.record_pruning(folder, known, clock):
        render.line(("note: ", DIM), "the next start of the proxy records the deletion in the log")
    return 0


def _user() -> str:
    """Return the name of the current user."""
    number = os.getuid()
    try:
        # The name behind the real id: variables such as USER can be set to anything.
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text.strip()) if text else None
    if text and found is None:
        raise UsageError("--keep-size: not a size", "use a size such as 500M or 10G")
    return int(found[1]) * _UNITS[found[2]] if found else 0
