"""Compile `inject:`: which secret is written into which slot, for which rules.

Two conditions must hold before a credential may leave. Both are checked here, at load time: the secret is
bound to every host and port of the entry, and no two items can meet in one slot of one request. The
binding is checked again when a request is decided.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from itertools import combinations, product

from egress.request_name_folding import fold_cookie, fold_header, fold_parameter
from egress.rules.compile.overlap import rules_may_meet
from egress.rules.decide.entry import Entry, Rule, ScopedInjection
from egress.rules.decide.policy import SecretSpec
from egress.rules.decide.predicates import Predicates
from egress.rules.language.credential_guess import looks_like_credential
from egress.rules.language.model import (
    INJECTION_KINDS,
    BasicItem,
    HeaderItem,
    Inject,
    NamedItem,
    PlaceholderItem,
)
from egress.rules.language.report import DocumentCursor, Report, did_you_mean, quoted
from egress.types import (
    InjectBasic,
    InjectCookie,
    InjectHeader,
    Injection,
    InjectPlaceholder,
    InjectQuery,
    OnExisting,
    Slot,
)

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_PARAMETER = re.compile(r"[A-Za-z0-9._~\[\]-]{1,64}")
_VISIBLE_TEXT = re.compile(r"[\x20-\x7e]{0,256}")
# Without a colon, which ends the user name in Basic credentials.
_USER_NAME = re.compile(r"[\x21-\x39\x3b-\x7e]{0,128}")
# The proxy writes these for its own connections: a credential here would be lost, or break framing.
CONNECTION_HEADERS = frozenset(
    {
        "host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect",
        "keep-alive", "proxy-authorization", "proxy-connection", "proxy-authenticate",
    }
)  # fmt: skip
_SLOT_HINT = "write header:NAME, query:NAME, cookie:NAME, path or basic"
_STRIP_HINT = "write header:NAME, query:NAME or cookie:NAME"


def inject_item(model: Inject, at: DocumentCursor) -> ScopedInjection | None:
    """Compile an item of the list; return None after reporting its mistakes."""
    given = [kind for kind in INJECTION_KINDS if getattr(model, kind) is not None]
    if len(given) != 1:
        found = " and ".join(quoted(kind) for kind in given) or "none"
        at.error(
            f"an item of `inject` needs exactly one kind, this one has {found}",
            "split it: one item for each kind",
        )
        return None
    # An item with any finding is dropped, so no half-read injection reaches the checks below.
    before = len(at.report.findings)
    injection = _injection(model, given[0], at / given[0])
    strip = _strips(model.strip or (), injection, at / "strip")
    if len(at.report.findings) > before:
        return None
    rules = None if model.only_for is None else frozenset(model.only_for)
    return ScopedInjection(injection, at.place, rules, strip)


def _strips(texts: Sequence[str], injection: Injection, at: DocumentCursor) -> tuple[Slot, ...]:
    slots: list[Slot] = []
    for number, text in enumerate(texts):
        here = at / number
        slot = _strip(text, here)
        if slot is None:
            continue
        # Its own slot is emptied anyway: naming it suggests that the credential is taken off, too.
        if any(is_same_place(slot, own) for own in injection.slots):
            here.error(f"{quoted(text)} is the slot of this credential, and is emptied anyway", "remove it")
        elif any(is_same_place(slot, other) for other in slots):
            here.error(f"{quoted(text)} is listed twice", "remove one of them")
        slots.append(slot)
    return tuple(slots)


def _strip(text: str, at: DocumentCursor) -> Slot | None:
    # All cookies may be stripped at once; a credential is never injected into the whole header.
    if text == "header:cookie":
        return Slot("header", "cookie")
    if text.partition(":")[0] not in ("header", "query", "cookie"):
        at.error(f"{quoted(text)} is not a slot that can be stripped", _STRIP_HINT)
        return None
    return _slot(text, at)


def _injection(model: Inject, kind: str, at: DocumentCursor) -> Injection:
    on_existing = OnExisting(model.on_existing)
    item = getattr(model, kind)
    if isinstance(item, HeaderItem):
        prefix, suffix = _format(item.format, at / "format")
        return InjectHeader(item.secret, _header_name(item.name, at / "name"), prefix, suffix, on_existing)
    if isinstance(item, BasicItem):
        if not _USER_NAME.fullmatch(item.user):
            (at / "user").error("a user name must be printable ASCII without a colon")
        return InjectBasic(item.secret, item.user, on_existing)
    if isinstance(item, NamedItem) and kind == "query":
        return InjectQuery(item.secret, _parameter(item.name, at / "name"), on_existing)
    if isinstance(item, NamedItem):
        return InjectCookie(item.secret, _cookie_name(item.name, at / "name"), on_existing)
    if isinstance(item, PlaceholderItem):
        if not item.slots:
            (at / "in").error("this placeholder is never swapped: `in` is empty", _SLOT_HINT)
        slots = tuple(_slot(text, at / "in" / number) for number, text in enumerate(item.slots))
        return InjectPlaceholder(item.secret, item.like, slots, item.max)
    return InjectHeader(str(item), "authorization", "Bearer ", "", on_existing)


def _header_name(name: str, at: DocumentCursor) -> str:
    lower = name.lower()
    if not _TOKEN.fullmatch(name):
        at.error(f"{quoted(name)} is not a header name")
    elif lower in CONNECTION_HEADERS:
        at.error(f"{quoted(name)} belongs to the connection and cannot carry a credential")
    elif lower == "cookie":
        at.error("a cookie is injected by name, not as a header", "write cookie: {name: ..., secret: ...}")
    return lower


def _format(text: str, at: DocumentCursor) -> tuple[str, str]:
    if looks_like_credential(text):
        at.error("this looks like a credential (not shown)", "name a secret, and write {} in its place")
        return "", ""
    if text.count("{}") != 1:
        at.error("a format needs `{}` exactly once, in place of the secret", 'for example "token {}"')
        return "", ""
    prefix, suffix = text.split("{}")
    if not _VISIBLE_TEXT.fullmatch(prefix) or not _VISIBLE_TEXT.fullmatch(suffix):
        at.error("a header value must be printable ASCII")
    return prefix, suffix


def _parameter(name: str, at: DocumentCursor) -> str:
    if not _PARAMETER.fullmatch(name):
        at.error(f"{quoted(name)} is not a plain parameter name", "use letters, digits and . _ ~ [ ] -")
    return name


def _cookie_name(name: str, at: DocumentCursor) -> str:
    if not _TOKEN.fullmatch(name):
        at.error(f"{quoted(name)} is not a cookie name")
    return name


def _slot(text: str, at: DocumentCursor) -> Slot:
    kind, colon, name = text.partition(":")
    if kind in ("path", "basic") and not colon:
        return Slot("path" if kind == "path" else "basic")
    if kind == "header" and name:
        return Slot("header", _header_name(name, at))
    if kind == "query" and name:
        return Slot("query", _parameter(name, at))
    if kind == "cookie" and name:
        return Slot("cookie", _cookie_name(name, at))
    at.error(f"{quoted(text)} is not a slot for a placeholder", _SLOT_HINT)
    # A stand-in only: after an error the item is dropped before its slot is used.
    return Slot("path")


# Checks over a whole entry ---------------------------------------------------------------------


def check_injections(
    entry: Entry, secrets: dict[str, SecretSpec], unsound: Container[str], report: Report
) -> None:
    """Check the injections of an entry against each other, its rules and the secrets.

    `unsound` holds names of secrets that already have findings.
    """
    _check_entry_can_inject(entry, report)
    ids = {rule.ref.id: None for rule in entry.allow}
    for item in entry.inject:
        for name in sorted(item.rules or ()):
            if name not in ids:
                report.error(
                    item.place,
                    f"`for` names {quoted(name)}, but this entry has no such allow rule",
                    did_you_mean(name, ids),
                )
        if item.injection.secret not in unsound:
            _check_secret(entry, item, secrets, report)
    # Two credentials in one slot would overwrite or join each other, depending on their order.
    for one, other in combinations(entry.inject, 2):
        shared = shared_slot(one.injection, other.injection)
        if shared is not None and (both := _meeting_rules(entry.allow, one, other)):
            report.error(
                other.place,
                f"two credentials can meet in {shared} of one request (the other is at {one.place})",
                _remedy(one, other, *both),
            )
        _check_strips(entry, one, other, report)
        _check_strips(entry, other, one, report)


def _check_strips(entry: Entry, one: ScopedInjection, other: ScopedInjection, report: Report) -> None:
    """Refuse a strip that would take away what another item of the same request writes or swaps."""
    for slot in one.strip:
        if any(is_same_place(slot, each) for each in other.injection.slots) and _meeting_rules(
            entry.allow, one, other
        ):
            report.error(
                one.place,
                f"this item strips {slot}, where another credential of the same request is written "
                f"(at {other.place})",
                f"remove {slot} from `strip`, or give each item its own `for:`",
            )


def _check_entry_can_inject(entry: Entry, report: Report) -> None:
    if not entry.inject:
        return
    place = entry.inject[0].place
    if entry.clear_ports:
        report.error(
            place,
            "a credential is never sent in clear text, but this entry has `http`",
            "remove `http` or `inject`",
        )
    if not entry.intercept:
        report.error(
            place,
            "no credential can be injected: `intercept: never` passes the bytes through unread",
            "remove `intercept: never` or `inject`",
        )
    if entry.mode == "observe":
        report.error(place, "an entry that injects is always enforced", "remove `mode: observe` here")


def _check_secret(
    entry: Entry, item: ScopedInjection, secrets: dict[str, SecretSpec], report: Report
) -> None:
    name = item.injection.secret
    spec = secrets.get(name)
    if spec is None:
        report.error(
            item.place,
            f"unknown secret {quoted(name)}",
            did_you_mean(name, secrets) or "define it under `secrets:`",
        )
        return
    if entry.pattern is None:
        return
    # Every port counts: a secret must not leave to a port it is not bound to.
    for port in sorted(entry.ports):
        if not spec.is_bound_to_all(entry.pattern, port):
            where = entry.key if port == 443 else f"{entry.key}:{port}"
            report.error(
                item.place,
                f"the secret {quoted(name)} is not bound to {where}",
                f'add "{where}" to `hosts` of the secret (at {spec.place})',
            )


def shared_slot(one: Injection, other: Injection) -> Slot | None:
    """Return the slot in which both would stand; None if there is none."""
    for a in one.slots:
        for b in other.slots:
            if is_same_place(a, b):
                return a if a.kind != "basic" else b
    return None


def is_same_place(a: Slot, b: Slot) -> bool:
    """Report whether two slots are one place of a request, or one lies in the other."""
    kinds = {a.kind, b.kind}
    if kinds in ({"basic"}, {"path"}):
        return True
    if kinds == {"basic", "header"}:
        return "authorization" in (a.name, b.name)
    if kinds == {"cookie", "header"}:
        return (a if a.kind == "header" else b).name == "cookie"
    if a.kind != b.kind:
        return False
    # Many servers read `x_key` and `x-key` as the same header.
    spelled = {
        "header": fold_header,
        "query": fold_parameter,
        "cookie": fold_cookie,
    }[a.kind]
    return spelled(a.name) == spelled(b.name)


def _meeting_rules(
    rules: Sequence[Rule], one: ScopedInjection, other: ScopedInjection
) -> tuple[Rule, Rule] | None:
    """Return a rule of each injection such that one request can match both; None if there are none."""

    def meant(item: ScopedInjection) -> list[Rule]:
        return [rule for rule in rules if item.rules is None or rule.ref.id in item.rules]

    pairs = product(meant(one), meant(other))
    return next(((a, b) for a, b in pairs if a.ref == b.ref or _may_meet(a.widest, b.widest)), None)


def _may_meet(one: Predicates, other: Predicates) -> bool:
    # On a path that a rule on bodies claims, no other rule allows anything.
    return (one.body is None) == (other.body is None) and rules_may_meet(one, other)


def _remedy(one: ScopedInjection, other: ScopedInjection, rule: Rule, beside: Rule) -> str:
    # A preset has no place for a `for:` of the file: only its arguments, or a `for:` of one's own item, help.
    if not (one.place.via or other.place.via):
        return "give each its own `for:` with rules that cannot match the same request"
    if rule.ref == beside.ref:
        return f"give your own item a `for:`, which takes its rules away from the preset (here {rule.ref.id})"
    return (
        f"a request can match both {rule.ref.id} and {beside.ref.id}: narrow the arguments of the preset, or "
        "the rules of your own, until none can"
    )
