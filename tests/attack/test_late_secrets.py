"""Class 12, reflection, with time in it: a value comes back that was not known, or is not bound any more.

S-07 to S-09 and S-75 where the answer runs while a secret rotates, gets its first value, or leaves the rules
of the destination. Each time the same secret is sent with a newer request, and the upstream writes it into
an answer that began before. Positive control of each case: what is not secret arrives beside it, unchanged.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from egress.exchange import AnswerHead, CutExchange, Response
from egress.rules.decide.policy import Policy
from egress.scrub import Needles
from egress.secrets.value_history import REPLACED_VALUE_LIFETIME
from egress.types import Headers, Secret
from tests.unit.exchange.sample import begun, exchange, handling, request, sent
from tests.unit.relay.wires import NAME, Desk, Lab, both_h2, get, head, policy_of, response
from tests.unit.secrets.secret_samples import HandClock, put, resolver

FIRST = b"tok_A1b2C3d4E5f6G7h8I9j0"
SECOND = b"tok_Z9y8X7w6V5u4T3s2R1q0"
MASKED = b"*" * len(FIRST)
KEY = base64.b64encode(b"sixteen bytes ok").decode()
ACCEPT = base64.b64encode(
    hashlib.sha1(KEY.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11", usedforsecurity=False).digest()
).decode()
ASK = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {KEY}")
AGREE = head("upgrade: websocket", "connection: upgrade", f"sec-websocket-accept: {ACCEPT}", status="101 Ok")


class Bound(Desk):
    """The surroundings of one relay, with secrets out of a real resolver."""

    def __init__(self, town: Town) -> None:
        super().__init__(town.policy)
        self.town = town

    def needles(self, policy: Policy) -> Needles | None:
        specs = [spec for spec in policy.secrets.values() if spec.is_bound_to(NAME, 443)]
        return self.town.vault.needles_at(NAME, 443, specs)

    def secrets(
        self, policy: Policy, names: tuple[str, ...], *, unscrubbed: bool
    ) -> Mapping[str, Secret] | None:
        return self.town.vault.cached([policy.secrets[name] for name in names])


class Town:
    """One resolver with one secret in a file, and any number of client connections to one upstream."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "secret"
        self.clock = HandClock()
        self.vault = resolver(self.clock)
        self.policy = self.rules()

    def rules(self, *, secret: str = NAME, host: str = NAME) -> Policy:
        """`secret` is the host that it is bound to; empty, there is none."""
        named = f'secrets:\n  api: {{from: "file:{self.file}", hosts: [{secret}]}}' if secret else ""
        return policy_of(f"""
version: 1
{named}
hosts:
  {host}:
    allow:
      - {{id: v1, paths: ["/v1/**"]}}
      - {{id: open, paths: ["/open/**"]}}
      - {{id: ws, paths: ["/ws"], websocket: true}}
{"    inject: [{bearer: api, for: [v1]}]" if secret == host else ""}
""")

    async def rotate(self, value: bytes) -> None:
        """Its source has another value, or its first one, and the proxy has noticed."""
        put(self.file, value)
        self.clock.advance(10)
        await self.vault.resolve(self.policy.secrets.values())

    async def reload(self, policy: Policy) -> None:
        self.policy = policy
        await self.vault.warm(policy.secrets.values())

    def lab(self, *asked: str, alpn: str = "", needs: bool = True) -> Lab:
        """A client that has asked for something, and an upstream that was asked for it."""
        lab = Lab()
        self.settle(lab)
        lab.says(get(*asked))
        if lab.opening:
            lab.opens(alpn)
        return lab

    def settle(self, lab: Lab) -> None:
        lab.desk = lab.relay.service = Bound(self)

    def uses(self) -> bytes:
        """A newer request of another client is sent with the secret; what the upstream has seen of it."""
        return self.lab("/v1/user").requests()[0].headers["authorization"].encode()


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(tmp_path)


def frame(data: bytes) -> bytes:
    return bytes((0x81, len(data))) + data


def sse(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


CHUNKED = head("transfer-encoding: chunked", "content-type: text/event-stream")
RUNNING: Mapping[str, tuple[tuple[str, ...], bytes, Callable[[bytes], bytes]]] = {
    "events": (("/v1/events",), CHUNKED + sse(b"data: begin\n\n"), sse),
    "a length": (("/v1/events",), head("content-length: 5000"), lambda data: data),
    "WebSocket": (("/ws", *ASK), AGREE + frame(b"begin"), frame),
}
ALL_RUNNING = pytest.mark.parametrize(("asked", "began", "wrapped"), RUNNING.values(), ids=RUNNING)


# What is known only after the answer has begun --------------------------------------------------------


@ALL_RUNNING
@pytest.mark.parametrize("before", [FIRST, b""], ids=["rotated", "first value"])
async def test_a_value_that_is_learnt_while_an_answer_runs_does_not_come_back_in_it(
    town: Town, before: bytes, asked: tuple[str, ...], began: bytes, wrapped: Callable[[bytes], bytes]
) -> None:
    if before:
        await town.rotate(before)
    else:
        # Without a value the older exchange goes without one.
        asked = (asked[0].replace("/v1", "/open"), *asked[1:])
    older = town.lab(*asked)
    older.answers(began)
    older.new()
    await town.rotate(SECOND)
    assert town.uses() == b"Bearer " + SECOND
    older.answers(wrapped(b"old " + (before or FIRST) + b" new " + SECOND + b" end~"))
    said = older.new()
    assert SECOND not in said
    assert b" new " + MASKED + b" end~" in said
    assert (FIRST not in said) == bool(before), "what never was a value is no secret"


@ALL_RUNNING
async def test_nor_cut_in_two_around_the_moment_it_is_learnt(
    town: Town, asked: tuple[str, ...], began: bytes, wrapped: Callable[[bytes], bytes]
) -> None:
    """An upstream that knows the next value before us may write half of it; the other half stays in."""
    await town.rotate(FIRST)
    older = town.lab(*asked)
    older.answers(began)
    if asked[0] == "/ws":
        # A message in two fragments.
        older.answers(b"\x01\x0a" + SECOND[:10])
        await town.rotate(SECOND)
        older.answers(b"\x80" + bytes((len(SECOND) - 10 + 5,)) + SECOND[10:] + b" end~")
    else:
        older.answers(wrapped(SECOND[:10]))
        await town.rotate(SECOND)
        older.answers(wrapped(SECOND[10:] + b" end~"))
    said = older.new()
    assert SECOND[10:] not in said
    assert b"*" * (len(SECOND) - 10) + b" end~" in said


async def test_http2_streams_of_one_connection_know_what_the_newest_does(town: Town) -> None:
    await town.rotate(FIRST)
    lab, client, upstream, _ = both_h2()
    town.settle(lab)
    older = client.ask("/v1/events")
    upstream.flush()
    first = upstream.newest
    upstream.reply(first, body=None, ends=False)
    upstream.say(first, b"begin ")
    client.flush()
    await town.rotate(SECOND)
    client.ask("/v1/user")
    upstream.flush()
    assert client.seen(older).body == b"begin "
    assert upstream.seen(upstream.newest).header("authorization") == f"Bearer {SECOND.decode()}"
    upstream.say(first, b"now " + SECOND + b" end", ends=True)
    client.flush()
    assert client.seen(older).body == b"begin now " + MASKED + b" end"


async def test_the_head_the_trailers_and_an_interim_head_of_an_older_exchange_are_searched_too(
    town: Town,
) -> None:
    await town.rotate(FIRST)
    older = town.lab("/v1/events")
    await town.rotate(SECOND)
    echo = f"x-echo: {SECOND.decode()}"
    older.answers(head(f"link: {SECOND.decode()}", status="103 Early Hints"))
    older.answers(head("transfer-encoding: chunked", "x-fine: yes", echo))
    older.answers(b"0\r\n" + echo.encode() + b"\r\nx-good: yes\r\n\r\n")
    said = older.new()
    assert SECOND not in said
    assert said.count(MASKED) == 2 + (b"103" in said.split(b"\r\n")[0])
    assert b"x-fine: yes" in said


async def test_where_a_secret_is_bound_plain_contents_are_asked_for_before_its_value_is_known(
    town: Town,
) -> None:
    """Else the older answer could be coded, and nothing be found in it."""
    older = town.lab("/open/events", "Accept-Encoding: gzip")
    assert older.requests()[0].headers["accept-encoding"] == "identity"
    await town.reload(town.rules(secret=""))
    other = Town(town.file.parent)
    other.policy = other.rules(secret="")
    passed = other.lab("/open/events", "Accept-Encoding: gzip")
    assert passed.requests()[0].headers["accept-encoding"] == "gzip"


async def test_a_coded_answer_is_decoded_before_its_value_is_known(town: Town) -> None:
    older = town.lab("/open/events")
    older.answers(head("transfer-encoding: chunked", "content-encoding: gzip"))
    await town.rotate(SECOND)
    town.uses()
    older.answers(sse(gzip.compress(b"new " + SECOND + b" end~")) + b"0\r\n\r\n")
    assert older.responses()[0].body == b"new " + MASKED + b" end~"


# What is bound only after the answer has begun ------------------------------------------------------


@pytest.mark.parametrize("coded", [False, True], ids=["plain", "coded"])
async def test_a_secret_that_a_reload_binds_to_the_destination_is_searched_for_in_older_answers(
    town: Town, *, coded: bool
) -> None:
    """One in a coding cannot be searched any more, so it is cut."""
    later, town.policy = town.policy, town.rules(secret="")
    older = town.lab("/open/events")
    older.answers(head("transfer-encoding: chunked", *(["content-encoding: gzip"] if coded else [])))
    older.answers(sse(b"begin "))
    put(town.file, FIRST)
    await town.reload(later)
    assert town.uses() == b"Bearer " + FIRST
    older.answers(sse(b"new " + FIRST + b" end~"))
    said = older.new()
    assert b"begin " in said
    assert FIRST not in said
    assert (b"new " + MASKED + b" end~" in said) is not coded
    assert older.codes == (["response.withheld"] if coded else [])


# What is not bound any more -----------------------------------------------------------------------


@pytest.mark.parametrize("bound", ["", "other.example.test"], ids=["removed", "bound elsewhere"])
async def test_a_secret_that_a_reload_takes_away_is_still_searched_for_where_it_was_sent(
    town: Town, bound: str
) -> None:
    await town.rotate(FIRST)
    seen = town.uses()
    older = town.lab("/open/events")
    older.answers(CHUNKED)
    await town.reload(town.rules(secret=bound))
    for lab, answer in ((older, sse), (town.lab("/open/recall"), response)):
        lab.answers(answer(b"you sent " + seen + b" then"))
        assert b"you sent Bearer " + MASKED + b" then" in lab.new()


async def test_it_is_forgotten_after_an_hour_unless_an_exchange_runs_that_carries_it(town: Town) -> None:
    """The positive control: the search has an end, and what it would hide arrives then."""
    await town.rotate(FIRST)
    town.uses()
    carried = town.vault.begin_use(("api",))
    await town.reload(town.rules(secret=""))
    for hours in range(3):
        town.clock.advance(REPLACED_VALUE_LIFETIME)
        await town.reload(town.rules(secret=""))
        lab = town.lab("/open/recall")
        lab.answers(response(b"you sent " + FIRST))
        assert (FIRST in lab.new()) is (hours == 2)
        if hours == 1:
            town.vault.end_use(carried)


async def test_other_destinations_are_not_searched_for_it(town: Town) -> None:
    await town.rotate(FIRST)
    town.uses()
    await town.reload(town.rules(secret=""))
    assert town.vault.needles_at(NAME, 443, ()) is not None
    assert town.vault.needles_at(NAME, 8443, ()) is None
    assert town.vault.needles_at("other.example.test", 443, ()) is None


# Where rules withhold instead of masking ------------------------------------------------------------

LATE = Needles.of([Secret("github", b"ghp_A1b2C3d4E5f6G7h8I9j0"), Secret("late", SECOND)])
KNOWN = Needles.of([Secret("github", b"ghp_A1b2C3d4E5f6G7h8I9j0")])


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("trailers", [(), (("x-fine", "yes"),)])
def test_a_rule_that_withholds_does_so_for_what_is_held_back_when_it_is_learnt(
    trailers: Headers, *, learns: bool
) -> None:
    """Nothing more may come that could be looked at; the end must look."""
    held = b"ghp_A1b2C3d4E5"
    one = exchange(policy=handling("scrub: block"), needles=KNOWN)
    sent(begun(one, request(), needles=KNOWN))
    assert isinstance(one.respond(Response(200, "OK", ())), AnswerHead)
    assert one.data(b"x" + held) == [b"x"]
    if learns:
        one.update_needles(Needles({**dict.fromkeys(KNOWN, ("github",)), held: ("late",)}))
    outcome = one.end(trailers)
    assert outcome == (CutExchange("response.withheld") if learns else ([held], trailers))


@pytest.mark.parametrize("learns", [True, False])
def test_a_control_frame_is_searched_for_what_was_learnt(*, learns: bool) -> None:
    policy = handling("websocket: true")
    one = exchange(policy=policy, needles=KNOWN)
    sent(begun(one, request(upgrade=("websocket",)), needles=KNOWN))
    assert isinstance(one.respond(Response(101, "", ())), AnswerHead)
    if learns:
        one.update_needles(LATE)
    assert one.control(SECOND) == (MASKED if learns else SECOND)


def test_what_a_running_exchange_looks_for_never_becomes_nothing() -> None:
    one = exchange(policy=handling(""), needles=KNOWN)
    sent(begun(one, request(), needles=KNOWN))
    one.respond(Response(200, "OK", ()))
    one.update_needles(None)
    assert one.data(b"ghp_A1b2C3d4E5f6G7h8I9j0!") == [MASKED + b"!"]
