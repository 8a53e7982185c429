"""The strict HTTP/1.1 codec: bytes in, events out, and back. It does no I/O and decides no policy.

It is the only reader of HTTP/1 in Egress, used towards the sandbox and towards the upstream alike,
so its strictness is the defence against request smuggling.

Theory of operation
    `fields` collects a block of lines from any number of reads and turns it into pairs; `heads` judges
    a whole head: its target, its framing; `message_readers` read bodies and put the pieces into the order
    of a connection; `message_writers` are the way back. `grammar` is the alphabet of both directions.

Rules of this package
    1. What can be read in two ways is refused, not repaired. The few exceptions, all for servers,
       are listed in `heads`.
    2. What is accepted is written anew in one spelling. No byte of a peer's framing is passed on.
    3. Readers return events or raise `WireError`; nothing else, for any bytes. How the bytes were
       cut changes nothing.
    4. Everything kept in memory is bounded by `Limits`; bodies are never kept.
    5. Messages of errors are constants. They never quote what came off the wire.
"""

from __future__ import annotations

from egress.http1.fields import strip_hop_by_hop
from egress.http1.heads import (
    CHUNKED,
    NO_BODY,
    UNTIL_CLOSE,
    Body,
    Data,
    End,
    Framing,
    Informational,
    RequestEvent,
    RequestHead,
    ResponseEvent,
    ResponseHead,
    TargetForm,
    Version,
)
from egress.http1.limits import MessageLimits
from egress.http1.message_readers import RequestReader, ResponseReader
from egress.http1.message_writers import (
    RequestWriter,
    ResponseWriter,
    encode_informational,
    encode_request_head,
    encode_response_head,
    framing_for,
)

__all__ = [
    "CHUNKED",
    "NO_BODY",
    "UNTIL_CLOSE",
    "Body",
    "Data",
    "End",
    "Framing",
    "Informational",
    "MessageLimits",
    "RequestEvent",
    "RequestHead",
    "RequestReader",
    "RequestWriter",
    "ResponseEvent",
    "ResponseHead",
    "ResponseReader",
    "ResponseWriter",
    "TargetForm",
    "Version",
    "encode_informational",
    "encode_request_head",
    "encode_response_head",
    "framing_for",
    "strip_hop_by_hop",
]
