"""The log holds no secret and no control character, whoever writes into it, at any level."""

from __future__ import annotations

import io
import json
import logging
from collections import Counter
from collections.abc import Iterator

import pytest
import structlog

from egress.proxy.process import logs
from egress.proxy.process.logs import (
    FOLDED_EVENT,
    MAX_LINES_PER_WINDOW,
    WINDOW_SECONDS,
    Format,
    Level,
    LogThrottle,
    set_up_logging,
)
from egress.scrub import Needles
from egress.types import Secret

VALUE = "sesame-open-sesame-42"
NEEDLES = Needles.of([Secret("tracker", VALUE.encode())])


class Clock:
    """A clock that stands until it is moved."""

    at = 0.0

    def now(self) -> int:
        return 1_800_000_000

    def now_ns(self) -> int:
        return 1_800_000_000_123_456_789

    def monotonic(self) -> float:
        return self.at


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
    set_up_logging(level, form, Clock(), lambda: NEEDLES, out)
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


def test_text_has_the_words_of_people_and_json_the_types_of_programs() -> None:
    facts = {
        "secrets": ["a", "b"],
        "pair": ("x", 1),
        "none": None,
        "yes": True,
        "empty": [],
        "set": {"d", "c"},
    }
    out = log(form="text")
    structlog.get_logger("egress.a").info("x", **facts)
    said = out.getvalue().partition(" x ")[2]
    assert said == 'secrets="a, b" pair="x, 1" none=- yes=yes empty="" set="c, d"\n'
    out = log()
    structlog.get_logger("egress.a").info("x", **facts)
    (found,) = events(out)
    assert (found["secrets"], found["pair"], found["none"], found["yes"]) == (
        ["a", "b"],
        ["x", 1],
        None,
        True,
    )


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


# Floods -------------------------------------------------------------------------------------------


def flooded() -> tuple[io.StringIO, Clock, LogThrottle]:
    """A log into which a sandbox has written as much as it could, by two ways."""
    out, clock = io.StringIO(), Clock()
    folding = set_up_logging("info", "json", clock, lambda: NEEDLES, out)
    for number in range(100):
        structlog.get_logger("egress.proxy").info("tls.refused", connection=number)
        logging.getLogger("egress.door").error("a connection ended by %s", number)
        structlog.get_logger("other.library").warning("odd", value=number)
    structlog.get_logger("egress.proxy").info("rules.loaded")
    return out, clock, folding


def kinds(out: io.StringIO) -> Counter[str]:
    return Counter(str(event["event"]).rstrip("0123456789") for event in events(out))


def test_of_one_kind_only_so_many_lines_are_written() -> None:
    out, _, _ = flooded()
    each = dict.fromkeys(("tls.refused", "a connection ended by ", "odd"), MAX_LINES_PER_WINDOW)
    assert kinds(out) == {**each, "rules.loaded": 1}


@pytest.mark.parametrize("by", ["tick", "another line"])
def test_what_was_folded_is_told_when_the_window_is_over(by: str) -> None:
    out, clock, folding = flooded()
    clock.at = WINDOW_SECONDS - 0.01
    folding.report_folded()
    assert kinds(out)[FOLDED_EVENT] == 0
    clock.at = WINDOW_SECONDS
    if by == "tick":
        folding.report_folded()
        folding.report_folded()
    else:
        structlog.get_logger("egress.proxy").info("tls.refused")
    told = [event for event in events(out) if event["event"] == FOLDED_EVENT]
    assert [event["lines"] for event in told] == [100 - MAX_LINES_PER_WINDOW] * 3
    assert told[0]["of"] == "tls.refused"
    assert str(told[1]["of"]).startswith("egress.door:")


def test_after_a_window_lines_are_written_again() -> None:
    out, clock, _ = flooded()
    clock.at = WINDOW_SECONDS
    structlog.get_logger("egress.proxy").info("tls.refused")
    assert kinds(out)["tls.refused"] == MAX_LINES_PER_WINDOW + 1


def test_kinds_that_others_make_up_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_EVENT_KINDS", 5)
    out = log()
    for number in range(100):
        structlog.get_logger("egress.proxy").info(f"made.up{number}")
    assert sum(kinds(out).values()) == 5 + MAX_LINES_PER_WINDOW


def test_what_cannot_be_searched_is_not_shown() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError(VALUE)

    out = log()
    structlog.get_logger("egress.a").info("event", value=Hostile())
    logging.getLogger("egress.a").info("%s", "still logging")
    assert VALUE not in out.getvalue()
    assert "still logging" in out.getvalue()
