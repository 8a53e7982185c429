"""Each operation has a handler, and no handler is without its operation."""

from __future__ import annotations

from egress.api.operations import OPERATIONS
from egress.api_server.app import BLOCKING_CALLS, STREAM_CALLS, WEBSOCKET_CALLS, make_app
from egress.api_server.call import ApiContext
from tests.api_server.lab import ApiLab


def test_each_operation_has_exactly_one_handler() -> None:
    handlers = [*BLOCKING_CALLS, *STREAM_CALLS, *WEBSOCKET_CALLS]
    assert sorted(handlers) == sorted(OPERATIONS)
    sockets = {each.name for each in OPERATIONS.values() if each.returns == "websocket"}
    assert sockets == set(WEBSOCKET_CALLS)


def test_a_server_at_a_port_lacks_the_calls_of_the_owner(lab: ApiLab) -> None:
    context = ApiContext(lab.estate.fleet, lambda: None, is_owner_only=False)
    paths = {getattr(route, "path", "") for route in make_app(context).routes}
    owned = {each.path for each in OPERATIONS.values() if each.owner_only}
    of_the_run = {"/v1/rules/check", "/v1/rules/explain", "/v1/rules/reload", "/v1/proxy", "/v1/secrets"}
    tickets = {"/v1/sandboxes/{name}/tickets", "/v1/sandboxes/{name}/tickets/{ticket}"}
    assert owned == {"/v1/shutdown", "/v1/ready", "/v1/log", "/v1/log/suggestion", *of_the_run}
    assert not paths & owned
    # Within `delegate:`, as grants are.
    assert tickets <= paths
