"""The values of the rules of one sandbox: its grants, and what would happen to a request."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from egress.api.schema import ApiRequest, ApiView, Text

GrantKindName = Literal["allow", "deny", "profile"]
VerdictName = Literal["allow", "deny"]
SchemeName = Literal["https", "http"]
MAX_URL_CHARS = 8192
MAX_EXPLAINED_HEADERS = 64

GrantId = Annotated[str, Meta(max_length=64, description="The id of a grant.")]
HostText = Annotated[str, Meta(min_length=1, max_length=253)]
Few = Annotated[tuple[Text, ...], Meta(max_length=16)]


class GrantSettings(ApiRequest, frozen=True):
    """A change to the rules of one sandbox, for a time: it has to be within a delegation of the rule file."""

    kind: GrantKindName
    ttl: Annotated[int, Meta(ge=1, le=7 * 86400)]
    """Seconds until it ends."""
    host: HostText | None = None
    """A host pattern, as in a rule; for `allow` and `deny`."""
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    """443 if left out."""
    methods: Few | None = None
    """All methods if left out."""
    paths: Few | None = None
    """Path patterns, as in a rule; all paths if left out."""
    profile: Text | None = None
    """For `profile`: the profile that holds for the sandbox instead of its own."""


class GrantView(ApiView, frozen=True):
    """A change to the rules of one sandbox that is in force."""

    id: str
    kind: GrantKindName
    change: str
    """The change as people read it."""
    ttl: int
    expires: int
    """The second of its end, since 1970."""
    delegation: str
    """The delegation of the rule file that covers it."""
    by: str = ""
    """Who asked for it."""
    host: str | None = None
    port: int | None = None
    methods: tuple[str, ...] | None = None
    paths: tuple[str, ...] | None = None
    profile: str | None = None


class DelegationView(ApiView, frozen=True):
    """Bounds within which a grant can be made for the sandbox. A bound that is left out is none."""

    id: str
    ttl: int
    """The longest time of a grant, in seconds."""
    may: tuple[GrantKindName, ...] = ()
    hosts: tuple[str, ...] = ()
    ports: tuple[int, ...] = (443,)
    methods: tuple[str, ...] | None = None
    paths: tuple[str, ...] | None = None
    profiles: tuple[str, ...] = ()


class PolicyView(ApiView, frozen=True):
    """What is granted to a sandbox, and what can be."""

    sandbox: str
    policy: str
    """The digest of the rules in force."""
    profile: str | None = None
    """The profile that the sandbox was created with."""
    params: dict[str, str] = field(default_factory=dict)
    """Its values for parameters of the rules."""
    profile_in_force: str | None = None
    grants: tuple[GrantView, ...] = ()
    delegations: tuple[DelegationView, ...] = ()


class RequestSettings(ApiRequest, frozen=True):
    """A request to explain. Nothing is sent, and no secret is resolved."""

    url: Annotated[str, Meta(min_length=1, max_length=MAX_URL_CHARS)]
    method: Annotated[str, Meta(min_length=1, max_length=64)] = "GET"
    headers: Annotated[dict[str, Text], Meta(max_length=MAX_EXPLAINED_HEADERS)] = field(default_factory=dict)
    websocket: bool = False
    """Whether the request opens a WebSocket."""


class ConsideredView(ApiView, frozen=True):
    """A rule that was considered, and the first condition that the request misses."""

    rule: str
    kind: VerdictName
    fits: bool
    misses: str
    place: str


class ExplanationView(ApiView, frozen=True):
    """What would happen to a request."""

    verdict: VerdictName
    code: str
    """The code of the reason."""
    outcome: str
    """The decision as people read it."""
    rule: str | None = None
    """The rule or grant that decides."""
    delegation: str | None = None
    """The delegation of the grant that decides."""
    profile: str | None = None
    inject: tuple[str, ...] = ()
    """The names of the secrets that the request would get."""
    observed: bool = False
    """Whether it passes only because of `mode: observe`."""
    place: str | None = None
    """File and line of the rule; only at the unix socket."""
    considered: tuple[ConsideredView, ...] = ()
    """The rules that were considered, in order; only at the unix socket."""
