"""The client of the API: its connections, and the ways in which a server fails it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from egress.api.client import ApiClient, ApiLostError, ApiProblemError, decoded
from egress.api.endpoint import UnixEndpoint
from egress.api.schema import FleetView, ServerMessage, StartedMessage
from tests.api_server.lab import api_lab
from tests.fleet.memory_fleet import short_folder

OK = b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\n%s\r\n%s"


@contextmanager
def answering(*answers: bytes) -> Iterator[ApiClient]:
    """A client of a server that gives one answer a connection, whatever it is asked."""
    with short_folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = folder / "api.sock"
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        client = ApiClient(UnixEndpoint(path))
        yield client
        client.close()
        thread.join(30)


def test_a_connection_serves_one_call_after_the_other() -> None:
    with api_lab() as lab:
        client = ApiClient(UnixEndpoint(lab.server.path))
        for _ in range(3):
            assert client.call(FleetView, "about").kind == "fake"
        assert len(client._kept) == 1
        client.close()


def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    body = b'{"version": "1", "kind": "fake"}'
    answer = OK % (200, len(body), b"", body)
    with answering(answer, answer) as client:
        assert client.call(FleetView, "about").kind == "fake"
        assert client.call(FleetView, "about").kind == "fake"


def test_a_newer_server_may_answer_with_more_and_an_older_one_with_less() -> None:
    body = b'{"version": "9", "api": "v1", "kind": "fake", "region": {"of": ["x"]}, "why": "a test"}'
    less = b'{"version": "0", "kind": "fake"}'
    with answering(OK % (200, len(body), b"", body), OK % (200, len(less), b"", less)) as client:
        assert client.call(FleetView, "about").why == "a test"
        assert client.call(FleetView, "about").why == ""


@pytest.mark.parametrize("body", [b"{}", b"[1]", b"\xff", b'{"version": 1, "kind": "x"}', b"{" * 10_000])
def test_an_answer_of_another_form_is_a_problem(body: bytes) -> None:
    with answering(OK % (200, len(body), b"", body)) as client, pytest.raises(ApiProblemError) as found:
        client.call(FleetView, "about")
    assert found.value.problem.type == "fleet.protocol"


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1", b"no HTTP at all\r\n\r\n"])
def test_an_answer_that_breaks_off_is_a_lost_connection(answer: bytes) -> None:
    with answering(answer) as client, pytest.raises(ApiLostError):
        client.call(FleetView, "about")


def test_a_refusal_without_a_problem_says_its_status() -> None:
    with answering(OK % (502, 4, b"", b"gone")) as client, pytest.raises(ApiProblemError) as found:
        client.call(FleetView, "about")
    assert (found.value.status, found.value.problem.message) == (502, "the server answered 502")


def test_closing_ends_a_call_that_waits() -> None:
    with short_folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "api.sock"))
        listener.listen()
        client = ApiClient(UnixEndpoint(folder / "api.sock"))
        ended = threading.Event()

        def call() -> None:
            with pytest.raises(ApiLostError):
                client.call(FleetView, "about")
            ended.set()

        thread = threading.Thread(target=call)
        thread.start()
        connection, _ = listener.accept()
        connection.recv(100)
        client.close()
        assert ended.wait(30)
        thread.join(30)
        connection.close()
        with pytest.raises(ApiLostError, match="closed"):
            client.call(FleetView, "about")


def test_where_no_server_listens_the_cause_is_kept(tmp_path: Path) -> None:
    with pytest.raises(ApiLostError) as found:
        ApiClient(UnixEndpoint(tmp_path / "x")).call(FleetView, "about")
    assert isinstance(found.value.__cause__, FileNotFoundError)


def test_messages_of_a_stream_are_read_strictly() -> None:
    assert decoded('{"type": "started"}', ServerMessage) == StartedMessage()
    for wrong in ("", "{}", '{"type": "other"}', "[]"):
        with pytest.raises(ApiProblemError):
            decoded(wrong, ServerMessage)
