"""The part of Kubernetes' API that a client of agent-sandbox uses: claims, and the sandboxes that they got.

Paths, objects and errors are those of a cluster, so that the client works unchanged. It is no API server:
there are no other objects, no discovery and no patches.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from egress.api.schema import Problem
from egress.api_server.call import (
    STATUS_BY_CODE,
    ApiContext,
    UnfitRequestError,
    answer_with,
    json_response,
    problem_from,
    read_body,
    read_query,
)
from egress.api_server.claim_controller import (
    LOOK_INTERVAL,
    NOWHERE,
    ClaimController,
    ready_condition,
    stamp_of,
)
from egress.api_server.claim_schema import (
    CLAIM_GROUP,
    MAX_CLAIM_BYTES,
    SANDBOX_GROUP,
    Claim,
    ClaimEvent,
    ClaimList,
    ClaimManifest,
    DeleteOptions,
    Failure,
    ListMetadata,
    ObjectMetadata,
    SandboxObject,
    SandboxStatusView,
)
from egress.api_server.claim_table import VersionGoneError
from egress.api_server.claimed_sandboxes import find_sandbox
from egress.api_server.selector_text import read_label_selector, read_name_selector
from egress.fleet.protocol import SandboxStatus
from egress.runtime.errors import SandboxNotFoundError
from egress.runtime.spec import NAME_PATTERN

type Handler = Callable[[ClaimController, Request], Awaitable[Response]]

_CLAIMS: Final = f"/apis/{CLAIM_GROUP}/namespaces/{{namespace}}/sandboxclaims"
_SANDBOX: Final = f"/apis/{SANDBOX_GROUP}/namespaces/{{namespace}}/sandboxes/{{name}}"
MAX_WATCH_SECONDS: Final = 600
_USUAL_WATCH_SECONDS: Final = 300
_REASONS: Final = {
    "sandbox.exists": "AlreadyExists",
    "sandbox.differs": "Conflict",
    HTTPStatus.BAD_REQUEST: "BadRequest",
    HTTPStatus.FORBIDDEN: "Forbidden",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.CONFLICT: "Conflict",
    HTTPStatus.GONE: "Expired",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
}


class ClaimQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The query of a list or a watch."""

    watch: bool = False
    label_selector: str = ""
    field_selector: str = ""
    resource_version: Annotated[str, Meta(pattern=r"\A[0-9]{0,19}\Z")] = ""
    timeout_seconds: Annotated[int, Meta(ge=0)] | None = None
    allow_watch_bookmarks: bool = False


async def _create(keeper: ClaimController, request: Request) -> Response:
    asked = await read_body(ClaimManifest, request, MAX_CLAIM_BYTES)
    claim = await keeper.create(request.path_params["namespace"], asked)
    # The client takes an answer without this status for none.
    return json_response(claim, HTTPStatus.CREATED)


async def _list(keeper: ClaimController, request: Request) -> Response:
    query = read_query(ClaimQuery, request)
    is_selected = _selection(query, request.path_params["namespace"])
    await keeper.refresh()
    if query.watch:
        return _watch(keeper, query, is_selected)
    items = tuple(claim for claim in keeper.table.all() if is_selected(claim))
    return json_response(
        ClaimList(
            api_version=CLAIM_GROUP,
            kind="SandboxClaimList",
            metadata=ListMetadata(resource_version=str(keeper.table.version)),
            items=items,
        )
    )


def _selection(query: ClaimQuery, namespace: str) -> Callable[[Claim], bool]:
    has_labels = read_label_selector(query.label_selector)
    name = read_name_selector(query.field_selector)
    return lambda claim: (
        claim.metadata.namespace == namespace
        and name in (None, claim.metadata.name)
        and has_labels(claim.metadata.labels)
    )


def _watch(keeper: ClaimController, query: ClaimQuery, is_selected: Callable[[Claim], bool]) -> Response:
    table = keeper.table
    asked = _USUAL_WATCH_SECONDS if query.timeout_seconds is None else query.timeout_seconds
    end = time.monotonic() + min(asked, MAX_WATCH_SECONDS)
    version = table.version
    first: list[ClaimEvent] = []
    if query.resource_version in ("", "0"):
        # Everything that is there, and then what changes.
        first = [ClaimEvent("ADDED", claim) for claim in table.all()]
    else:
        version = int(query.resource_version)
        try:
            table.since(version)
        except VersionGoneError:
            return _gone()
    events = _follow(keeper, version, first, end)
    return StreamingResponse(_lines(events, is_selected), media_type="application/json")


async def _lines(
    events: AsyncIterator[ClaimEvent], is_selected: Callable[[Claim], bool]
) -> AsyncIterator[bytes]:
    async for event in events:
        if is_selected(event.object):
            yield msgspec.json.encode(event) + b"\n"


async def _follow(
    keeper: ClaimController, version: int, first: Iterable[ClaimEvent], end: float
) -> AsyncIterator[ClaimEvent]:
    """The changes after a version, until the time is over or they cannot be told."""
    events = first
    while True:
        for event in events:
            yield event
        left = end - time.monotonic()
        if left <= 0:
            return
        if version == keeper.table.version:
            await keeper.table.wait(min(left, LOOK_INTERVAL))
        try:
            await keeper.look()
            events, version = keeper.table.since(version), keeper.table.version
        except VersionGoneError:
            # The client is far behind. It begins anew where it stands, and is told that it is too late.
            return
        except Exception as error:  # noqa: BLE001 - the client begins anew, and is told the mistake then
            problem_from(error)
            return


async def _get(keeper: ClaimController, request: Request) -> Response:
    _refuse_query(request)
    await keeper.refresh()
    return json_response(keeper.find((request.path_params["namespace"], request.path_params["name"])))


async def _delete(keeper: ClaimController, request: Request) -> Response:
    _refuse_query(request)
    asked = await read_body(DeleteOptions, request, MAX_CLAIM_BYTES)
    uid = asked.preconditions.uid if asked.preconditions is not None else None
    key = (request.path_params["namespace"], request.path_params["name"])
    return json_response(await keeper.delete(key, uid))


async def _get_sandbox(keeper: ClaimController, request: Request) -> Response:
    _refuse_query(request)
    namespace, name = request.path_params["namespace"], request.path_params["name"]
    if not NAME_PATTERN.fullmatch(name):
        raise SandboxNotFoundError("the name is not one of a sandbox", "take it from the status of a claim")
    status = await keeper.context.in_thread(find_sandbox, keeper.context.fleet, name, namespace)
    return json_response(_sandbox_object(status, namespace, str(keeper.table.version)))


def _sandbox_object(status: SandboxStatus, namespace: str, version: str) -> SandboxObject:
    info = status.info
    is_ready = info.state in ("running", "asleep")
    created = stamp_of(info.created) if info.created is not None else "1970-01-01T00:00:00Z"
    ready = ready_condition(
        "True" if is_ready else "False",
        "DependenciesReady" if is_ready else "SandboxNotReady",
        f"the sandbox is {info.state}",
        created,
    )
    return SandboxObject(
        api_version=SANDBOX_GROUP,
        kind="Sandbox",
        metadata=ObjectMetadata(
            name=info.name,
            namespace=namespace,
            uid=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{info.name} {info.created}")),
            resource_version=version,
            creation_timestamp=created,
            labels=dict(info.labels),
        ),
        status=SandboxStatusView(conditions=(ready,), pod_ips=(NOWHERE,)),
    )


_HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", _CLAIMS): _create,
    ("GET", _CLAIMS): _list,
    ("GET", f"{_CLAIMS}/{{name}}"): _get,
    ("DELETE", f"{_CLAIMS}/{{name}}"): _delete,
    ("GET", _SANDBOX): _get_sandbox,
}


def claim_routes(context: ApiContext) -> list[Route]:
    """Return the routes of these calls."""
    keeper = ClaimController(context)
    return [
        Route(path, _endpoint(keeper, handler), methods=[method])
        for (method, path), handler in _HANDLERS.items()
    ]


def _endpoint(keeper: ClaimController, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return await answer_with(handler(keeper, request), _failure)

    return answer


def _refuse_query(request: Request) -> None:
    if request.url.query:
        raise UnfitRequestError("this call takes no query", "remove it")


def _failure(problem: Problem) -> Response:
    status = STATUS_BY_CODE.get(problem.type, HTTPStatus.INTERNAL_SERVER_ERROR)
    hint = f" ({problem.hint})" if problem.hint else ""
    reason = _REASONS.get(problem.type) or _REASONS.get(HTTPStatus(status), "InternalError")
    return _status(HTTPStatus(status), reason, f"{problem.message}{hint}")


def _gone() -> Response:
    message = "too old resource version (list again, and watch from there)"
    return _status(HTTPStatus.GONE, "Expired", message)


def _status(code: HTTPStatus, reason: str, message: str) -> Response:
    return json_response(
        Failure(
            api_version="v1",
            kind="Status",
            metadata={},
            status="Failure",
            message=message,
            reason=reason,
            code=code,
        ),
        code,
    )
