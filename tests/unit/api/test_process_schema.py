"""What a client may ask of a process, and the shape of an event of its output."""

from __future__ import annotations

import msgspec
import pytest

from egress.api.process_schema import (
    OutputEventView,
    OutputQuery,
    ProcessSettings,
    SignalSettings,
    WaitSettings,
)


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (ProcessSettings, {"argv": ["x"], "detached": True}),
        (ProcessSettings, {"argv": "x"}),
        (OutputQuery, {"offset": -1}),
        (OutputQuery, {"stream": "stdin"}),
        (SignalSettings, {"name": "x" * 5000}),
        (WaitSettings, {"log": "x" * 5000}),
        (WaitSettings, {"pattern": "x"}),
    ],
    ids=["further", "words", "offset", "stream", "signal", "text", "pattern"],
)
def test_another_form_is_refused(kind: type[msgspec.Struct], wrong: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, kind)


def test_an_event_names_only_what_it_has() -> None:
    assert msgspec.json.encode(OutputEventView(offset=0, next=7)) == b'{"offset":0,"next":7}'
