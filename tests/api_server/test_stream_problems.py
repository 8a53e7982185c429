"""An error of a WebSocket is its last message, unless nobody is there to read it."""

from __future__ import annotations

import msgspec
import pytest
from starlette.websockets import WebSocketDisconnect

from egress.api.schema import ProblemMessage
from egress.api_server.stream_problems import problems_sent
from egress.runtime.errors import SandboxNotFoundError


async def sent_for(error: BaseException) -> list[str]:
    """The types of the problems that are sent for an error of the block."""
    sent: list[str] = []

    async def send(message: ProblemMessage) -> None:
        sent.append(message.problem.type)

    async with problems_sent(send):
        fail(error)
    return sent


def fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "sent"),
    [
        (SandboxNotFoundError("no sandbox is named one"), ["sandbox.not_found"]),
        (msgspec.ValidationError("no"), ["request.invalid"]),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), ["request.invalid"]),
        (WebSocketDisconnect(), []),
        (BrokenPipeError(), []),
    ],
)
async def test_an_error_is_sent_as_a_problem_to_a_client_that_is_there(
    error: BaseException, sent: list[str]
) -> None:
    assert await sent_for(error) == sent


async def test_a_fault_of_ours_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await sent_for(ZeroDivisionError())
