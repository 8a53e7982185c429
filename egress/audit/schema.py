"""The schema of the audit log: every kind of line, and every field in the order in which it is written.

The writer, the reader, the index, the filters, CSV, the page and `docs/reference/audit.md` derive from these
classes. A feature that has something to say about an exchange puts it into the facts of its record. To give a
fact a field of its own, with a filter and a column, add one line here:

    cache: Annotated[Name | UnsetType, about("Who answered.", "disk", index="totals", fact=True)] = UNSET

A log without the field reads as if the value were not known. A line must never hold a secret, a raw query,
a body or a header value: the author of a field has to say why it cannot.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from msgspec import UNSET, Meta, UnsetType, field

from egress.audit.fields import (
    MAX_PATH,
    MAX_SECRETS,
    Address,
    BytesDown,
    BytesUp,
    Claim,
    ClaimUid,
    Code,
    ConnectionId,
    ConnectUs,
    Count,
    Entry,
    Facts,
    FirstByteUs,
    Host,
    Id,
    Injected,
    Listener,
    LogLine,
    Moment,
    Name,
    Namespace,
    Observed,
    Peer,
    Place,
    Pod,
    PodUid,
    Policy,
    PolicyInForce,
    Port,
    Profile,
    Query,
    Reason,
    Replica,
    RequestId,
    ResolveUs,
    Rule,
    RuleFiles,
    RunTicketId,
    Sandbox,
    SecretUs,
    Sni,
    TlsUs,
    TotalUs,
    about,
    text,
)
from egress.audit.lines_about_log import DroppedLine, GapLine, PrunedLine, ResumedLine, RotatedLine
from egress.audit.lines_about_sandboxes import (
    GrantDropped,
    Granted,
    GrantExpired,
    GrantRefused,
    GrantRevoked,
    HandlersChosen,
    SandboxAdded,
    SandboxRemoved,
    TicketAdded,
    TicketEnded,
)

# Actions of sandboxes ------------------------------------------------------------------------------


class TrafficLine(LogLine):
    """The sandbox of a line about its traffic. These fields come first, in the order of the lines' bytes."""

    sandbox: Sandbox = ""
    profile: Profile = None
    listener: Listener = ""
    peer: Peer = UNSET
    namespace: Namespace = UNSET
    pod: Pod = UNSET
    pod_uid: PodUid = UNSET
    claim: Claim = UNSET
    claim_uid: ClaimUid = UNSET
    replica: Replica = UNSET
    ticket: RunTicketId = UNSET


class ExchangeLine(TrafficLine, tag="exchange"):
    """A request and its answer. The line is written when the exchange has ended.

    Some codes appear only in the log, because no answer carries them. `rule.allowed`, `host.allowed` and
    `observed` say what let the request through. `client.left`: the client hung up before the end.
    `lane.ended`: the exchange was given up for no reason that has a code of its own.
    """

    entry: Entry = ""
    connection: ConnectionId = ""
    request: RequestId = ""
    scheme: Annotated[Name, about("`https` or `http`.", "https")] = ""
    host: Host = ""
    port: Port = 0
    address: Address = None
    sni: Sni = None
    method: Annotated[
        Name,
        about(
            "The method; empty where the request had none that is valid. Canaries are masked.",
            "GET",
            index="lines",
            option="With this method.",
            csv=True,
        ),
    ] = ""
    path: Annotated[
        Annotated[str, text(MAX_PATH)],
        about("The canonical path, without the query. Canaries are masked.", "/repos/acme/app", csv=True),
    ] = ""
    status: Annotated[
        Count,
        about(
            "The status that the sandbox received; 0 when it left before the answer.",
            200,
            index="lines",
            option="With this status; `5xx` for all of them.",
            match="status",
            csv=True,
        ),
    ] = 0
    verdict: Annotated[
        Name,
        about(
            "`allow`, `deny` or `cut`: [what Egress did with it](#the-three-verdicts).",
            "allow",
            index="totals",
            option="`allow`, `deny` or `cut`.",
            csv=True,
        ),
    ] = ""
    code: Code = ""
    rule: Rule = None
    place: Place = None
    observed: Observed = False
    # Secrets appear by name alone: a reader of the log must not be able to use one.
    injected: Annotated[
        tuple[Injected, ...],
        about(
            "The secrets that were sent, by name, each with its slot. Empty where the upstream was not "
            "reached or did not prove its identity: no secret left the proxy.",
            (Injected("github", "header:authorization"),),
            name="secret",
            index="totals",
            option="With this secret.",
            metavar="NAME",
            match="member",
        ),
    ] = ()
    replaced: Annotated[
        bool, about("Whether a value of the sandbox's own was removed from a slot.", example=True)
    ] = False
    scrubbed: Annotated[
        dict[Name, Count],
        about(
            "How often each secret was found in the answer, by name.",
            {"github": 2},
            index="lines",
            match="member",
        ),
    ] = field(default_factory=dict)
    bytes_up: BytesUp = 0
    bytes_down: BytesDown = 0
    resolve_us: ResolveUs = 0
    connect_us: ConnectUs = 0
    tls_us: TlsUs = 0
    secret_us: SecretUs = 0
    first_byte_us: FirstByteUs = 0
    total_us: TotalUs = 0
    client_tls: Annotated[Name | None, about("The TLS version on the sandbox's side.", "TLSv1.3")] = None
    upstream_tls: Annotated[Name | None, about("The TLS version on the upstream's side.", "TLSv1.3")] = None
    alpn: Annotated[Name | None, about("The protocol on the sandbox's side.", "http/1.1")] = None
    upstream_alpn: Annotated[Name | None, about("The protocol on the upstream's side.", "http/1.1")] = None
    policy: Policy = None
    query: Query = UNSET
    # `UNSET`, not an empty map: a line without facts keeps the bytes that older versions wrote.
    facts: Facts = UNSET


class TunnelLine(TrafficLine, tag="tunnel"):
    """A tunnel that has ended: bytes that were passed on unread, for a host with `intercept: never`.

    One with the verdict `deny` was given up before a byte had gone to the upstream.
    """

    examples: ClassVar[dict[str, object]] = {
        "entry": "sni",
        "connection": "c-18",
        "request": "c-18",
        "code": "host.allowed",
        "rule": None,
        "host": "pinned.example.com",
        "sni": "pinned.example.com",
        "place": "config/hosts.yaml:31",
        "address": "192.0.2.11",
        "bytes_up": 1804,
        "bytes_down": 91520,
    }

    entry: Entry = ""
    connection: ConnectionId = ""
    request: RequestId = ""
    host: Host = ""
    port: Port = 0
    address: Address = None
    sni: Sni = None
    verdict: Annotated[Name, about("As for an exchange.", "allow")] = "allow"
    code: Code = ""
    rule: Rule = None
    place: Place = None
    observed: Observed = False
    bytes_up: BytesUp = 0
    bytes_down: BytesDown = 0
    resolve_us: ResolveUs = 0
    connect_us: ConnectUs = 0
    tls_us: TlsUs = 0
    secret_us: SecretUs = 0
    first_byte_us: FirstByteUs = 0
    total_us: TotalUs = 0
    policy: Policy = None
    facts: Facts = UNSET


class RefusalLine(TrafficLine, tag="refusal"):
    """A connection that was refused before it carried a request, or a DNS question that was not answered.

    The name server also writes `protocol.refused` for messages that it does not serve, such as answers, zone
    transfers and updates, and `request.malformed` for bytes that are not DNS. A connection that is opened and
    closed without a byte has no line, at the name server as at every other port. Neither has a client that
    hung up before the user behind it was looked up.
    """

    examples: ClassVar[dict[str, object]] = {
        "entry": "dns",
        "connection": "",
        "host": "evil.example",
        "port": 0,
        "sni": None,
        "code": "host.unknown",
        "rule": None,
        "place": None,
    }

    entry: Annotated[
        Name, about("As for an exchange, or `dns`; empty where the client named no destination.", "dns")
    ] = ""
    connection: Annotated[Id, about("The id of the connection; empty for `dns`.", "c-17")] = ""
    host: Host = ""
    port: Annotated[Count, about("The port; 0 for `dns`.", 0)] = 0
    sni: Sni = None
    verdict: Annotated[Name, about("Always `deny`.", "deny")] = "deny"
    code: Annotated[Name, about("Why it was [refused](refusals.md).", "host.unknown")] = ""
    rule: Rule = None
    place: Place = None
    policy: Policy = None
    facts: Facts = UNSET


class FoldedLine(LogLine, tag="folded"):
    """Refusals that were counted instead of written, and requests that were never sent.

    In each second the first 20 refusals and unsent requests of a sandbox have lines of their own. The rest
    are counted: one line for each second and code. While the disk is full, or after the sandbox has used up
    its quota, all of them are counted, and a line stands for a minute or more. They were denied, except with
    the code `client.left`.
    """

    sandbox: Sandbox = ""
    code: Annotated[Name, about("Why they were [refused](refusals.md).", "host.unknown")] = ""
    count: Annotated[Count, about("How many were counted.", 980)] = 0
    began: Moment = ""


class LostLine(LogLine, tag="lost"):
    """A request or tunnel that was under way when the process was killed.

    The next start writes one line for each. Whether an answer came is not known.
    """

    sandbox: Sandbox = ""
    connection: ConnectionId = ""
    request: RequestId = ""
    host: Host = ""
    port: Port = 0
    method: Annotated[Name, about("The method; empty for a tunnel.", "GET")] = ""
    secrets: Annotated[
        Annotated[tuple[Name, ...], Meta(max_length=MAX_SECRETS)],
        about("The names of the secrets that it was to carry.", ("github",)),
    ] = ()
    began: Annotated[Name, about("When it was about to be sent.", "2026-03-01T09:30:00.000123Z")] = ""
    sent: Annotated[bool, about("Whether the first byte had been sent.", example=True)] = False


class SandboxStopped(LogLine, tag="sandbox.stopped"):
    """A sandbox has filled its share of the log for one day (UTC). It may do nothing until the next day."""

    sandbox: Annotated[Name | None, about("The sandbox.", "agent-1")] = None
    reason: Annotated[Reason | None, about("`quota`.", "quota")] = None
    bytes: Annotated[Count | None, about("How much its lines take.", 1_048_711)] = None
    quota: Annotated[Count | None, about("How much they may take.", 1_048_576)] = None


# Events of the proxy ----------------------------------------------------------------------


class Started(LogLine, tag="started"):
    """The proxy has started."""

    version: Annotated[Reason | None, about("The version of Egress.", "0.1.0")] = None
    policy: PolicyInForce = None
    files: RuleFiles = None
    chains: Annotated[
        Count | UnsetType,
        about("How many chains the log had; a register with fewer is found. Since version 0.3.", 1),
    ] = UNSET


class Stopped(LogLine, tag="stopped"):
    """The proxy has stopped cleanly. A start without this line before it follows a kill or a crash."""

    reason: Annotated[Reason | None, about("The signal, or what else asked for it.", "SIGTERM")] = None


class Reloaded(LogLine, tag="reloaded"):
    """New rules are in force."""

    policy: PolicyInForce = None
    policy_before: Annotated[
        Reason | None, about("The digest of the rules before them.", "0a1b2c3d4e5f6071")
    ] = None
    files: RuleFiles = None


class ReloadRefused(LogLine, tag="reload.refused"):
    """New rules were wrong, and the old ones stay in force."""

    policy: PolicyInForce = None
    file: Annotated[Reason | None, about("The file of the first mistake.", "config/hosts.yaml")] = None
    line: Annotated[Count | None, about("Its line.", 12)] = None
    column: Annotated[Count | None, about("Its column.", 5)] = None
    reason: Annotated[Reason | None, about("The mistake.", "unknown key `alow`")] = None


class Killed(LogLine, tag="killed"):
    """The operator revoked access. Open connections that it covers were closed; each has its own line.

    A start has such a line for each revocation that was kept from before.
    """

    kind: Annotated[Reason | None, about("`sandbox`, `host` or `secret`.", "host")] = None
    name: Annotated[Reason | None, about("The name of it.", "api.github.com")] = None
    connections: Annotated[Count | None, about("How many connections were closed for it.", 2)] = None
    policy: PolicyInForce = None
    kept: Annotated[
        bool | UnsetType,
        about("`true` where it holds after a restart as well; left out otherwise.", example=True),
    ] = UNSET


class KillUndone(LogLine, tag="kill.undone"):
    """The operator restored access."""

    kind: Annotated[Reason | None, about("As for `killed`.", "host")] = None
    name: Annotated[Reason | None, about("As for `killed`.", "api.github.com")] = None
    policy: PolicyInForce = None


class ListenerFailed(LogLine, tag="listener.failed"):
    """New rules name a port that could not be opened for clients without proxy settings.

    The rest of these rules is in force.
    """

    sandbox: Annotated[Reason | None, about("The sandbox that the listener is for.", "agent-1")] = None
    address: Annotated[Reason | None, about("The address.", "10.0.0.2")] = None
    port: Annotated[Count | None, about("The port.", 8443)] = None
    reason: Annotated[
        Reason | None,
        about("What the system said.", "the proxy cannot listen on 10.0.0.2:8443: address already in use"),
    ] = None
    policy: PolicyInForce = None


LINE_SECTIONS: Final[dict[str, tuple[type[LogLine], ...]]] = {
    "What sandboxes do": (ExchangeLine, TunnelLine, RefusalLine, FoldedLine, LostLine, SandboxStopped),
    "What happens to the proxy": (
        *(Started, Stopped, Reloaded, ReloadRefused, Killed, KillUndone),
        *(SandboxAdded, SandboxRemoved, ListenerFailed),
        *(Granted, GrantRevoked, GrantExpired, GrantDropped, GrantRefused),
        *(TicketAdded, TicketEnded, HandlersChosen),
    ),
    "What happens to the log": (GapLine, RotatedLine, PrunedLine, ResumedLine, DroppedLine),
}
"""Every kind of line, as the reference groups them."""

LINE_KINDS: Final[dict[str, type[LogLine]]] = {
    str(kind.__struct_config__.tag): kind for kinds in LINE_SECTIONS.values() for kind in kinds
}
"""Every kind of line by its `event`."""

REPORTED_KINDS: Final[tuple[type[LogLine], ...]] = (
    *LINE_SECTIONS["What happens to the proxy"],
    SandboxStopped,
)
"""The kinds that a caller reports by name. The audit writes the others itself."""
