"""Calls of the API that take a while, whose stages are told to whoever waits in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from egress.api.client import ApiClient, ApiLostError, ApiProblemError
from egress.api.schema import Problem, ProgressView
from egress.runtime.stages import is_reported, note_stage


def told_call[T: msgspec.Struct](
    client: ApiClient,
    answer: type[T],
    name: str,
    parts: Mapping[str, str],
    body: msgspec.Struct | None = None,
) -> T:
    """Make a call, and tell its stages if anybody listens. Raises what `ApiClient.call` does."""
    if not is_reported():
        return client.call(answer, name, parts, body=body)
    with client.follow(dict[str, Any], name, parts, body=body) as events:
        for data in events:
            if events.name == "progress":
                note_stage(msgspec.convert(data, ProgressView).stage)
            elif events.name == "problem":
                raise ApiProblemError(msgspec.convert(data, Problem), 0)
            else:
                return msgspec.convert(data, answer)
    # The server ended before its work did.
    raise ApiLostError("the connection ended")
