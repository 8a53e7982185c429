"""GitHub Copilot: an account at GitHub, the models it has, and Chat Completions at the models' own host."""

from __future__ import annotations

from typing import Any

from tests.tools.standins.openai_api import OpenAiApi
from tests.tools.vendor_server import VendorCall

GITHUB = "api.github.com"
MODELS = "api.individual.githubcopilot.com"
LOGIN = "octo-agent"


def _model(name: str) -> dict[str, Any]:
    limits = {"max_context_window_tokens": 128_000, "max_output_tokens": 16_000, "max_prompt_tokens": 100_000}
    supports = {"streaming": True, "tool_calls": True, "parallel_tool_calls": True}
    return {
        "id": name,
        "name": name,
        "object": "model",
        "vendor": "stand-in",
        "version": name,
        "preview": False,
        "model_picker_enabled": True,
        "is_chat_default": True,
        "policy": {"state": "enabled", "terms": ""},
        "supported_endpoints": ["/chat/completions"],
        "billing": {"is_premium": False, "multiplier": 0},
        "capabilities": {
            "family": name,
            "object": "model_capabilities",
            "tokenizer": "o200k_base",
            "type": "chat",
            "limits": limits,
            "supports": supports,
        },
    }


class CopilotAccount:
    """What Copilot asks GitHub: an account with a plan, and where its models are."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, call: VendorCall) -> None:
        if call.header("authorization") not in (f"Bearer {self._token}", f"token {self._token}"):
            call.reply_json({"message": "Bad credentials"}, 401)
        elif call.path == "/copilot_internal/user":
            call.reply_json(
                {
                    "login": LOGIN,
                    "access_type_sku": "plus_monthly_subscriber_quota",
                    "assigned_date": None,
                    "can_signup_for_limited": False,
                    "chat_enabled": True,
                    "cli_enabled": True,
                    "copilot_plan": "individual_pro",
                    "endpoints": {"api": f"https://{MODELS}"},
                    "organization_list": [],
                    "organization_login_list": [],
                }
            )
        elif call.path == "/user":
            call.reply_json({"login": LOGIN, "id": 1, "type": "User"})
        else:
            call.reply_json({"message": "Not Found"}, 404)


class CopilotModels(OpenAiApi):
    """Chat Completions, with a list of models of its own."""

    def __init__(self, token: str) -> None:
        super().__init__(token, base="")

    def __call__(self, call: VendorCall) -> None:
        if call.path == "/models":
            call.reply_json(
                {
                    "object": "list",
                    "data": [_model("claude-sonnet-4.5"), _model("gpt-5.4"), _model("gpt-5-mini")],
                }
            )
        else:
            super().__call__(call)
