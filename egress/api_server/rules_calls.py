"""Calls about the rules of the run, the proxy and its secrets: for the owner, at the unix socket alone.

A reload reads the files that the proxy was started with. No call names a file, and a text that is checked is
not put in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from egress.api.policy_schema import ExplanationView
from egress.api.rules_schema import (
    CheckView,
    ProfileRequest,
    ProxyView,
    ReloadView,
    RulesText,
    SecretsView,
)
from egress.api_server.call import ApiCall
from egress.api_server.rule_check import check_text
from egress.fleet.control_client import ask_fleet_proxy, typed_answer
from egress.fleet.errors import RulesRefusedError
from egress.fleet.policies import given_fields
from egress.runtime.errors import GatewayRefusedError, SpecError

if TYPE_CHECKING:
    from egress.api_server.call import BlockingHandler


def _check(call: ApiCall) -> CheckView:
    body: RulesText = call.body
    return check_text(body.text)


def _explain(call: ApiCall) -> ExplanationView:
    body: ProfileRequest = call.body
    return _ask(call, ExplanationView, "POST", "/explain", given_fields(body))


def _reload(call: ApiCall) -> ReloadView:
    return _ask(call, ReloadView, "POST", "/reload")


def _proxy(call: ApiCall) -> ProxyView:
    return _ask(call, ProxyView, "GET", "/status")


def _secrets(call: ApiCall) -> SecretsView:
    return _ask(call, SecretsView, "GET", "/secrets")


def _ask[T: msgspec.Struct](
    call: ApiCall, answer: type[T], method: str, target: str, body: Mapping[str, object] | None = None
) -> T:
    status, fields = ask_fleet_proxy(call.fleet.about, method, target, body)
    message, hint = str(fields.get("error", "")), str(fields.get("hint", ""))
    if status == HTTPStatus.BAD_REQUEST:
        raise SpecError(message, hint)
    if status == HTTPStatus.CONFLICT:
        problems = fields.get("problems")
        told = "; ".join(map(str, problems)) if isinstance(problems, list) else message
        raise RulesRefusedError(f"the rules stay as they were: {told}", hint or "correct the rule files")
    if status != HTTPStatus.OK:
        raise GatewayRefusedError(message or "the proxy refused it", hint)
    return typed_answer(fields, answer)


RULES_CALLS: dict[str, BlockingHandler] = {
    "check_rules": _check,
    "explain_for_profile": _explain,
    "reload_rules": _reload,
    "get_proxy": _proxy,
    "list_secrets": _secrets,
}
"""Handlers by the names of their operations."""
