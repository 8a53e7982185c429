"""Apply everything a decision needs to one request head.

Theory of operation. Placeholders come first, on the head as the sandbox sent it: one of ours in a
wrong place is an attempt to carry it somewhere, also where an injection would have removed it. Then
each injection strips its slot, every spelling and occurrence, and writes one value. Slots of one
request are disjoint, the rules see to that and it is checked again here; with the needs put into one
fixed order, neither the outcome nor a byte of the head depends on the order of the rules.

This is the one file of the package that reveals a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from egress.credentials.basic import write_basic
from egress.credentials.collision import slots_meet
from egress.credentials.cookie import write_cookie
from egress.credentials.header import write_header
from egress.credentials.outcome import Applied, CredentialedHead, Edit, Refused
from egress.credentials.query import write_query
from egress.credentials.search import NO_PLACEHOLDERS, Placeholders
from egress.credentials.swap import swap
from egress.types import (
    Head,
    Headers,
    InjectBasic,
    InjectCookie,
    InjectHeader,
    Injection,
    InjectPlaceholder,
    InjectQuery,
    OnExisting,
    Secret,
    Slot,
)

_OneValue = InjectHeader | InjectBasic | InjectQuery | InjectCookie


def apply(
    head: Head,
    needs: Sequence[Injection],
    secrets: Mapping[str, Secret],
    placeholders: Placeholders = NO_PLACEHOLDERS,
    *,
    misplaced_pass: bool = False,
    closing: Callable[[Headers], Headers] | None = None,
) -> Applied | Refused:
    """Write the needed credentials into a request head.

    `placeholders` are all those of the sandbox, not only the ones this request may use. A secret is
    needed by every injection, and by a placeholder only where it is found. `closing` is what is done
    to the fields in the end. Total: it raises for no head, and a request that cannot carry all its
    credentials is refused.
    """
    ordered = needs if len(needs) < 2 else sorted(needs, key=_place_in_order)
    if len(ordered) > 1 and slots_meet(ordered):
        return Refused("internal", "Two injections write to one slot of the request.")
    target, headers, replaced = head.target, head.headers, False
    written: list[tuple[str, Slot]] = []
    if placeholders.is_in(head):
        swapped = _swap(head, ordered, secrets, placeholders, misplaced_pass=misplaced_pass)
        if isinstance(swapped, Refused):
            return swapped
        edit, written = swapped
        target, headers = edit.target, edit.headers
    for need in ordered:
        if isinstance(need, InjectPlaceholder):
            continue
        outcome = _write(need, secrets.get(need.secret), target, headers)
        if isinstance(outcome, Refused):
            return outcome
        target, headers, replaced = outcome.target, outcome.headers, replaced or outcome.occupied
        written.append((need.secret, need.slots[0]))
    if not written:
        # What a search for placeholders has taken apart and put together again is not sent for nothing.
        target, headers = head.target, head.headers
    if closing is not None:
        headers = closing(headers)
    made = _with_fields(CredentialedHead if written else Head, head, target, headers)
    return Applied(made, tuple(written), replaced)


def _place_in_order(need: Injection) -> tuple[tuple[Slot, ...], str]:
    return need.slots, need.secret


def _swap(
    head: Head,
    needs: Sequence[Injection],
    secrets: Mapping[str, Secret],
    placeholders: Placeholders,
    *,
    misplaced_pass: bool,
) -> tuple[Edit, list[tuple[str, Slot]]] | Refused:
    swaps = [need for need in needs if isinstance(need, InjectPlaceholder)]
    values = {need.secret: secrets[need.secret].reveal() for need in swaps if need.secret in secrets}
    return swap(head, swaps, values, placeholders, misplaced_pass=misplaced_pass)


def _write(need: _OneValue, secret: Secret | None, target: str, headers: Headers) -> Edit | Refused:
    value = b"" if secret is None else secret.reveal()
    if not value:
        return Refused("secret.unavailable", "No value was given for the secret.", need.secret, need.slots[0])
    edit = _write_value(need, value, target, headers)
    if isinstance(edit, Edit) and edit.occupied and need.on_existing is OnExisting.FAIL:
        why = "The request already has a value in the slot, and the rule says to refuse that."
        return Refused("secret.existing", why, need.secret, need.slots[0])
    return edit


def _write_value(need: _OneValue, value: bytes, target: str, headers: Headers) -> Edit | Refused:
    if isinstance(need, InjectHeader):
        return write_header(target, headers, need, value)
    if isinstance(need, InjectBasic):
        return write_basic(target, headers, need, value)
    if isinstance(need, InjectQuery):
        return write_query(target, headers, need, value)
    return write_cookie(target, headers, need, value)


def _with_fields(kind: type[Head], head: Head, target: str, headers: Headers) -> Head:
    if kind is Head and headers is head.headers:
        return head
    return kind(head.method, head.scheme, head.host, head.port, target, headers, head.websocket)
