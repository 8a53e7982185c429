"""Risks of a suggested rule, in words, and destinations that are never suggested.

The judgement uses names and shapes only: no name is resolved and no service is queried. The list of public
services holds examples; a host outside the list is not safe for that reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from egress.address_check import classify_address
from egress.rules.decide.entry import Entry
from egress.rules.decide.policy import Policy
from egress.rules.decide.predicates import Predicates
from egress.rules.language.hosts import is_address
from egress.types import Decision, Head

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

MAX_SHOWN = 8
"""Rules or paths named in one sentence."""
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_LOCAL = (
    "localhost",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "private",
    "home.arpa",
    "localdomain",
    "onion",
)
_METADATA = frozenset({"metadata", "instance-data", "metadata.goog"})
_ANYBODY = (
    "raw.githubusercontent.com",
    "gist.githubusercontent.com",
    "gist.github.com",
    "objects.githubusercontent.com",
    "pastebin.com",
    "paste.rs",
    "hastebin.com",
    "transfer.sh",
    "file.io",
    "webhook.site",
    "requestbin.com",
    "pipedream.net",
    "ngrok.io",
    "ngrok.app",
    "trycloudflare.com",
    "discord.com",
    "api.telegram.org",
    "hooks.slack.com",
    "docs.google.com",
    "drive.google.com",
    "dropboxusercontent.com",
    "huggingface.co",
)


def refusal(host: str, address: str, code: str) -> str:
    """Explain why no rule for this destination may be suggested; empty if one may."""
    # Names come before addresses: a metadata name must be refused even without a resolved address.
    labels = host.split(".")
    if host in _METADATA or labels[0] in _METADATA:
        return "this is a cloud metadata service, which hands out the credentials of the machine"
    if any(host == name or host.endswith(f".{name}") for name in _LOCAL) or (
        "." not in host and not is_address(host)
    ):
        return "this name belongs to an internal network"
    for found in (host if is_address(host) else "", address):
        if found and not classify_address(found).allowed:
            reason = classify_address(found).reason
            return f"this leads to an address outside the public internet ({reason})"
    if code == "address.refused":
        return "the name resolved to a forbidden address"
    return ""


def risks(policy: Policy, head: Head, decision: Decision) -> tuple[str, ...]:
    """List the risks of a change, the gravest first."""
    return tuple(_risks(policy, head, decision))


def _risks(policy: Policy, head: Head, decision: Decision) -> Iterator[str]:
    # The gravest risk comes first: a reader may stop after one line.
    for secret in dict.fromkeys(need.secret for need in decision.effects.needs):
        yield f"the secret {secret} is added: every sandbox that may send this has its rights"
    if decision.entry and decision.entry.startswith("*"):
        yield f"it applies to every host that {decision.entry} matches, not only to this one"
    yield from _host_risks(head.host)
    if head.method not in _READING:
        yield f"{head.method} can send out any data: in the path, the query and the body"
    else:
        yield "data can leave in the query on every path; a rule on `query` can narrow it"
    if head.websocket:
        yield "no rule checks the messages in a WebSocket, in either direction"
    if head.scheme == "http":
        yield "clear text can be read and changed in transit"
    if policy.mode == "observe":
        yield "the rules are in `mode: observe`: unlisted requests already pass, without secrets"


def opened(entry: Entry, where: str) -> Iterator[str]:
    """List the risks of opening a whole entry. `where` names the profile or the port."""
    for secret in dict.fromkeys(item.injection.secret for item in entry.inject):
        yield f"the secret {secret} is opened {where} too: every sandbox that may send it has its rights"
    if entry.pattern is None or entry.key.startswith("*"):
        yield f"{entry.key} is opened {where}: every host that it matches, not only this one"
    yield f"every rule of the entry is opened {where}: {_allowed(entry)}"


def _allowed(entry: Entry) -> str:
    if not entry.intercept:
        return "tunnels of any content, unread"
    shown = [_rule(rule.written) for rule in entry.allow[:MAX_SHOWN]]
    more = len(entry.allow) - len(shown)
    return "; ".join([*shown, *([f"and {more} more rules"] if more else [])]) or "no rules yet"


def _rule(predicates: Predicates) -> str:
    methods = ", ".join(sorted(predicates.methods)) if predicates.methods is not None else "any method"
    if predicates.websocket:
        methods += " and WebSockets"
    if predicates.paths is None:
        return f"{methods} on any path"
    shown = [glob.text for glob in predicates.paths[:MAX_SHOWN]]
    more = len(predicates.paths) - len(shown)
    return f"{methods} {', '.join(shown)}{f' and {more} more paths' if more else ''}"


def _host_risks(host: str) -> Iterator[str]:
    """Warn about hosts whose content strangers control."""
    if is_address(host):
        yield "an address can change its owner, and no certificate names it"
        return
    suffix = _suffixes().publicsuffix(host) or ""
    if suffix and _suffixes().is_private(host) and suffix.count("."):
        yield f"anybody can register a name under {suffix}: never widen this to a wildcard"
    if any(host == name or host.endswith(f".{name}") for name in _ANYBODY):
        yield "this host serves or forwards content from anybody: it can carry commands in and data out"


@cache
def _suffixes() -> PublicSuffixList:
    from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 - the list is long

    return PublicSuffixList(accept_unknown=False)
