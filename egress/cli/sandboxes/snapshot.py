"""`egress snapshot`: keep the files of sandboxes under names, and delete them."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from egress.cli import folder_options, progress, render
from egress.cli.render import DIM
from egress.cli.sandboxes import fleet_session
from egress.fleet.protocol import Snapshot, SnapshotKind


@click.group()
def snapshot() -> None:
    """Keep the files of sandboxes under names.

    \b
    Examples:
      egress snapshot create run-4f2a9c1e with-packages
      egress snapshot list
    """


@snapshot.command(short_help="Keep the files of a sandbox under a name.")
@folder_options.of_running
@click.option(
    "--kind",
    type=click.Choice(get_args(SnapshotKind)),
    default="workspace",
    show_default=True,
    help="The workspace, or the whole file system of a container.",
)
@click.argument("sandbox")
@click.argument("name")
def create(runtime_dir: Path | None, kind: SnapshotKind, sandbox: str, name: str) -> int:
    """Keep the files of a sandbox of `egress up` under a name.

    `egress run --snapshot NAME` begins with them.

    \b
    Examples:
      egress snapshot create run-4f2a9c1e with-packages
      egress snapshot create --kind image run-4f2a9c1e with-tools
    """
    with (
        fleet_session.connect_served(runtime_dir) as fleet,
        progress.step(f"keeping the files of {sandbox}"),
    ):
        done = fleet.snapshot(sandbox, name, kind)
    render.line(f"kept {done.name}: {progress.size_text(done.size)}")
    return 0


@snapshot.command("list", short_help="List snapshots.")
@folder_options.of_running
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def list_(runtime_dir: Path | None, as_json: bool) -> int:
    """List the snapshots of this user.

    \b
    Examples:
      egress snapshot list
      egress snapshot list --json
    """
    with fleet_session.connect_served(runtime_dir) as fleet:
        found = fleet.snapshots()
    if as_json:
        render.data([_as_data(each) for each in found])
    elif found:
        heads = ("snapshot", "kind", "size", "made", "sandbox", "image")
        render.table([[(text, DIM) for text in heads], *([*_row(each)] for each in found)])
    else:
        render.line("no snapshots")
    return 0


@snapshot.command(short_help="Delete snapshots.")
@folder_options.of_running
@click.argument("names", nargs=-1, required=True)
def rm(runtime_dir: Path | None, names: tuple[str, ...]) -> int:
    """Delete snapshots. Sandboxes that began with them keep their files.

    \b
    Examples:
      egress snapshot rm with-packages
    """
    with fleet_session.connect_served(runtime_dir) as fleet:
        for name in names:
            fleet.delete_snapshot(name)
            render.line(f"deleted {name}")
    return 0


def _row(each: Snapshot) -> tuple[str, ...]:
    made = f"{each.created:%Y-%m-%d %H:%M}Z"
    return (each.name, each.kind, progress.size_text(each.size), made, each.sandbox, each.image)


def _as_data(each: Snapshot) -> dict[str, object]:
    return {
        "name": each.name,
        "kind": each.kind,
        "size": each.size,
        "created": each.created.isoformat(),
        "sandbox": each.sandbox,
        "image": each.image,
        "saved_image": each.saved_image or None,
        "digest": each.digest,
    }
