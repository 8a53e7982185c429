"""Messages of MCP that somebody asks about: `call NAME {"repo": "acme/app"}` as the body of a request.

    call TOOL [ARGUMENTS]
    read ADDRESS
    prompt NAME [ARGUMENTS]
    METHOD [PARAMS]

Arguments and params are one JSON object.
"""

from __future__ import annotations

import json
import re
from typing import Final

from egress.rules.language.report import MeaningError

ASKED_MCP_HINT: Final = (
    'write it as in `call create_issue {"repo": "acme/app"}`, `read repo://a` or `tools/list`'
)

_ASKED: Final = re.compile(r"(\S+)(?:\s+([^\s{]\S*))?(?:\s+(\{.*\}))?\s*", re.DOTALL)
_SHORT_METHODS: Final = {"call": "tools/call", "prompt": "prompts/get", "read": "resources/read"}


def mcp_body(text: str) -> bytes:
    """Return the body of the request that somebody asks about; raises MeaningError."""
    match = _ASKED.fullmatch(text.strip())
    if match is None:
        raise MeaningError("this is no message of MCP", ASKED_MCP_HINT)
    verb, name, written = match[1], match[2], match[3]
    if (name is not None) != (verb in _SHORT_METHODS):
        raise MeaningError("this is no message of MCP", ASKED_MCP_HINT)
    params = _object(written) if written else {}
    if verb == "read":
        params = {**params, "uri": name}
    elif name is not None:
        params = {"name": name, "arguments": params}
    method = _SHORT_METHODS.get(verb, verb)
    message: dict[str, object] = {"jsonrpc": "2.0", "method": method}
    if not method.startswith("notifications/"):
        message["id"] = 1
    return json.dumps({**message, "params": params}, ensure_ascii=False).encode("utf-8")


def _object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise MeaningError("the arguments are not JSON", ASKED_MCP_HINT) from None
    if not isinstance(value, dict):
        raise MeaningError("the arguments are not an object", ASKED_MCP_HINT)
    return value
