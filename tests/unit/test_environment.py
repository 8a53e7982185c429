"""What the process was started with, read in one place."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress import environment
from egress.errors import UnreadableError


def test_the_environment_is_handed_out_as_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EGRESS_SAMPLE", "one")
    found = dict(environment.read_environment())
    assert found["EGRESS_SAMPLE"] == "one"
    found["EGRESS_SAMPLE"] = "two"
    assert environment.read_environment()["EGRESS_SAMPLE"] == "one"


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
    assert environment.is_plain_output(environ) is plain


HOME = {"HOME": "/home/you"}


@pytest.mark.parametrize(
    ("environ", "config", "state", "runtime"),
    [
        (HOME, "/home/you/.config", "/home/you/.local/state", "/home/you/.local/state/egress/run"),
        (
            {**HOME, "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r"},
            "/c",
            "/s",
            "/r/egress",
        ),
        (
            {**HOME, "XDG_CONFIG_HOME": "c", "XDG_STATE_HOME": "./s", "XDG_RUNTIME_DIR": "r"},
            "/home/you/.config",
            "/home/you/.local/state",
            "/home/you/.local/state/egress/run",
        ),
    ],
    ids=["nothing set", "all set", "relative ones are ignored"],
)
def test_folders_are_where_the_desktop_says(
    environ: dict[str, str], config: str, state: str, runtime: str
) -> None:
    assert environment.config_dir(environ) == Path(config) / "egress"
    assert environment.state_dir(environ) == Path(state) / "egress"
    assert environment.runtime_dir(environ) == Path(runtime)


def test_our_own_variables_come_first() -> None:
    environ = {**HOME, "XDG_RUNTIME_DIR": "/r", "EGRESS_STATE_DIR": "/a", "EGRESS_RUNTIME_DIR": "/b"}
    assert environment.state_dir(environ) == Path("/a")
    assert environment.runtime_dir(environ) == Path("/b")


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "."}])
def test_without_a_home_it_says_what_to_set(environ: dict[str, str]) -> None:
    with pytest.raises(UnreadableError) as caught:
        environment.state_dir(environ)
    assert "XDG_STATE_HOME" in caught.value.hint
