"""The shape of a rule file: its keys and their types.

The single source for validation, for the JSON schema that editors read, and for the generated reference:
all three show the description of a field. The meaning of a value (is this a host name? does the secret
exist?) is checked by the compiling modules.

Each description is one sentence that a person can act on.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, Tag

from egress.rules.language.body_models import (
    GitAllow,
    GitDeny,
    GraphqlAllow,
    GraphqlFields,
    LlmAllow,
    LlmDeny,
    McpAllow,
    McpDeny,
)
from egress.rules.language.budget_models import BudgetItem, PricesItem
from egress.rules.language.delegation_models import DelegateItem
from egress.rules.language.strict_model import Model, Ports, Size, by_exact_type


# A mapping, so that no pattern text can be mistaken for it.
class Absent(Model):
    absent: Literal[True] = Field(description="The header or parameter must not be there.")


NamedGlobs = dict[
    str,
    Annotated[
        Annotated[str, Tag("text")] | Annotated[Absent, Tag("mapping")],
        by_exact_type({str: "text", dict: "mapping"}),
    ],
]


class Limits(Model):
    """Limits per sandbox; all that apply to a request count."""

    requests: str | None = Field(None, description="Rate of requests: `N/second`, `N/minute` or `N/hour`.")
    burst: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Number of requests that may come at once; the N of `requests` by default."
    )
    request_body: Size | None = Field(None, description="Largest request body, as bytes or `10 MiB`.")
    response_body: Size | None = Field(None, description="Largest response body, as bytes or `10 MiB`.")
    connections: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Connections that may be open at once."
    )


class Matching(Model):
    """Predicates: joined by AND, the values of one predicate by OR."""

    methods: list[str] | None = Field(None, description="Exact method names; GET does not imply HEAD.")
    paths: list[str] | None = Field(
        None,
        description="Path patterns: `*` matches within a segment, a segment `**` any number of segments.",
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


class Audit(Model):
    """What the audit log keeps of a request, beyond what it keeps of every request."""

    query: Annotated[list[str], Field(min_length=1, max_length=16)] = Field(
        description="Query parameters whose values are kept; of all others the log has the names only."
    )


class HandlerItem(Model):
    """A function of the operator that is called for each allowed request, and may deny or answer it."""

    use: str = Field(description="Name of the handler; `egress serve --handlers` loads the file that has it.")
    params: dict[str, object] = Field(
        default_factory=dict, alias="with", description="Parameters for the handler, as it defines them."
    )


class Treatment(Model):
    """Treatment of the traffic that a rule allows."""

    limits: Limits | None = Field(None, description="Limits per sandbox.")
    redirects: Literal["pass", "same-host", "deny", "signed"] | None = Field(
        None,
        description="Which redirects reach the sandbox; `signed` also lets signed URLs through.",
    )
    cookies: Literal["drop", "pass"] | None = Field(
        None,
        description="Whether Set-Cookie reaches the sandbox; dropped by default if a credential is injected.",
    )
    scrub: Literal["mask", "block", "off"] | None = Field(
        None,
        description="A secret in a response is masked, blocks the response, or passes (`off`).",
    )
    audit: Audit | None = Field(None, description="What the audit log keeps of a request, beyond the usual.")
    handler: HandlerItem | None = Field(
        None, description="The handler that is called for each request; one of a rule replaces the host's."
    )


class Allow(Matching, Treatment):
    """An allow rule."""

    id: str = Field(description="Name of the rule, unique in its entry; shown as `host#id`.")
    websocket: bool = Field(False, description="The rule also allows WebSockets.")
    encoded_slash: Literal["data"] | None = Field(
        None, description="Treat %2F in a path as one character of a segment instead of refusing it."
    )
    expires: str | None = Field(
        None, description="Last day (`2027-01-31`) or moment (RFC 3339 with offset) of the rule."
    )
    unmetered: Literal[True] | None = Field(
        None,
        description="Beside a budget: allow calls of models too whose cost it cannot see, such as batches.",
    )
    git: GitAllow | None = Field(
        None, description="Fetches and pushes over smart HTTP; the commands of a push are read."
    )
    graphql: GraphqlAllow | None = Field(
        None, description="GraphQL operations; the body is read, and its paths take no other requests."
    )
    mcp: McpAllow | None = Field(
        None, description="Messages of MCP; the body is read, and its paths take no other requests."
    )
    llm: LlmAllow | None = Field(
        None, description="Calls of language models: models, output, tools of the vendor, and budgets."
    )


class Deny(Matching):
    """A deny rule: needs at least one predicate, and always wins."""

    id: str = Field(description="Name of the rule, unique in its entry; shown as `host#id`.")
    websocket: Literal[True] | None = Field(None, description="The rule applies only to WebSockets.")
    encoded_slash: Literal["data"] | None = Field(
        None, description="Allow %2F in the path patterns of this rule."
    )
    git: GitDeny | None = Field(
        None, description="Requests of git; the rule also matches a push that cannot be read."
    )
    graphql: GraphqlFields | None = Field(
        None, description="GraphQL operations; the rule also matches a body that cannot be read."
    )
    mcp: McpDeny | None = Field(
        None, description="Messages of MCP; the rule also matches a body that cannot be read."
    )
    llm: LlmDeny | None = Field(
        None, description="Calls of language models; the rule also matches a body that cannot be read."
    )
    reason: str | None = Field(
        None, description="Why, in one line: the answer to the sandbox, the log and `explain` show it."
    )


class TopDeny(Deny):
    """A deny rule for every host, or for the hosts it names."""

    hosts: list[str] | None = Field(
        None, description="Host patterns the rule applies to; all hosts by default."
    )


class HeaderItem(Model):
    name: str = Field(description="Name of the header.")
    secret: str = Field(description="Name of the secret.")
    format: str = Field("{}", description="Format of the value; `{}` is replaced by the secret.")


class BasicItem(Model):
    user: str = Field(description="User name; may be empty.")
    secret: str = Field(description="Name of the secret that is the password.")


class NamedItem(Model):
    name: str = Field(description="Name of the parameter or cookie.")
    secret: str = Field(description="Name of the secret.")


class PlaceholderItem(Model):
    secret: str = Field(description="Name of the secret.")
    like: Literal["github", "openai", "anthropic", "aws", "uuid", "hex32"] = Field(
        description="The format that the placeholder imitates."
    )
    slots: list[str] = Field(
        alias="in",
        description="Slots where it is swapped: `header:NAME`, `query:NAME`, `cookie:NAME`, `path`, `basic`.",
    )
    max: Annotated[int, Field(ge=1, le=16)] = Field(1, description="Allowed occurrences in one request.")


# The schema says `oneOf`; the compiler checks it again with a better message.
INJECTION_KINDS = ("bearer", "header", "basic", "query", "cookie", "placeholder")


class Inject(Model):
    """A credential that is written into requests: exactly one of the six kinds."""

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
        None, description="Give the sandbox a placeholder and swap it for the secret in the named slots."
    )
    on_existing: Literal["replace", "fail"] = Field(
        "replace", description="What to do if the sandbox itself sent a value in that slot."
    )
    only_for: Annotated[list[str], Field(min_length=1)] | None = Field(
        None,
        alias="for",
        description="Ids of the allow rules it applies to; all allowed requests by default.",
    )
    strip: Annotated[list[str], Field(min_length=1, max_length=16)] | None = Field(
        None,
        description="Other slots that are emptied, so that the sandbox cannot send a credential of its own: "
        "`header:NAME`, `query:NAME`, `cookie:NAME`.",
    )


class TestItem(Model):
    """A test in its long form."""

    __test__ = False  # pytest would collect it because of its name

    request: str = Field("", description="`METHOD TARGET`; not beside `git`.")
    git: str | None = Field(
        None,
        description="Request of git, such as `fetch acme/app` or `push acme/app refs/heads/x`.",
    )
    body: (
        Annotated[
            Annotated[dict[str, object], Tag("mapping")] | Annotated[list[object], Tag("list")],
            by_exact_type({dict: "mapping", list: "list"}),
        ]
        | None
    ) = Field(None, description="Body of the request, sent as JSON.")
    raw: str | None = Field(None, description="Body of the request, sent as it is written, in UTF-8.")
    graphql: str | None = Field(None, description="GraphQL document, sent as the `query` of a JSON body.")
    mcp: str | None = Field(
        None,
        description="Message of MCP, such as `call NAME {...}`, `read ADDRESS`, `prompt NAME` or a method.",
    )
    llm: str | None = Field(
        None, description="Call of a language model: `MODEL`, `MODEL max=N`, sent in the API of the path."
    )
    expect: str = Field(
        description="`allow [id][, inject NAME...]`, `deny [id or code]` or `answer [status]`."
    )
    headers: dict[str, str] = Field(default_factory=dict, description="Headers of the request.")
    profile: str | None = Field(None, description="Profile of the sandbox that sends the request.")
    params: dict[str, str] = Field(default_factory=dict, description="Parameters of that sandbox, by name.")
    at: str | None = Field(None, description="Time of the request, as a day or RFC 3339; now by default.")
    websocket: bool = Field(False, description="The request opens a WebSocket.")


Tests = list[
    Annotated[
        Annotated[str, Tag("text")] | Annotated[TestItem, Tag("mapping")],
        by_exact_type({str: "text", dict: "mapping"}),
    ]
]
# The word `all` makes the opening of a whole host visible in a review.
AllowList = Annotated[
    Annotated[Literal["all"], Tag("text")] | Annotated[list[Allow], Tag("list")],
    by_exact_type({str: "text", list: "list"}),
]
HttpPorts = Annotated[
    Annotated[bool, Tag("true")] | Annotated[Ports, Tag("list of ports")],
    by_exact_type({bool: "true", list: "list of ports"}),
]


class Host(Matching, Treatment):
    """The rules for one host. `{}` allows the whole host."""

    ports: Ports | None = Field(None, description="HTTPS ports; [443] by default, [] for none.")
    http: HttpPorts | None = Field(
        None, description="Allow clear text: `true` for port 80, or a list of ports."
    )
    virtual: bool = Field(
        False,
        description="The host has no upstream: a handler answers. Clear text on port 80 is open, too.",
    )
    http2: bool = Field(False, description="Prefer HTTP/2; a client that speaks nothing else always gets it.")
    intercept: Literal["always", "never"] = Field(
        "always",
        description="`never` passes the bytes through unread: no rules on requests, no injection.",
    )
    allow: AllowList | None = Field(None, description="Allow rules, or `all`; `[]` closes the host.")
    deny: list[Deny] | None = Field(None, description="Deny rules; they win over every allow.")
    inject: list[Inject] | None = Field(
        None, description="Credentials that are written into allowed requests."
    )
    set_headers: Annotated[dict[str, str], Field(min_length=1, max_length=16)] | None = Field(
        None,
        description="Headers of every allowed request by name, with constant values; no credentials.",
    )
    websocket: bool | None = Field(
        None, description="Allow WebSockets; for entries without a list of allow rules."
    )
    encoded_slash: Literal["data"] | None = Field(
        None, description="Treat %2F in a path as one character of a segment instead of refusing it."
    )
    mode: Literal["enforce", "observe"] | None = Field(
        None, description="`observe` allows and records requests that no rule allows."
    )
    misplaced: Literal["deny", "pass"] = Field(
        "deny",
        description="What to do with a placeholder outside its slots; `pass` forwards it unswapped.",
    )
    expires: str | None = Field(None, description="Last day or moment; after it the entry is closed.")
    addresses: list[str] | None = Field(
        None, description="Networks this name may resolve to although Egress refuses them by default."
    )
    tests: Tests | None = Field(None, description="Tests of this entry, such as `GET /user -> allow read`.")


class CommandSource(Model):
    command: Annotated[list[str], Field(min_length=1)] = Field(
        description="Program and arguments, run without a shell."
    )


class SecretItem(Model):
    """A secret: its source, and the only hosts it may be sent to."""

    source: Annotated[
        Annotated[str, Tag("text")] | Annotated[CommandSource, Tag("mapping")],
        by_exact_type({str: "text", dict: "mapping"}),
    ] = Field(alias="from", description="Source of the value, such as `env:NAME` or `file:/run/secrets/x`.")
    hosts: list[str] = Field(
        description="Hosts the secret is bound to: `name`, `*.suffix` or `**.suffix`, with optional `:port`."
    )
    ttl: Size | None = Field(
        None,
        description="How long a value is cached: seconds, or text such as `15m`.",
    )
    expires: str | None = Field(
        None, description="Last day or moment of the secret; after it, requests that need it are denied."
    )


class CanaryItem(Model):
    """A planted value without any use: a sandbox that sends it has used a secret it was not given."""

    like: Literal["github", "openai", "anthropic", "aws", "uuid", "hex32"] = Field(
        description="The format that the value imitates; Egress makes a new value for each sandbox."
    )
    env: str | None = Field(None, description="Environment variable of the sandbox in which it is planted.")
    file: str | None = Field(
        None,
        description="File of the sandbox in which it is planted: an absolute path, or one below `~/`.",
    )
    text: str | None = Field(
        None,
        description="Content of that file; `{value}` is replaced by the value. Just the value by default.",
    )
    stop: bool = Field(False, description="Also revoke a sandbox that sends it, and end its processes.")


class Network(Model):
    """A network that sandboxes may address directly, without a name. Requests to it never get a secret."""

    cidr: str = Field(description="The network, such as `10.1.0.0/16`.")
    ports: Ports | None = Field(None, description="HTTPS ports; [443] by default, [] for none.")
    http: HttpPorts | None = Field(
        None, description="Allow clear text: `true` for port 80, or a list of ports."
    )
    allow: AllowList | None = Field(None, description="Allow rules, or `all`.")
    deny: list[Deny] | None = Field(None, description="Deny rules.")


class ProfileItem(Model):
    """A named subset of the rules, for one kind of sandbox."""

    hosts: list[str] = Field(description="Keys of entries, as written under `hosts`.")
    rules: list[str] | None = Field(
        None, description="Allow rules, as `KEY#id`, to which a listed host is narrowed."
    )


class ParameterItem(Model):
    """A parameter: a value that each sandbox has for itself, for rules with `{param.NAME}`."""

    pattern: str = Field(description="The values that it may have, such as `acme/[a-z0-9-]+`; always whole.")
    default: str | None = Field(
        None, description="The value of a sandbox that has none; without it, none of those rules matches."
    )


class UseItem(Model):
    """A preset by its name, with its parameters and what the file changes about it."""

    model_config = ConfigDict(extra="allow")
    # Beside these keys stands one more: the name of the preset, with its parameters.
    __pydantic_extra__: dict[str, dict[str, str | list[str]]] = Field(init=False)

    name: str | None = Field(
        None, alias="as", description="Name of this use, which its rules carry; the preset's by default."
    )
    without: list[str] | None = Field(
        None, description="Denies of the preset that are lifted; `check` and the log say so each time."
    )


Use = Annotated[
    Annotated[str, Tag("text")] | Annotated[UseItem, Tag("mapping")],
    by_exact_type({str: "text", dict: "mapping"}),
]


class RuleFile(Model):
    """The rules of Egress: where sandboxes may connect, and which credential is injected on the way out."""

    version: Literal[1] = Field(description="Version of the format: 1.")
    secrets: dict[str, SecretItem] | None = Field(
        None, description="Secrets by name; name and source only, never the value."
    )
    hosts: dict[str, Host] | None = Field(None, description="Rules by host; everything else is denied.")
    deny: list[TopDeny] | None = Field(None, description="Deny rules that override every entry.")
    use: list[Use] | None = Field(
        None,
        description="Presets: a name, or `{name: {parameter: value}}`, with `as` and `without` beside it.",
    )
    networks: list[Network] | None = Field(
        None, description="Networks that sandboxes may reach by IP address."
    )
    canaries: dict[str, CanaryItem] | None = Field(
        None, description="Values planted in each sandbox; a request that carries such a value is denied."
    )
    profiles: dict[str, ProfileItem] | None = Field(
        None, description="Subsets of the rules, for kinds of sandboxes."
    )
    parameters: dict[str, ParameterItem] | None = Field(
        None, description="Values that each sandbox has for itself, by name, for rules with `{param.NAME}`."
    )
    delegate: list[DelegateItem] | None = Field(
        None, description="Changes that may be granted to single sandboxes while the proxy runs."
    )
    mode: Literal["enforce", "observe"] | None = Field(
        None, description="`observe` allows and records requests that no rule allows."
    )
    limits: Limits | None = Field(None, description="Limits per sandbox over all hosts.")
    budgets: dict[str, BudgetItem] | None = Field(
        None, description="Budgets of calls of language models, by name."
    )
    prices: PricesItem | None = Field(None, description="Prices of language models, as of a day.")
    tests: Tests | None = Field(None, description="Tests with full URLs.")
