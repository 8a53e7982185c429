"""Class 22: one sandbox cannot use up the door, whatever it opens, sends, or does not send.

S-65 (idle tunnels), half-open connections, endless heads, slow heads and hellos, clients that do not
read. Times are short here, and only ever waited for: no test measures one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from egress.proxy.ingress.limits import IngressLimits
from egress.shares.pool import DEFAULT_CAPACITIES, Capacity, SharePool
from tests.unit.proxy.hellos import real
from tests.unit.proxy.ingress_fixture import (
    CARRIED,
    QUICK,
    Call,
    FakeEngine,
    IngressFixture,
    code,
    connect,
    get,
    status,
)

API = "api.example.com"
TUNNEL = connect(f"{API}:443")
SHORT = 0.05
NEVER = 3600.0


PATIENT = replace(QUICK, first_byte=NEVER, head_time=NEVER, hello_time=NEVER)
"""Ends nothing by time but what a test names."""


@pytest.fixture(name="steps")
def doorsteps() -> Iterator[list[IngressFixture]]:
    steps: list[IngressFixture] = []
    yield steps
    for step in steps:
        step.close()
        assert "internal" not in step.codes


def door(
    steps: list[IngressFixture], bounds: IngressLimits, clients: Capacity = DEFAULT_CAPACITIES[0]
) -> IngressFixture:
    steps.append(IngressFixture(FakeEngine(pool=SharePool(clients=clients)), bounds))
    return steps[-1]


async def is_served(step: IngressFixture, sandbox: str = "box") -> bool:
    """Whether a well-behaved client of this sandbox gets through now."""
    return (await step.ask(TUNNEL, real(API), listener=step.listener(sandbox=sandbox))).endswith(b"full")


# Too many ---------------------------------------------------------------------------------------


async def test_idle_tunnels_of_one_sandbox_leave_the_others_their_places(steps: list[IngressFixture]) -> None:
    """S-65: so many and no more; another sandbox is served; a place that is left is a place again."""
    step = door(steps, PATIENT, Capacity(8192, 20))
    step.full.held = asyncio.Event()
    calls = [step.call() for _ in range(60)]
    for call in calls:
        await call.send(TUNNEL + real(API))
    for call in calls[20:]:
        assert code(await call.rest()) == "limit.connections"
    for call in calls[:20]:
        assert await call.read()
    assert step.codes == ["limit.connections"] * 40
    assert step.door.connections("box") == 20
    step.full.held.set()
    assert await is_served(step, "other")
    for call in calls[:20]:
        await call.hang_up()
    assert step.door.connections("box") == 0
    assert await is_served(step)


async def test_all_sandboxes_together_have_a_bound_too(steps: list[IngressFixture]) -> None:
    # Beside four of theirs, a third connection of one of two sandboxes would be more than is left.
    step = door(steps, PATIENT, Capacity(6, 6))
    calls = [step.call(step.listener(sandbox=name)) for name in ("box", "other") * 2]
    await asyncio.sleep(0)
    assert code(await step.ask(TUNNEL)) == "limit.connections"
    for call in calls:
        await call.hang_up()
    assert await is_served(step)


async def test_connections_that_the_rules_bound_are_counted_until_their_end(
    steps: list[IngressFixture],
) -> None:
    step = door(steps, PATIENT)
    first, second = connect("few.example.com:443"), real("few.example.com")
    call = step.call()
    await call.send(first)
    assert status(await call.read()) == 200
    answer = await step.ask(first)
    assert (status(answer), code(answer)) == (429, "limit.connections")
    await call.send(second)
    assert await call.rest() == CARRIED + b"full"
    assert (await step.ask(first, second)).endswith(b"full")
    assert step.codes == ["limit.connections"]


async def test_a_refused_connection_leaves_no_count_behind(steps: list[IngressFixture]) -> None:
    step = door(steps, PATIENT)
    for _ in range(3):
        await step.ask(connect("few.example.com:443"), b"SSH-2.0-x\r\n")
    assert step.codes == ["protocol.refused"] * 3
    assert (await step.ask(connect("few.example.com:443"), real("few.example.com"))).endswith(b"full")


# Too slow ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["proxy", "transparent"])
async def test_connections_that_say_nothing_are_closed(steps: list[IngressFixture], kind: str) -> None:
    step = door(steps, replace(PATIENT, first_byte=SHORT))
    listener = step.listener("proxy" if kind == "proxy" else "transparent", 443)
    calls = [step.call(listener) for _ in range(200)]
    for call in calls:
        assert await call.rest() == b""
    assert step.codes == ["request.timeout"] * 200
    assert step.door.connections("box") == 0


async def test_a_tunnel_in_which_nothing_is_said_is_closed(steps: list[IngressFixture]) -> None:
    step = door(steps, replace(PATIENT, first_byte=SHORT))
    assert status(await step.ask(TUNNEL, ends=False)) == 200
    assert step.codes == ["request.timeout"]
    assert step.last.host == API


async def drip(call: Call, data: bytes) -> None:
    """Send byte after byte, then go on with the last one, for as long as the other side takes them."""
    position = 0
    while await call.send(data[position : position + 1]):
        position = min(position + 1, len(data) - 1)
        await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("port", "bounds", "data"),
    [
        (3128, replace(PATIENT, head_time=SHORT), TUNNEL[:-4] + b"x"),
        (3128, replace(PATIENT, head_time=SHORT), b"GET http://plain.example.com/a"),
        (80, replace(PATIENT, head_time=SHORT), get("/", "plain.example.com")[:-4] + b"x"),
        (443, replace(PATIENT, hello_time=SHORT), real(API)[:-1] + b""),
    ],
)
async def test_a_head_that_comes_too_slowly_is_cut(
    steps: list[IngressFixture], port: int, bounds: IngressLimits, data: bytes
) -> None:
    """Slowloris: each byte in time does not make the whole in time."""
    step = door(steps, bounds)
    call = step.call(step.listener("proxy" if port == 3128 else "transparent", port))
    sending = asyncio.create_task(drip(call, data[:200]))
    answer = await call.rest()
    await sending
    assert step.codes == ["request.timeout"]
    assert status(answer) == (0 if port == 443 else 408)


async def test_a_slow_hello_inside_a_tunnel_is_cut(steps: list[IngressFixture]) -> None:
    step = door(steps, replace(PATIENT, hello_time=SHORT))
    call = step.call()
    await call.send(TUNNEL + real(API)[:100])
    assert (await call.rest()).startswith(b"HTTP/1.1 200 ")
    assert step.codes == ["request.timeout"]


async def test_control_a_client_that_takes_its_time_is_served(steps: list[IngressFixture]) -> None:
    step = door(steps, PATIENT)
    call = step.call()
    for byte in TUNNEL + real(API):
        await call.send(bytes([byte]))
        await asyncio.sleep(0)
    assert (await call.rest()).endswith(b"full")


# Too much ---------------------------------------------------------------------------------------


async def pour(call: Call, begin: bytes, piece: bytes, most: int) -> int:
    """Send until the other side takes no more; return how much it took."""
    await call.send(begin)
    sent = len(begin)
    while sent < most and await call.send(piece):
        sent += len(piece)
    return sent


@pytest.mark.parametrize(
    ("begin", "piece", "expected"),
    [
        (TUNNEL[:-2], b"X-A: " + b"a" * 1000 + b"\r\n", 431),
        (TUNNEL[:-2] + b"X-A: ", b"a" * 1000, 431),
        (b"GET http://plain.example.com/", b"a" * 1000, 414),
        (b"CONNECT ", b"a" * 1000, 414),
    ],
)
async def test_a_head_without_an_end_is_cut(
    steps: list[IngressFixture], begin: bytes, piece: bytes, expected: int
) -> None:
    """64 MiB of head: what is taken is what is bounded, and what the system buffers."""
    step = door(steps, PATIENT)
    call = step.call()
    sending = asyncio.create_task(pour(call, begin, piece, 64 << 20))
    answer = await call.rest()
    assert await sending < 4 << 20
    assert status(answer) in (expected, 0)
    assert step.codes == ["request.malformed"]


async def test_a_hello_without_an_end_is_cut(steps: list[IngressFixture]) -> None:
    step = door(steps, PATIENT)
    call = step.call(step.listener("transparent", 443))
    record = b"\x16\x03\x01\x20\x00" + b"\x01\x00\x7f\xff" + b"\0" * (0x2000 - 4)
    sending = asyncio.create_task(pour(call, b"", record, 64 << 20))
    await call.rest()
    assert await sending < 4 << 20
    assert step.codes == ["protocol.refused"]


async def test_what_follows_a_refusal_is_thrown_away_for_a_while_only(steps: list[IngressFixture]) -> None:
    step = door(steps, replace(PATIENT, linger=1 << 16, linger_time=NEVER))
    call = step.call()
    sending = asyncio.create_task(pour(call, connect("evil.example:443"), b"x" * 65536, 64 << 20))
    answer = await call.rest()
    assert await sending < 4 << 20
    assert status(answer) == 403
    assert step.door.connections("box") == 0


async def test_a_refused_client_that_stays_is_left(steps: list[IngressFixture]) -> None:
    step = door(steps, replace(PATIENT, linger_time=SHORT))
    call = step.call()
    await call.send(connect("evil.example:443"))
    await call.task
    assert step.door.connections("box") == 0
    await call.rest()


async def test_a_client_that_resets_hurts_nobody(steps: list[IngressFixture]) -> None:
    step = door(steps, PATIENT)
    for data in (b"", b"CON", TUNNEL, TUNNEL + real(API)[:50], connect("evil.example:443")):
        call = step.call()
        await call.send(data)
        await call.hang_up()
    assert await is_served(step)
    assert step.door.connections("box") == 0


async def test_a_lane_that_leaves_bytes_nobody_reads_does_not_hold_its_place(
    steps: list[IngressFixture],
) -> None:
    step = door(steps, replace(PATIENT, close_time=SHORT))

    async def flood(_a: object, _r: object, writer: asyncio.StreamWriter, _b: bytes) -> None:
        writer.write(b"x" * (8 << 20))

    step.door._passage._lanes = replace(step.door._passage._lanes, full=flood)
    call = step.call()
    await call.send(TUNNEL + real(API))
    await call.task
    assert step.door.connections("box") == 0
    call.sock.close()
