"""Compile the predicate `llm` of a rule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from egress.inspect.llm.usage import LlmApi
from egress.rules.decide.globs import PathGlob, ValueGlob, path_glob
from egress.rules.decide.llm_predicate import LlmPredicate
from egress.rules.language.body_models import LlmAllow, LlmDeny
from egress.rules.language.report import DocumentCursor, quoted

_MODEL_GLOB: Final = re.compile(r"[A-Za-z0-9*][A-Za-z0-9*._:/@-]{0,255}")
_TOOL: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_PATHS: Final[Mapping[LlmApi, tuple[str, ...]]] = {
    "anthropic": ("/v1/messages",),
    "openai-chat": ("/v1/chat/completions",),
    "openai-responses": ("/v1/responses",),
    "openai-embeddings": ("/v1/embeddings",),
    "gemini": tuple(
        f"/{version}/models/*:{action}"
        for version in ("v1", "v1beta")
        for action in ("generateContent", "streamGenerateContent")
    ),
    "bedrock-converse": ("/model/*/converse", "/model/*/converse-stream"),
    "bedrock-invoke": ("/model/*/invoke", "/model/*/invoke-with-response-stream"),
}
SLASHED_APIS: Final[frozenset[LlmApi]] = frozenset({"bedrock-converse", "bedrock-invoke"})
"""APIs whose paths hold names with an encoded slash."""


def llm_paths(api: LlmApi) -> tuple[PathGlob, ...]:
    """Return the paths of an API, for a rule that names none."""
    return tuple(path_glob(text, encoded_slash=api in SLASHED_APIS) for text in _PATHS[api])


def llm_predicate(model: LlmAllow | LlmDeny, at: DocumentCursor) -> LlmPredicate:
    """Compile the predicate at `at`; report its mistakes."""
    models = None if model.models is None else _models(model.models, at / "models")
    tools = model.server_tools
    _check_tools(tools or (), at / "server_tools")
    if isinstance(model, LlmDeny):
        return LlmPredicate(model.api, models, server_tools=None if tools is None else tuple(tools))
    budgets = (model.budget,) if isinstance(model.budget, str) else tuple(model.budget or ())
    makes_output = model.api != "openai-embeddings"
    if makes_output and model.max_output is None and (budgets or model.over == "clamp"):
        key = "budget" if budgets else "over"
        (at / key).key_error(
            f"`{key}` needs `max_output`", "add the most tokens of an answer, such as `max_output: 16000`"
        )
    return LlmPredicate(
        model.api,
        models,
        max_output=model.max_output,
        clamps=model.over == "clamp",
        choices=model.choices,
        server_tools=tuple(tools or ()),
        budgets=budgets,
    )


def _models(written: list[str], at: DocumentCursor) -> tuple[ValueGlob, ...]:
    if not written:
        at.error("an empty list matches nothing", "name models, as in `claude-haiku-*`")
    for number, text in enumerate(written):
        if not _MODEL_GLOB.fullmatch(text):
            (at / number).error(
                f"{quoted(text)} is not the name of a model", "write it as in `claude-haiku-*`"
            )
    return tuple(map(ValueGlob, written))


def _check_tools(written: list[str] | tuple[str, ...], at: DocumentCursor) -> None:
    for number, text in enumerate(written):
        if not _TOOL.fullmatch(text):
            (at / number).error(
                f"{quoted(text)} is not the name of a tool",
                "write it without its version, as in `web_search`",
            )
