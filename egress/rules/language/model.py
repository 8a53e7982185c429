"""The shape of a rule file: which keys there are, and of what type.

This is the one source for validation, for the JSON schema that editors read, and for the generated
reference: a field's description here is what all three say. What a value *means* (is this a host
name? does the secret exist?) is settled by the compiling modules, not here.

Each description is one sentence that a person can act on.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=False)


def _by_exact_type(names: dict[type, str]) -> Discriminator:
    def tell(value: object) -> str | None:
        # The exact type: true is an int to Python, and not to people.
        return names.get(type(value))

    return Discriminator(
        tell,
        custom_error_type="union",
        custom_error_message=" or ".join(names.values()),
    )


Size = Annotated[
    Annotated[int, Tag("a whole number")] | Annotated[str, Tag("text")],
    _by_exact_type({int: "a whole number", str: "text"}),
]


class Absent(Model):
    absent: Literal[True] = Field(description="The header or parameter must not be there.")


NamedGlobs = dict[
    str,
    Annotated[
        Annotated[str, Tag("text")] | Annotated[Absent, Tag("mapping")],
        _by_exact_type({str: "text", dict: "mapping"}),
    ],
]


class Limits(Model):
    """Bounds per sandbox; all that apply to a request count."""

    requests: str | None = Field(None, description="Rate of requests: `N/second`, `N/minute` or `N/hour`.")
    burst: Annotated[int, Field(ge=1)] | None = Field(
        None, description="How many requests may come at once; the N of `requests` by default."
    )
    request_body: Size | None = Field(None, description="Largest request body, as bytes or `10 MiB`.")
    response_body: Size | None = Field(None, description="Largest response body, as bytes or `10 MiB`.")
    connections: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Most connections open at once."
    )


class Matching(Model):
    """Predicates: joined by AND; the values of one by OR."""

    methods: list[str] | None = Field(None, description="Exact method names; GET does not imply HEAD.")
    paths: list[str] | None = Field(
        None,
        description="Path patterns: `*` is a run inside one segment, a segment `**` any number of segments.",
    )
    query: NamedGlobs | None = Field(
        None, description="Query parameters by name, each with a pattern or `{absent: true}`."
    )
    headers: NamedGlobs | None = Field(
        None, description="Headers by name, each with a pattern or `{absent: true}`."
    )
    content_type: list[str] | None = Field(
        None, description="Media types, such as `application/json` or `text/*`."
    )


class Treatment(Model):
    """How the traffic that a rule allows is treated."""

    limits: Limits | None = Field(None, description="Bounds per sandbox.")
    redirects: Literal["pass", "same-host", "deny", "signed"] | None = Field(
        None,
        description="Which redirects reach the sandbox; `signed` also lets signed URLs through.",
    )
    cookies: Literal["drop", "pass"] | None = Field(
        None,
        description="Whether Set-Cookie reaches the sandbox; dropped by default where something is injected.",
    )
    scrub: Literal["mask", "block", "off"] | None = Field(
        None,
        description="What happens when a secret comes back: masked, the response blocked, or nothing.",
    )


class Allow(Matching, Treatment):
    """One allow rule."""

    id: str = Field(description="Name of the rule, unique in its entry; shown as `host#id`.")
    websocket: bool = Field(False, description="The rule also allows WebSockets.")
    encoded_slash: Literal["data"] | None = Field(
        None, description="Take %2F in a path as one character of a segment instead of refusing it."
    )
    expires: str | None = Field(
        None, description="Last day (`2027-01-31`) or moment (RFC 3339 with offset) of the rule."
    )


class Deny(Matching):
    """One deny rule: needs at least one predicate, and always wins."""

    id: str = Field(description="Name of the rule, unique in its entry; shown as `host#id`.")
    websocket: Literal[True] | None = Field(None, description="The rule is about WebSockets alone.")
    encoded_slash: Literal["data"] | None = Field(
        None, description="Lets %2F stand in the path patterns of this rule."
    )


class TopDeny(Deny):
    """A deny rule that holds for every host, or for the hosts it names."""

    hosts: list[str] | None = Field(
        None, description="Host patterns the rule is about; all hosts when left out."
    )


class HeaderItem(Model):
    name: str = Field(description="Name of the header.")
    secret: str = Field(description="Name of the secret.")
    format: str = Field("{}", description="Text of the value, with `{}` where the secret goes.")


class BasicItem(Model):
    user: str = Field(description="User name; may be empty.")
    secret: str = Field(description="Name of the secret that is the password.")


class NamedItem(Model):
    name: str = Field(description="Name of the parameter or cookie.")
    secret: str = Field(description="Name of the secret.")


class PlaceholderItem(Model):
    secret: str = Field(description="Name of the secret.")
    like: Literal["github", "openai", "anthropic", "aws", "uuid", "hex32"] = Field(
        description="What the stand-in value looks like."
    )
    slots: list[str] = Field(
        alias="in",
        description="Where it is swapped: `header:NAME`, `query:NAME`, `cookie:NAME`, `path`, `basic`.",
    )
    max: Annotated[int, Field(ge=1, le=16)] = Field(1, description="Most occurrences in one request.")


INJECTION_KINDS = ("bearer", "header", "basic", "query", "cookie", "placeholder")


class Inject(Model):
    """One credential that is written into requests: exactly one of the six kinds."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": [kind]} for kind in INJECTION_KINDS]},
    )

    bearer: str | None = Field(None, description="Write `Authorization: Bearer` with this secret.")
    header: HeaderItem | None = Field(None, description="Write a header with this secret.")
    basic: BasicItem | None = Field(
        None, description="Write `Authorization: Basic` with this user and secret."
    )
    query: NamedItem | None = Field(None, description="Write a query parameter with this secret.")
    cookie: NamedItem | None = Field(None, description="Write a cookie with this secret.")
    placeholder: PlaceholderItem | None = Field(
        None, description="Give the sandbox a stand-in and swap it for the secret in the named places."
    )
    on_existing: Literal["replace", "fail"] = Field(
        "replace", description="What to do with a value that the sandbox itself sent in that place."
    )
    only_for: Annotated[list[str], Field(min_length=1)] | None = Field(
        None,
        alias="for",
        description="Ids of the allow rules this is meant for; all allowed requests when left out.",
    )


class TestItem(Model):
    """A test in its long form."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    request: str = Field(description="`METHOD TARGET`.")
    expect: str = Field(description="`allow [id][, inject NAME...]` or `deny [id or code]`.")
    headers: dict[str, str] = Field(default_factory=dict, description="Headers of the request.")
    profile: str | None = Field(None, description="The profile of the sandbox that asks.")
    at: str | None = Field(
        None, description="The moment of the request, as a day or RFC 3339; now when left out."
    )
    websocket: bool = Field(False, description="The request asks for a WebSocket.")


Tests = list[
    Annotated[
        Annotated[str, Tag("text")] | Annotated[TestItem, Tag("mapping")],
        _by_exact_type({str: "text", dict: "mapping"}),
    ]
]
AllowList = Annotated[
    Annotated[Literal["all"], Tag("text")] | Annotated[list[Allow], Tag("list")],
    _by_exact_type({str: "text", list: "list"}),
]
Ports = list[Annotated[int, Field(ge=1, le=65535)]]
HttpPorts = Annotated[
    Annotated[bool, Tag("true")] | Annotated[Ports, Tag("list of ports")],
    _by_exact_type({bool: "true", list: "list of ports"}),
]


class Host(Matching, Treatment):
    """What may be done at one host. `{}` allows the whole host."""

    ports: Ports | None = Field(None, description="HTTPS ports; [443] when left out, [] for none.")
    http: HttpPorts | None = Field(
        None, description="Allow clear text: `true` for port 80, or a list of ports."
    )
    http2: bool = Field(False, description="Offer HTTP/2 to clients; needed for gRPC.")
    intercept: Literal["always", "never"] = Field(
        "always", description="`never` passes bytes through unread: no rules on requests, no injection."
    )
    allow: AllowList | None = Field(None, description="Allow rules, or `all`; `[]` closes the host.")
    deny: list[Deny] | None = Field(None, description="Deny rules; they win over every allow.")
    inject: list[Inject] | None = Field(
        None, description="Credentials that are written into allowed requests."
    )
    websocket: bool | None = Field(
        None, description="Allow WebSockets; for entries without a list of allow rules."
    )
    encoded_slash: Literal["data"] | None = Field(
        None, description="Take %2F in a path as one character of a segment instead of refusing it."
    )
    mode: Literal["enforce", "observe"] | None = Field(
        None, description="`observe` lets through what no rule allows, and records it."
    )
    misplaced: Literal["deny", "pass"] = Field(
        "deny",
        description="What to do with a placeholder outside its places; `pass` lets it through unswapped.",
    )
    expires: str | None = Field(None, description="Last day or moment; afterwards the entry is closed.")
    addresses: list[str] | None = Field(
        None, description="Networks this name may resolve into although they are refused by default."
    )
    tests: Tests | None = Field(None, description="Tests of this entry, such as `GET /user -> allow read`.")


class CommandSource(Model):
    command: Annotated[list[str], Field(min_length=1)] = Field(
        description="Program and arguments, run without a shell."
    )


class SecretItem(Model):
    """One secret: where it comes from and the only hosts it may go to."""

    source: Annotated[
        Annotated[str, Tag("text")] | Annotated[CommandSource, Tag("mapping")],
        _by_exact_type({str: "text", dict: "mapping"}),
    ] = Field(
        alias="from", description="Where the value comes from, such as `env:NAME` or `file:/run/secrets/x`."
    )
    hosts: list[str] = Field(
        description="Hosts it is bound to: `name`, `*.suffix` or `**.suffix`, with optional `:port`."
    )
    ttl: Size | None = Field(
        None,
        description="How long a value is kept: seconds, or a text such as `15m`.",
    )
    expires: str | None = Field(
        None, description="Last day or moment of the secret; afterwards requests that need it are denied."
    )


class CanaryItem(Model):
    """A value that nothing has a use for: where it shows up, somebody reads what is not meant to be used."""

    like: Literal["github", "openai", "anthropic", "aws", "uuid", "hex32"] = Field(
        description="What the value looks like; it is made for each sandbox and never stands in a file."
    )
    env: str | None = Field(None, description="The variable of the sandbox in which it is planted.")
    file: str | None = Field(
        None, description="The file of the sandbox in which it is planted: a whole path, or one below `~/`."
    )
    text: str | None = Field(
        None, description="What that file says, with `{value}` where the value goes; it alone when left out."
    )
    stop: bool = Field(
        False, description="Also take all access back from a sandbox that sends it, and end its processes."
    )


class Network(Model):
    """Addresses that may be asked for directly, without a name. They never get a secret."""

    cidr: str = Field(description="The network, such as `10.1.0.0/16`.")
    ports: Ports | None = Field(None, description="HTTPS ports; [443] when left out, [] for none.")
    http: HttpPorts | None = Field(
        None, description="Allow clear text: `true` for port 80, or a list of ports."
    )
    allow: AllowList | None = Field(None, description="Allow rules, or `all`.")
    deny: list[Deny] | None = Field(None, description="Deny rules.")


class ProfileItem(Model):
    """A named part of the rules, for one kind of sandbox."""

    hosts: list[str] = Field(description="Keys of entries, as they are written under `hosts`.")
    rules: list[str] | None = Field(
        None, description="Allow rules, as `KEY#id`, to which a listed host is narrowed."
    )


Use = Annotated[
    Annotated[str, Tag("text")] | Annotated[dict[str, dict[str, str | list[str]]], Tag("mapping")],
    _by_exact_type({str: "text", dict: "mapping"}),
]


class RuleFile(Model):
    """The rules of Egress: where sandboxes may go, and which credential is injected on the way."""

    version: Literal[1] = Field(description="Version of the format: 1.")
    secrets: dict[str, SecretItem] | None = Field(
        None, description="Secrets by name; their values never stand here."
    )
    hosts: dict[str, Host] | None = Field(
        None, description="What may be done where; nothing else is allowed."
    )
    deny: list[TopDeny] | None = Field(None, description="Deny rules that hold whatever an entry allows.")
    use: list[Use] | None = Field(None, description="Presets: a name, or `{name: {parameter: value}}`.")
    networks: list[Network] | None = Field(None, description="Addresses that may be asked for directly.")
    canaries: dict[str, CanaryItem] | None = Field(
        None, description="Values that are planted in each sandbox: a request that carries one is denied."
    )
    profiles: dict[str, ProfileItem] | None = Field(
        None, description="Parts of the rules for kinds of sandboxes."
    )
    mode: Literal["enforce", "observe"] | None = Field(
        None, description="`observe` lets through what no rule allows, and records it."
    )
    limits: Limits | None = Field(None, description="Bounds per sandbox over all hosts.")
    tests: Tests | None = Field(None, description="Tests with full URLs.")
