"""egress/credentials/header.py: one header, one value."""

from __future__ import annotations

import pytest

from egress.credentials.header import is_header_line, write_header
from egress.credentials.result import CredentialRefusal, HeadEdit
from egress.types import Headers, InjectHeader

BEARER = InjectHeader("github", "authorization", "Bearer ")


def write(headers: Headers, need: InjectHeader = BEARER, value: bytes = b"tok3n") -> HeadEdit:
    edit = write_header("/", headers, need, value)
    assert isinstance(edit, HeadEdit), edit
    return edit


def test_writes_prefix_secret_and_suffix() -> None:
    need = InjectHeader("github", "x-auth", 'Token token="', '", v=1')
    assert write((), need).headers == (("x-auth", 'Token token="tok3n", v=1'),)


def test_leaves_target_and_other_headers_alone() -> None:
    edit = write((("accept", "*/*"), ("x-a", "1"), ("x-a", "2")))
    assert edit.target == "/"
    assert edit.headers == (("accept", "*/*"), ("x-a", "1"), ("x-a", "2"), ("authorization", "Bearer tok3n"))
    assert not edit.occupied


def test_strips_every_occurrence() -> None:
    edit = write((("authorization", "a"), ("accept", "*/*"), ("authorization", "Basic b")))
    assert edit.headers == (("accept", "*/*"), ("authorization", "Bearer tok3n"))
    assert edit.occupied


def test_an_empty_value_of_the_sandbox_counts_as_one() -> None:
    assert write((("authorization", ""),)).occupied


@pytest.mark.parametrize("spelling", ["x-api-key", "x_api_key", "x-api_key"])
@pytest.mark.parametrize("name", ["x-api-key", "x_api_key"])
def test_names_that_servers_read_alike_are_one_slot(spelling: str, name: str) -> None:
    edit = write(((spelling, "mine"),), InjectHeader("github", name))
    assert edit.headers == ((name, "tok3n"),)
    assert edit.occupied


def test_a_longer_name_is_another_header() -> None:
    edit = write((("x-authorization", "1"), ("authorization-x", "2"), ("proxy-authorization", "3")))
    assert len(edit.headers) == 4
    assert not edit.occupied


def test_the_name_is_written_in_lower_case() -> None:
    assert write((("x-api-key", "mine"),), InjectHeader("github", "X-Api-Key")).headers == (
        ("x-api-key", "tok3n"),
    )


@pytest.mark.parametrize(
    "value",
    [
        b"a\r\nhost: evil",
        b"a\nb",
        b"a\x00b",
        b"a\tb",
        b"tok3n\n",
        b"\xc3\xa9",
        b"caf\xe9",
        b"\x80",
        b"tok3n ",
    ],
)
def test_refuses_a_value_that_a_header_cannot_carry(value: bytes) -> None:
    refusal = write_header("/", (), BEARER, value)
    assert isinstance(refusal, CredentialRefusal)
    assert (refusal.code, refusal.secret, str(refusal.slot)) == (
        "secret.unavailable",
        "github",
        "header:authorization",
    )
    assert value.decode("latin-1") not in repr(refusal)


@pytest.mark.parametrize("prefix", ["Bearer\r\nx: ", "Bärer ", " "])
def test_refuses_a_prefix_that_a_header_cannot_carry(prefix: str) -> None:
    assert isinstance(
        write_header("/", (), InjectHeader("github", "authorization", prefix), b"x"), CredentialRefusal
    )


@pytest.mark.parametrize("name", ["host", "Content-Length", "transfer-encoding", "connection", "upgrade"])
def test_never_writes_a_header_that_frames_or_routes(name: str) -> None:
    refusal = write_header("/", (), InjectHeader("github", name), b"tok3n")
    assert isinstance(refusal, CredentialRefusal)
    assert refusal.code == "internal"


@pytest.mark.parametrize("line", ["x", "Bearer x", "a b  c", "!~"])
def test_a_header_carries_visible_ascii(line: str) -> None:
    assert is_header_line(line)


@pytest.mark.parametrize(
    "line", ["", " ", " x", "x ", "a\tb", "a\r\nb", "a\nb", "a\x00b", "a\x7fb", "\xe9", "x\n"]
)
def test_a_header_carries_nothing_else(line: str) -> None:
    assert not is_header_line(line)
