"""The log holds no secret and no control character, whoever writes into it, at any level."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from egress.proxy.logs import Format, Level, set_up
from egress.scrub import Needles
from egress.types import Secret

VALUE = "sesame-open-sesame-42"
NEEDLES = Needles.of([Secret("tracker", VALUE.encode())])


class Clock:
    """A clock that stands."""

    def now(self) -> int:
        return 1_800_000_000

    def now_ns(self) -> int:
        return 1_800_000_000_123_456_789

    def monotonic(self) -> float:
        return 0.0


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("egress")
    before = list(root.handlers), root.level, ours.level, logging.raiseExceptions
    yield
    structlog.reset_defaults()
    root.handlers[:], level, ours_level, logging.raiseExceptions = before
    root.setLevel(level)
    ours.setLevel(ours_level)


def log(level: Level = "info", form: Format = "json") -> io.StringIO:
    out = io.StringIO()
    set_up(level, form, Clock(), lambda: NEEDLES, out)
    return out


def events(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_an_event_is_one_line_with_its_facts() -> None:
    out = log()
    structlog.get_logger("egress.proxy").info("rules.loaded", digest="abc", hosts=3)
    assert events(out) == [
        {
            "time": "2027-01-15T08:00:00.123Z",
            "level": "info",
            "logger": "egress.proxy",
            "event": "rules.loaded",
            "digest": "abc",
            "hosts": 3,
        }
    ]


def test_text_is_one_line_too() -> None:
    out = log(form="text")
    structlog.get_logger("egress.proxy").warning("rules.refused", why="a b", n=1, empty="")
    assert out.getvalue() == '2027-01-15T08:00:00.123Z warning rules.refused why="a b" n=1 empty=""\n'


def test_auto_is_json_where_nobody_looks() -> None:
    out = log(form="auto")
    structlog.get_logger("egress").info("x")
    assert events(out)


def test_the_level_is_kept() -> None:
    out = log("warning")
    structlog.get_logger("egress.a").info("no")
    logging.getLogger("egress.a").info("no")
    structlog.get_logger("egress.a").warning("yes")
    assert [event["event"] for event in events(out)] == ["yes"]


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("name", ["egress.proxy", "hpack", "mitmproxy.proxy", "asyncio"])
def test_no_secret_is_logged_at_any_level(form: Format, name: str) -> None:
    """S-72, for whoever logs and in whatever way."""
    out = log("debug", form)
    ours, theirs = structlog.get_logger(name), logging.getLogger(name)
    for tell in (ours.debug, ours.info, ours.error):
        tell(f"found {VALUE}", header=VALUE.encode(), deep={"a": [VALUE]}, **{f"key_{VALUE}": 1})
    for hear in (theirs.debug, theirs.info, theirs.error):
        hear("found %s in %r", VALUE, {"x": VALUE})
    try:
        int(VALUE)
    except ValueError:
        ours.exception("failed")
        theirs.exception("failed")
    assert out.getvalue()
    assert VALUE not in out.getvalue()


def test_the_twin_without_a_secret_shows_what_it_was_told() -> None:
    out = log("debug")
    logging.getLogger("egress.door").debug("found %s", "nothing")
    structlog.get_logger("egress.door").debug("found", header=b"nothing")
    assert out.getvalue().count("nothing") == 2


def test_other_libraries_are_not_asked_to_debug() -> None:
    """Some print every header they decode when they are."""
    out = log("debug")
    for name in ("hpack", "h2", "mitmproxy", "asyncio"):
        logging.getLogger(name).debug("a header")
        logging.getLogger(name).info("a header")
    assert out.getvalue() == ""


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_a_peer_wrote_is_one_line_of_plain_characters(form: Format) -> None:
    """Class 24: a log line cannot be forged, and a terminal is told nothing."""
    out = log(form=form)
    evil = "x\r\n2027 info all.fine\x1b[2J\u202e\x00"
    structlog.get_logger("egress.a").info(f"event {evil}", **{f"key{evil}": evil, "plain": evil})
    logging.getLogger("egress.a").warning("%s", evil)
    lines = out.getvalue().split("\n")
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_failure_is_told_with_its_traceback(form: Format) -> None:
    out = log(form=form)
    try:
        int("of ours")
    except ValueError:
        structlog.get_logger("egress.a").exception("failed")
        logging.getLogger("egress.a").exception("failed")
    assert out.getvalue().count("ValueError: invalid literal") == 2


def test_what_cannot_be_searched_is_not_shown() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError(VALUE)

    out = log()
    structlog.get_logger("egress.a").info("event", value=Hostile())
    logging.getLogger("egress.a").info("%s", "still logging")
    assert VALUE not in out.getvalue()
    assert "still logging" in out.getvalue()
