"""A plain question is read, everything else is an error of few bytes, or nothing."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest

from egress.proxy.dns.wire_format import DnsFault, DnsQuestion, Rcode, encode_answer, encode_fault, read_query
from tests.unit.proxy.dns_messages import AAAA, OPT, edns, query, told, wire_name

DOOR = IPv4Address("10.9.0.1")


def question(data: bytes) -> DnsQuestion:
    found = read_query(data)
    assert isinstance(found, DnsQuestion)
    return found


def fault(data: bytes) -> Rcode:
    found = read_query(data)
    assert isinstance(found, DnsFault)
    reply = told(encode_fault(found))
    assert reply.rcode == found.rcode
    assert len(encode_fault(found)) <= len(data)
    return found.rcode


# Questions --------------------------------------------------------------------------------------


def test_reads_a_plain_question() -> None:
    data = query("api.example.com", AAAA, number=7)
    assert read_query(data) == DnsQuestion(
        id=7,
        recursion=True,
        wire=data[12:],
        name="api.example.com",
        spelled="api.example.com",
        kind=AAAA,
        edns=False,
    )


def test_a_name_in_mixed_case_is_the_same_name_and_comes_back_as_it_was() -> None:
    """Resolvers mix the case of letters at random and compare what comes back."""
    asked = question(query("aPi.EXample.com"))
    assert asked.name == "api.example.com"
    assert told(encode_answer(asked, Rcode.NOERROR, DOOR)).question == query("aPi.EXample.com")[12:]


def test_flags_for_security_are_no_fault() -> None:
    """AD and CD ask for something that nobody here gives."""
    assert question(query("api.example.com", flags=0x0130)).name == "api.example.com"


@pytest.mark.parametrize(
    ("raw", "spelled"),
    [
        (wire_name(b"api.example", b"com"), "api\\046example.com"),
        (wire_name(b"api", b"exa\x00mple", b"com"), "api.exa\\000mple.com"),
        (wire_name(b"\xff\xfe", b"evil"), "\\255\\254.evil"),
        (wire_name(b"a b", b"evil"), "a\\032b.evil"),
        (wire_name(b"10", b"0", b"0", b"1"), "10.0.0.1"),
        (wire_name(b"*", b"example", b"com"), "*.example.com"),
    ],
)
def test_a_name_that_is_no_host_name_is_spelled_for_people(raw: bytes, spelled: str) -> None:
    asked = question(query(raw))
    assert asked.name == ""
    assert asked.spelled == spelled


def test_the_longest_name_is_read() -> None:
    asked = question(query(wire_name(b"a" * 63, b"b" * 63, b"c" * 63, b"d" * 61)))
    assert len(asked.name) == 253


# Answers ----------------------------------------------------------------------------------------


def test_an_answer_gives_the_address_for_a_short_time() -> None:
    reply = told(encode_answer(question(query("api.example.com", number=9)), Rcode.NOERROR, DOOR))
    assert (reply.number, reply.rcode, reply.addresses) == (9, 0, ("10.9.0.1",))
    assert 0 < reply.ttl <= 10
    assert reply.flags == 0x8180


def test_recursion_is_mirrored() -> None:
    reply = told(encode_answer(question(query("api.example.com", flags=0)), Rcode.NXDOMAIN))
    assert reply.flags == 0x8083


def test_an_opt_record_is_answered_with_one() -> None:
    reply = told(encode_answer(question(edns("api.example.com")), Rcode.NOERROR, DOOR))
    assert reply.has_opt
    assert reply.addresses == ("10.9.0.1",)


def test_options_in_an_opt_record_are_not_answered() -> None:
    cookie = OPT[:-2] + b"\x00\x0c\x00\x0a\x00\x08cookie!!"
    reply = encode_answer(question(edns("api.example.com", record=cookie)), Rcode.NXDOMAIN)
    assert b"cookie" not in reply


# No answer --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [b"", b"\x00" * 11, query("api.example.com", flags=0x8180), query("a.b", flags=0x8000)]
)
def test_responses_and_scraps_get_no_answer(data: bytes) -> None:
    """Else two servers could be made to answer each other for ever."""
    assert read_query(data) is None


# Errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("opcode", [1, 2, 4, 5, 6, 15])
def test_other_operations_are_not_implemented(opcode: int) -> None:
    assert fault(query("api.example.com", flags=opcode << 11)) == Rcode.NOTIMP


@pytest.mark.parametrize("space", [0, 3, 4, 254, 255])
def test_other_classes_are_refused(space: int) -> None:
    assert fault(query("version.bind", 16, space=space)) == Rcode.REFUSED


@pytest.mark.parametrize("kind", [251, 252])
def test_transfers_are_refused(kind: int) -> None:
    assert fault(query("example.com", kind)) == Rcode.REFUSED


def test_the_root_is_refused() -> None:
    assert fault(query(b"\x00", 2)) == Rcode.REFUSED


@pytest.mark.parametrize(
    "data",
    [
        query("api.example.com", counts=(0, 0, 0, 0)),
        query("api.example.com", counts=(2, 0, 0, 0)),
        query("api.example.com", counts=(2, 0, 0, 0), more=query("b.example")[12:]),
        query("api.example.com", counts=(1, 1, 0, 0)),
        query("api.example.com", counts=(1, 0, 1, 0)),
        query("api.example.com", counts=(1, 0, 0, 1)),
        query("api.example.com", counts=(1, 0, 0, 2), more=OPT * 2),
        query("api.example.com", flags=0x0300),
        query("api.example.com", more=b"\x00"),
        query("api.example.com", more=OPT),
        edns("api.example.com", record=OPT + b"\x00"),
        edns("api.example.com", record=OPT[:-1]),
        edns("api.example.com", record=b"\x01" + OPT[1:]),
        edns("api.example.com", record=b"\x00\x00\x01" + OPT[3:]),
        edns("api.example.com", record=OPT[:-2] + b"\x00\x04\x00\x0a\x00\x08"),
        edns("api.example.com", record=OPT[:-2] + b"\x00\x03\x00\x0a\x00"),
        query("api.example.com")[:-1],
        query("api.example.com")[:-5],
        query("api.example.com")[:20],
        query("api.example.com")[:12],
        query(b"\xc0\x0c"),
        query(b"\x03api\xc0\x0c"),
        query(b"\x40" + b"a" * 64 + b"\x00"),
        query(b"\x80\x00"),
        query(wire_name(b"a" * 63, b"b" * 63, b"c" * 63, b"d" * 62)),
        query(wire_name(*[b"a"] * 128)),
        edns("api.example.com", record=OPT[:-2] + b"\x04\xd0" + bytes(1232)),
    ],
)
def test_what_is_not_exactly_one_question_is_malformed(data: bytes) -> None:
    assert fault(data) == Rcode.FORMERR


def test_another_version_of_edns_is_refused_in_an_opt_record() -> None:
    found = read_query(edns("api.example.com", record=OPT[:6] + b"\x01" + OPT[7:]))
    assert isinstance(found, DnsFault)
    assert told(encode_fault(found)).rcode == Rcode.BADVERS
    assert told(encode_fault(found)).has_opt


def test_an_error_carries_nothing_of_the_question() -> None:
    found = read_query(query("c2VjcmV0.evil.example", more=b"\x00"))
    assert isinstance(found, DnsFault)
    assert len(encode_fault(found)) == 12


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (query("C2VjcmV0.evil.example", more=b"\x00"), "c2vjcmv0.evil.example"),
        (query(wire_name(b"a.b", b"\xff"), 252), "a\\046b.\\255"),
        (query(b"\x00", 2), ""),
        (query("a.b", flags=0x2800), ""),
        (query(b"\x03api\xc0\x0c"), ""),
    ],
)
def test_an_error_knows_the_name_where_one_was_read(data: bytes, name: str) -> None:
    """It is for the record: data can be in a name whatever is wrong behind it."""
    found = read_query(data)
    assert isinstance(found, DnsFault)
    assert found.name == name
