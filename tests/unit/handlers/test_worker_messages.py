"""Messages between a proxy and its workers: what is sent is what comes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.handlers.worker_messages import LENGTH_BYTES, Reply, frame

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    st.builds(
        Reply, ticket=st.binary(), kind=st.just("allow"), path=TEXTS, headers=st.dictionaries(TEXTS, TEXTS)
    )
)
def test_a_frame_says_its_length(reply: Reply) -> None:
    data = frame(reply)
    assert int.from_bytes(data[:LENGTH_BYTES], "big") == len(data) - LENGTH_BYTES
    assert msgspec.msgpack.decode(data[LENGTH_BYTES:], type=Reply) == reply


@given(st.binary(max_size=200))
def test_any_bytes_are_a_reply_or_an_error(data: bytes) -> None:
    try:
        reply = msgspec.msgpack.decode(data, type=Reply)
    except msgspec.DecodeError:
        return
    assert reply.kind in ("allow", "answer", "deny", "raised", "value")


@pytest.mark.parametrize("fields", [{"status": "200"}, {"headers": {"a": 1}}, {"path": 5}, {"kind": "maybe"}])
def test_a_field_of_another_type_is_refused(fields: dict[str, object]) -> None:
    whole = {"ticket": b"t", "kind": "allow", **fields}
    names = ("ticket", "kind", "detail", "status", "method", "path", "query", "headers")
    defaults = {"detail": "", "status": 0, "method": None, "path": None, "query": None, "headers": {}}
    data = msgspec.msgpack.encode([{**defaults, **whole}[name] for name in names])
    with pytest.raises(msgspec.DecodeError):
        msgspec.msgpack.decode(data, type=Reply)
