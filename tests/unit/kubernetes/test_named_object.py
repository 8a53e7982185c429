"""A ConfigMap and a Secret are read strictly, and never shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.errors import ContentError
from egress.kubernetes import named_object
from egress.kubernetes.named_object import NamedObject, read_named_object, read_object_event
from egress.kubernetes.watch_events import EventType

META = {"name": "m", "namespace": "agents", "uid": "u", "resourceVersion": "7"}
VALUE = "c2VzYW1l"


def encoded(**more: object) -> bytes:
    return json.dumps({"kind": "Secret", "metadata": META, **more}).encode()


def test_the_data_and_the_metadata_are_read() -> None:
    found = read_named_object(encoded(data={"k": VALUE}, binaryData={"b": "AA=="}, immutable=False))
    assert found.data == {"k": VALUE}
    assert found.keys == {"k", "b"}
    assert (found.metadata.name, found.metadata.resource_version) == ("m", "7")
    assert read_named_object(encoded(data=None)).keys == frozenset()


def test_no_value_is_shown() -> None:
    found = read_named_object(encoded(data={"k": VALUE}))
    assert VALUE not in f"{found} {found!r} {[found]}"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"<html>",
        b"[" * 100_000,
        encoded(data=[VALUE]),
        encoded(data={"k": 1}),
        encoded(data={"k": None}),
        encoded(metadata={**META, "uid": ""}),
        encoded(metadata={**META, "resourceVersion": "x"}),
        encoded(metadata={**META, "resourceVersion": 7}),
        encoded(metadata=None),
        encoded(data={"k": VALUE})[:-1],
        b"\xff" + encoded(),
    ],
)
def test_anything_else_is_an_error_that_quotes_nothing(data: bytes) -> None:
    with pytest.raises(ContentError) as error:
        read_named_object(data)
    assert VALUE not in f"{error.value} {error.value.hint}"


def test_an_object_that_is_too_long_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_object, "MAX_OBJECT_BYTES", 20)
    with pytest.raises(ContentError, match="too long"):
        read_named_object(encoded())
    with pytest.raises(ContentError, match="too long"):
        read_object_event(encoded())


def test_events_are_told_apart() -> None:
    line = json.dumps({"type": "DELETED", "object": {"metadata": META, "data": {"k": VALUE}}}).encode()
    kind, found = read_object_event(line)
    assert kind is EventType.DELETED
    assert isinstance(found, NamedObject)
    assert read_object_event(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}') == (
        EventType.BOOKMARK,
        None,
    )
    with pytest.raises(ContentError, match="with 410"):
        read_object_event(b'{"type":"ERROR","object":{"kind":"Status","code":410}}')
    for wrong in (b'{"type":"GONE","object":{}}', b'{"type":"ADDED"}', b'{"type":"ADDED","object":null}'):
        with pytest.raises(ContentError):
            read_object_event(wrong)


@given(st.binary(max_size=200))
def test_bytes_are_an_object_or_a_content_error(data: bytes) -> None:
    for reader in (read_named_object, read_object_event):
        try:
            reader(data)
        except ContentError:
            continue
