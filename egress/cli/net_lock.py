"""`egress net-lock`: lock the network of a pod whose proxy runs beside the workload."""

from __future__ import annotations

import os
from typing import Final

import click

from egress import environment
from egress.cli import render
from egress.cli.render import GOOD
from egress.errors import UsageError
from egress.kubernetes.sidecar_injection import PROXY_USER

POD_VARIABLE: Final = "KUBERNETES_SERVICE_HOST"
"""What every pod has, and a machine has not."""


@click.command("net-lock")
@click.option(
    "--proxy-user",
    default=PROXY_USER,
    type=click.IntRange(1, 2**31 - 1),
    metavar="NUMBER",
    help="The user that the proxy runs as, who alone may leave; 10001 by default.",
)
def net_lock(proxy_user: int) -> int:
    """Let only the proxy leave the network of this pod.

    Run it as the first init container of a pod whose proxy is a container beside the workload, as root and
    with the capability NET_ADMIN alone. Names, HTTP and HTTPS of everybody else are led to the proxy on
    127.0.0.1, and anything else is refused at once. It ends with an error if the lock cannot be set or does
    not hold, and then the pod does not start. Running it again replaces the lock.

    \b
    Examples:
      egress net-lock
      egress net-lock --proxy-user 20001
    """
    # Anywhere else it would cut a whole machine off, with everybody who works on it.
    if not environment.read_environment().get(POD_VARIABLE):
        raise UsageError(
            "this is no pod of a cluster, and the lock would cut this machine off",
            "run it as an init container: `egress k8s inject --sidecar` writes it",
        )
    if os.geteuid() == proxy_user:
        raise UsageError(
            "net-lock runs as the user of the proxy, so it could prove nothing",
            "run it as root with NET_ADMIN, or name another user with --proxy-user",
        )
    # Imported here: `--help` needs none of it.
    from egress.netlock.lock import lock_network

    lock_network(proxy_user)
    render.line(("the network is locked: ", GOOD), f"only user {proxy_user} leaves it")
    return 0
