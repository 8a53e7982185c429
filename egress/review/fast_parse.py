"""Reading a line without parsing it: the few things an index needs, cut out of the bytes.

Most lines of a log are exchanges, and all of those have the same fields in the same order. Their strings
hold no bare quote, because quotes inside are escaped; so what looks like the name of a field is one. The
parts that come back in line after line are told apart by their bytes alone, and parsed once.

A line that has another form in any way is read by `entry.parse`, which is right and slow. So is one that
says a thing twice, or a thing where it does not belong, for there the first and the last differ. What is
read here is only looked up by: whoever is shown a line is shown the parsed one.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import NamedTuple
from zlib import crc32

from egress.audit.chain import END, MARK, TAIL
from egress.review.entry import LogEntry, parse, texts_of
from egress.review.line_shape import LineShape, shape_of
from egress.review.timestamps import SECOND, InvalidTimeError, read_moment


class Form(NamedTuple):
    """The pieces of an exchange that come back: its shape, in the bytes of the line."""

    who: bytes
    where: bytes
    verdict: bytes
    policy: bytes
    """With what TLS was agreed on, which stands before it."""


Found = tuple[Form | LineShape, int, int, int, int, int, int, int, bytes]
"""What it has in common with others, then: moment, requests, bytes up, bytes down, microseconds, the
numbers that the request's id and the connection's are looked up by (0 for none), text to be found by."""

_START = b'{"seq":'
_NUMBER = rb"(0|[1-9][0-9]{0,17})"
_HEAD = re.compile(rb'%b [0-5][0-9]\.[0-9]{6}Z"' % _NUMBER).fullmatch
"""The number of the line, and the seconds of its time; whatever else is read slowly."""
_NAMED = (
    *(b"bytes_up", b"bytes_down"),
    *(b"resolve_us", b"connect_us", b"tls_us", b"secret_us", b"first_byte_us", b"total_us"),
)
_AMOUNTS = re.compile(b"".join(b',"%b":%b' % (name, _NUMBER) for name in _NAMED)).match
_END = re.compile(rb"%b[0-9a-f]{64}%b" % (re.escape(MARK), re.escape(END))).fullmatch
_EVENT = b',"event":"exchange",'


def read(line: bytes) -> Found:
    """What the index needs of a line, given without its end. Raises `NotALineError`."""
    return exchange(line) or slowly(parse(line))


def exchange(line: bytes) -> Found | None:
    """The same of an exchange in its usual form; None for whatever else."""
    try:
        return _exchange(line)
    except (ValueError, InvalidTimeError):
        return None


def _exchange(line: bytes) -> Found | None:
    """Cut an exchange up; None or `ValueError` where it has not quite the usual form."""
    find = line.index
    stamp = find(b',"time":"', 8, 40) + 9
    event = stamp + 28
    if line[event : event + 20] != _EVENT or not line.startswith(_START) or not _END(line[-TAIL:]):
        return None
    connection = find(b',"connection":"', event) + 15
    request = find(b'","request":"', connection) + 13
    scheme = find(b'","scheme":', request)
    path = find(b',"path":"', scheme) + 9
    status = find(b'","status":', path)
    up = find(b',"bytes_up":', status)
    amounts = _AMOUNTS(line, up)
    text, ids = line[path:status], line[connection:scheme]
    # Four quotes: those between the two ids.
    if b"\\" in text or b'"' in text or b"\\" in ids or ids.count(b'"') != 4:
        return None
    if amounts is None or not _HEAD(line[7 : stamp - 9] + b" " + line[stamp + 17 : event]):
        return None
    up_to = up + len(b',"bytes_up":')
    form = Form(line[event:connection], line[scheme:path], line[status:up_to], line[amounts.end() : -TAIL])
    return (
        form,
        _minute(line[stamp : stamp + 17])
        + int(line[stamp + 17 : stamp + 19]) * SECOND
        + int(line[stamp + 20 : event - 2]),
        1,
        int(amounts[1]),
        int(amounts[2]),
        int(amounts[8]),
        crc32(line[request:scheme]),
        crc32(line[connection : request - 13]),
        text,
    )


def shape_of_form(form: Form) -> LineShape:
    """The shape that these pieces are. Raises `ValueError` for pieces that are not the usual ones."""
    return shape_of(fields_of(form))


def fields_of(form: Form) -> dict[str, object]:
    """What stands in these pieces. Raises `ValueError` for pieces that are not the usual ones."""
    fields: dict[str, object] = {}
    for name, piece in zip(Form._fields, form, strict=True):
        fields |= _piece(name, piece)
    return fields


@lru_cache(8192)
def _piece(name: str, piece: bytes) -> dict[str, object]:
    try:
        found: dict[str, object] = json.loads(_AROUND[name] % piece, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("nested too deep") from None
    # A field in a piece where it does not belong would be another one's second value.
    if tuple(found) != _NAMES[name]:
        raise ValueError("not the usual fields")
    return found


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a field comes twice")
    return found


_AROUND = {"who": b'{"":""%b"}', "where": b'{"":"%b"}', "verdict": b'{"":"%b0}', "policy": b'{"":""%b}'}
"""What makes a whole of each piece."""
_NAMES = {
    "who": ("", "event", "sandbox", "profile", "listener", "entry", "connection"),
    "where": ("", "scheme", "host", "port", "address", "sni", "method", "path"),
    "verdict": (
        *("", "status", "verdict", "code", "rule", "place", "observed", "injected", "replaced", "scrubbed"),
        "bytes_up",
    ),
    "policy": ("", "client_tls", "upstream_tls", "alpn", "upstream_alpn", "policy"),
}
"""The fields of each piece."""


@lru_cache(64)
def _minute(text: bytes) -> int:
    return read_moment(text.decode("ascii") + "00.000000Z")


def slowly(entry: LogEntry) -> Found:
    """The same of a parsed line."""
    request, connection = entry.text("request"), entry.text("connection")
    words = "\t".join(searched(entry))
    return (
        shape_of(entry.fields),
        entry.moment,
        entry.requests,
        entry.number("bytes_up"),
        entry.number("bytes_down"),
        entry.number("total_us"),
        id_of(request),
        id_of(connection),
        words.encode("ascii"),
    )


def id_of(text: str) -> int:
    """The number that an id is looked up by; 0 for none."""
    return crc32(text.encode("utf-8", "replace")) if text else 0


def searched(entry: LogEntry) -> list[str]:
    """The texts of a line that a search looks through, as they stand in it.

    Of an exchange these are its path and what its shape has; of other lines all values, but no MACs.
    """
    if entry.event == "exchange":
        return [written(entry.text("path"))]
    found = []
    for name, value in entry.fields.items():
        if name not in ("mac", "previous", "time"):
            found += texts_of(value)
    return [written(text) for text in found]


def written(text: str) -> str:
    """A text as it stands in a line, without its quotes, in lower case."""
    return encode_basestring_ascii(text)[1:-1].lower()
