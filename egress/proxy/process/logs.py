"""The log of a running proxy: what the operator reads while it runs. The audit log is another thing.

Every event of every library goes through one chain: searched for secret values, stamped, and written as one
line of plain characters to standard error, as text or as JSON. Other libraries are heard only from warnings
on, whatever level is set: some print whole headers when they are asked to debug.

Nothing here keeps or sends anything, and nothing that a peer wrote can break a line or reach a terminal. No
sandbox can fill a disk with it: of one kind of event only so many lines are written in a while, and the rest
is counted and told as one `log.folded`.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Literal, TextIO, override

import structlog

from egress.proxy.clock import Clock
from egress.secrets.redact import NeedleSearch, Redactor

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "text", "json"]
Event = MutableMapping[str, object]
Processor = Callable[[object, str, Event], Event]

OWN_LOGGER = "egress"
MAX_LINES_PER_WINDOW = 20
"""Log lines of an event kind in a window."""
WINDOW_SECONDS = 10.0
"""Seconds."""
MAX_EVENT_KINDS = 1024
"""Kinds of events that are told apart; those beyond are counted together."""
_OTHER_KINDS = "(others)"
FOLDED_EVENT = "log.folded"
_log = structlog.get_logger(__name__)
_LEADING_KEYS = ("time", "level", "logger", "event")


def set_up_logging(
    level: Level,
    form: Format,
    clock: Clock,
    needles: Callable[[], NeedleSearch],
    stream: TextIO | None = None,
) -> LogThrottle:
    """Send all logging of this process through one chain to `stream`, standard error by default.

    Returns what keeps floods out of it: its `tell` is due once a second.
    """
    out = stream or sys.stderr
    is_text = form == "text" or (form == "auto" and out.isatty())
    chain: list[Processor] = [_name, Redactor(needles), _stamp(clock), _traceback]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *chain,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=chain, processors=[_without_meta, format_text if is_text else format_json]
        )
    )
    folding = LogThrottle(clock.monotonic)
    handler.addFilter(folding)
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger(OWN_LOGGER).setLevel(level.upper())
    # A log that cannot be written must not print a traceback into whatever is left.
    logging.raiseExceptions = False
    return folding


# Floods -------------------------------------------------------------------------------------------


class LogThrottle(logging.Filter):
    """Lets the first lines of every kind of event through in each window, and counts the others.

    The kind is the name of an event, or the place in the code where another library logs: what somebody
    else wrote into a line makes no new kind.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._ends = monotonic() + WINDOW_SECONDS
        self._lines: Counter[str] = Counter()

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        self.report_folded()
        kind = _kind(record)
        if kind == FOLDED_EVENT:
            return True
        if kind not in self._lines and len(self._lines) >= MAX_EVENT_KINDS:
            kind = _OTHER_KINDS
        self._lines[kind] += 1
        return self._lines[kind] <= MAX_LINES_PER_WINDOW

    def report_folded(self) -> None:
        """Say what was folded, when a window is over."""
        now = self._monotonic()
        if now < self._ends:
            return
        over = {
            kind: count - MAX_LINES_PER_WINDOW
            for kind, count in self._lines.items()
            if count > MAX_LINES_PER_WINDOW
        }
        # First: to say it comes back to here.
        self._lines.clear()
        self._ends = now + WINDOW_SECONDS
        for kind, count in over.items():
            _log.warning(FOLDED_EVENT, of=kind, lines=count)


def _kind(record: logging.LogRecord) -> str:
    said: object = record.msg
    if isinstance(said, dict):
        return str(said.get("event", ""))
    return f"{record.name}:{record.lineno}"


# The chain ----------------------------------------------------------------------------------------


def _name(logger: object, method: str, event: Event) -> Event:
    record = event.get("_record")
    source = record if isinstance(record, logging.LogRecord) else logger
    event["level"] = "warning" if method == "warn" else "error" if method == "exception" else method
    event["logger"] = str(getattr(source, "name", ""))
    return event


def _stamp(clock: Clock) -> Processor:
    def stamp(_logger: object, _method: str, event: Event) -> Event:
        seconds, rest = divmod(clock.now_ns(), 1_000_000_000)
        moment = datetime.fromtimestamp(seconds, UTC)
        event["time"] = f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"
        return event

    return stamp


def _traceback(logger: object, method: str, event: Event) -> Event:
    # A plain one: it shows lines of code, never the values of variables.
    structlog.processors.format_exc_info(logger, method, event)
    return event


def _without_meta(_logger: object, _method: str, event: Event) -> Event:
    for key in ("_record", "_from_structlog"):
        event.pop(key, None)
    return event


# The two forms ------------------------------------------------------------------------------------


def format_json(_logger: object, _method: str, event: Event) -> str:
    """Format an event as a JSON object on a single line, in ASCII."""
    return json.dumps(dict(_ordered(event)), default=_as_plain, ensure_ascii=True)


def _as_plain(value: object) -> object:
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else repr(value)


def format_text(_logger: object, _method: str, event: Event) -> str:
    """Format an event as a line for people; a traceback follows it, indented."""
    found = dict(_ordered(event))
    trace = str(found.pop("exception", ""))
    head = [str(found.pop("time", "")), f"{found.pop('level', '')!s:7}", _plain(str(found.pop("event", "")))]
    found.pop("logger", None)
    line = " ".join([*head, *(f"{_plain(key)}={_value(value)}" for key, value in found.items())])
    return "\n".join([line, *(f"    {_plain(part)}" for part in trace.splitlines())])


def _ordered(event: Mapping[str, object]) -> list[tuple[str, object]]:
    first = [(key, event[key]) for key in _LEADING_KEYS if key in event]
    return first + [(key, value) for key, value in event.items() if key not in _LEADING_KEYS]


def _value(value: object) -> str:
    shown = _plain(_said(value))
    return f'"{shown}"' if not shown or " " in shown or "=" in shown else shown


def _said(value: object) -> str:
    """A value in the words of people: lists by their items, and nothing as `-`."""
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(map(_said, value)) if isinstance(value, set | frozenset) else map(_said, value)
        return ", ".join(items)
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else repr(value)


def _plain(text: str) -> str:
    r"""The text with everything that a terminal would act on written as `\x1b`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
