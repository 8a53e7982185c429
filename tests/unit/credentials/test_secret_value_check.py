"""egress/credentials/secret_value_check.py: which bytes may be a secret."""

from __future__ import annotations

import traceback

import pytest

from egress.credentials.secret_value_check import (
    MAX_SECRET_BYTES,
    has_control_byte,
    is_cookie_value,
    secret_from,
)
from egress.errors import SecretValueError


@pytest.mark.parametrize(
    "raw", [b"tok3n-abc", b"tok3n-abc\n", b"tok3n-abc\r\n", b"  \ttok3n-abc \x0b\x0c\n\n"]
)
def test_strips_what_files_and_commands_leave_around_a_value(raw: bytes) -> None:
    secret = secret_from("github", raw)
    assert (secret.name, secret.reveal()) == ("github", b"tok3n-abc")


@pytest.mark.parametrize("raw", [b"", b"\n", b" \t\r\n"])
def test_refuses_a_value_of_nothing(raw: bytes) -> None:
    with pytest.raises(SecretValueError, match="'github' is empty"):
        secret_from("github", raw)


@pytest.mark.parametrize("byte", [*range(0x20), 0x7F])
def test_refuses_every_control_byte_inside(byte: int) -> None:
    with pytest.raises(SecretValueError, match="control character"):
        secret_from("github", b"before" + bytes([byte]) + b"after")


@pytest.mark.parametrize("raw", [b"\x00tok3n-abc", b"tok3n-abc\x00", b"tok3n-abc\x7f\n", b"\x1b[0mtok3n"])
def test_a_control_byte_at_an_end_is_refused_and_not_stripped(raw: bytes) -> None:
    with pytest.raises(SecretValueError, match="control character"):
        secret_from("github", raw)


def test_a_space_inside_is_part_of_the_value() -> None:
    assert secret_from("phrase", b" correct horse ").reveal() == b"correct horse"


def test_takes_up_to_64_kib_after_stripping() -> None:
    assert len(secret_from("big", b"x" * MAX_SECRET_BYTES + b"\n" * 9).reveal()) == MAX_SECRET_BYTES
    with pytest.raises(SecretValueError, match="64 KiB"):
        secret_from("big", b"x" * (MAX_SECRET_BYTES + 1))


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"])
def test_refuses_a_byte_order_mark(mark: bytes) -> None:
    with pytest.raises(SecretValueError, match="byte order mark"):
        secret_from("github", mark + b"tok3n-abc")


def test_bytes_above_ascii_may_be_a_secret() -> None:
    """A Basic password may well be UTF-8; the slots that cannot carry it refuse it themselves."""
    assert secret_from("password", "pässwörd".encode()).reveal() == "pässwörd".encode()


@pytest.mark.parametrize("raw", [b"", b"hunter2\nhunter2", b"hunter2" * 20_000, b"\xef\xbb\xbfhunter2"])
def test_the_error_names_the_secret_and_a_cure_but_never_the_value(raw: bytes) -> None:
    with pytest.raises(SecretValueError) as caught:
        secret_from("github", raw)
    assert "github" in caught.value.message
    assert caught.value.hint
    assert "hunter2" not in f"{caught.value!r} {caught.value} {caught.value.hint}"


def test_a_traceback_with_locals_does_not_show_the_value() -> None:
    with pytest.raises(SecretValueError) as caught:
        secret_from("github", b"hunter2\nhunter2")
    ours = caught.value.__traceback__
    ours = ours.tb_next if ours else None  # the first frame is this test, which has the value itself
    shown = "".join(
        traceback.TracebackException(SecretValueError, caught.value, ours, capture_locals=True).format()
    )
    assert "secret_from" in shown
    assert "hunter2" not in shown


def test_a_cookie_carries_exactly_the_cookie_octets() -> None:
    """RFC 6265: visible ASCII without quote, comma, semicolon and backslash."""
    carried = {byte for byte in range(256) if is_cookie_value(bytes([byte]))}
    assert carried == set(range(0x21, 0x7F)) - set(b'",;\\')
    assert not is_cookie_value(b"")
    assert not is_cookie_value(b"x\n")


def test_control_bytes_are_c0_and_delete() -> None:
    assert {byte for byte in range(256) if has_control_byte(bytes([byte]))} == {*range(0x20), 0x7F}
