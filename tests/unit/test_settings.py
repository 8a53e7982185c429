"""What the process was started with, read in one place."""

from __future__ import annotations

import pytest

from egress import settings


def test_the_environment_is_handed_out_as_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRESS_SAMPLE", "one")
    found = dict(settings.environment())
    assert found["EGRESS_SAMPLE"] == "one"
    found["EGRESS_SAMPLE"] = "two"
    assert settings.environment()["EGRESS_SAMPLE"] == "one"


@pytest.mark.parametrize(
    ("environ", "plain"),
    [
        ({}, False),
        ({"NO_COLOR": "1"}, True),
        ({"NO_COLOR": "anything"}, True),
        ({"NO_COLOR": ""}, False),
        ({"TERM": "dumb"}, True),
        ({"TERM": "xterm-256color"}, False),
    ],
)
def test_output_is_plain_where_the_user_or_the_terminal_wants_it(
    environ: dict[str, str], *, plain: bool
) -> None:
    assert settings.is_plain(environ) is plain
