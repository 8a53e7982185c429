"""A refusal that a git client prints as one.

A client that pushes waits for a report on each ref, and prints the reason behind `! [remote rejected]`. After
a status of 403 it would print an error, and then that everything is up-to-date. A client that asked for no
report takes any answer in its protocol for success, so it has to get the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from egress.inspect.git.endpoint import Service
from egress.inspect.git.pkt_line import FLUSH_PKT, pkt_line, pkt_lines
from egress.inspect.git.push_request import PushCapabilities

_REPORT_BAND: Final = b"\x01"
_MESSAGE_BAND: Final = b"\x02"
_MAX_REASON_CHARS: Final = 400


def push_report(
    capabilities: PushCapabilities, reasons: Mapping[str, str], message: str = "", unpack: str = "ok"
) -> bytes | None:
    """Return the report that refuses each ref for its reason; None if the client does not ask for one.

    `message` is printed line by line behind `remote:`, where the client has a side band. `unpack` is not `ok`
    where the refs are not known: the client then says that none of its refs was reported.
    """
    if not capabilities.has_report:
        return None
    report = pkt_line(b"unpack %s\n" % _line(unpack))
    for ref, reason in reasons.items():
        report += pkt_line(b"ng %s %s\n" % (ref.encode(), _line(reason)))
    report += FLUSH_PKT
    most = capabilities.band_bytes
    if not most:
        return report
    lines = b"".join(_line(line) + b"\n" for line in message.splitlines())
    bands = (*pkt_lines(_MESSAGE_BAND, lines, most), *pkt_lines(_REPORT_BAND, report, most))
    return b"".join(bands) + FLUSH_PKT


def discovery_refusal(service: Service, message: str) -> bytes:
    """Return the answer to a discovery that a client prints as `fatal: remote error`."""
    return (
        pkt_line(f"# service={service}\n".encode()) + FLUSH_PKT + pkt_line(b"ERR " + _line(message) + b"\n")
    )


def discovery_media_type(service: Service) -> str:
    """Return the type without which a client does not read the answer to a discovery."""
    return f"application/x-{service}-advertisement"


def _line(text: str) -> bytes:
    """Return a text that cannot end its line, nor move a terminal's cursor."""
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return shown[:_MAX_REASON_CHARS].encode("utf-8", "replace")
