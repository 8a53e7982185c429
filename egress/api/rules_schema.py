"""The values of the rules, the proxy and its secrets, for the owner at the unix socket."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from egress.api.policy_schema import RequestSettings
from egress.api.schema import ApiRequest, ApiView, Seconds, Text

MAX_RULES_CHARS = 256 * 1024
SecretStateName = Literal["resolved", "pending", "unavailable", "revoked"]
SeverityName = Literal["error", "warning", "notice"]
ReloadName = Literal["loaded", "unchanged"]


class RulesText(ApiRequest, frozen=True):
    """The text of a rule file. It is checked alone: no file of the server is read."""

    text: Annotated[str, Meta(max_length=MAX_RULES_CHARS)]


class FindingView(ApiView, frozen=True):
    """A mistake or a doubt in a rule file."""

    line: int
    column: int
    severity: SeverityName
    message: str
    hint: str = ""


class CheckView(ApiView, frozen=True):
    """What is wrong with a rule file."""

    ok: bool
    """Whether it has no error."""
    digest: str | None = None
    """The digest of the rules, as `policy` in the log; none for rules with an error."""
    findings: tuple[FindingView, ...] = ()
    """At most 200 of them."""
    total: int = 0
    """How many findings there are."""


class ProfileRequest(RequestSettings, frozen=True):
    """A request to explain, for any sandbox of a profile."""

    profile: Text | None = None


class ReloadView(ApiView, frozen=True):
    """The outcome of a reload."""

    result: ReloadName
    policy: str
    """The digest of the rules in force."""


class RulesView(ApiView, frozen=True):
    """The rules of the proxy."""

    files: tuple[str, ...]
    digest: str
    """The digest of the rules as they were loaded."""
    in_force: str
    """The digest of the rules in force, which differs while something is revoked or granted."""
    loaded: str
    mode: str
    hosts: int
    networks: int
    reloads: dict[str, int]
    """How many reloads there were, by outcome."""
    refused: tuple[str, ...] = ()
    """Why the last reload was refused; empty if it was not."""


class ProxyView(ApiView, frozen=True):
    """The status of the proxy."""

    version: str
    run: str
    """The id of this run in the log."""
    since: str
    ready: bool
    problems: tuple[str, ...]
    """Why it cannot serve; empty if it can."""
    rules: RulesView
    connections: int
    requests: dict[str, int]
    """How many requests there were, by outcome."""
    killed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The names that are revoked, by kind."""


class SecretView(ApiView, frozen=True):
    """A secret of the rules: whether its value is known, and never the value."""

    name: str
    source: str
    """The kind of its source, such as `env`."""
    state: SecretStateName
    age: Seconds | None = None
    """Seconds since its source gave or confirmed it."""
    cause: str = ""
    """Why it is unavailable."""
    hint: str = ""


class SecretsView(ApiView, frozen=True):
    """The secrets of the rules, by name."""

    secrets: tuple[SecretView, ...]
