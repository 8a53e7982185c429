"""The values of the audit log: which lines are asked for, and rules that would allow a denied request."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from egress.api.schema import ApiRequest, ApiView

MAX_LOG_LINES = 500
"""The most lines of one answer."""
RecordedVerdictName = Literal["", "allow", "deny", "cut"]
FilterText = Annotated[str, Meta(max_length=512)]
Moment = Annotated[
    str, Meta(max_length=64, description="`30m`, `2h` or `7d` ago, a day, or an RFC 3339 moment.")
]


class AuditQuery(ApiRequest, frozen=True):
    """Which lines of a sandbox: all conditions that are set have to fit."""

    verdict: RecordedVerdictName = ""
    host: FilterText = ""
    """`*` stands for any text."""
    method: FilterText = ""
    status: FilterText = ""
    """Such as `404`, or `5xx` for all of them."""
    code: FilterText = ""
    """The code of the reason."""
    rule: FilterText = ""
    secret: FilterText = ""
    """The name of a secret that was sent."""
    event: FilterText = ""
    """The kind of line, such as `exchange`."""
    grep: FilterText = ""
    """A text that the line contains."""
    since: Moment = ""
    until: Moment = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LOG_LINES)] = 100
    """The most lines of an answer."""
    cursor: Annotated[str, Meta(max_length=64)] = ""
    """Where the answer before ended: its `egress-cursor`."""
    last: Annotated[int, Meta(ge=0, le=MAX_LOG_LINES)] = 0
    """Of events: the lines before the first new one, of the last day unless `since` is given."""


class LogQuery(AuditQuery, frozen=True):
    """Which lines of the whole run: all conditions that are set have to fit."""

    sandbox: FilterText = ""


class SuggestionQuery(ApiRequest, frozen=True):
    """A denied request."""

    request: Annotated[str, Meta(min_length=1, max_length=128)]
    """Its id, from the denial or the log; for a refused connection, that of the connection."""


class SuggestedStepView(ApiView, frozen=True):
    """A change of a rule file."""

    where: str
    yaml: tuple[str, ...]


class SuggestionView(ApiView, frozen=True):
    """The smallest change of the rules that would allow a denied request, or the reason why there is none."""

    request: str
    code: str
    """The code of the denial; empty if the current rules allow the request."""
    refusal: str = ""
    steps: tuple[SuggestedStepView, ...] = ()
    risks: tuple[str, ...] = ()
    outcome: str = ""
    """The verdict with the change, which was tried on a copy of the rules."""
    preset: str = ""
    """A preset that would allow the request, too."""
    preset_step: SuggestedStepView | None = None
    is_current: bool = True
    """Whether the rule files are still those that denied the request."""
