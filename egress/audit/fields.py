"""Types of the fields of audit lines, and the fields that several kinds of lines share.

Every type bounds what it holds, and `about` says what a field means. The bounds hold for writing and for
reading. The lines themselves are in `schema`.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, get_type_hints

from msgspec import UNSET, Meta, Struct, UnsetType

MAX_NAME: Final = 256
"""Characters of a name. A host name has at most 253; our own names have fewer."""
# These bounds keep a line of a hostile sandbox well below the limit at which a reader rejects it.
MAX_ID: Final = 128
MAX_RULE: Final = 512
MAX_REASON: Final = 1000
MAX_PATH: Final = 4096
MAX_SECRETS: Final = 16
MAX_FACTS: Final = 48
MAX_QUERY_NAMES: Final = 16
MAX_QUERY_VALUES: Final = 4
MAX_QUERY_NAME: Final = 64
MAX_QUERY_VALUE: Final = 256
MAX_NUMBER: Final = 2**62
"""Numbers of a line are smaller, so that an index can add them up."""

CUT_MARK: Final = "\N{HORIZONTAL ELLIPSIS}"
"""The last character of a text that was longer than its field."""


def text(limit: int) -> Meta:
    """A text of at most `limit` characters, and the mark of a cut behind them."""
    # The mark of a cut comes on top: a reader must accept each text that the writer has cut.
    return Meta(max_length=limit + len(CUT_MARK))


def about(description: str, example: object = None, **use: object) -> Meta:
    """The meaning of a field, and an example of its value.

    `use` says what derives from the field; `egress.review.line_fields` reads it:

    * `index="totals"`: a column of the index, by which requests are counted too; `index="lines"`: one that
      finds lines only
    * `option`: the help of the filter by this field; `metavar`: its value in the help; `match`: how it
      compares, if not as a whole; `name`: its name, if not that of the field
    * `csv=True`: a column of CSV; `stage`: a line of the timeline under this title

    `fact=True` has the field filled from the fact of its name. Such a field is `UNSET` without that fact, and
    is left out of the line then, so that a new version writes the bytes of the old one.
    """
    return Meta(description=description, examples=[example], extra=use)


def about_fields(kind: type[Struct]) -> dict[str, Meta]:
    """The meaning of every field of a line, in order."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: next(meta for meta in hints[name].__metadata__ if isinstance(meta, Meta) and meta.description)
        for name in kind.__struct_fields__
    }


class LogLine(Struct, kw_only=True, gc=False, tag_field="event"):
    """A kind of line: the fields between the time and the MAC."""

    # Every field below has a default: a line of an older version may lack it, and still has to be read.
    examples: ClassVar[dict[str, object]] = {}
    """Values of the example in the reference, where those of the fields do not fit together."""


Name = Annotated[str, text(MAX_NAME)]
Id = Annotated[str, text(MAX_ID)]
Ref = Annotated[str, text(MAX_RULE)]
Reason = Annotated[str, text(MAX_REASON)]
Count = Annotated[int, Meta(ge=0, lt=MAX_NUMBER)]

FACT_KEY: Final = r"[a-z][a-z0-9_.]{0,63}"
"""The form of a name in `facts`, such as `graphql.operation`."""

# `\Z`, because `$` would admit a line end behind the name.
FactKey = Annotated[str, Meta(pattern=rf"^{FACT_KEY}\Z")]
Fact = Annotated[str, text(MAX_NAME)] | Annotated[int, Meta(ge=-MAX_NUMBER, lt=MAX_NUMBER)] | bool
FactMap = Annotated[dict[FactKey, Fact], Meta(max_length=MAX_FACTS)]
Facts = Annotated[
    FactMap | UnsetType,
    about(
        f"What an inspector found: at most {MAX_FACTS} names, each with a text, a number or a boolean. "
        "Left out where nothing was found.",
        UNSET,
    ),
]

Query = Annotated[
    Annotated[
        dict[
            Annotated[str, text(MAX_QUERY_NAME)],
            Annotated[tuple[Annotated[str, text(MAX_QUERY_VALUE)], ...], Meta(max_length=MAX_QUERY_VALUES)],
        ],
        # One more than are kept: the mark that there were others.
        Meta(max_length=MAX_QUERY_NAMES + 1),
    ]
    | UnsetType,
    about(
        f"The keys of the query, at most {MAX_QUERY_NAMES}, each with up to {MAX_QUERY_VALUES} values where "
        "a rule [keeps](../rules/limits-and-responses.md#recording) them. `***` stands for a text that holds "
        "a secret or canary, or looks like a credential. Left out without a query.",
        {"page": ["2"], "token": []},
    ),
]

# Fields that several kinds of lines have ----------------------------------------------------------

# A listener identifies its sandbox: a header is only text that the sandbox chose.
Sandbox = Annotated[
    Name,
    about(
        "The sandbox, known by its listener, or in a cluster by the address of its pod; never by a header.",
        "agent-1",
        index="totals",
        option="Of this sandbox.",
        metavar="NAME",
        csv=True,
    ),
]
Profile = Annotated[
    Name | None, about("The profile of rules that the sandbox has.", "coding", index="totals", csv=True)
]
Listener = Annotated[Name, about("The listener that the connection came in by.", "agent-1")]
Peer = Annotated[
    Name | UnsetType,
    about(
        "The address of the client, on a listener that several clients share (`--network`). Left out on "
        "others, where the sandbox says who it was.",
        "10.244.0.17",
        index="lines",
        option="Of the client with this address.",
        metavar="ADDRESS",
        csv=True,
    ),
]
Namespace = Annotated[
    Name | UnsetType,
    about("The namespace of the cluster. Only with `--kubernetes`, as the next five.", "agents"),
]
Pod = Annotated[
    Name | UnsetType,
    about(
        "The pod of the sandbox.",
        "agent-7-x4k2p",
        index="lines",
        option="From this pod.",
        metavar="NAME",
        csv=True,
    ),
]
PodUid = Annotated[Name | UnsetType, about("Its UID.", "6f0c2f0e-6a2b-4a53-9a44-1f9d6c5e7b10")]
Claim = Annotated[
    Name | UnsetType,
    about(
        "The claim that has the sandbox.",
        "agent-7",
        index="lines",
        option="Of this claim.",
        metavar="NAME",
        csv=True,
    ),
]
ClaimUid = Annotated[Name | UnsetType, about("Its UID.", "0b7ad9a2-5a4a-4e58-8a1c-9f6f5a3f7d21")]
Replica = Annotated[Name | UnsetType, about("The pod of the proxy.", "egress-proxy-0", csv=True)]
RunTicketId = Annotated[
    Name | UnsetType,
    about(
        "The id of the ticket that it came with, and so the run. Left out without a ticket.",
        "t-5e884898da280471",
        index="lines",
        option="Of the run with the ticket of this id.",
        metavar="ID",
        csv=True,
    ),
]
Entry = Annotated[
    Name, about("How the client named the destination: `connect`, `absolute`, `sni`, `host`.", "connect")
]
ConnectionId = Annotated[Id, about("The id of the connection.", "c-17", csv=True)]
RequestId = Annotated[
    Id, about("The id of the request. An answer that the proxy makes itself names it.", "c-17-3", csv=True)
]
Host = Annotated[
    Name,
    about(
        "The host, canonical. A [canary](../rules/canaries.md) in it is masked.",
        "api.github.com",
        index="totals",
        option="To this host; `*` stands for any text.",
        metavar="NAME",
        match="glob",
        csv=True,
    ),
]
Port = Annotated[Count, about("The port.", 443, csv=True)]
Address = Annotated[
    Name | None,
    about(
        "The address that was checked and connected to; with `address.refused` the one that was refused.",
        "192.0.2.10",
    ),
]
Sni = Annotated[Name | None, about("The server name in the client's TLS greeting.", "api.github.com")]
Code = Annotated[
    Name,
    about(
        "Why it was allowed, [denied or cut](refusals.md), or why it failed.",
        "rule.allowed",
        index="totals",
        option="Decided for this reason, such as `host.unknown`.",
        csv=True,
    ),
]
Rule = Annotated[
    Ref | None,
    about(
        "The rule that decided.",
        "api.github.com#read",
        index="totals",
        option="By this rule: `read`, or `api.github.com#read`.",
        metavar="ID",
        match="rule",
        csv=True,
    ),
]
Place = Annotated[
    Ref | None, about("The file and line of that rule.", "hosts.yaml:14", index="lines", csv=True)
]
Observed = Annotated[
    bool,
    about(
        "Whether it passed only because `mode: observe` lifts the missing rule.",
        example=False,
        index="totals",
    ),
]
BytesUp = Annotated[Count, about("Bytes that the sandbox sent.", 312, csv=True)]
BytesDown = Annotated[Count, about("Bytes that the sandbox received.", 2048, csv=True)]
ResolveUs = Annotated[Count, about("Microseconds of resolving the name; 0 where that was not needed.", 1200)]
ConnectUs = Annotated[
    Count, about("Microseconds of connecting; 0 on a connection that stood already.", 15000)
]
TlsUs = Annotated[Count, about("Microseconds of the upstream TLS handshake; 0 as before.", 31000)]
SecretUs = Annotated[Count, about("Microseconds of fetching secrets.", 40)]
FirstByteUs = Annotated[Count, about("Microseconds until the first byte of the answer.", 52000)]
TotalUs = Annotated[Count, about("Microseconds from beginning to end.", 53100, csv=True)]
Policy = Annotated[
    Name | None, about("The digest of the rules that decided.", "5f2b8c0d9e1a4b7c", index="lines")
]
PolicyInForce = Annotated[Reason | None, about("The digest of the rules in force.", "5f2b8c0d9e1a4b7c")]
GrantSandbox = Annotated[Reason | None, about("The sandbox.", "agent-2")]
GrantId = Annotated[Reason | None, about("The id of the grant.", "g-5f2b8c0d")]
GrantChange = Annotated[
    Reason | None,
    about(
        "What is allowed or denied, or which profile is chosen.", "allow GET https://files.example.com/p/**"
    ),
]
GrantCaller = Annotated[
    Reason | None, about("The caller that asked for it, in its own words.", "alice on the command line")
]
RuleFiles = Annotated[Reason | None, about("The rule files.", "config/hosts.yaml")]
Moment = Annotated[Name, about("When the counting began.", "2026-03-01T09:30:00.000123Z")]
Previous = Annotated[Name, about("The MAC of the line before.", "9f" * 32)]


class Injected(Struct, frozen=True, gc=False):
    """A secret that was sent, and its slot in the request."""

    secret: Name
    slot: Name
