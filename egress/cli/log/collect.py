"""`egress log collect`: the logs of several replicas in one folder, to be verified and read as one log."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from egress.cli import folder_options, render
from egress.cli.log import locations
from egress.cli.render import GOOD, count
from egress.errors import UnreadableError, UsageError, reason_of

if TYPE_CHECKING:
    from egress.audit.log_collection import LogCollection

FOLLOW_SECONDS: Final = 5.0
type TakeAll = Callable[[LogCollection], dict[str, int]]
"""Takes what is new of each replica, and returns the bytes by replica."""


@click.command(short_help="Copy the logs of several replicas into one log.")
@click.argument("out", type=folder_options.FILE)
@click.argument("logs", nargs=-1, type=folder_options.FILE, metavar="[LOG...]")
@click.option("--kubernetes", is_flag=True, help="From the pods of a gateway in a cluster.")
@click.option("--namespace", "-n", default="", metavar="NAME", help="Namespace of the gateway.")
@click.option(
    "--key", required=True, type=folder_options.FILE, metavar="FILE", help="The key that all replicas have."
)
@click.option("-f", "--follow", is_flag=True, help="Take new lines every few seconds until Ctrl-C.")
def collect(
    out: Path, logs: tuple[Path, ...], kubernetes: bool, namespace: str, key: Path, follow: bool
) -> int:
    """Copy the logs of several replicas into the folder OUT, which is then one log.

    LOG is the folder of a log. With --kubernetes the logs are those of the gateway's pods, and the key is
    taken from its Secret where FILE is not there yet. Running it again takes only new lines. Every line stays
    as it was written, so `egress log verify` proves each chain, and a missing one is noticed.

    \b
    Examples:
      egress log collect agents/log --kubernetes -n agents --key agents/audit.key
      egress log verify --dir agents/log --key agents/audit.key
      egress ui --dir agents/log
      egress log collect both one/audit two/audit --key audit.key
    """
    from egress.audit.log_collection import LogCollection

    if bool(logs) == kubernetes:
        raise UsageError(
            "the logs are either folders or those of a cluster", "name folders, or give --kubernetes"
        )
    take = _cluster(namespace, key) if kubernetes else _folders(logs)
    secret = locations.read_key(key, out)
    while True:
        try:
            collection = LogCollection(out)
            taken = take(collection)
            collection.finish(secret)
        except OSError as error:
            raise UnreadableError(
                f"the logs cannot be copied to {out}: {reason_of(error)}", "free space there, or name another"
            ) from None
        if any(taken.values()) or not follow:
            told = ", ".join(f"{count(size, 'byte')} of {name}" for name, size in taken.items())
            render.line(("ok ", GOOD), f"{out}: {told}")
        if not follow:
            return 0
        time.sleep(FOLLOW_SECONDS)


def _folders(logs: tuple[Path, ...]) -> TakeAll:
    from egress.audit.log_copy import copied_parts

    def take(collection: LogCollection) -> dict[str, int]:
        names = {str(log.resolve()): log for log in logs}
        return {
            name: collection.take(name, copied_parts(log, collection.known(name)))
            for name, log in names.items()
        }

    return take


def _cluster(namespace: str, key: Path) -> TakeAll:
    from egress import environment
    from egress.cluster.cluster_choice import choose_cluster
    from egress.review.replica_log_download import ReplicaLogs

    gateway = ReplicaLogs(choose_cluster(environment.read_environment(), namespace=namespace))
    gateway.keep_key(key)
    return gateway.take_all
