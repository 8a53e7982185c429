"""The part of a line that the index keeps: its shape, its numbers, and the text to find it by.

Most lines are exchanges, which msgspec reads by the schema in a microsecond. Any other line, and an exchange
with a value that the schema does not allow, is read by `entry.parse`, which takes each field for itself. The
index only says where to look: whoever is shown a line is shown the parsed one.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from operator import attrgetter
from typing import Annotated, NamedTuple
from zlib import crc32

import msgspec

from egress.audit.chain import MAX_LINE_BYTES
from egress.audit.fields import MAX_NUMBER, Injected, Name
from egress.audit.schema import ExchangeLine
from egress.review.entry import VERDICTS, LogEntry, is_stopped, parse, texts_of
from egress.review.line_fields import INDEXED_FIELDS
from egress.review.line_shape import LineShape, marked, shape_of
from egress.review.timestamps import InvalidTimeError, read_moment


class SealedExchange(ExchangeLine, kw_only=True, forbid_unknown_fields=True, tag="exchange"):
    """A whole line: an exchange with the number, time, run and MAC that the chain adds."""

    seq: Annotated[int, msgspec.Meta(ge=0, lt=MAX_NUMBER)]
    time: str
    mac: str
    run: Name = ""


class IndexedLine(NamedTuple):
    """A line, as far as the index keeps it."""

    shape: LineShape
    moment: int
    requests: int
    bytes_up: int
    bytes_down: int
    total_us: int
    request: int
    """The number that its id is looked up by; 0 for none."""
    connection: int
    text: bytes
    """The text that a search looks through, beside the shape."""


_DECODER = msgspec.json.Decoder(SealedExchange)
_GET_VALUES = attrgetter(*(field.attribute for field in INDEXED_FIELDS[1:]))
_EMPTY_VALUES = tuple(0 if field.is_number else "" for field in INDEXED_FIELDS)
_LIST_PLACES = {
    field.attribute: place for place, field in enumerate(INDEXED_FIELDS) if field.match == "member"
}


def read(line: bytes) -> IndexedLine:
    """Read a line, given without its end. Raises `NotALineError`."""
    # The quick decoder first; every doubt sends the line to the parser, which judges field by field.
    found = exchange(line)
    if found is None or found.facts is not msgspec.UNSET or not _has_plain_verdict(found):
        return of_entry(parse(line))
    try:
        moment = read_moment(found.time)
    except InvalidTimeError:
        return of_entry(parse(line))
    return IndexedLine(
        _shape(found),
        moment,
        1,
        found.bytes_up,
        found.bytes_down,
        found.total_us,
        id_of(found.request),
        id_of(found.connection),
        "\t".join(map(written, _texts(found))).encode("ascii"),
    )


def _texts(found: SealedExchange) -> list[str]:
    """The same as `searched`, of values whose types are known."""
    query = found.query
    values = () if query is msgspec.UNSET else query.values()
    names = () if query is msgspec.UNSET else tuple(query)
    return [found.path, *names, *(value for each in values for value in each)]


def _has_plain_verdict(found: SealedExchange) -> bool:
    """Say whether the verdict counts as it stands in the line."""
    return found.verdict in VERDICTS and not (found.verdict == "allow" and is_stopped(found.code))


def exchange(line: bytes) -> SealedExchange | None:
    """An exchange that is just as the schema says; None for any other line."""
    try:
        # A field that is not known would be skipped without a look at what it holds.
        return _DECODER.decode(line) if len(line) <= MAX_LINE_BYTES else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _shape(line: SealedExchange) -> LineShape:
    """The same as `shape_of`, of values whose types are known."""
    values = ["exchange", *_GET_VALUES(line)]
    values[_LIST_PLACES["injected"]] = _secrets(line.injected)
    values[_LIST_PLACES["scrubbed"]] = marked(tuple(line.scrubbed))
    return tuple(
        # The empty values make a field that is absent equal to one that is empty, as `shape_of` does.
        [
            empty if value is None or value is msgspec.UNSET else value
            for value, empty in zip(values, _EMPTY_VALUES, strict=True)
        ]
    )


@lru_cache(1024)
def _secrets(injected: tuple[Injected, ...]) -> str:
    return marked(tuple(dict.fromkeys(each.secret for each in injected)))


def of_entry(entry: LogEntry) -> IndexedLine:
    """The same of a parsed line."""
    return IndexedLine(
        shape_of(entry.fields),
        entry.moment,
        entry.requests,
        entry.number("bytes_up"),
        entry.number("bytes_down"),
        entry.number("total_us"),
        id_of(entry.request),
        id_of(entry.text("connection")),
        "\t".join(searched(entry)).encode("ascii"),
    )


def id_of(text: str) -> int:
    """The number that an id is looked up by; 0 for none."""
    # Four bytes per id keep the index small; a collision only costs one parsed line more.
    return crc32(text.encode("utf-8", "replace")) if text else 0


def searched(entry: LogEntry, hidden: Collection[str] = ()) -> list[str]:
    """The texts of a line that a search looks through, as they stand in it.

    Of an exchange these are its path, its query and its facts, beside its shape; of other lines all values
    but MACs and those of `hidden` fields.
    """
    if entry.event == "exchange":
        own = (*texts_of(entry.fields.get("query")), *texts_of(entry.fields.get("facts")))
        return [written(text) for text in (entry.text("path"), *own)]
    found = []
    for name, value in entry.fields.items():
        # MACs and times would fill the index with text that nobody searches for.
        if name not in ("mac", "previous", "time") and name not in hidden:
            found += texts_of(value)
    return [written(text) for text in found]


def written(text: str) -> str:
    """A text as it stands in a line, without its quotes, in lower case."""
    return encode_basestring_ascii(text)[1:-1].lower()
