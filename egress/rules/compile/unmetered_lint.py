"""Find plain rules that open calls of models beside a budget, which it cannot see.

A batch is answered hours later, on another path; images and speech are priced in units of their own. A rule
with `llm:` reads none of these, so a wide plain rule would be a way around the budget of its host. A deny
closes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from egress.rules.compile.overlap import rule_covers
from egress.rules.decide.entry import Entry, Rule
from egress.rules.decide.globs import path_glob
from egress.rules.decide.host_route import allow_path_fits, deny_path_fits, takes_method
from egress.rules.decide.llm_predicate import LlmPredicate
from egress.rules.decide.predicates import Predicates
from egress.rules.decide.verdicts import deny_readings
from egress.rules.language.report import Report

type _Call = tuple[str, str]
"""A method, and a path in which `*` stands for the name of a model."""

_ANTHROPIC: Final = (
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/batches"),
    ("POST", "/v1/complete"),
    ("POST", "/v1/chat/completions"),
)
_OPENAI: Final = (
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/responses/compact"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/batches"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/images/generations"),
    ("POST", "/v1/images/edits"),
    ("POST", "/v1/images/variations"),
    ("POST", "/v1/audio/speech"),
    ("POST", "/v1/audio/transcriptions"),
    ("POST", "/v1/audio/translations"),
    ("POST", "/v1/realtime/calls"),
    ("POST", "/v1/threads/runs"),
    ("POST", "/v1/threads/thread/runs"),
    ("POST", "/v1/videos"),
    ("POST", "/v1/fine_tuning/jobs"),
)
_GEMINI: Final = (
    *(
        ("POST", f"/{version}/models/*:{action}")
        for version in ("v1", "v1alpha", "v1beta")
        for action in (
            "generateContent",
            "streamGenerateContent",
            "batchGenerateContent",
            "embedContent",
            "batchEmbedContents",
            "asyncBatchEmbedContent",
            "predict",
            "predictLongRunning",
        )
    ),
    ("POST", "/v1beta/openai/chat/completions"),
    ("POST", "/v1beta/interactions"),
    ("POST", "/v1beta/cachedContents"),
)
_BEDROCK: Final = (
    ("POST", "/model/*/invoke"),
    ("POST", "/model/*/invoke-with-response-stream"),
    ("POST", "/model/*/converse"),
    ("POST", "/model/*/converse-stream"),
    ("POST", "/model-invocation-job"),
    ("POST", "/async-invoke"),
)
_CALLS: Final[Mapping[str, tuple[_Call, ...]]] = {
    "anthropic": _ANTHROPIC,
    "openai": _OPENAI,
    "gemini": _GEMINI,
    "bedrock": _BEDROCK,
}


def lint_unmetered(entries: Iterable[Entry], report: Report) -> None:
    """Report plain rules of hosts with a budget that allow such a call, unless they say that they may."""
    for entry in entries:
        bodies = [rule.widest.body for rule in entry.allow]
        counted = [body for body in bodies if isinstance(body, LlmPredicate) and body.budgets]
        vendors = {body.api.partition("-")[0] for body in counted}
        calls = [call for vendor in sorted(vendors) for call in _CALLS[vendor] if not _is_closed(entry, call)]
        for rule in entry.allow:
            if rule.widest.body is None and not rule.handling.unmetered:
                _check(rule, calls, report)


def _check(rule: Rule, calls: Iterable[_Call], report: Report) -> None:
    opened = [
        (method, path)
        for method, path in calls
        if takes_method(rule.widest, method) and allow_path_fits(rule.widest, _sample(path))
    ]
    if not opened:
        return
    method, path = opened[0]
    report.error(
        rule.ref.place,
        f"{rule.ref} allows {method} {_sample(path)}, whose cost no budget of this host sees",
        _preset_hint(opened) if rule.ref.place.via else _OWN_HINT,
    )


_OWN_HINT: Final = "narrow its methods or paths, deny that call, or write `unmetered: true` on it"


def _preset_hint(opened: Iterable[_Call]) -> str:
    """Return the cure for a rule that its reader cannot edit: all calls at once."""
    paths = ", ".join(f'"{path}"' for _, path in opened)
    return (
        f"under this host write a rule with `llm:` for it, or `deny: [{{ id: uncounted, paths: [{paths}] }}]`"
    )


def _sample(path: str) -> str:
    """Return one path that fits a pattern."""
    return path.replace("*", "model")


def _is_closed(entry: Entry, call: _Call) -> bool:
    """Report whether another rule has the path: one that reads the body, or a deny without any condition."""
    method, path = call
    readings = deny_readings(_sample(path))
    if any(rule.widest.body is not None and deny_path_fits(rule.widest, readings) for rule in entry.allow):
        return True
    denied = Predicates(frozenset({method}), (path_glob(path),))
    return any(
        rule.expires is None and not rule.predicates.websocket and rule_covers(rule.predicates, denied)
        for rule in entry.deny
    )
