"""gRPC works through the proxy: all four kinds of calls, and what happens when they go wrong.

Client and server are grpcio's own, over its C core: they speak HTTP/2 and nothing else, find the proxy by
CONNECT, and read a refusal only as trailers. Messages are plain bytes, so no code has to be generated.
"""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import grpc
import pytest

from tests.proxy.clients.client import PROGRAMS, Client, installed
from tests.proxy.clients.password_proxy import guarded
from tests.proxy.clients.program import Ran
from tests.proxy.clients.scene import MASK, SECRET, WANTED, Line, Scene, certs, rules, write_secret
from tests.proxy.clients.stage import Stage, before
from tests.proxy.lab.proxy_stack import NAME, ProxyStack

MIB = 1024 * 1024
ANY_SIZE = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
PATIENCE = 30.0
"""Seconds; only a call that hangs gets to know them."""

GRPC = Client(
    name="grpcio",
    family="Python",
    version=installed("grpcio"),
    variables={"https_proxy": "{proxy}", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": "{bundle}"},
    cannot={"SSL_CERT_FILE": "read `SSL_CERT_FILE`: its own roots are compiled in"},
)

Metadata = tuple[tuple[str, str | bytes], ...]


@dataclass(slots=True)
class Service:
    """What the upstream offers, and what came to it."""

    calls: list[tuple[str, Metadata]] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)
    """The call that waits has been given up by its client."""

    def handler(self) -> grpc.GenericRpcHandler:
        return grpc.method_handlers_generic_handler(
            "lab.Echo",
            {
                "Unary": grpc.unary_unary_rpc_method_handler(self.unary),
                "Down": grpc.unary_stream_rpc_method_handler(self.down),
                "Up": grpc.stream_unary_rpc_method_handler(self.up),
                "Both": grpc.stream_stream_rpc_method_handler(self.both),
                "Fail": grpc.unary_unary_rpc_method_handler(self.fail),
                "Wait": grpc.unary_unary_rpc_method_handler(self.wait),
            },
        )

    def admit(self, name: str, context: grpc.ServicerContext) -> None:
        """End a call without the credential; it is the first thing that every method does."""
        metadata = tuple((key, value) for key, value in context.invocation_metadata())
        self.calls.append((name, metadata))
        if [value for key, value in metadata if key == "authorization"] != [WANTED]:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")
        context.set_trailing_metadata((("x-check", "done"), ("x-echo", WANTED)))

    def unary(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.admit("Unary", context)
        context.send_initial_metadata((("x-hello", "there"),))
        return request

    def down(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        self.admit("Down", context)
        for number in range(int(request)):
            yield b"%d " % number + WANTED.encode()

    def up(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
        self.admit("Up", context)
        return b",".join(requests)

    def both(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        self.admit("Both", context)
        yield from requests

    def fail(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.admit("Fail", context)
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"too much: 100 % of {request.decode()} ä")

    def wait(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.admit("Wait", context)
        gone = threading.Event()
        context.add_callback(gone.set)
        if gone.wait(PATIENCE):
            self.left.set()
        return b""


@dataclass(frozen=True, slots=True)
class Call:
    """A server behind the proxy, and the ways to call it."""

    stage: Stage[Service]

    @property
    def scene(self) -> Scene[Service]:
        return self.stage.scene

    async def run(self, *words: str, client: Client = GRPC) -> Ran:
        """Let a process of its own call, which is told nothing but what its user would set."""
        program = PROGRAMS / "python/with_grpc.py"
        return await self.stage.run(client, sys.executable, program, words[0], self.scene.host, *words[1:])

    async def make[T](self, work: Callable[[grpc.Channel], T]) -> T:
        """Open a channel in a thread, which is how grpcio is used without asyncio, and let it work."""
        return await asyncio.to_thread(self._work, work)

    def _work[T](self, work: Callable[[grpc.Channel], T]) -> T:
        trust = grpc.ssl_channel_credentials(self.scene.ca.read_bytes())
        options = [("grpc.http_proxy", self.scene.stack.url), *ANY_SIZE]
        with grpc.secure_channel(self.scene.host, trust, options) as channel:
            return work(channel)

    def arrived(self, *names: str) -> None:
        """These methods were called, each with exactly one credential, the right one."""
        calls = self.scene.upstream.calls
        assert [name for name, _ in calls] == list(names)
        for _, metadata in calls:
            assert [value for key, value in metadata if key == "authorization"] == [WANTED]
            assert sum(SECRET in str(value) for _, value in metadata) == 1


# Messages are bytes: a channel has to be told, for it takes them for whatever its caller says.


def unary(channel: grpc.Channel, method: str) -> grpc.UnaryUnaryMultiCallable[bytes, bytes]:
    return channel.unary_unary(f"/lab.Echo/{method}")


def down(channel: grpc.Channel, method: str) -> grpc.UnaryStreamMultiCallable[bytes, bytes]:
    return channel.unary_stream(f"/lab.Echo/{method}")


def up(channel: grpc.Channel, method: str) -> grpc.StreamUnaryMultiCallable[bytes, bytes]:
    return channel.stream_unary(f"/lab.Echo/{method}")


def both(channel: grpc.Channel, method: str) -> grpc.StreamStreamMultiCallable[bytes, bytes]:
    return channel.stream_stream(f"/lab.Echo/{method}")


def post(method: str, status: int = 200) -> Line:
    return "POST", f"/lab.Echo/{method}", status


@pytest.fixture
async def call(tmp_path: Path) -> AsyncIterator[Call]:
    """No rule says `http2: true`: a client that offers nothing else gets it."""
    write_secret(tmp_path)
    chain, key = certs.write_leaf(tmp_path, NAME)
    service = Service()
    server = grpc.server(ThreadPoolExecutor(8), [service.handler()], options=ANY_SIZE)
    proof = grpc.ssl_server_credentials([(key.read_bytes(), chain.read_bytes())])
    port = server.add_secure_port("127.0.0.1:0", proof)
    server.start()
    deny = rules(tmp_path, port).replace("/private/**", "/lab.Echo/Denied")
    try:
        async with ProxyStack(tmp_path, certs, deny) as stack:
            yield Call(before(Scene(stack, service, port, stack.write_ca()), tmp_path))
    finally:
        await asyncio.to_thread(server.stop(None).wait)


@GRPC.proves("grpc", "injected", "streaming")
async def test_the_environment_is_enough(call: Call) -> None:
    ran = await call.run("calls")
    assert ran.text.splitlines() == ["b'one'", "3", "b'a,b'", "b'c'", "b'd'", "[]"], ran.err
    call.arrived("Unary", "Down", "Up", "Both")
    call.scene.carried(post("Unary"), post("Down"), post("Up"), post("Both"))


@GRPC.proves("large", "upload")
async def test_a_message_of_64_mib_comes_back_as_it_was(call: Call) -> None:
    ran = await call.run("large")
    assert ran.text == "True\n", ran.err
    call.arrived("Unary")
    call.scene.carried(post("Unary"))


@GRPC.proves("refusal")
async def test_what_is_shown_of_a_denied_method_names_the_reason(call: Call) -> None:
    ran = await call.run("call", "Denied")
    assert ran.status != 0
    assert "rule.denied" in ran.err
    assert not call.scene.upstream.calls


@GRPC.proves("password")
async def test_a_password_is_given(call: Call) -> None:
    wrong = await call.run("call", client=await guarded(call.stage, GRPC, "another-password"))
    assert wrong.status != 0
    assert not call.scene.upstream.calls
    ran = await call.run("call", client=await guarded(call.stage, GRPC))
    assert ran.text == "b'hello'\n", ran.err
    call.arrived("Unary")


@GRPC.proves("SSL_CERT_FILE")
async def test_the_variable_of_openssl_is_not_read(call: Call) -> None:
    told = {"https_proxy": "{proxy}", "SSL_CERT_FILE": "{bundle}"}
    ran = await call.run("calls", client=replace(GRPC, variables=told))
    assert ran.status != 0
    assert "CERTIFICATE_VERIFY_FAILED" in ran.err, ran
    assert not call.scene.upstream.calls


async def test_a_unary_call_is_given_the_credential(call: Call) -> None:
    answer, begun = await call.make(
        lambda channel: unary(channel, "Unary").with_call(b"hello", timeout=PATIENCE)
    )
    assert answer == b"hello"
    assert ("x-hello", "there") in begun.initial_metadata()
    assert begun.code() is grpc.StatusCode.OK
    call.arrived("Unary")
    call.scene.carried(post("Unary"))


async def test_trailers_arrive_and_show_a_mask(call: Call) -> None:
    _, begun = await call.make(lambda channel: unary(channel, "Unary").with_call(b"hello", timeout=PATIENCE))
    assert dict(begun.trailing_metadata()) == {"x-check": "done", "x-echo": f"Bearer {MASK}"}
    call.arrived("Unary")
    call.scene.carried(post("Unary"))


async def test_a_credential_of_its_own_is_replaced(call: Call) -> None:
    own = (("authorization", "Bearer stand-in"),)
    await call.make(lambda channel: unary(channel, "Unary")(b"x", timeout=PATIENCE, metadata=own))
    call.arrived("Unary")
    call.scene.carried(post("Unary"))


async def test_a_server_streams_its_messages(call: Call) -> None:
    answers = await call.make(lambda channel: list(down(channel, "Down")(b"100", timeout=PATIENCE)))
    assert answers == [f"{number} Bearer {MASK}".encode() for number in range(100)]
    call.arrived("Down")
    call.scene.carried(post("Down"))


async def test_a_client_streams_its_messages(call: Call) -> None:
    parts = [b"%d" % number * 1000 for number in range(100)]
    answer = await call.make(lambda channel: up(channel, "Up")(iter(parts), timeout=PATIENCE))
    assert answer == b",".join(parts)
    call.arrived("Up")
    call.scene.carried(post("Up"))


async def test_both_sides_take_turns(call: Call) -> None:
    """Each message is sent only when the answer to the last one was read: nothing waits for an end."""

    def talk(channel: grpc.Channel) -> list[bytes]:
        said: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        answers = both(channel, "Both")(iter(said.get, None), timeout=PATIENCE)
        heard = []
        for number in range(20):
            said.put(b"%d" % number)
            heard.append(next(answers))
        said.put(None)
        assert not list(answers)
        return heard

    assert await call.make(talk) == [b"%d" % number for number in range(20)]
    call.arrived("Both")
    call.scene.carried(post("Both"))


async def test_messages_of_5_mib_pass_both_ways(call: Call) -> None:
    message = bytes(range(256)) * (5 * MIB // 256)
    answer = await call.make(lambda channel: unary(channel, "Unary")(message, timeout=PATIENCE))
    assert answer == message
    call.arrived("Unary")
    call.scene.carried(post("Unary"))


async def test_calls_at_once_share_a_connection(call: Call) -> None:
    def many(channel: grpc.Channel) -> list[bytes]:
        method = unary(channel, "Unary")
        begun = [method.future(b"%d" % number, timeout=PATIENCE) for number in range(50)]
        return [each.result() for each in begun]

    assert await call.make(many) == [b"%d" % number for number in range(50)]
    call.arrived(*["Unary"] * 50)
    call.scene.carried(*[post("Unary")] * 50)
    assert len({line["connection"] for line in call.scene.stack.exchanges()}) == 1


async def failure(call: Call, method: str, deadline: float = PATIENCE) -> grpc.RpcError:
    def work(channel: grpc.Channel) -> grpc.RpcError:
        with pytest.raises(grpc.RpcError) as caught:
            unary(channel, method)(b"disk", timeout=deadline)
        return caught.value

    return await call.make(work)


async def test_a_status_of_the_upstream_arrives_with_its_words(call: Call) -> None:
    error = await failure(call, "Fail")
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert error.details() == "too much: 100 % of disk ä"
    assert f"key='x-echo', value='Bearer {MASK}'" in str(error.trailing_metadata())
    call.arrived("Fail")
    call.scene.carried(post("Fail"))


async def test_a_method_that_does_not_exist_is_the_upstreams_to_refuse(call: Call) -> None:
    error = await failure(call, "Nothing")
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    call.scene.carried(post("Nothing"))


async def test_a_denied_method_says_permission_denied_and_why(call: Call) -> None:
    error = await failure(call, "Denied")
    assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    said = error.details() or ""
    assert said.startswith("A rule denies this request. Ask the operator")
    assert "(rule.denied, request " in said
    assert "key='egress-denied', value='rule.denied'" in str(error.trailing_metadata())
    assert not call.scene.upstream.calls
    call.scene.denied("rule.denied", post("Denied", 403))


async def test_a_denied_method_that_streams_up_ends_cleanly_too(call: Call) -> None:
    """The refusal goes out while the client is still sending."""

    def work(channel: grpc.Channel) -> grpc.RpcError:
        said: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        said.put(b"x" * 100_000)
        answer = up(channel, "Denied").future(iter(said.get, None), timeout=PATIENCE)
        with pytest.raises(grpc.RpcError) as caught:
            answer.result()
        said.put(None)
        return caught.value

    error = await call.make(work)
    assert error.code() is grpc.StatusCode.PERMISSION_DENIED
    call.scene.denied("rule.denied", post("Denied", 403))


async def test_a_denied_call_leaves_the_connection_to_the_others(call: Call) -> None:
    def work(channel: grpc.Channel) -> bytes:
        with pytest.raises(grpc.RpcError):
            unary(channel, "Denied")(b"x", timeout=PATIENCE)
        return unary(channel, "Unary")(b"x", timeout=PATIENCE)

    assert await call.make(work) == b"x"
    call.arrived("Unary")
    denied, allowed = call.scene.stack.exchanges()
    assert (denied["code"], allowed["code"]) == ("rule.denied", "rule.allowed")
    assert denied["connection"] == allowed["connection"]


async def test_a_deadline_ends_the_call_on_both_sides(call: Call) -> None:
    """The server never answers by itself, so the client's deadline is the only thing that can end it."""
    error = await failure(call, "Wait", deadline=0.5)
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert await asyncio.to_thread(call.scene.upstream.left.wait, PATIENCE)
    call.arrived("Wait")
    line = call.scene.stack.exchanges()[0]
    assert (line["path"], line["code"], line["injected"]) == (
        "/lab.Echo/Wait",
        "client.left",
        [{"secret": "api", "slot": "header:authorization"}],
    )


async def test_a_call_that_is_cancelled_ends_on_both_sides(call: Call) -> None:
    def work(channel: grpc.Channel) -> bool:
        begun = unary(channel, "Wait").future(b"x", timeout=PATIENCE)
        while not call.scene.upstream.calls:
            threading.Event().wait(0.01)
        return bool(begun.cancel())

    assert await call.make(work)
    assert await asyncio.to_thread(call.scene.upstream.left.wait, PATIENCE)
    call.arrived("Wait")
    assert call.scene.stack.exchanges()[0]["code"] == "client.left"
