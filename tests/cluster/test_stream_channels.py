"""The messages of streams: what each means, and that no message means two things."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.cluster import stream_channels as channels
from egress.cluster.stream_channels import ExecStatus, PortChannels, read_status, split_message
from egress.errors import WireError


def status(**fields: object) -> bytes:
    return json.dumps({"kind": "Status", "metadata": {}, **fields}).encode()


def exited(*codes: object) -> bytes:
    causes = [{"reason": "ExitCode", "message": code} for code in codes]
    return status(status="Failure", reason="NonZeroExitCode", details={"causes": causes})


def test_a_status_is_success_an_exit_code_or_a_reason() -> None:
    assert read_status(status(status="Success")) == ExecStatus(0)
    assert read_status(exited("137")) == ExecStatus(137)
    told = status(status="Failure", reason="InternalError", message="no such file")
    assert read_status(told) == ExecStatus(None, "no such file")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{",
        b'{"status": 1}',
        b"[" * 100_000,
        exited(),
        exited("0"),
        exited("256"),
        exited("-1"),
        exited("1", "2"),
        exited("\u0661"),
        exited(1),
        exited("1" * 5000),
        status(status="Success", message="x" * channels.MAX_STATUS_BYTES),
    ],
)
def test_a_status_that_says_something_else_is_none(data: bytes) -> None:
    with pytest.raises(WireError):
        read_status(data)


@given(st.binary(max_size=200) | st.text(max_size=50).map(str.encode))
def test_any_bytes_are_a_status_or_an_error(data: bytes) -> None:
    try:
        found = read_status(data)
    except WireError:
        return
    assert found.exit_code is None or 0 <= found.exit_code <= 255


@given(st.integers(0, 255), st.binary(max_size=50))
def test_a_message_is_its_channel_and_its_data(channel: int, data: bytes) -> None:
    assert split_message(bytes([channel]) + data) == (channel, data)


@pytest.mark.parametrize("message", [b"", "text"])
def test_a_message_without_a_channel_is_refused(message: str | bytes) -> None:
    with pytest.raises(WireError):
        split_message(message)


def test_a_size_is_written_as_the_kubelet_reads_it() -> None:
    message = channels.resize_message(120, 40)
    assert message[0] == channels.RESIZE
    assert msgspec.json.decode(message[1:]) == {"Width": 120, "Height": 40}


@given(st.integers(1, 65535), st.lists(st.tuples(st.sampled_from([0, 1]), st.binary(max_size=9)), max_size=9))
def test_each_channel_of_a_port_names_it_once(port: int, pieces: list[tuple[int, bytes]]) -> None:
    reader, seen = PortChannels(port), set[int]()
    for channel, data in pieces:
        named = b"" if channel in seen else port.to_bytes(2, "little")
        seen.add(channel)
        assert reader.take(bytes([channel]) + named + data) == (channel, data)


@given(st.integers(1, 65535), st.binary(max_size=4))
def test_a_message_of_another_port_or_channel_is_refused(port: int, data: bytes) -> None:
    reader = PortChannels(port)
    if data[:1] in (b"\0", b"\1") and data[1:3] == port.to_bytes(2, "little"):
        assert reader.take(data) == (data[0], data[3:])
    else:
        with pytest.raises(WireError):
            reader.take(data)
