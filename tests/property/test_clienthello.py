"""Whatever comes, there is a hello, a wait or a `WireError`; how it was cut makes no difference."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from egress.errors import WireError
from egress.rules.language.hosts import is_canonical
from egress.tls.client_hello import ClientHello, HelloReader
from tests.unit.proxy.hellos import body, message, protocols, records, server_name, versions

Outcome = ClientHello | str | None

names = st.sampled_from([b"api.example.com", b"API.example.com.", b"a\x00b", b"", b"1.2.3.4", b"\xff"])
extensions = st.lists(
    st.one_of(
        st.lists(names, min_size=1, max_size=2).map(lambda found: server_name(*found)),
        st.lists(st.binary(max_size=9), max_size=3).map(lambda found: protocols(*found)),
        st.lists(st.integers(0, 0xFFFF), max_size=4).map(lambda found: versions(*found)),
        st.tuples(st.sampled_from([0, 16, 21, 43, 51, 0xFE0D, 0x0A0A]), st.binary(max_size=40)),
    ),
    max_size=5,
)
hellos = st.builds(
    lambda listed, session, size: records(message(body(listed, session=session)), size),
    extensions,
    st.binary(max_size=34),
    st.integers(1, 200),
)
mutated = st.builds(
    lambda data, at, byte: data[: at % len(data)] + bytes([byte]) + data[at % len(data) + 1 :],
    hellos,
    st.integers(0),
    st.integers(0, 255),
)
cut_off = st.builds(lambda data, at: data[: at % len(data)], hellos, st.integers(0))
anything = st.one_of(hellos, mutated, cut_off, st.binary(), st.binary().map(b"\x16\x03\x01".__add__))


def outcome(*pieces: bytes) -> Outcome:
    """What the last piece brings; the first hello or refusal stands."""
    reader = HelloReader()
    found: Outcome = None
    for piece in pieces:
        try:
            found = reader.feed(piece)
        except WireError as error:
            found = f"{error.message} {error.hint}"
    return found


@given(anything)
def test_every_input_has_an_outcome(data: bytes) -> None:
    found = outcome(data)
    if isinstance(found, ClientHello):
        assert found.sni == "" or is_canonical(found.sni)


@given(anything, st.lists(st.integers(0, 400), max_size=6))
def test_cutting_makes_no_difference(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(edges)]
    assert outcome(*pieces) == outcome(data)


@given(anything, st.binary(max_size=40))
def test_a_verdict_is_never_taken_back(data: bytes, more: bytes) -> None:
    found = outcome(data)
    if found is not None:
        assert outcome(data + more) == found
        assert outcome(data, more) == found


@given(hellos, st.integers(0))
def test_a_part_of_a_good_hello_is_waited_for(data: bytes, at: int) -> None:
    if isinstance(outcome(data), ClientHello):
        assert outcome(data[: at % len(data)]) is None
