"""What a rule that somebody is about to add would open, in words; and what is never suggested.

It judges by name and shape alone: nothing is resolved or asked. A list of services can only be an
example of a kind; that a host is not in it says nothing good about it.
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
"""Of rules and of paths, in one sentence."""
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
    """Why no rule for this destination is suggested; empty where one may be."""
    labels = host.split(".")
    if host in _METADATA or labels[0] in _METADATA:
        return "this is the name of a metadata service, which hands out the credentials of the machine"
    if any(host == name or host.endswith(f".{name}") for name in _LOCAL) or (
        "." not in host and not is_address(host)
    ):
        return "this name leads into an internal network"
    for found in (host if is_address(host) else "", address):
        if found and not classify_address(found).allowed:
            reason = classify_address(found).reason
            return f"this leads to an address that is not of the public internet ({reason})"
    if code == "address.refused":
        return "the name led to an address that may not be dialled"
    return ""


def risks(policy: Policy, head: Head, decision: Decision) -> tuple[str, ...]:
    """What the change would open, the gravest first."""
    return tuple(_risks(policy, head, decision))


def _risks(policy: Policy, head: Head, decision: Decision) -> Iterator[str]:
    for secret in dict.fromkeys(need.secret for need in decision.effects.needs):
        yield f"the secret {secret} goes with it: whoever may send this acts with its rights"
    if decision.entry and decision.entry.startswith("*"):
        yield f"it holds for every host that {decision.entry} names, not for this one alone"
    yield from _whose(head.host)
    if head.method not in _READING:
        yield f"{head.method} sends data out: the path, the query and a body of any content"
    else:
        yield "data can leave in the query, whatever the path is; a rule on `query` can narrow it"
    if head.websocket:
        yield "no rule looks at what goes through a WebSocket, in both directions"
    if head.scheme == "http":
        yield "clear text can be read and changed on the way"
    if policy.mode == "observe":
        yield "the rules are in `mode: observe`: what no rule allows passes already, without secrets"


def opened(entry: Entry, where: str) -> Iterator[str]:
    """What is opened with an entry as a whole, whatever was asked for; `where` says to whom, or on what."""
    for secret in dict.fromkeys(item.injection.secret for item in entry.inject):
        yield f"the secret {secret} is opened {where} too: whoever may send it acts with its rights"
    if entry.pattern is None or entry.key.startswith("*"):
        yield f"{entry.key} is opened {where}: every host that it names, not this one alone"
    yield f"all that the entry allows is opened {where}: {_allowed(entry)}"


def _allowed(entry: Entry) -> str:
    if not entry.intercept:
        return "bytes that pass unread, whatever is asked for"
    shown = [_rule(rule.predicates) for rule in entry.allow[:MAX_SHOWN]]
    more = len(entry.allow) - len(shown)
    return "; ".join([*shown, *([f"and {more} more rules"] if more else [])]) or "nothing yet"


def _rule(predicates: Predicates) -> str:
    methods = ", ".join(sorted(predicates.methods)) if predicates.methods is not None else "any method"
    if predicates.websocket:
        methods += " and WebSockets"
    if predicates.paths is None:
        return f"{methods} on any path"
    shown = [glob.text for glob in predicates.paths[:MAX_SHOWN]]
    more = len(predicates.paths) - len(shown)
    return f"{methods} {', '.join(shown)}{f' and {more} more paths' if more else ''}"


def _whose(host: str) -> Iterator[str]:
    """Who else decides what is found at a host."""
    if is_address(host):
        yield "an address can belong to somebody else tomorrow, and no certificate names it"
        return
    suffix = _suffixes().publicsuffix(host) or ""
    if suffix and _suffixes().is_private(host) and suffix.count("."):
        yield f"anybody can have a name under {suffix}: never widen this to a wildcard"
    if any(host == name or host.endswith(f".{name}") for name in _ANYBODY):
        yield "this host serves, or passes on, what anybody puts there: it can carry orders in and data out"


@cache
def _suffixes() -> PublicSuffixList:
    from publicsuffixlist import PublicSuffixList  # noqa: PLC0415 - the list is long

    return PublicSuffixList(accept_unknown=False)
