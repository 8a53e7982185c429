"""The ClientHello is read strictly: what real clients send passes, anything with two readings does not."""

from __future__ import annotations

import ssl

import pytest

from egress.errors import WireError
from egress.tls.client_hello import MAX_HELLO_BYTES, ClientHello, HelloReader, looks_like_tls
from tests.unit.proxy.hellos import body, hello, message, protocols, real, records, server_name, versions

NAME = server_name(b"api.example.com")


def read(data: bytes) -> ClientHello | None:
    return HelloReader().feed(data)


def refused(data: bytes) -> str:
    with pytest.raises(WireError) as caught:
        read(data)
    return caught.value.message


# Real clients -----------------------------------------------------------------------------------


def test_reads_what_openssl_sends() -> None:
    assert read(real("api.example.com", ["h2", "http/1.1"])) == ClientHello(
        "api.example.com", ("h2", "http/1.1"), (0x0304, 0x0303)
    )


def test_reads_a_client_of_tls_1_2() -> None:
    assert read(real("api.example.com", most=ssl.TLSVersion.TLSv1_2)) == ClientHello(
        "api.example.com", (), (0x0303,)
    )


def test_a_client_that_names_no_server_has_an_empty_name() -> None:
    found = read(real(None))
    assert found is not None
    assert found.sni == ""


def test_openssl_names_no_server_for_an_address() -> None:
    found = read(real("192.0.2.7"))
    assert found is not None
    assert found.sni == ""


def test_the_name_comes_in_its_canonical_spelling() -> None:
    found = read(real("API.Example.Com"))
    assert found is not None
    assert found.sni == "api.example.com"


def test_reads_a_hello_with_invented_values_as_browsers_send_it() -> None:
    """GREASE: unknown extensions, versions, suites and protocols are no reason for anything."""
    listed = [
        (0x0A0A, b""),
        NAME,
        protocols(b"\x0a\x0a", b"h2", b"http/1.1"),
        versions(0x1A1A, 0x0304, 0x0303),
        (0x2A2A, b"\x00"),
        (21, bytes(300)),
    ]
    found = read(
        records(message(body(listed, session=bytes(32), suites=b"\x3a\x3a\x13\x01\x13\x02\x00\xff")))
    )
    assert found == ClientHello("api.example.com", ("\n\n", "h2", "http/1.1"), (0x1A1A, 0x0304, 0x0303))


def test_reads_a_hello_without_extensions() -> None:
    assert read(records(message(body(None)))) == ClientHello("", (), (0x0303,))


def test_early_data_behind_the_hello_is_not_looked_at() -> None:
    data = hello(NAME) + b"\x14\x03\x03\x00\x01\x01" + b"\x17\x03\x03\x00\x02hi"
    assert read(data) == read(hello(NAME))


# Pieces -----------------------------------------------------------------------------------------


def test_a_hello_may_come_byte_by_byte() -> None:
    reader = HelloReader()
    data = hello(NAME)
    for at in range(len(data) - 1):
        assert reader.feed(data[at : at + 1]) is None
    assert reader.feed(data[-1:]) == ClientHello("api.example.com", (), (0x0303,))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 50])
def test_a_hello_may_lie_in_several_records(size: int) -> None:
    assert read(records(message(body([NAME])), size)) == read(hello(NAME))


def test_a_complete_hello_is_told_again() -> None:
    reader = HelloReader()
    first = reader.feed(hello(NAME))
    assert reader.feed(b"more") == first
    assert reader.feed(b"") == first


def test_a_refusal_is_told_again() -> None:
    reader = HelloReader()
    for _ in range(3):
        with pytest.raises(WireError, match="This is not TLS"):
            reader.feed(b"GET / HTTP/1.1\r\n\r\n")


def test_little_is_kept_of_a_flood() -> None:
    reader = HelloReader()
    assert reader.feed(hello(NAME)[:20]) is None
    reader.feed(hello(NAME)[20:] + bytes(1 << 22))
    reader = HelloReader()
    reader.feed(b"\x16\x03\x01\x40\x00")
    with pytest.raises(WireError):
        reader.feed(bytes(1 << 22))
    assert len(reader._kept) <= MAX_HELLO_BYTES + 5


# Encrypted hellos -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [0xFE0D, 0xFE0A, 0xFE08, 0xFFCE])
def test_a_hello_that_may_hide_another_is_marked(kind: int) -> None:
    found = read(hello(NAME, (kind, bytes(120))))
    assert found == ClientHello("api.example.com", (), (0x0303,), encrypted=True)


def test_a_plain_hello_is_not_marked() -> None:
    found = read(real("api.example.com"))
    assert found is not None
    assert not found.encrypted


# What is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n", b"SSH-2.0-x", b"\x80\x2e\x01\x03\x01", b"\x05\x01\x00", b"\x00"]
)
def test_what_is_no_tls_is_refused_at_its_first_byte(data: bytes) -> None:
    assert refused(data[:1]) == refused(data) == "This is not TLS."
    assert not looks_like_tls(data[0])


def test_tls_looks_like_tls() -> None:
    assert looks_like_tls(real("api.example.com")[0])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x16\x02", "This is not TLS."),
        (b"\x16\x03\x00", "The TLS record has an unknown version."),
        (b"\x16\x03\x04", "The TLS record has an unknown version."),
        (b"\x15\x03\x01\x00\x02\x01\x00", "This is not TLS."),
        (b"\x16\x03\x01\x00\x00", "The TLS record is empty or too long."),
        (b"\x16\x03\x01\x40\x01", "The TLS record is empty or too long."),
        (records(message(body([NAME]), kind=2)), "TLS does not start with a ClientHello."),
        (records(b"\x01\x01\x00\x00"), "The ClientHello is too long."),
        (records(message(body([NAME])) + b"\x00"), "Something follows the ClientHello in its record."),
        (records(message(body([NAME])) * 2), "Something follows the ClientHello in its record."),
    ],
)
def test_broken_framing_is_refused(data: bytes, why: str) -> None:
    assert refused(data) == why


def test_half_a_hello_is_waited_for() -> None:
    assert read(hello(NAME)[:-1]) is None
    assert read(records(message(body([NAME])), 50)[:55]) is None


def test_a_hello_that_is_too_long_is_refused_before_it_has_come() -> None:
    inside = body([NAME, (21, bytes(MAX_HELLO_BYTES))])
    assert refused(records(message(inside))[: 5 + (1 << 14)]) == "The ClientHello is too long."


def test_many_tiny_records_are_too_long_as_well() -> None:
    data = records(message(body([NAME, (21, bytes(4000))])), 1)
    assert len(data) > MAX_HELLO_BYTES
    assert refused(data) == "The ClientHello is too long."


def test_a_long_hello_within_the_limit_is_read() -> None:
    found = read(records(message(body([NAME, (21, bytes(16000))])), 1 << 13))
    assert found is not None
    assert found.sni == "api.example.com"


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        (b"", "The ClientHello is cut short."),
        (body([NAME], legacy=0x0300), "The ClientHello has an unknown version."),
        (body([NAME], legacy=0x0304), "The ClientHello has an unknown version."),
        (body([NAME], legacy=0x0203), "The ClientHello has an unknown version."),
        (body([NAME], session=bytes(33)), "The session of the ClientHello is too long."),
        (body([NAME], suites=b""), "The cipher suites of the ClientHello are malformed."),
        (body([NAME], suites=b"\x13\x01\x13"), "The cipher suites of the ClientHello are malformed."),
        (body([NAME], compression=b""), "The ClientHello asks for compression only."),
        (body([NAME], compression=b"\x01"), "The ClientHello asks for compression only."),
        (body([NAME]) + b"\x00", "A length in the ClientHello does not fit."),
        (body([NAME])[:-1], "The ClientHello is cut short."),
        (body([NAME, NAME]), "An extension of the ClientHello is repeated."),
        (body([(5, b""), (5, b"")]), "An extension of the ClientHello is repeated."),
        (body([protocols()]), "The protocols of the ClientHello are malformed."),
        (body([protocols(b"h2", b"")]), "The protocols of the ClientHello are malformed."),
        (body([(16, b"\x00\x04\x02h2")]), "The ClientHello is cut short."),
        (body([versions()]), "The versions of the ClientHello are malformed."),
        (body([(43, b"\x03\x03\x04\x03")]), "The versions of the ClientHello are malformed."),
        (body([(43, b"\x02\x03\x04\x03\x03")]), "A length in the ClientHello does not fit."),
    ],
)
def test_a_malformed_message_is_refused(inside: bytes, why: str) -> None:
    assert refused(records(message(inside))) == why


@pytest.mark.parametrize(
    ("extension", "why"),
    [
        (server_name(b"a.example", b"b.example"), "The ClientHello names more than one server."),
        (server_name(b"a.example", b"a.example"), "The ClientHello names more than one server."),
        (server_name(b"a.example", kind=1), "The server name of the ClientHello is not a host name."),
        (server_name(), "The ClientHello is cut short."),
        ((0, b""), "The ClientHello is cut short."),
        ((0, server_name(b"a.example")[1] + b"\x00"), "A length in the ClientHello does not fit."),
    ],
)
def test_a_server_name_that_is_not_exactly_one_is_refused(extension: tuple[int, bytes], why: str) -> None:
    assert refused(hello(extension)) == why


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b".",
        b"api.example.com\x00",
        b"api.example.com\x00.evil.example",
        b"api..example.com",
        b"api.example.com..",
        b"api example.com",
        b"api.example.com:443",
        b"*.example.com",
        b"192.0.2.7",
        b"::1",
        b"[::1]",
        b"0x7f.1",
        "bücher.example".encode(),
        b"\xff\xfe",
        b"xn--a",
        b"a" * 64 + b".example",
        b".".join([b"a" * 60] * 5),
    ],
)
def test_a_server_name_without_a_canonical_spelling_is_refused(name: bytes) -> None:
    assert refused(hello(server_name(name))) == "The server name of the ClientHello is not a valid host name."


def test_a_refusal_never_quotes_the_client() -> None:
    with pytest.raises(WireError) as caught:
        read(hello(server_name(b"secret words")))
    assert "secret" not in str(caught.value) + caught.value.hint
    assert caught.value.__cause__ is None
