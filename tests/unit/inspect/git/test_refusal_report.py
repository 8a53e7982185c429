"""Refusals in the protocol of git; tests with a real client are in tests/proxy/clients."""

from __future__ import annotations

import pytest

from egress.inspect.git.endpoint import PUSH
from egress.inspect.git.pkt_line import FLUSH, PktLineReader
from egress.inspect.git.push_request import PushCapabilities
from egress.inspect.git.refusal_report import discovery_media_type, discovery_refusal, push_report


def capabilities(*flags: str) -> PushCapabilities:
    return PushCapabilities(frozenset(flags))


def lines(data: bytes) -> list[bytes]:
    reader = PktLineReader()
    reader.feed(data)
    found = []
    while (line := reader.next_line()) is not None:
        found.append(line)
    assert reader.take_rest() == b""
    return found


def bands(data: bytes, most: int) -> tuple[bytes, bytes]:
    """The report and the text of a side band."""
    *packets, last = lines(data)
    assert last == FLUSH
    assert all(len(packet) + 4 <= most for packet in packets)
    return (
        b"".join(packet[1:] for packet in packets if packet[0] == 1),
        b"".join(packet[1:] for packet in packets if packet[0] == 2),
    )


@pytest.mark.parametrize("status", ["report-status", "report-status-v2"])
@pytest.mark.parametrize(("band", "most"), [("side-band", 1000), ("side-band-64k", 65520)])
def test_refuses_every_ref_for_its_reason(status: str, band: str, most: int) -> None:
    reasons = {f"refs/heads/{number}": f"no {number}" for number in range(32)}
    data = push_report(capabilities(status, band), reasons, "first\nsecond")
    assert data is not None
    report, text = bands(data, most)
    expected = [b"ng refs/heads/%d no %d\n" % (number, number) for number in range(32)]
    assert lines(report) == [b"unpack ok\n", *expected, FLUSH]
    assert text == b"first\nsecond\n"


def test_without_a_side_band_the_report_stands_alone() -> None:
    data = push_report(capabilities("report-status"), {"refs/heads/x": "no"}, "text")
    assert data is not None
    assert lines(data) == [b"unpack ok\n", b"ng refs/heads/x no\n", FLUSH]


def test_without_a_report_silence_would_be_success() -> None:
    """Vector 17."""
    assert push_report(capabilities("side-band-64k", "atomic"), {"refs/heads/x": "no"}) is None


def test_a_reason_cannot_leave_its_line() -> None:
    data = push_report(capabilities("report-status"), {"refs/heads/x": "a\nok refs/heads/x\x1b[2J"})
    assert data is not None
    assert len(lines(data)) == 3
    assert b"\x1b" not in data


def test_names_the_service_of_a_refused_discovery() -> None:
    """Vector 18."""
    assert lines(discovery_refusal(PUSH, "not here")) == [
        b"# service=git-receive-pack\n",
        FLUSH,
        b"ERR not here\n",
    ]
    assert discovery_media_type(PUSH) == "application/x-git-receive-pack-advertisement"
