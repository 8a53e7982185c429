"""No event leaves the processor with a secret in it, whatever it is hidden in."""

from __future__ import annotations

import base64
import io
import json
import traceback
from dataclasses import dataclass
from pathlib import PurePath

import pytest
import structlog

from egress.scrub import Needles
from egress.secrets.needle_cache import compile_needles
from egress.secrets.redact import Redactor
from egress.secrets.source_value import SourceValue
from egress.secrets.value_history import KnownValue
from tests.unit.secrets.secret_samples import OTHER, TOKEN

TEXT = TOKEN.decode()
HIGH = "grüße-geheim".encode("latin-1")
WIDE = "straße-geheim".encode()
NEEDLES = compile_needles(
    tuple(KnownValue(f"s{n}", SourceValue(v), None) for n, v in enumerate((TOKEN, HIGH, WIDE)))
)


def redacted(**event: object) -> dict[str, object]:
    return dict(Redactor(lambda: NEEDLES)(None, "info", event))


@dataclass
class Thing:
    token: str


class Shy:
    """Its text and its `repr` differ."""

    def __repr__(self) -> str:
        return "Shy()"

    def __str__(self) -> str:
        return f"my token is {TEXT}"


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


NESTED: list[object] = [TEXT]
for _ in range(40):
    NESTED = [NESTED]
LOOP: list[object] = [TEXT]
LOOP.append(LOOP)


HIDEOUTS: dict[str, object] = {
    "text": TEXT,
    "bytes": TOKEN,
    "text with odd characters": f"Bearer {TEXT}, und größer, 世界, \udcff, \ud800",
    "base64": base64.b64encode(b"me:" + TOKEN).decode(),
    "containers": {"a": [{"b": (TEXT,)}]},
    "key": {TEXT: 1},
    "set": {TEXT},
    "kinds of bytes": [TOKEN, bytearray(TOKEN)],
    "repr": Thing(TEXT),
    "str": Shy(),
    "path": PurePath(f"/run/{TEXT}"),
    "exception": ValueError(TEXT),
    "deep": NESTED,
    "endless": LOOP,
    "high bytes": HIGH,
    "high bytes off the wire": HIGH.decode("latin-1"),
    "UTF-8 off the wire": WIDE.decode("latin-1"),
    "high bytes of a file name": HIGH.decode("utf-8", "surrogateescape"),
    "high bytes beside other text": f"世界 {HIGH.decode('utf-8', 'surrogateescape')}",
}


@pytest.mark.parametrize("value", HIDEOUTS.values(), ids=HIDEOUTS)
def test_a_secret_is_found_in_whatever_is_logged(value: object) -> None:
    shown = ascii(redacted(event="x", value=value)) + str(redacted(event="x", value=value)["value"])
    assert TEXT not in shown
    assert "geheim" not in shown
    assert base64.b64encode(TOKEN).decode()[:16] not in shown


def test_a_secret_is_found_in_the_event_itself_and_in_a_name() -> None:
    assert TEXT not in repr(redacted(event=f"got {TEXT}", **{TEXT: 1}))


def test_what_is_clean_stays_the_same() -> None:
    """The positive control."""
    thing = Thing("harmless")
    event = {
        "event": "grüße 世界 \udcff",
        "n": 3,
        "none": None,
        "yes": True,
        "thing": thing,
        "list": [1, {"a": b"b"}],
    }
    after = redacted(**event)
    assert after == event
    assert after["thing"] is thing


def test_a_number_can_be_a_secret() -> None:
    needles = compile_needles((KnownValue("pin", SourceValue(b"8273645546372819"), None),))
    assert "8273645546372819" not in repr(
        Redactor(lambda: needles)(None, "info", {"event": 8273645546372819})
    )


def failing() -> BaseException:
    """An error that was raised because of another one, whose text is the secret."""
    try:
        {}[TEXT]  # type: ignore[index]
    except KeyError as cause:
        error = RuntimeError("outer")
        error.__cause__ = cause
        return error
    raise AssertionError


def test_a_traceback_with_a_secret_becomes_masked_text() -> None:
    error = failing()
    for info in (error, (type(error), error, error.__traceback__)):
        after = redacted(event="x", exc_info=info)
        assert after["exc_info"] is None
        assert "RuntimeError: outer" in str(after["exception"])
        assert TEXT not in repr(after)
    try:
        raise error
    except RuntimeError:
        assert TEXT not in repr(redacted(event="x", exc_info=True))


def test_a_clean_exception_goes_on_as_it_is() -> None:
    error = ValueError("harmless")
    assert redacted(event="x", exc_info=error) == {"event": "x", "exc_info": error}
    assert redacted(event="x", exc_info=True) == {"event": "x", "exc_info": True}


def test_what_cannot_be_searched_is_not_shown() -> None:
    def fail() -> Needles:
        raise RuntimeError("no")

    assert "not shown" in str(redacted(event=TEXT, value=Broken())["event"])
    assert "not shown" in str(Redactor(fail)(None, "info", {"event": TEXT})["event"])


def test_without_secrets_nothing_is_touched() -> None:
    event: dict[str, object] = {"event": TEXT}
    assert Redactor(lambda: Needles({}))(None, "info", event) is event


def test_stands_first_in_a_real_chain_at_debug_level() -> None:
    """S-72, with the renderers that are used: JSON, and text with tracebacks."""
    for renderer in (structlog.processors.JSONRenderer(), structlog.dev.ConsoleRenderer(colors=False)):
        out = io.StringIO()
        log = structlog.wrap_logger(
            structlog.PrintLogger(out),
            processors=[Redactor(lambda: NEEDLES), structlog.processors.format_exc_info, renderer]
            if isinstance(renderer, structlog.processors.JSONRenderer)
            else [Redactor(lambda: NEEDLES), renderer],
        )
        log.debug("got", token=TEXT, header={"authorization": f"Bearer {TEXT}"}, harmless=OTHER.decode())
        try:
            raise failing()
        except RuntimeError:
            log.exception("failed")
        assert TEXT not in out.getvalue()
        assert OTHER.decode() in out.getvalue()
        assert "RuntimeError: outer" in out.getvalue()


def test_the_masked_line_is_still_json() -> None:
    line = structlog.processors.JSONRenderer()(None, "info", redacted(event="x", value=f'"{TEXT}"'))
    assert json.loads(line)["value"] == '"' + "*" * len(TEXT) + '"'


def test_a_fault_of_the_search_shows_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    redacted(event=TEXT, value=Broken())
    traceback.print_exc()
    assert TEXT not in capsys.readouterr().err
