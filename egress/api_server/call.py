"""One call of the API on its way through the server: read strictly, run in a thread, answered as JSON.

The fleet blocks, and the server is a loop. So a handler runs in a thread, and gets the loop only for streams.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final

import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response

from egress.api.operation import Operation
from egress.api.schema import MAX_BODY_BYTES, Problem
from egress.api_server.health import HealthLooks
from egress.api_server.run_log import RunLog
from egress.api_server.sandbox_pools import SandboxPool
from egress.errors import EgressError
from egress.fleet.api_values import problem_of
from egress.fleet.fleet import Fleet
from egress.logger import EventLogger
from egress.runtime.errors import SpecError
from egress.sandbox.command_runner import CommandRunner

_log = EventLogger(__name__)

MAX_THREADS: Final = 1024
"""Calls that block at a time, and commands and streams that are waited for; further ones wait."""


def _limiter() -> CapacityLimiter:
    return CapacityLimiter(MAX_THREADS)


@dataclass(frozen=True, slots=True)
class ApiContext:
    """Everything that calls share."""

    fleet: Fleet
    on_shutdown: Callable[[], object]
    is_owner_only: bool
    """Whether the server is at the unix socket of the owner, who may do everything."""
    calls: CapacityLimiter = field(default_factory=_limiter)
    waits: CapacityLimiter = field(default_factory=_limiter)
    log: RunLog = field(default_factory=RunLog)
    health: HealthLooks = field(default_factory=HealthLooks)
    pools: Mapping[str, SandboxPool] = field(default_factory=dict)
    """What the claims of agent-sandbox's clients may name."""

    async def in_thread[T](self, function: Callable[..., T], *values: object) -> T:
        """Run a function that blocks. A caller that leaves does not stop it."""
        return await to_thread.run_sync(function, *values, limiter=self.calls, abandon_on_cancel=True)

    async def waiting[T](self, function: Callable[..., T], *values: object) -> T:
        """Run a function that may block for as long as a sandbox or a client likes.

        However many of them there are, a call that ends a command or a sandbox still finds a thread.
        """
        return await to_thread.run_sync(function, *values, limiter=self.waits, abandon_on_cancel=True)


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One call: the parts of its path, its query and its body."""

    context: ApiContext
    parts: Mapping[str, str]
    query: Any
    body: Any
    request: HTTPConnection

    def with_query(self, query: msgspec.Struct) -> ApiCall:
        """Return the same call with another query."""
        return replace(self, query=query)

    @property
    def fleet(self) -> Fleet:
        return self.context.fleet

    @property
    def name(self) -> str:
        """The name of the sandbox."""
        return self.parts["name"]

    @property
    def place(self) -> CommandRunner:
        """The place for operations on the files of the sandbox, which run as its user."""
        return CommandRunner(self.fleet, self.name)

    @property
    def port(self) -> int:
        """The port in the path. Raises `SpecError`."""
        text = self.parts["port"]
        if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) <= 65535):
            raise SpecError("the port is not a number from 1 to 65535", "name the port in the path")
        return int(text)


BlockingHandler = Callable[[ApiCall], msgspec.Struct | tuple[int, msgspec.Struct] | None]
"""Runs in a thread; returns its answer, with a status if that is not the usual one."""
StreamHandler = Callable[[ApiCall, Request], Awaitable[Response]]
"""Runs in the loop, and reads or writes a stream itself."""


class UnfitRequestError(SpecError):
    """The body or the query of a request does not have the form that the schema says."""

    code = "request.invalid"


class SenderLeftError(ConnectionResetError):
    """A client left in the middle of its request: nobody reads the answer."""


async def read_call(context: ApiContext, operation: Operation, request: Request) -> ApiCall:
    """Read a request. Raises `UnfitRequestError`."""
    body = await read_body(operation.body, request) if operation.body is not None else None
    return ApiCall(context, request.path_params, read_operation_query(operation, request), body, request)


def read_operation_query(operation: Operation, request: HTTPConnection) -> msgspec.Struct | None:
    """Read the query as the operation says it. Raises `UnfitRequestError`."""
    if operation.query is None:
        if request.query_params:
            raise UnfitRequestError("this call takes no query", "remove it")
        return None
    return read_query(operation.query, request)


def read_query[T: msgspec.Struct](kind: type[T], request: HTTPConnection) -> T:
    """Read a query of this form. Raises `UnfitRequestError`."""
    pairs = request.query_params.multi_items()
    given: dict[str, object] = {}
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for name, value in pairs:
        is_many = name in fields and str(fields[name].type).startswith("tuple")
        if is_many:
            given[name] = (*given.get(name, ()), value)  # type: ignore[misc]
        elif name in given:
            raise UnfitRequestError(f"the query names {_shown(name)} twice", "name it once")
        else:
            given[name] = value
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise _unfit("the query", kind, error) from None


async def read_body[T: msgspec.Struct](kind: type[T], request: Request, most: int = MAX_BODY_BYTES) -> T:
    """Read a JSON body of this form, of at most so many bytes. Raises `UnfitRequestError`."""
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > most:
            raise UnfitRequestError(f"the body has more than {most} bytes", "send less")
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unfit("the body", kind, error) from None


def _unfit(place: str, kind: type[msgspec.Struct], error: Exception) -> UnfitRequestError:
    # The library names fields and types; it quotes unknown names of fields alone, so no value is repeated.
    said = str(error) if isinstance(error, msgspec.ValidationError) else "it is not JSON"
    hint = "see /v1/openapi.json"
    # A field inside of another is not one of `kind`: the library then says its place behind ` - at `.
    if said.startswith("Object contains unknown field") and " - at `" not in said:
        names = ", ".join(field.encode_name for field in msgspec.structs.fields(kind))
        hint = f"the fields are {names}" if names else "it has no fields"
    return UnfitRequestError(f"{place} does not fit: {_shown(said)}", hint)


def _shown(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text[:300])


# Answers ------------------------------------------------------------------------------------------

STATUS_BY_CODE: Final[Mapping[str, int]] = {
    "request.invalid": HTTPStatus.BAD_REQUEST,
    "request.too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "spec.invalid": HTTPStatus.UNPROCESSABLE_ENTITY,
    "spec.type": HTTPStatus.UNPROCESSABLE_ENTITY,
    "usage": HTTPStatus.UNPROCESSABLE_ENTITY,
    "content": HTTPStatus.UNPROCESSABLE_ENTITY,
    "archive.refused": HTTPStatus.UNPROCESSABLE_ENTITY,
    "image.missing": HTTPStatus.UNPROCESSABLE_ENTITY,
    "path.kind": HTTPStatus.UNPROCESSABLE_ENTITY,
    "path.too_large": HTTPStatus.UNPROCESSABLE_ENTITY,
    "range.unsatisfiable": HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    "git.denied": HTTPStatus.FORBIDDEN,
    "git.not_found": HTTPStatus.NOT_FOUND,
    "git.unreachable": HTTPStatus.BAD_GATEWAY,
    "git.failed": HTTPStatus.BAD_GATEWAY,
    "mount.refused": HTTPStatus.FORBIDDEN,
    "path.outside": HTTPStatus.FORBIDDEN,
    "path.denied": HTTPStatus.FORBIDDEN,
    "api.forbidden": HTTPStatus.FORBIDDEN,
    "api.unauthorized": HTTPStatus.UNAUTHORIZED,
    "grant.not_delegated": HTTPStatus.FORBIDDEN,
    "grant.refused": HTTPStatus.CONFLICT,
    "grant.not_found": HTTPStatus.NOT_FOUND,
    "rules.refused": HTTPStatus.CONFLICT,
    "rules.unchecked": HTTPStatus.UNPROCESSABLE_ENTITY,
    "log.not_found": HTTPStatus.NOT_FOUND,
    "log.busy": HTTPStatus.SERVICE_UNAVAILABLE,
    "log.slow": HTTPStatus.SERVICE_UNAVAILABLE,
    "sandbox.not_found": HTTPStatus.NOT_FOUND,
    "process.not_found": HTTPStatus.NOT_FOUND,
    "session.not_found": HTTPStatus.NOT_FOUND,
    "session.differs": HTTPStatus.CONFLICT,
    "session.busy": HTTPStatus.CONFLICT,
    "path.not_found": HTTPStatus.NOT_FOUND,
    "snapshot.not_found": HTTPStatus.NOT_FOUND,
    "snapshot.exists": HTTPStatus.CONFLICT,
    "snapshot.quota": HTTPStatus.INSUFFICIENT_STORAGE,
    "snapshot.damaged": HTTPStatus.CONFLICT,
    "api.not_found": HTTPStatus.NOT_FOUND,
    "api.method": HTTPStatus.METHOD_NOT_ALLOWED,
    "sandbox.exists": HTTPStatus.CONFLICT,
    "sandbox.differs": HTTPStatus.CONFLICT,
    "sandbox.state": HTTPStatus.CONFLICT,
    "session.closed": HTTPStatus.CONFLICT,
    "path.exists": HTTPStatus.CONFLICT,
    "port.closed": HTTPStatus.CONFLICT,
    "preview.failed": HTTPStatus.CONFLICT,
    "gateway.refused": HTTPStatus.CONFLICT,
    "process.ended": HTTPStatus.CONFLICT,
    "sandbox.died": HTTPStatus.GONE,
    "unsupported": HTTPStatus.NOT_IMPLEMENTED,
    "sandbox.timeout": HTTPStatus.REQUEST_TIMEOUT,
    "exec.timeout": HTTPStatus.REQUEST_TIMEOUT,
    "api.rate": HTTPStatus.TOO_MANY_REQUESTS,
    "fleet.unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "engine.unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "gateway.unavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "proxy.failed": HTTPStatus.SERVICE_UNAVAILABLE,
    "unreadable": HTTPStatus.SERVICE_UNAVAILABLE,
}


def json_response(value: msgspec.Struct, status: int = HTTPStatus.OK) -> Response:
    """Return an answer."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def json_text(name: str) -> str:
    """Return a name of a file as JSON can hold it: bytes that are not UTF-8 are replaced."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


async def answer_with(work: Awaitable[Response], refuse: Callable[[Problem], Response]) -> Response:
    """Return the answer of a call; `refuse` makes the one of a problem."""
    try:
        return await work
    except (ClientDisconnect, SenderLeftError):
        # Nobody reads the answer.
        return Response(status_code=HTTPStatus.BAD_REQUEST)
    except Exception as error:  # noqa: BLE001 - a mistake in one call must not end the connection
        return refuse(problem_from(error))


def problem_response(problem: Problem) -> Response:
    """Return a problem as an answer."""
    return json_response(problem, STATUS_BY_CODE.get(problem.type, HTTPStatus.INTERNAL_SERVER_ERROR))


def problem_from(error: BaseException) -> Problem:
    """Return the problem of an error; one that nobody expected is logged here, with its place."""
    if isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        return problem_from(error.exceptions[0])
    if not isinstance(error, EgressError):
        # The text of an unexpected error may hold anything, so only its class and its place are logged.
        _log.error("api.failed", error=type(error).__name__, place=_place(error))
    return problem_of(error)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"
