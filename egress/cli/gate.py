"""`egress gate`: let nothing of a pod start before its network leads to the proxy alone."""

from __future__ import annotations

import asyncio

import click

from egress.cli import render
from egress.cli.render import GOOD, count
from egress.doctor.fence import MAX_ADDRESSES, FenceAddress, FencePlan, prove, read_address
from egress.errors import UsageError


@click.command()
@click.option(
    "--blocked",
    multiple=True,
    metavar="ADDRESS:PORT",
    help="An address that must not answer; repeat it. Name one that is sure to answer without the fence.",
)
@click.option("--proxy", multiple=True, metavar="ADDRESS:PORT", help="An address of the proxy; repeat it.")
@click.option("--passes", default=3, type=click.IntRange(1, 100), help="Rounds in a row; 3 by default.")
@click.option(
    "--timeout",
    default=60.0,
    type=click.FloatRange(1, 3600),
    help="Give up after so many seconds; 60 by default.",
)
def gate(blocked: tuple[str, ...], proxy: tuple[str, ...], passes: int, timeout: float) -> int:
    """Wait until the network of this pod leads to the proxy and nowhere else.

    Run it as the first init container of a pod: nothing else starts before it has ended. Every round dials
    all addresses. Each blocked one has to refuse or stay silent, and each address of the proxy has to answer.
    The command ends with status 0 after three such rounds in a row, and with status 1 when time is up. On
    port 53 a DNS query is sent by UDP too.

    \b
    Examples:
      egress gate --blocked 10.96.0.1:443 --blocked 169.254.169.254:80 --proxy 10.96.0.92:3128
    """
    if not blocked or not proxy:
        raise UsageError(
            "nothing to prove: `--blocked` and `--proxy` are both needed",
            "name at least one address that must not answer, and one of the proxy",
        )
    if len(blocked) + len(proxy) > MAX_ADDRESSES:
        raise UsageError(f"more than {MAX_ADDRESSES} addresses", "name fewer")
    plan = FencePlan(_addresses(blocked), _addresses(proxy), passes, timeout=timeout)
    asyncio.run(prove(plan, lambda fault: render.line(f"waiting: {fault}", stderr=True)))
    render.line(
        ("the fence holds: ", GOOD),
        f"{', '.join(map(str, plan.blocked))} refused {count(passes, 'time')} in a row, "
        f"and the proxy answers at {', '.join(map(str, plan.proxy))}",
    )
    return 0


def _addresses(texts: tuple[str, ...]) -> tuple[FenceAddress, ...]:
    return tuple(read_address(text) for text in texts)
