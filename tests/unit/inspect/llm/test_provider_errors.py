"""Denials in the words of each vendor."""

from __future__ import annotations

import json

import pytest

from egress.inspect.inspector import Refusal
from egress.inspect.llm.provider_errors import provider_answer
from egress.inspect.llm.usage import LlmApi

REFUSAL = Refusal("llm.model", "No rule allows this model.", "Ask.", "x#y", "opus")


@pytest.mark.parametrize(
    ("api", "wanted"),
    [
        ("anthropic", {"type": "error", "error": {"type": "permission_error", "message": "?"}}),
        (
            "openai-chat",
            {"error": {"message": "?", "type": "egress_error", "param": None, "code": "llm.model"}},
        ),
        (
            "openai-responses",
            {"error": {"message": "?", "type": "egress_error", "param": None, "code": "llm.model"}},
        ),
        ("gemini", {"error": {"code": 403, "message": "?", "status": "PERMISSION_DENIED"}}),
        ("bedrock-invoke", {"message": "?"}),
    ],
)
def test_each_vendor_has_a_form_of_its_own(api: LlmApi, wanted: object) -> None:
    answer = provider_answer(api, REFUSAL)
    text = "Egress: No rule allows this model. (opus) Ask."
    assert json.loads(answer.body) == json.loads(json.dumps(wanted).replace('"?"', json.dumps(text)))
    assert answer.status == 403
    names = dict(answer.headers)
    assert names.get("x-amzn-errortype") == ("AccessDeniedException" if api == "bedrock-invoke" else None)


def test_a_denial_that_may_pass_is_one_of_too_many_requests() -> None:
    answer = provider_answer("bedrock-converse", Refusal("llm.budget", "x", retry_after=5))
    assert (answer.status, dict(answer.headers)) == (429, {"x-amzn-errortype": "ThrottlingException"})


@pytest.mark.parametrize(
    ("status", "kind"), [(400, "invalid_request_error"), (413, "request_too_large"), (503, "api_error")]
)
def test_a_request_that_is_none_and_a_fault_of_ours_have_statuses_of_their_own(
    status: int, kind: str
) -> None:
    answer = provider_answer(
        "anthropic", Refusal("x", "x", retry_after=5 if status == 503 else 0, status=status)
    )
    assert (answer.status, json.loads(answer.body)["error"]["type"]) == (status, kind)
