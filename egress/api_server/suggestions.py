"""Suggestions over the API: the smallest change of the rule files that would allow a denied request.

The change is tried on a copy of the files that the proxy uses, and nothing is written.
"""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from egress.api.log_schema import SuggestedStepView, SuggestionView
from egress.fleet.control_client import ask_fleet_proxy
from egress.fleet.errors import RequestNotLoggedError
from egress.fleet.protocol import FleetInfo
from egress.review import Index, LogEntry
from egress.runtime.errors import GatewayRefusedError

if TYPE_CHECKING:
    from egress.review.drafting import LineSuggestion
    from egress.review.drafting.preset_offer import PresetOffer

_MICROSECONDS = 1_000_000


def suggest_for(index: Index, about: FleetInfo, request: str, now: int) -> SuggestionView:
    """Return the suggestion for a request of this run. Raises `RequestNotLoggedError`."""
    # Imported here: it loads the compiler of rules, which no other call of the API needs.
    from egress.review.drafting import is_decided  # noqa: PLC0415

    line = index.newest(request, lambda each: is_decided(each, request) and each.text("run") == about.run)
    found = _suggestion(line, about, now // _MICROSECONDS) if line is not None else None
    if found is None:
        raise RequestNotLoggedError(
            "the log of this run has no such request", "the denial that the sandbox received has the id"
        )
    told = found.suggestion
    return SuggestionView(
        request=request,
        code=told.code,
        refusal=told.refusal,
        steps=tuple(SuggestedStepView(where=each.where, yaml=each.yaml) for each in told.steps),
        risks=told.risks,
        outcome=told.outcome,
        preset=told.preset.name if told.preset else "",
        preset_step=_preset_step(told.preset),
        is_current=found.is_current,
    )


def _suggestion(line: LogEntry, about: FleetInfo, now: int) -> LineSuggestion | None:
    from egress.policy.bundled_presets import preset_texts  # noqa: PLC0415
    from egress.policy.rule_files import read_rule_texts  # noqa: PLC0415
    from egress.review.drafting import suggest_for_line  # noqa: PLC0415
    from egress.rules.compile.load import load  # noqa: PLC0415

    # The files as they are now: the change has to fit the text into which it is pasted.
    sources = read_rule_texts(_rule_files(about))
    return suggest_for_line(line, sources, load(sources, preset_texts(), now).policy, now)


def _preset_step(preset: PresetOffer | None) -> SuggestedStepView | None:
    return None if preset is None else SuggestedStepView(where=preset.where, yaml=preset.yaml)


def _rule_files(about: FleetInfo) -> list[Path]:
    """Return the files that the proxy uses, as it names them: it has the working folder of this process."""
    status, answer = ask_fleet_proxy(about, "GET", "/status")
    rules = answer.get("rules")
    files = rules.get("files") if isinstance(rules, dict) else None
    if status != HTTPStatus.OK or not isinstance(files, list) or not files:
        raise GatewayRefusedError("the proxy does not name its rule files", "see `egress status`")
    return [Path(str(name)) for name in files]
