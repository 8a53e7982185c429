"""What is said to a proxy, what is made of its answers, and what is refused of them."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from egress.control_client import ask_proxy
from egress.runtime.errors import GatewayError, GatewayRefusedError, SandboxExistsError, SpecError
from egress.runtime.proxy_client import ControlProxyClient, PlantedCanary, SandboxListener
from tests.proxy.serve_process import ServeProcess

RULES = "version: 1\nhosts:\n  api.example.test: {}\n"
CA = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServeProcess]:
    with ServeProcess(tmp_path, RULES, ["--handover"]) as served:
        yield served


def listening() -> SandboxListener:
    sock = socket.create_server(("127.0.0.1", 0))
    return SandboxListener("proxy", 3128, sock)


def test_a_sandbox_is_admitted_served_and_dismissed(served: ServeProcess) -> None:
    gateway = ControlProxyClient(served.runtime)
    admission = gateway.admit("one")
    assert admission.name == "one"
    assert admission.authority.startswith("-----BEGIN CERTIFICATE-----")
    item = listening()
    with item.sock, socket.create_connection(item.sock.getsockname()) as client:
        gateway.hand_over("one", [item])
        client.sendall(b"CONNECT nowhere.test:22 HTTP/1.1\r\nhost: nowhere.test:22\r\n\r\n")
        assert client.recv(64).startswith(b"HTTP/1.1 403")
    with pytest.raises(SandboxExistsError):
        gateway.admit("one")
    gateway.dismiss("one")
    gateway.dismiss("one")
    assert gateway.admit("one").authority != admission.authority


def test_who_is_revoked_is_named_until_it_is_restored(served: ServeProcess) -> None:
    client = ControlProxyClient(served.runtime)
    client.admit("one")
    assert client.revoked_sandboxes() == frozenset()
    for undo, revoked in ((False, {"one"}), (True, set())):
        asked = {"kind": "sandbox", "name": "one", "undo": undo}
        assert ask_proxy(served.runtime, "POST", "/kill", asked)[0] == 200
        assert client.revoked_sandboxes() == revoked
    client.dismiss("one")


def test_a_proxy_is_waited_for_before_the_first_question_and_not_again(served: ServeProcess) -> None:
    waited = list[int]()
    client = ControlProxyClient(served.runtime, lambda: waited.append(len(waited)))
    assert waited == []
    client.open_liveness().close()
    client.admit("one")
    client.dismiss("one")
    assert waited == [0]


def test_what_a_proxy_refuses_is_told_with_its_reason(served: ServeProcess) -> None:
    gateway = ControlProxyClient(served.runtime)
    with pytest.raises(GatewayRefusedError, match="no profiles"):
        gateway.admit("one", "coding")
    with pytest.raises(GatewayRefusedError, match="not a name"):
        gateway.admit("Not A Name")
    item = listening()
    with item.sock, pytest.raises(GatewayRefusedError, match="no such sandbox"):
        gateway.hand_over("nobody", [item])


def test_a_proxy_that_is_not_there_is_named_with_its_cure(tmp_path: Path) -> None:
    gateway = ControlProxyClient(tmp_path)
    for ask in (lambda: gateway.admit("one"), gateway.open_liveness, lambda: gateway.hand_over("one", [])):
        with pytest.raises(GatewayError, match="no proxy is running") as caught:
            ask()
        assert "egress serve --handover" in caught.value.hint
    gateway.dismiss("one")
    with pytest.raises(GatewayError, match="too long"):
        ControlProxyClient(tmp_path / ("x" * 100)).open_liveness()


def test_its_end_is_noticed(served: ServeProcess) -> None:
    meeting = ControlProxyClient(served.runtime).open_liveness()
    waiting = threading.Thread(target=meeting.wait)
    waiting.start()
    assert waiting.is_alive()
    served.process.kill()
    waiting.join(30)
    assert not waiting.is_alive()
    meeting.close()


def test_whoever_waits_for_its_end_can_be_woken(served: ServeProcess) -> None:
    meeting = ControlProxyClient(served.runtime).open_liveness()
    waiting = threading.Thread(target=meeting.wait)
    waiting.start()
    meeting.close()
    waiting.join(30)
    assert not waiting.is_alive()


# Proxies that are none ------------------------------------------------------------------------------


@pytest.fixture
def impostor(tmp_path: Path) -> Iterator[Callable[[bytes], ControlProxyClient]]:
    """A proxy that answers as a test says."""
    folder = Path(os.path.relpath(tmp_path))
    listeners: list[socket.socket] = []

    def made(answer: bytes) -> ControlProxyClient:
        sock = socket.socket(socket.AF_UNIX)
        listeners.append(sock)
        sock.bind(str(folder / "control.sock"))
        sock.listen()

        def serve() -> None:
            while True:
                try:
                    client, _ = sock.accept()
                except OSError:
                    return
                with client:
                    # All of it: whoever has more to say does not listen yet.
                    data = b""
                    while not data.endswith(b"}"):
                        data += client.recv(65536)
                    client.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return ControlProxyClient(folder)

    yield made
    for sock in listeners:
        sock.shutdown(socket.SHUT_RDWR)
        sock.close()


def http(status: int, body: object) -> bytes:
    data = json.dumps(body).encode()
    return f"HTTP/1.1 {status} X\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({}, GatewayRefusedError), ([], GatewayRefusedError), ({"ca": 7}, GatewayRefusedError),
        ({"ca": "nothing"}, GatewayRefusedError),
        ({"ca": CA + "-----BEGIN PRIVATE KEY-----"}, GatewayRefusedError),
    ],
)  # fmt: skip
def test_an_admission_without_an_authority_is_none(
    impostor: Callable[[bytes], ControlProxyClient], body: object, kind: type[GatewayError]
) -> None:
    """S-41: nor one with a key in it."""
    with pytest.raises(kind, match="no authority"):
        impostor(http(201, body)).admit("one")


def test_stand_ins_come_by_secret_and_form(impostor: Callable[[bytes], ControlProxyClient]) -> None:
    body = {"ca": CA, "placeholders": {"tracker": {"openai": "sk-x"}, "odd": "none", "empty": {}}}
    admission = impostor(http(201, body)).admit("one")
    assert admission.placeholders == {"tracker": {"openai": "sk-x"}, "empty": {}}


def test_canaries_come_with_where_they_are_planted(impostor: Callable[[bytes], ControlProxyClient]) -> None:
    both = {"name": "b", "value": "v1", "env": "KEY", "file": "~/a", "content": "KEY=v1"}
    body = {"ca": CA, "canaries": [both, {"name": "none", "value": "v2"}, "odd", {"name": 7}], "seed": "00ff"}
    admission = impostor(http(201, body)).admit("one")
    assert admission.canaries[:2] == (
        PlantedCanary("b", "v1", "KEY", "~/a", "KEY=v1"),
        PlantedCanary("none", "v2"),
    )
    assert admission.seed == "00ff"


def test_canaries_that_are_none_are_none(impostor: Callable[[bytes], ControlProxyClient]) -> None:
    assert impostor(http(201, {"ca": CA, "canaries": "odd"})).admit("one").canaries == ()


def test_one_that_is_admitted_again_keeps_its_canaries(served: ServeProcess) -> None:
    served.write(RULES + "canaries: {decoy: {like: aws, env: KEY}}\n")
    assert served.ask("POST", "/reload")[0] == 200
    gateway = ControlProxyClient(served.runtime)
    first = gateway.admit("one")
    gateway.dismiss("one")
    again = gateway.admit("one", seed=first.seed)
    assert (again.canaries, again.seed) == (first.canaries, first.seed)
    assert gateway.admit("two").canaries != first.canaries


@pytest.mark.parametrize("answer", [b"", b"\0" * 100, b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfour"])
def test_an_answer_that_is_none_is_said_to_be_missing(
    impostor: Callable[[bytes], ControlProxyClient], answer: bytes
) -> None:
    with pytest.raises(GatewayError, match="did not answer"):
        impostor(answer).admit("one")


def test_a_request_that_was_wrong_is_ours(impostor: Callable[[bytes], ControlProxyClient]) -> None:
    with pytest.raises(SpecError, match="names no sandbox"):
        impostor(http(400, {"error": "this names no sandbox"})).admit("one")


@pytest.mark.parametrize("answer", [{}, {"killed": []}, {"killed": {"sandbox": "one"}}], ids=str)
def test_a_proxy_that_does_not_say_who_is_revoked_is_refused(
    impostor: Callable[[bytes], ControlProxyClient], answer: object
) -> None:
    with pytest.raises(GatewayRefusedError, match="which sandboxes are revoked"):
        impostor(http(200, answer)).revoked_sandboxes()
