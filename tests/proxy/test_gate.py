"""`egress gate` dials: sockets of loopback stand for the API server, the cluster's DNS and the proxy."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

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
