"""A command in a pod: its streams, its end, and every way in which the connection can fail."""

from __future__ import annotations

import json
import threading
from urllib.parse import parse_qsl, urlsplit

import pytest

from egress.cluster import stream_channels as channels
from egress.cluster.api_call import ApiRefusedError
from egress.cluster.pod_exec import PodExec, open_exec
from egress.cluster.stream_channels import ExecStatus
from egress.errors import UnreadableError, WireError
from tests.cluster.fake_api_server import TOKEN
from tests.cluster.fake_stream_server import StreamPeer, played
from tests.cluster.test_stream_channels import exited, status

WORDS = ("sh", "-c", "echo 'a b' & \u00fc\n")


def everything(command: PodExec) -> dict[str, bytes]:
    found = {"stdout": b"", "stderr": b""}
    while (piece := command.read()) is not None:
        found[piece[0]] += piece[1]
    command.close()
    return found


def test_words_go_out_as_they_are_and_streams_come_back_apart() -> None:
    def play(peer: StreamPeer) -> None:
        peer.send(b"\1", b"\2", b"\1one ", b"\2bad", b"\1two", b"\xff\1", b"\3" + exited("7"))
        peer.close()

    with played(play) as (api, peers):
        command = open_exec(api, "one", "main", WORDS, has_input=False, has_terminal=False)
        assert everything(command) == {"stdout": b"one two", "stderr": b"bad"}
        assert command.status == ExecStatus(7)
    request = peers[0].request
    assert request is not None
    url = urlsplit(request.target)
    assert url.path == "/api/v1/namespaces/agents/pods/one/exec"
    query = parse_qsl(url.query)
    assert tuple(value for key, value in query if key == "command") == WORDS
    assert dict(query[:3]) == {"container": "main", "stdout": "true", "stderr": "true"}
    assert (b"authorization", f"Bearer {TOKEN}".encode()) in request.extra_headers
    assert request.subprotocols == ["v5.channel.k8s.io"]


def test_input_and_sizes_go_out_in_their_channels() -> None:
    taken: list[bytes | None] = []

    def play(peer: StreamPeer) -> None:
        taken.extend(peer.take() for _ in range(4))
        peer.send(b"\3" + status(status="Success"))
        peer.close()

    with played(play) as (api, _):
        command = open_exec(api, "one", "main", WORDS, has_input=True, has_terminal=True)
        command.resize(100, 30)
        command.write(b"x" * (channels.PIECE_BYTES + 1))
        command.close_input()
        command.close_input()
        command.write(b"too late")
        assert everything(command) == {"stdout": b"", "stderr": b""}
        assert command.status == ExecStatus(0)
    resized, *pieces = taken
    assert resized is not None
    assert json.loads(resized[1:]) == {"Width": 100, "Height": 30}
    assert pieces == [b"\0" + b"x" * channels.PIECE_BYTES, b"\0x", b"\xff\0"]
    command.write(b"after the end")


@pytest.mark.parametrize("data", [b"", b"\x82\x7e", b"\x82\xff\xff", b"\xf2\x01a", b"\x82\x05\1ab"])
def test_a_connection_that_is_cut_gives_what_came_and_no_status(data: bytes) -> None:
    """In the middle of a frame, behind one that is malformed, or without a word."""

    def play(peer: StreamPeer) -> None:
        peer.send(b"\1begun")
        peer.sock.sendall(data)

    with played(play) as (api, _):
        command = open_exec(api, "one", "main", WORDS, has_input=False, has_terminal=False)
        assert everything(command)["stdout"] == b"begun"
        assert command.status is None


@pytest.mark.parametrize("message", [b"\x05x", b"", b"\3{", b"\3" + b"x" * (channels.MAX_STATUS_BYTES + 1)])
def test_a_message_that_means_nothing_is_an_error(message: bytes) -> None:
    def play(peer: StreamPeer) -> None:
        peer.send(message)
        peer.close()

    with played(play) as (api, _):
        command = open_exec(api, "one", "main", WORDS, has_input=False, has_terminal=False)
        with pytest.raises(WireError):
            everything(command)
        command.close()


def test_whoever_waits_for_output_wakes_when_it_is_given_up() -> None:
    with played(lambda peer: peer.take()) as (api, _):
        command = open_exec(api, "one", "main", WORDS, has_input=False, has_terminal=False)
        timer = threading.Timer(0.1, command.abort)
        timer.start()
        assert command.read() is None
        command.close()


def test_a_refusal_names_its_reason() -> None:
    body = json.dumps({"reason": "NotFound", "message": 'pods "one" not found'}).encode()
    with (
        played(lambda _: None, refusal=(404, body)) as (api, _),
        pytest.raises(ApiRefusedError, match=r'404 .*pods "one" not found') as raised,
    ):
        open_exec(api, "one", "main", WORDS, has_input=False, has_terminal=False)
    assert raised.value.status == 404


@pytest.mark.parametrize("protocol", ["", "v4.channel.k8s.io"])
def test_an_older_protocol_is_not_spoken(protocol: str) -> None:
    """It could not close the input, and a command would wait for its end for ever."""
    with (
        played(lambda _: None, protocol=protocol) as (api, _),
        pytest.raises(UnreadableError, match="opened no stream"),
    ):
        open_exec(api, "one", "main", WORDS, has_input=True, has_terminal=False)
