"""The tree of errors, and the list of reasons for a refusal.

An error has two audiences. The *sandbox* sees a code and a constant sentence: nothing of the policy, no text
of an upstream, never a secret. The *operator* sees the message, which names file, line, host and rule, and a
hint with the cure.

Exceptions are for callers that cannot go on (a missing file, a wrong command line). A denied request is no
exception: it is a value with one of the codes below.
"""

from __future__ import annotations

from dataclasses import dataclass


class EgressError(Exception):
    """Abstract root; raise one of the classes below."""

    code = "internal"
    exit_status = 1

    def __init__(self, message: str, hint: str = "") -> None:
        if type(self) is EgressError:
            raise TypeError("EgressError is abstract: raise a subclass that says what happened")
        super().__init__(message)
        self.message = message
        self.hint = hint
        # A program that does not catch the error shows the cure below its traceback.
        if hint:
            self.add_note(f"hint: {hint}")


class ContentError(EgressError):
    """Content that was read is wrong: a rule file, a preset, a value."""

    code = "content"
    exit_status = 1


class UsageError(EgressError):
    """The command line or a call was wrong."""

    code = "usage"
    exit_status = 2


class UnreadableError(EgressError):
    """A file or another part of the environment is missing or cannot be read."""

    code = "unreadable"
    exit_status = 3


class SecretValueError(EgressError):
    """A secret has a value that must not be sent. The text names the secret, never the value."""

    code = "secret.value"


class WireError(EgressError):
    """Bytes from a peer break the protocol, or are dangerously ambiguous.

    `status` is the answer for the client. The message is written by us: it never quotes the peer.
    """

    code = "request.malformed"

    def __init__(self, message: str, hint: str = "", *, status: int = 400) -> None:
        super().__init__(message, hint)
        self.status = status


_FINAL_STATUSES = frozenset({400, 403, 413, 426})


@dataclass(frozen=True, slots=True)
class RefusalCode:
    """A reason for a refusal, as the sandbox may see it.

    A status of 5xx is for what may pass by itself, because clients send such requests again for minutes. What
    only the operator can change is 403, or 426 for a WebSocket where plain requests are allowed.
    """

    status: int
    message: str
    hint: str
    lasts: bool = False
    """Sending the request again is in vain, though the status of the code does not say so."""
    retry_after: int = 0
    """Seconds until another try may be answered otherwise, on another connection: this one is closed."""

    @property
    def is_final(self) -> bool:
        """The same request gets the same answer until somebody changes the rules, or the request."""
        return self.lasts or self.status in _FINAL_STATUSES


ASK_OPERATOR_HINT = "Ask the operator of this sandbox to allow it in the rules."

CODES: dict[str, RefusalCode] = {
    # The destination, before any name is resolved
    "host.malformed": RefusalCode(
        400, "The destination is not a valid host name and port.", "Use a plain host name."
    ),
    "host.unknown": RefusalCode(403, "No rule names this host.", ASK_OPERATOR_HINT),
    "host.closed": RefusalCode(403, "The rules close this host.", ASK_OPERATOR_HINT),
    "host.port": RefusalCode(
        403, "The rules do not open this port of the host.", "Use a port the rules name."
    ),
    "host.cleartext": RefusalCode(403, "Plain HTTP to this host is not allowed.", "Use https."),
    "host.literal": RefusalCode(
        403, "Destinations given as an address are not allowed.", "Use the host name."
    ),
    "profile.excluded": RefusalCode(
        403, "The profile of this sandbox does not include this host.", ASK_OPERATOR_HINT
    ),
    "profile.unknown": RefusalCode(403, "The profile of this sandbox does not exist.", ASK_OPERATOR_HINT),
    # The request
    "profile.ceiling": RefusalCode(
        403, "The template of this sandbox does not allow its profile.", ASK_OPERATOR_HINT
    ),
    "parameter.refused": RefusalCode(
        403, "A parameter of this sandbox has a value that the rules refuse.", ASK_OPERATOR_HINT
    ),
    "request.malformed": RefusalCode(400, "The request is malformed.", "Send a well-formed HTTP request."),
    "request.mismatch": RefusalCode(
        421,
        "The Host of the request is not the destination of the connection.",
        "Open a connection to that host.",
    ),
    "request.upgrade": RefusalCode(
        403, "This protocol upgrade is not allowed.", "Use plain HTTP or WebSocket."
    ),
    "path.ambiguous": RefusalCode(
        400,
        "The path has a spelling that servers read in different ways.",
        "Send the path in its plain form.",
    ),
    "path.override": RefusalCode(
        403, "The request tries to override its path.", "Send the request to that path directly."
    ),
    "method.refused": RefusalCode(
        403, "This method, or this spelling of it, is never forwarded.", "Use a common method, in upper case."
    ),
    "method.override": RefusalCode(
        403, "The request tries to override its method.", "Send the request with that method directly."
    ),
    "rule.denied": RefusalCode(403, "A rule denies this request.", ASK_OPERATOR_HINT),
    "rule.none": RefusalCode(403, "No rule allows this request.", ASK_OPERATOR_HINT),
    # The status with which a server declines an upgrade: clients that can do without fall back at once.
    "rule.websocket": RefusalCode(
        426,
        "No rule allows a WebSocket here.",
        "Send plain requests, or ask the operator of this sandbox to allow it in the rules.",
    ),
    # The body, where the rules ask what it says
    "body.unread": RefusalCode(
        403, "The rules decide on the body of this request.", "Send it with its body."
    ),
    "body.ambiguous": RefusalCode(
        403, "The rules take the body of this request for several kinds.", "Tell the operator."
    ),
    "body.type": RefusalCode(
        403, "The rules read the body of this request, and this is not its type.", "Send it as that type."
    ),
    "body.encoding": RefusalCode(
        403, "The rules read the body of this request, and it is coded.", "Send it without Content-Encoding."
    ),
    "body.too_large": RefusalCode(
        413, "The rules read the body of this request, and it is too large for that.", "Send less."
    ),
    "body.json": RefusalCode(
        400, "The body is not JSON, or JSON that readers take differently.", "Send plain JSON in UTF-8."
    ),
    "json.duplicate_key": RefusalCode(
        400, "A key stands twice in an object of the body.", "Send each key once."
    ),
    # A handler, where one is called
    "handler.denied": RefusalCode(403, "A handler denies this request.", ASK_OPERATOR_HINT),
    "handler.failed": RefusalCode(
        403, "The handler for this request failed, or took too long.", "Tell the operator."
    ),
    "handler.refused": RefusalCode(
        403, "The handler for this request asked for something that it may not do.", "Tell the operator."
    ),
    "handler.missing": RefusalCode(
        403, "The handler for this request is not loaded, or answers nothing.", "Tell the operator."
    ),
    "handler.ambiguous": RefusalCode(
        403, "The rules name two handlers for this request.", "Tell the operator."
    ),
    "limit.held_bodies": RefusalCode(
        503, "Too many request bodies wait for a verdict.", "Try again in a moment."
    ),
    "graphql.envelope": RefusalCode(
        403,
        "The body is not a GraphQL request with query, variables, operationName and extensions alone.",
        "Send only those four.",
    ),
    "graphql.url_parameters": RefusalCode(
        403, "The URL has parameters of GraphQL.", "Send the request as the body of a POST."
    ),
    "graphql.syntax": RefusalCode(
        403, "The GraphQL document cannot be read, or is too large.", "Send a smaller, valid document."
    ),
    "graphql.document": RefusalCode(
        403,
        "The GraphQL document has parts that servers read differently.",
        "Send operations and fragments alone, each with a name of its own.",
    ),
    "graphql.operation_name": RefusalCode(
        403, "The operation that the request names is not in its document.", "Name one of its operations."
    ),
    "graphql.batch": RefusalCode(
        403, "No rule allows a batch of GraphQL requests of this size.", "Send them one by one."
    ),
    "graphql.persisted": RefusalCode(
        403, "No rule knows the stored document of this request.", "Send the text of the document."
    ),
    "graphql.field": RefusalCode(403, "No rule allows this root field.", ASK_OPERATOR_HINT),
    "graphql.inner_field": RefusalCode(
        403, "The document has a field below its root that the rules refuse.", ASK_OPERATOR_HINT
    ),
    "llm.shape": RefusalCode(
        400, "This is no request of the model API.", "Send the fields of its documents."
    ),
    "llm.ambiguous": RefusalCode(400, "A field is there twice, or in another spelling.", "Write it once."),
    "llm.model": RefusalCode(403, "No rule allows this model.", ASK_OPERATOR_HINT),
    "llm.max_output": RefusalCode(403, "The rules bound the output of a call.", "State a smaller maximum."),
    "llm.choices": RefusalCode(403, "The rules bound the answers to a call.", "Ask for one answer."),
    "llm.server_tool": RefusalCode(403, "No rule allows this tool of the vendor.", ASK_OPERATOR_HINT),
    "llm.unmetered": RefusalCode(403, "No budget can see this call.", "Ask for the answer at once."),
    "llm.signed": RefusalCode(403, "The call would be lowered, and is signed.", "State a smaller maximum."),
    "llm.unpriced": RefusalCode(403, "The model has no price, so no budget counts it.", ASK_OPERATOR_HINT),
    "llm.budget": RefusalCode(403, "A budget has nothing left for this call.", ASK_OPERATOR_HINT),
    "llm.journal": RefusalCode(503, "Calls cannot be written down.", "Try again later."),
    "graphql.introspection": RefusalCode(403, "No rule allows introspection.", ASK_OPERATOR_HINT),
    "graphql.scope": RefusalCode(
        403, "The GraphQL document reaches a repository that no rule allows, or none.", ASK_OPERATOR_HINT
    ),
    "graphql.scope_root": RefusalCode(
        403,
        "This root field is not about one repository, and the rules are.",
        "Ask for the repository by its name, or use the REST API below /repos/OWNER/NAME.",
    ),
    "graphql.foreign": RefusalCode(
        403,
        "The GraphQL document asks for more than the name of something outside its repository.",
        "Ask for ids and names alone there, such as `author { login }`.",
    ),
    "graphql.unknown_field": RefusalCode(
        403,
        "The GraphQL document has a field or an argument that the schema known here does not have.",
        "Leave it out, or use the REST API.",
    ),
    "graphql.node_id": RefusalCode(
        403,
        "An id in the GraphQL request does not tell the repository of its object.",
        "Use the ids that answers of GitHub hold, or address the object by the name of its repository.",
    ),
    "graphql.old_node_id": RefusalCode(
        403,
        "An id in the GraphQL request is of the older form, which does not tell its repository.",
        "Ask for the object again: answers hold ids of the newer form now.",
    ),
    "mcp.message": RefusalCode(
        400,
        "The body is not one message of MCP in JSON-RPC 2.0.",
        "Send one message with its own members alone.",
    ),
    "mcp.batch": RefusalCode(403, "The body is a batch of messages.", "Send them one by one."),
    "mcp.tool": RefusalCode(403, "No rule allows this tool.", ASK_OPERATOR_HINT),
    "mcp.arguments": RefusalCode(403, "No rule allows this tool with these arguments.", ASK_OPERATOR_HINT),
    "mcp.resource": RefusalCode(403, "No rule allows this resource.", ASK_OPERATOR_HINT),
    "mcp.prompt": RefusalCode(403, "No rule allows this prompt.", ASK_OPERATOR_HINT),
    "mcp.method": RefusalCode(403, "No rule allows this method of MCP.", ASK_OPERATOR_HINT),
    "mcp.reply": RefusalCode(
        403, "The message answers a request that no rule lets the server make.", ASK_OPERATOR_HINT
    ),
    "mcp.header_mismatch": RefusalCode(
        400,
        "A header of MCP is there twice, or says something else than the body.",
        "Send it as the body says.",
    ),
    "mcp.version": RefusalCode(
        400, "This version of Egress does not know this revision of MCP.", "Use a revision up to 2026-07-28."
    ),
    "mcp.session": RefusalCode(
        404, "This sandbox has no such session.", "Begin a session with `initialize`.", lasts=True
    ),
    "mcp.transport": RefusalCode(
        405,
        "Only streamable HTTP passes here, not the older transport with an event stream of its own.",
        "Send messages by POST, and open a stream with the id of a session.",
        lasts=True,
    ),
    "mcp.server_request": RefusalCode(
        403, "The server asks the client for something that no rule allows.", ASK_OPERATOR_HINT
    ),
    "mcp.list": RefusalCode(
        403, "The server's list cannot be read, so it cannot be filtered.", "Tell the operator.", lasts=True
    ),
    "mcp.answer": RefusalCode(
        403, "The server's answer is no message of MCP, or too large.", "Tell the operator.", lasts=True
    ),
    # Secrets
    "secret.unavailable": RefusalCode(
        403, "A credential for this request is not available.", "Tell the operator."
    ),
    "secret.expired": RefusalCode(403, "The credential for this request has expired.", "Tell the operator."),
    "secret.unbound": RefusalCode(
        403, "The credential for this request is not bound to this host.", "Tell the operator."
    ),
    "secret.existing": RefusalCode(
        403,
        "The request already carries a value where a credential is injected.",
        "Send the request without it.",
    ),
    "placeholder.misplaced": RefusalCode(
        403, "A placeholder is in a place where it is not swapped.", "Send it only where the rules expect it."
    ),
    "canary.seen": RefusalCode(
        403, "The request carries a planted value that must never be sent.", "Do not send it."
    ),
    "canary.stopped": RefusalCode(
        403,
        "The request carries a planted value that must never be sent; access is revoked.",
        "Tell the operator.",
    ),
    # Bounds
    "limit.requests": RefusalCode(429, "Too many requests.", "Wait and try again."),
    "limit.connections": RefusalCode(429, "Too many connections.", "Close some connections first."),
    "limit.exchanges": RefusalCode(
        429, "This sandbox has too many requests under way.", "Wait until some of them have ended."
    ),
    "limit.memory": RefusalCode(
        503, "The response would take more memory than this sandbox may have now.", "Try again in a moment."
    ),
    "limit.request_body": RefusalCode(413, "The request body is larger than the rules allow.", "Send less."),
    "limit.response_body": RefusalCode(
        403, "The response body is larger than the rules allow.", "Ask for less."
    ),
    # Requests of git
    "git.endpoint": RefusalCode(
        400, "This is no request of git over smart HTTP.", "Use git, and name one service."
    ),
    "git.commands": RefusalCode(
        400, "The commands of this push cannot be read.", "Push without --signed, fewer refs at once."
    ),
    "git.repository": RefusalCode(403, "No rule allows this with this repository.", ASK_OPERATOR_HINT),
    "git.ref": RefusalCode(403, "No rule allows a push to this ref.", ASK_OPERATOR_HINT),
    "git.create": RefusalCode(403, "No rule allows creating this ref.", ASK_OPERATOR_HINT),
    "git.delete": RefusalCode(403, "No rule allows deleting this ref.", ASK_OPERATOR_HINT),
    "git.forward": RefusalCode(
        403, "Cannot prove that this is a fast-forward.", "Fetch, rebase or merge, and push again."
    ),
    "git.tag": RefusalCode(403, "No rule allows moving a tag.", "Push it under another name."),
    "git.option": RefusalCode(403, "No rule allows this push option.", "Push without it."),
    # The upstream
    "address.refused": RefusalCode(
        403, "The host resolves to an address that may not be dialled.", ASK_OPERATOR_HINT
    ),
    "upstream.malformed": RefusalCode(502, "The upstream's response is malformed.", "Tell the operator."),
    "response.withheld": RefusalCode(
        403, "The response was withheld: it could return a credential.", ASK_OPERATOR_HINT
    ),
    "redirect.refused": RefusalCode(403, "The rules do not let this redirect through.", ASK_OPERATOR_HINT),
    "upstream.unresolved": RefusalCode(
        502, "The host name has no address.", "Check the spelling of the host."
    ),
    "upstream.unreachable": RefusalCode(502, "The upstream cannot be reached.", "Try again later."),
    "upstream.tls": RefusalCode(
        502,
        "The upstream's TLS identity could not be verified.",
        "Tell the operator; nothing was sent.",
        lasts=True,
    ),
    "upstream.closed": RefusalCode(
        502, "The upstream closed the connection before it answered.", "Try again later."
    ),
    "upstream.timeout": RefusalCode(504, "The upstream did not answer in time.", "Try again later."),
    # The connection to the proxy
    "proxy.form": RefusalCode(
        400, "This is a proxy port.", "Send CONNECT, or set it as the proxy of the client."
    ),
    "proxy.authentication": RefusalCode(
        407,
        "This proxy needs the password of the sandbox.",
        "Use the proxy address the sandbox was given.",
    ),
    "ticket.unknown": RefusalCode(
        403,
        "This ticket does not hold: its run or its time is over, or it never was one.",
        "Start the run with a ticket of its own.",
    ),
    "ticket.foreign": RefusalCode(
        403,
        "This ticket is that of another sandbox.",
        "Start the run with a ticket of its own sandbox.",
    ),
    "ticket.ended": RefusalCode(
        403,
        "The ticket of this connection was revoked, or its time is over.",
        "Start the run with a ticket of its own.",
    ),
    "proxy.identity": RefusalCode(
        403,
        "This proxy serves another sandbox, or another user of the machine.",
        "Use your own sandbox's proxy, as its user; apt asks as _apt without -o APT::Sandbox::User=NAME.",
    ),
    # The pod behind the connection, in a cluster
    "identity.unknown": RefusalCode(
        403, "This proxy knows no sandbox at this address.", "Connect from the pod of a sandbox."
    ),
    "identity.pooled": RefusalCode(
        503,
        "Nobody has claimed this sandbox yet, so it may do nothing.",
        "Try again when it is claimed.",
        retry_after=1,
    ),
    "identity.pending": RefusalCode(
        503, "This sandbox is being handed to its claim.", "Try again in a moment.", retry_after=1
    ),
    "identity.mismatch": RefusalCode(
        503, "This address is that of another pod.", "Try again in a moment.", retry_after=1
    ),
    "identity.stale": RefusalCode(
        503,
        "The proxy cannot tell just now which sandbox this is.",
        "Try again in a moment.",
        retry_after=1,
    ),
    "identity.ambiguous": RefusalCode(
        503,
        "Two pods, or two sandboxes, are one to the proxy, so neither is served.",
        "Try again in a moment; tell the operator if it stays so.",
        retry_after=2,
    ),
    "identity.unclaimed": RefusalCode(
        403, "This sandbox belongs to no claim and no pool.", "Make it by a claim; tell the operator."
    ),
    "identity.unowned": RefusalCode(
        403,
        "This pod is no sandbox: it belongs to none, and lacks the label.",
        "Ask the operator to give the pod the label egress=workload.",
    ),
    "identity.host_network": RefusalCode(
        403, "This pod uses the network of its node, so it cannot be told apart.", "Tell the operator."
    ),
    "identity.nat": RefusalCode(
        403,
        "The address of this connection is not that of one pod: something on the way rewrites it.",
        "Tell the operator.",
    ),
    "identity.gone": RefusalCode(403, "The pod of this connection has ended.", "Use another sandbox."),
    "identity.changed": RefusalCode(
        503,
        "The claim or the address of this sandbox has changed.",
        "Open a new connection.",
        retry_after=1,
    ),
    "protocol.refused": RefusalCode(400, "Only TLS and HTTP are supported here.", "Use HTTPS."),
    "tls.failed": RefusalCode(
        400,
        "The TLS handshake with the proxy failed.",
        "Trust the certificate of the proxy: `egress ca export`.",
    ),
    "request.timeout": RefusalCode(408, "The request took too long to arrive.", "Send it without pauses."),
    "access.withdrawn": RefusalCode(403, "This access was revoked.", ASK_OPERATOR_HINT),
    # Ourselves
    "audit.stopped": RefusalCode(
        503, "The audit log cannot be written, so all requests are refused.", "Tell the operator."
    ),
    "proxy.stopping": RefusalCode(503, "The proxy is stopping.", "Try again in a moment."),
    "internal": RefusalCode(500, "The proxy could not decide.", "Tell the operator."),
}

FAILED_CODES = frozenset(
    {"upstream.unresolved", "upstream.unreachable", "upstream.timeout", "upstream.closed"}
)
"""Egress allowed the request, and the upstream failed: not reached, or without a complete answer."""
UNREACHED_CODES = frozenset({"upstream.unresolved", "upstream.unreachable"})
"""Those of them with which nothing of the request can have reached the upstream."""
NOT_STOPPED_CODES = FAILED_CODES | {"client.left"}
"""Reasons for an early end that is no act of Egress. Every other listed code, and any unknown one, is."""


def reason_of(error: Exception) -> str:
    """Return the system's words for an error, in lower case; the name of its class where it has none."""
    return (getattr(error, "strerror", None) or type(error).__name__).lower()
