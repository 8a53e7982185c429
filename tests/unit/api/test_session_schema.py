"""What a client may ask of a session."""

from __future__ import annotations

import msgspec
import pytest

from egress.api.session_schema import SessionCommandResult, SessionCommandSettings, SessionSettings


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (SessionSettings, {"folder": "/"}),
        (SessionSettings, {"cwd": "/" * 5000}),
        (SessionSettings, {"env": {"A": 1}}),
        (SessionCommandSettings, {}),
        (SessionCommandSettings, {"argv": ["x"]}),
        (SessionCommandSettings, {"command": "x", "encoding": "latin-1"}),
    ],
    ids=["further", "long", "value", "nothing", "words", "encoding"],
)
def test_another_form_is_refused(kind: type[msgspec.Struct], wrong: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, kind)


def test_a_result_says_whether_the_shell_goes_on() -> None:
    assert b'"state_kept":false' in msgspec.json.encode(SessionCommandResult(exit_code=1, state_kept=False))
