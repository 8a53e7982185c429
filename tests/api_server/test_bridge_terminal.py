"""The messages of a command in a terminal: the line, typed input, sizes, and the end."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.api.schema import (
    Problem,
    ProblemMessage,
    ResizeMessage,
    ResultMessage,
    StartedMessage,
    TakenMessage,
    TerminalSize,
)
from egress.api_server.bridge_terminal import TerminalForm, TerminalQuery

FORM = TerminalForm(TerminalQuery(cols=100, rows=30))


def test_the_first_message_is_a_line_for_a_shell() -> None:
    message = FORM.start({"type": "websocket.receive", "bytes": b"echo 'a\nb'\n"})
    assert message.argv[-1] == "echo 'a\nb'"
    assert message.terminal == TerminalSize(columns=100, rows=30)
    with pytest.raises(UnicodeDecodeError):
        FORM.start({"bytes": b"\xff\n"})


def test_later_messages_are_input_or_a_size() -> None:
    assert FORM.request({"bytes": b"\x03"}) == b"\x03"
    resize = FORM.request({"text": '{"type":"resize","cols":5,"rows":6}'})
    assert resize == ResizeMessage(columns=5, rows=6)


@given(st.text(max_size=100) | st.sampled_from(['{"type":"resize","cols":0,"rows":1}', '{"type":"kill"}']))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises((msgspec.MsgspecError, UnicodeError)):
        FORM.request({"text": text})


def test_only_the_end_is_told() -> None:
    assert FORM.answer(StartedMessage()) is FORM.answer(TakenMessage()) is None
    assert FORM.answer(ResultMessage(exit_code=3)) == '{"type":"exit","code":3}'
    problem = ProblemMessage(problem=Problem(type="sandbox.died", message="it ended", hint="again"))
    assert FORM.answer(problem) == '{"type":"error","message":"it ended"}'
    assert FORM.output(b"\x01", b"out") == b"out"
