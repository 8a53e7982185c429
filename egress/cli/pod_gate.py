"""`egress gate`: let nothing of a pod start before its network leads to the proxy alone."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Final

import click

from egress.cli import render
from egress.cli.render import GOOD, count
from egress.doctor.fence import MAX_ADDRESSES, FenceAddress, FencePlan, prove, read_address
from egress.errors import UsageError

_SERVED_PORTS: Final = (443, 53)
"""The ports of a gateway beside that of the proxy: transparent TLS, and names."""
_UID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")


@click.command()
@click.option(
    "--blocked",
    multiple=True,
    metavar="ADDRESS:PORT",
    help="An address that must not answer; repeat it. Name one that is sure to answer without the fence.",
)
@click.option("--proxy", multiple=True, metavar="ADDRESS:PORT", help="An address of the proxy; repeat it.")
@click.option(
    "--gateway",
    metavar="ADDRESS:PORT",
    help="The proxy of a cluster: has to answer here and on ports 443 and 53, and to know the pod.",
)
@click.option("--uid", metavar="UID", help="With --gateway: the UID of this pod, from the downward API.")
@click.option(
    "--trust",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A file that has to hold a certificate; repeat it.",
)
@click.option("--passes", default=3, type=click.IntRange(1, 100), help="Rounds in a row; 3 by default.")
@click.option(
    "--timeout",
    default=60.0,
    type=click.FloatRange(1, 3600),
    help="Give up after so many seconds; 60 by default.",
)
def gate(
    *,
    blocked: tuple[str, ...],
    proxy: tuple[str, ...],
    gateway: str | None,
    uid: str | None,
    trust: tuple[Path, ...],
    passes: int,
    timeout: float,
) -> int:
    """Wait until the network of this pod leads to the proxy and nowhere else.

    Run it as the first init container of a pod: nothing else starts before it has ended. Every round dials
    all addresses. Each blocked one has to refuse or to stay silent for half a second, and each address of the
    proxy has to answer within a second. A round begins while the one before may still wait for silence.
    With --gateway the proxy also has to know the pod of --uid at the address that it is asked from: then no
    connection of this pod is taken for one of a pod that had the address before.

    The command ends with status 0 after three such rounds in a row, and with status 1 when time is up. On
    port 53 a DNS query is sent by UDP to each blocked address, too.

    \b
    Examples:
      egress gate --blocked 10.96.0.1:443 --blocked 169.254.169.254:80 --proxy 10.96.0.92:3128
      egress gate --blocked 10.96.0.1:443 --gateway 10.96.0.92:3128 --uid "$POD_UID"
    """
    if not blocked or not (proxy or gateway):
        raise UsageError(
            "nothing to prove: `--blocked` and one of `--gateway` and `--proxy` are needed",
            "name at least one address that must not answer, and one of the proxy",
        )
    if bool(gateway) is not bool(uid) or (uid and not _UID.fullmatch(uid)):
        raise UsageError(
            "`--gateway` needs the UID of this pod, and `--uid` a gateway",
            "take it from the downward API: a variable with `fieldPath: metadata.uid`",
        )
    asked = read_address(gateway) if gateway else None
    served = [FenceAddress(asked.host, port) for port in (asked.port, *_SERVED_PORTS)] if asked else []
    addresses = (*served, *_addresses(proxy))
    if len(blocked) + len(addresses) > MAX_ADDRESSES:
        raise UsageError(f"more than {MAX_ADDRESSES} addresses", "name fewer")
    plan = FencePlan(_addresses(blocked), addresses, asked, uid or "", trust, passes, timeout=timeout)
    asyncio.run(prove(plan, lambda fault: render.line(f"waiting: {fault}", stderr=True)))
    render.line(
        ("the fence holds: ", GOOD),
        f"{', '.join(map(str, plan.blocked))} refused {count(passes, 'time')} in a row, "
        f"and the proxy answers at {', '.join(map(str, plan.proxy))}",
        " and knows this pod" if asked else "",
    )
    return 0


def _addresses(texts: tuple[str, ...]) -> tuple[FenceAddress, ...]:
    return tuple(read_address(text) for text in texts)
