"""Errors of a WebSocket of the API, as its last message."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
from starlette.websockets import WebSocketDisconnect

from egress.api.schema import ProblemMessage
from egress.api_server.call import UnfitRequestError, problem_from
from egress.errors import EgressError


@asynccontextmanager
async def problems_sent(send: Callable[[ProblemMessage], Awaitable[None]]) -> AsyncIterator[None]:
    """Send an error of the block to the client as a problem; a client that has left gets none."""
    try:
        yield
    except (WebSocketDisconnect, OSError):
        return
    except (msgspec.MsgspecError, UnicodeError):
        unfit = UnfitRequestError("a message does not have the form of the API", "see its page")
        await send(ProblemMessage(problem=problem_from(unfit)))
    except EgressError as error:
        await send(ProblemMessage(problem=problem_from(error)))
