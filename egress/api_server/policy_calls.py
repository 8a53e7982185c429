"""Calls about the rules of one sandbox: its grants, its tickets, and what would happen to a request of its.

A client of a port makes grants and tickets within the delegations of the rule file, and takes back its own
alone: a deny of the operator stays. It sees neither where a rule stands nor the rules that did not decide.
"""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from msgspec import structs

from egress.api.handler_schema import HandlersView
from egress.api.policy_schema import ExplanationView, GrantView, PolicyView
from egress.api.ticket_schema import TicketView
from egress.api_server.call import ApiCall
from egress.fleet.errors import GrantBeyondError, GrantRefusedError
from egress.runtime.spec import RunRights, Values

if TYPE_CHECKING:
    from egress.api_server.call import BlockingHandler

AT_SOCKET = "the API at the unix socket"
AT_PORT = "the API at the port"
"""The names that grants have of their callers. A client cannot choose one."""
_REFUSED_HINT: Final = "see the grants of the sandbox, or ask its operator"


def _caller(call: ApiCall) -> str:
    return AT_SOCKET if call.context.is_owner_only else AT_PORT


def _show(call: ApiCall) -> PolicyView:
    return call.fleet.policies.show(call.name)


def _grant(call: ApiCall) -> tuple[int, GrantView]:
    try:
        return HTTPStatus.CREATED, call.fleet.policies.grant(call.name, call.body, _caller(call))
    except GrantRefusedError as error:
        if call.context.is_owner_only or isinstance(error, GrantBeyondError):
            raise
        # The hint for the operator names the place of the rule that closes the host.
        raise GrantRefusedError(error.message, _REFUSED_HINT) from None


def _undo(call: ApiCall) -> GrantView:
    by = _caller(call)
    made_by = None if call.context.is_owner_only else by
    return call.fleet.policies.undo(call.name, call.parts["grant"], by, made_by=made_by)


def _show_handlers(call: ApiCall) -> HandlersView:
    return call.fleet.policies.handlers(call.name)


def _choose_handlers(call: ApiCall) -> HandlersView:
    # No delegation says which handlers a client of a port may choose.
    if not call.context.is_owner_only:
        raise GrantBeyondError(
            "handlers are not chosen at the port", "choose them at the unix socket, as the operator"
        )
    return call.fleet.policies.choose_handlers(call.name, call.body, _caller(call))


def _add_ticket(call: ApiCall) -> tuple[int, TicketView]:
    is_delegated = not call.context.is_owner_only
    made = call.fleet.policies.add_ticket(call.name, call.body, _caller(call), is_delegated=is_delegated)
    return HTTPStatus.CREATED, made


def _end_ticket(call: ApiCall) -> None:
    made_by = None if call.context.is_owner_only else _caller(call)
    call.fleet.policies.end_ticket(call.name, call.parts["ticket"], made_by)


def run_rights(call: ApiCall, profile: str | None, parameters: Values) -> RunRights | None:
    """Return the rights that a client asks for a run of its; at a port, as far as they are delegated."""
    asked = RunRights.asked(profile, parameters)
    return asked and replace(asked, by=_caller(call), is_delegated=not call.context.is_owner_only)


def _explain(call: ApiCall) -> ExplanationView:
    found = call.fleet.policies.explain(call.name, call.body)
    return found if call.context.is_owner_only else structs.replace(found, place=None, considered=())


POLICY_CALLS: dict[str, BlockingHandler] = {
    "show_policy": _show,
    "grant": _grant,
    "undo_grant": _undo,
    "show_handlers": _show_handlers,
    "choose_handlers": _choose_handlers,
    "add_ticket": _add_ticket,
    "end_ticket": _end_ticket,
    "explain_request": _explain,
}
"""Handlers by the names of their operations."""
