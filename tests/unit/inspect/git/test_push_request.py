"""The commands of a push, from bytes in any pieces; numbers of vectors are those of the issue on git."""

from __future__ import annotations

import pytest

from egress.errors import WireError
from egress.inspect.git.pkt_line import FLUSH_PKT, pkt_line
from egress.inspect.git.push_request import MAX_COMMANDS, PushReader, PushRequest, RefCommand
from tests.unit.inspect.git.git_bytes import CAPABILITIES, ZERO, A, B, C, command_lines, oid, pack

MAIN, X = "refs/heads/main", "refs/heads/agent/x"


def read(*pieces: bytes, ended: bool = False) -> PushRequest:
    reader = PushReader()
    found = None
    for piece in pieces:
        assert found is None
        found = reader.feed(piece)
    if ended:
        assert found is None
        return reader.end()
    assert found is not None
    return found


def refused(data: bytes, message: str) -> None:
    with pytest.raises(WireError, match=message):
        _read_to_the_end(data)


def _read_to_the_end(data: bytes) -> None:
    reader = PushReader()
    reader.feed(data)
    reader.end()


def test_reads_a_command_and_its_capabilities() -> None:
    """Vector 1."""
    found = read(command_lines((ZERO, A, X)) + pack())
    assert found.commands == (RefCommand(X, ZERO, A),)
    assert found.commands[0].kind == "create"
    assert found.capabilities.flags == {"report-status-v2", "side-band-64k"}
    assert found.capabilities.agent == "git/2.39.5"
    assert found.capabilities.has_report
    assert found.capabilities.band_bytes == 65_520


def test_reads_several_commands() -> None:
    """Vectors 3 and 7."""
    found = read(command_lines((ZERO, A, X), (A, B, MAIN), (C, ZERO, "refs/tags/v1")) + pack())
    assert [command.kind for command in found.commands] == ["create", "update", "delete"]


def test_a_push_that_only_deletes_has_no_pack() -> None:
    """Vector 7."""
    assert read(command_lines((A, ZERO, X)), ended=True).commands[0].kind == "delete"


def test_a_probe_has_no_command() -> None:
    """Vector 8."""
    assert read(FLUSH_PKT, ended=True).commands == ()


def test_pieces_of_one_byte_read_alike() -> None:
    """Vector 9."""
    data = command_lines((ZERO, A, X), (A, B, MAIN)) + b"PACK"
    assert read(*(data[at : at + 1] for at in range(len(data)))) == read(data)


def test_a_ref_may_hold_the_signature_of_a_pack() -> None:
    """Vector 10."""
    assert read(command_lines((ZERO, A, "refs/heads/agent/PACK")) + pack()).commands[0].ref.endswith("PACK")


@pytest.mark.parametrize("ref", ["refs/heads/agent/../main", "HEAD", "refs/heads/a b", "refs/heads/x\x1b"])
def test_refuses_a_ref_that_git_would_not_make(ref: str) -> None:
    """Vector 11."""
    refused(command_lines((ZERO, A, ref)) + pack(), "ref of the push|no command")


def test_case_is_kept() -> None:
    """Vector 11."""
    assert (
        read(command_lines((ZERO, A, "refs/heads/Agent/x")) + pack()).commands[0].ref == "refs/heads/Agent/x"
    )


def test_refuses_a_second_nul() -> None:
    """Vector 11: the text behind the second one would be read by some servers alone."""
    first = pkt_line(f"{ZERO} {A} {X}\0{CAPABILITIES}\0{MAIN}".encode())
    refused(first + FLUSH_PKT + pack(), "unknown")
    later = pkt_line(f"{ZERO} {A} {X}\0{CAPABILITIES}".encode()) + pkt_line(f"{A} {B} {MAIN}\0y".encode())
    refused(later + FLUSH_PKT + pack(), "NUL")


def test_refuses_a_signed_push() -> None:
    """Vector 12: its commands stand inside of the certificate."""
    certificate = pkt_line(f"push-cert\0{CAPABILITIES}".encode()) + pkt_line(b"certificate version 0.1\n")
    reader = PushReader()
    with pytest.raises(WireError, match="without --signed"):
        reader.feed(certificate)
    assert reader.capabilities.has_report


def test_reads_shallow_lines_in_front() -> None:
    """Vector 13."""
    shallow = pkt_line(f"shallow {C}".encode()) + pkt_line(f"shallow {B}\n".encode())
    assert read(shallow + command_lines((ZERO, A, X)) + pack()).shallow == {B, C}


@pytest.mark.parametrize("line", [f"shallow {C[:-1]}", f"shallow {C} x", "shallow ", f"shallow {C.upper()}"])
def test_refuses_a_malformed_shallow_line(line: str) -> None:
    refused(pkt_line(line.encode()) + command_lines((ZERO, A, X)) + pack(), "shallow|object id|no command")


def test_refuses_a_shallow_line_behind_a_command() -> None:
    lines = pkt_line(f"{ZERO} {A} {X}\0".encode()) + pkt_line(f"shallow {C}".encode())
    refused(lines + FLUSH_PKT + pack(), "no command")


def test_reads_push_options() -> None:
    """Vector 14."""
    lines = command_lines((ZERO, A, X), capabilities=f"{CAPABILITIES} push-options")
    options = pkt_line(b"ci.skip\n") + pkt_line(b"title=a b") + FLUSH_PKT
    assert read(lines + options + pack()).options == ("ci.skip", "title=a b")
    assert read(lines + FLUSH_PKT + pack()).options == ()


def test_waits_for_the_options_that_were_announced() -> None:
    lines = command_lines((A, ZERO, X), capabilities="push-options")
    refused(lines, "cut short")
    assert read(lines + FLUSH_PKT, ended=True).options == ()


@pytest.mark.parametrize("option", [b"a\nb", b"a\0b", b"\x1b[2J", b"\xff", b"\xc2\x85"])
def test_refuses_a_malformed_option(option: bytes) -> None:
    lines = command_lines((ZERO, A, X), capabilities="push-options")
    refused(lines + pkt_line(option) + FLUSH_PKT + pack(), "option|UTF-8")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(command_lines((A, ZERO, X)) + b"x", "only deletes", id="bytes behind deletes"),
        pytest.param(command_lines((A, ZERO, X)) + pack(), "only deletes", id="a pack behind deletes"),
        pytest.param(command_lines((ZERO, A, X)) * 2, "No pack", id="a second list"),
        pytest.param(FLUSH_PKT * 2, "only deletes", id="a second flush"),
        pytest.param(FLUSH_PKT + command_lines((ZERO, A, X)), "only deletes", id="a list behind a probe"),
        pytest.param(b"0003", "out of range", id="length 3"),
        pytest.param(command_lines((ZERO, A, X))[:-4] + b"0001" + pack(), "out of range", id="delimiter"),
        pytest.param(command_lines((ZERO, A, X))[:50], "cut short", id="cut inside a line"),
        pytest.param(command_lines((ZERO, A, X))[:-4], "cut short", id="without its flush"),
        pytest.param(command_lines((ZERO, A, X)) + b"PAC", "cut short", id="cut inside the signature"),
        pytest.param(command_lines((ZERO, A, X)), "no pack", id="without a pack"),
        pytest.param(b"", "cut short", id="empty"),
        pytest.param(pkt_line(f"shallow {A}".encode()) + FLUSH_PKT, "no command", id="only shallow"),
    ],
)
def test_refuses_other_framings(data: bytes, message: str) -> None:
    """Vector 15."""
    refused(data, message)


def test_refuses_too_many_commands() -> None:
    """Vector 16."""
    many = [(ZERO, A, f"refs/heads/agent/{number}") for number in range(MAX_COMMANDS + 1)]
    assert len(read(command_lines(*many[1:]) + pack()).commands) == MAX_COMMANDS
    refused(command_lines(*many) + pack(), "too many refs")


def test_refuses_one_ref_twice() -> None:
    """Vector 16."""
    refused(command_lines((ZERO, A, X), (A, B, X)) + pack(), "twice")


def test_refuses_a_list_that_is_too_long() -> None:
    many = [(ZERO, A, f"refs/heads/{number}/{'a' * 60_000}") for number in range(5)]
    refused(command_lines(*many) + pack(), "too long")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"{ZERO} {ZERO} {X}", "changes nothing"),
        (f"{A} {A} {X}", "changes nothing"),
        (f"{A[:-1]} {B} {X}", "malformed"),
        (f"{A.upper()} {B} {X}", "malformed"),
        (f"{A} {B}g {X}", "malformed"),
        (f"{A} {B}", "no command"),
        (f"{A}  {B} {X}", "no command"),
        (f"{A} {B} {X} {MAIN}", "no command"),
        (f" {A} {B} {X}", "no command"),
        ("ERR no", "no command"),
        (f"{A} {B} {X}\n\n", "ref of the push"),
    ],
)
def test_refuses_a_line_that_is_no_command(line: str, message: str) -> None:
    refused(pkt_line(line.encode()) + FLUSH_PKT + pack(), message)


@pytest.mark.parametrize(
    "capabilities",
    [
        "report-status push-cert=nonce",
        "report-status atomic atomic",
        "object-format=sha1 object-format=sha256",
        "report-status=1",
        "agent",
        "agent=",
        "agent=\x1b",
        "object-format=md5",
        "Report-Status",
        "report-status\tatomic",
    ],
)
def test_refuses_unknown_capabilities(capabilities: str) -> None:
    refused(command_lines((ZERO, A, X), capabilities=capabilities) + pack(), "capability|object format")


def test_a_client_may_ask_for_nothing() -> None:
    """Vector 17: it takes any answer for success."""
    found = read(pkt_line(f"{ZERO} {A} {X}\n".encode()) + FLUSH_PKT + pack())
    assert not found.capabilities.has_report
    assert found.capabilities.band_bytes == 0


def test_reads_ids_of_sha256() -> None:
    """Vector 20."""
    new, old = oid("a", "sha256"), "0" * 64
    found = read(command_lines((old, new, X), capabilities="report-status object-format=sha256") + pack())
    assert found.capabilities.object_format == "sha256"
    refused(command_lines((old, new, X)) + pack(), "object id")
    refused(command_lines((ZERO, A, X), capabilities="object-format=sha256") + pack(), "object id")
    shallow = pkt_line(f"shallow {A}".encode())
    refused(shallow + command_lines((old, new, X), capabilities="object-format=sha256") + pack(), "shallow")


def test_keeps_what_it_read_for_the_answer() -> None:
    reader = PushReader()
    with pytest.raises(WireError):
        reader.feed(command_lines((ZERO, A, X), (A, A, MAIN)) + pack())
    assert [command.ref for command in reader.commands] == [X]
    assert reader.capabilities.has_report


def test_hands_over_the_pack_that_was_fed_with_the_commands() -> None:
    reader = PushReader()
    data = pack()
    assert reader.feed(command_lines((ZERO, A, X)) + data) is not None
    assert reader.rest == data
    with pytest.raises(WireError):
        reader.feed(b"more")
