"""`egress gate` dials: sockets of loopback stand for the API server, the cluster's DNS and the proxy."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from egress.cli.main import main

Captured = pytest.CaptureFixture[str]
CLOSED = "127.0.0.1:1"


@contextlib.contextmanager
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@contextlib.contextmanager
def dns(address: str) -> Iterator[str]:
    """A name server that answers by UDP alone, on port 53 of an address of loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        try:
            server.bind((address, 53))
        except PermissionError:
            pytest.skip("port 53 needs root")

        ended = threading.Event()
        # A thread that waits in the socket would keep the port after the close.
        server.settimeout(0.05)

        def serve() -> None:
            while not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    question, peer = server.recvfrom(512)
                    server.sendto(question, peer)

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield f"{address}:53"
        finally:
            ended.set()
            serving.join()


def gate(*blocked: str, proxy: str) -> int:
    words = [word for at in blocked for word in ("--blocked", at)]
    return main(["gate", *words, "--proxy", proxy, "--timeout", "1"])


def test_a_network_that_leads_to_the_proxy_alone_lets_the_pod_start(capsys: Captured) -> None:
    with listening() as proxy:
        assert gate(CLOSED, "[::1]:1", proxy=proxy) == 0
    said = capsys.readouterr().out
    assert said == (
        f"the fence holds: 127.0.0.1:1, [::1]:1 refused 3 times in a row, and the proxy answers at {proxy}\n"
    )


def test_an_open_way_around_the_proxy_holds_the_pod_back_and_is_named(capsys: Captured) -> None:
    with listening() as proxy, listening() as api:
        assert gate(CLOSED, api, proxy=proxy) == 1
    assert f"the fence does not hold after 1 seconds: {api} answered, and must not" in capsys.readouterr().err


def test_a_proxy_that_is_not_there_holds_the_pod_back(capsys: Captured) -> None:
    assert gate(CLOSED, proxy="127.0.0.1:2") == 1
    assert "the proxy does not answer at 127.0.0.1:2" in capsys.readouterr().err


def test_the_name_server_of_the_proxy_is_sent_no_query_that_it_would_record(capsys: Captured) -> None:
    with dns("127.0.0.53") as names:
        assert gate(CLOSED, proxy=names) == 1
    assert f"the proxy does not answer at {names}" in capsys.readouterr().err


def test_a_name_server_that_answers_by_udp_alone_is_found(capsys: Captured) -> None:
    with listening() as proxy, dns("127.0.0.53") as names:
        assert gate(names, proxy=proxy) == 1
    assert "127.0.0.53:53 answered" in capsys.readouterr().err


# A gateway that knows pods -----------------------------------------------------------------------

YES = b"HTTP/1.1 204 No Content\r\negress-nonce: NONCE\r\nconnection: close\r\n\r\n"
NO = b"HTTP/1.1 503 X\r\negress-denied: identity.unknown\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Gateway:
    """Answers the questions of gates in its way, at an address where ports 443 and 53 answer, too."""

    def __init__(self, *answers: bytes | None) -> None:
        """The last answer is given again and again; None drops the question."""
        self.answers = answers
        self.asked: list[dict[str, str]] = []

    @contextlib.contextmanager
    def running(self, address: str) -> Iterator[str]:
        with contextlib.ExitStack() as stack:
            try:
                server, *_ = [
                    stack.enter_context(socket.create_server((address, port))) for port in (0, 443, 53)
                ]
            except PermissionError:
                pytest.skip("ports 443 and 53 need root")
            ended = threading.Event()
            server.settimeout(0.05)
            serving = threading.Thread(target=self._serve, args=(server, ended))
            serving.start()
            try:
                yield f"{address}:{server.getsockname()[1]}"
            finally:
                ended.set()
                serving.join()

    def _serve(self, server: socket.socket, ended: threading.Event) -> None:
        while not ended.is_set():
            with contextlib.suppress(TimeoutError, ConnectionError):
                sock, _ = server.accept()
                with sock:
                    sock.settimeout(2)
                    self._talk(sock, ended)

    def _talk(self, sock: socket.socket, ended: threading.Event) -> None:
        data = b""
        while b"}" not in data:
            if not (piece := sock.recv(4096)):
                # Only a dial.
                return
            data += piece
        question = json.loads(data.partition(b"\r\n\r\n")[2])
        self.asked.append(question)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if answer is None:
            ended.wait(1.5)
        else:
            sock.sendall(answer.replace(b"NONCE", question["nonce"].encode()))


def ask(gateway: str, *words: str, timeout: str = "1.5") -> int:
    return main(
        ["gate", "--blocked", CLOSED, "--gateway", gateway, "--uid", "pod-1", "--timeout", timeout, *words]
    )


def test_a_gateway_that_knows_the_pod_three_times_in_a_row_lets_it_start(capsys: Captured) -> None:
    told = Gateway(NO, YES, NO, YES)
    with told.running("127.0.0.77") as at:
        assert ask(at, timeout="10") == 0
    # Three in a row, after the second no.
    assert len(told.asked) == 6
    assert {each["uid"] for each in told.asked} == {"pod-1"}
    assert len({each["nonce"] for each in told.asked}) == 6
    captured = capsys.readouterr()
    assert f"the proxy answers at {at}, 127.0.0.77:443, 127.0.0.77:53 and knows this pod" in captured.out
    assert f"waiting: the gateway at {at} says identity.unknown: This proxy knows no sandbox" in captured.err


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (NO, "says identity.unknown"),
        (YES.replace(b"NONCE", b"0"), "is no gateway of Egress"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "is no gateway of Egress"),
        (b"220 mail.example.com ESMTP\r\n", "is no gateway of Egress"),
        (NO.replace(b"identity.unknown", b"proxy.form"), "start it with --kubernetes"),
        (None, "does not answer at"),
    ],
    ids=["no", "replayed", "anything", "mail", "knows-no-pods", "silent"],
)
def test_a_listener_that_does_not_know_the_pod_holds_it_back(
    capsys: Captured, answer: bytes | None, fault: str
) -> None:
    with Gateway(answer).running("127.0.0.77") as at:
        assert ask(at, timeout="2.5" if answer is None else "1") == 1
    assert fault in capsys.readouterr().err


def test_an_address_that_answers_holds_back_whatever_the_gateway_says(capsys: Captured) -> None:
    with Gateway(YES).running("127.0.0.77") as at, listening() as api:
        assert ask(at, "--blocked", api) == 1
    assert f"{api} answered, and must not" in capsys.readouterr().err


def test_a_certificate_that_is_not_there_holds_back_until_it_is(capsys: Captured, tmp_path: Path) -> None:
    trust = tmp_path / "ca.pem"
    with Gateway(YES).running("127.0.0.77") as at:
        assert ask(at, "--trust", str(trust)) == 1
        assert f"no certificate is in {trust}" in capsys.readouterr().err
        trust.write_text("not yet")
        assert ask(at, "--trust", str(trust)) == 1
        trust.write_text("-----BEGIN CERTIFICATE-----\n")
        assert ask(at, "--trust", str(trust)) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--gateway", "127.0.0.1:3128"],
        ["--proxy", "127.0.0.1:3128", "--uid", "pod-1"],
        ["--gateway", "127.0.0.1:3128", "--uid", "a b"],
        ["--gateway", "127.0.0.1:3128", "--uid", ""],
        ["--gateway", "gateway:3128", "--uid", "pod-1"],
    ],
)
def test_a_gateway_and_a_uid_belong_together(words: list[str]) -> None:
    assert main(["gate", "--blocked", CLOSED, *words]) == 2
