"""The alphabet of HTTP/1.1, written once for the readers and the writers.

Every repetition is possessive or stands alone, so no pattern here can backtrack: each runs in time
linear in its input, whatever a peer sends.
"""

from __future__ import annotations

import re
from typing import Final

TOKEN_CHARS: Final = r"!#$%&'*+\-.^_`|~0-9A-Za-z"
LOWER_TOKEN_CHARS: Final = r"!#$%&'*+\-.^_`|~0-9a-z"
VALUE_CHARS: Final = r"\t\x20-\x7e\x80-\xff"
"""Characters of a field value or a reason: no control byte but HTAB, and none beyond latin-1."""

TOKEN: Final = re.compile(rf"[{TOKEN_CHARS}]++")

AUTHORITY: Final = r"(?:[A-Za-z0-9._\-]++|\[[0-9A-Fa-f:.]++\])(?::[0-9]{1,5}+)?+"
"""A host name, IPv4 or bracketed IPv6, with or without a port. No user information, no escapes."""

FIELD_LINE: Final = re.compile(rf"^([{TOKEN_CHARS}]++):[ \t]*+([{VALUE_CHARS}]*+)\r\n", re.MULTILINE)
"""A field line, anchored to the start of a line; the caller strips blanks behind the value."""

CANONICAL_BLOCK: Final = re.compile(
    rf"(?:[{LOWER_TOKEN_CHARS}]++: (?:(?![ \t])[{VALUE_CHARS}]++(?<![ \t]))?+\r\n)*+\r\n",
)
"""A whole block of fields exactly as the writers spell it."""

# Bytes no head may hold: control bytes but HTAB, a LF without its CR, a CR without its LF.
STRAY_BYTE: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<!\r)\n|\r(?=[^\n])")

# No form of target has a fragment: some servers cut it off, others route by it.
TARGET: Final = r"[\x21\x22\x24-\x7e]++"

REQUEST_LINE: Final = re.compile(rf"([{TOKEN_CHARS}]{{1,32}}+) ({TARGET}) HTTP/1\.([01])\r\n")
STATUS_LINE: Final = re.compile(rf"HTTP/1\.([01]) ([1-5][0-9]{{2}})(?: ([{VALUE_CHARS}]*+))?+\r\n")
OTHER_VERSION: Final = re.compile(r"[\x21-\x7e]++ [\x21-\x7e]++ HTTP/(?!1\.[01])[0-9](?:\.[0-9])?+\r\n")
