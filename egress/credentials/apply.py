"""Apply all credentials of a decision to a request head.

Theory of operation. Placeholders come first, on the head as the sandbox sent it: a placeholder in a wrong
place is an attempt to carry it out, even if an injection would have removed it. Then the stripped slots are
emptied. Then each injection clears its slot, in every spelling and occurrence, and writes a single value. The
slots of a request are disjoint; the rules ensure that, and it is checked again here. The needs are sorted, so
neither the outcome nor a byte of the head depends on the order of the rules.

Only this module of the package reveals secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from egress.credentials import basic, cookie
from egress.credentials.basic import write_basic
from egress.credentials.cookie import write_cookie
from egress.credentials.header import write_header
from egress.credentials.placeholder_search import NO_PLACEHOLDERS, Placeholders
from egress.credentials.placeholder_swap import swap_placeholders
from egress.credentials.query import write_query
from egress.credentials.result import AppliedHead, CredentialedHead, CredentialRefusal, HeadEdit
from egress.credentials.strip import strip_slots
from egress.request_name_folding import fold_cookie, fold_header, fold_parameter
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


def apply_credentials(
    head: Head,
    needs: Sequence[Injection],
    secrets: Mapping[str, Secret],
    placeholders: Placeholders = NO_PLACEHOLDERS,
    *,
    strips: Sequence[Slot] = (),
    misplaced_pass: bool = False,
    closing: Callable[[Headers], Headers] | None = None,
) -> AppliedHead | CredentialRefusal:
    """Write the needed credentials into a request head, after emptying the slots of `strips`.

    `placeholders` are all placeholders of the sandbox, not only those this request may use. An injection
    always needs its secret, a placeholder only if it occurs. `closing` edits the fields last. Total: no head
    raises, and a request that cannot carry all its credentials is refused.
    """
    # Nearly all requests need a single credential: skip sorting and checking then.
    ordered = needs if len(needs) < 2 else sorted(needs, key=_place_in_order)
    if len(ordered) > 1 and slots_collide(ordered):
        return CredentialRefusal("internal", "Two injections write to one slot of the request.")
    target, headers, replaced = head.target, head.headers, False
    written: list[tuple[str, Slot]] = []
    # Before any injection: a credential written below must never be searched or swapped.
    if placeholders.all and placeholders.is_in(head):
        swapped = _swap(head, ordered, secrets, placeholders, misplaced_pass=misplaced_pass)
        if isinstance(swapped, CredentialRefusal):
            return swapped
        edit, written = swapped
        # A head without a swap is sent as it came: the search has split and joined it.
        target, headers = (edit.target, edit.headers) if written else (target, headers)
    stripped: tuple[Slot, ...] = ()
    if strips:
        emptied = strip_slots(target, headers, strips)
        if isinstance(emptied, CredentialRefusal):
            return emptied
        target, headers, stripped = emptied.target, emptied.headers, emptied.stripped
    for need in ordered:
        if isinstance(need, InjectPlaceholder):
            continue
        outcome = _write(need, secrets.get(need.secret), target, headers)
        if isinstance(outcome, CredentialRefusal):
            return outcome
        target, headers, replaced = outcome.target, outcome.headers, replaced or outcome.occupied
        written.append((need.secret, need.slots[0]))
    if closing is not None:
        headers = closing(headers)
    made = _with_fields(CredentialedHead if written else Head, head, target, headers)
    return AppliedHead(made, tuple(written), replaced, stripped)


def _place_in_order(need: Injection) -> tuple[tuple[Slot, ...], str]:
    return need.slots, need.secret


def _swap(
    head: Head,
    needs: Sequence[Injection],
    secrets: Mapping[str, Secret],
    placeholders: Placeholders,
    *,
    misplaced_pass: bool,
) -> tuple[HeadEdit, list[tuple[str, Slot]]] | CredentialRefusal:
    swaps = [need for need in needs if isinstance(need, InjectPlaceholder)]
    values = {need.secret: secrets[need.secret].reveal() for need in swaps if need.secret in secrets}
    return swap_placeholders(head, swaps, values, placeholders, misplaced_pass=misplaced_pass)


def _write(
    need: _OneValue, secret: Secret | None, target: str, headers: Headers
) -> HeadEdit | CredentialRefusal:
    value = b"" if secret is None else secret.reveal()
    if not value:
        return CredentialRefusal(
            "secret.unavailable", "No value was given for the secret.", need.secret, need.slots[0]
        )
    edit = _write_value(need, value, target, headers)
    # Checked after writing: only the writer knows every spelling of its slot.
    if isinstance(edit, HeadEdit) and edit.occupied and need.on_existing is OnExisting.FAIL:
        why = "The request already has a value in the slot, and the rule refuses that."
        return CredentialRefusal("secret.existing", why, need.secret, need.slots[0])
    return edit


def _write_value(
    need: _OneValue, value: bytes, target: str, headers: Headers
) -> HeadEdit | CredentialRefusal:
    if isinstance(need, InjectHeader):
        return write_header(target, headers, need, value)
    if isinstance(need, InjectBasic):
        return write_basic(target, headers, need, value)
    if isinstance(need, InjectQuery):
        return write_query(target, headers, need, value)
    return write_cookie(target, headers, need, value)


def _with_fields(kind: type[Head], head: Head, target: str, headers: Headers) -> Head:
    if kind is Head and headers is head.headers and target == head.target:
        return head
    return kind(head.method, head.scheme, head.host, head.port, target, headers, head.websocket)


# The rules refuse two injections into one slot when they are loaded. Checked again because the second would
# silently overwrite the first, in an order that no operator sees.
_FOLDING_BY_KIND: Final[dict[str, Callable[[str], str]]] = {
    "header": fold_header,
    "query": fold_parameter,
    "cookie": fold_cookie,
}
_COOKIE_HEADER_SLOT = Slot("header", cookie.COOKIE_HEADER)


def slots_collide(needs: Sequence[Injection]) -> bool:
    """Report whether a slot of one need equals, contains or lies in a slot of another."""
    taken: set[Slot] = set()
    for need in needs:
        own = {_folded_slot(slot) for slot in need.slots}
        if own & taken or _in_cookie_header(own, taken) or _in_cookie_header(taken, own):
            return True
        taken |= own
    return False


def _folded_slot(slot: Slot) -> Slot:
    if slot.kind == "basic":
        return basic.AUTHORIZATION_SLOT
    return Slot(slot.kind, _FOLDING_BY_KIND[slot.kind](slot.name)) if slot.kind in _FOLDING_BY_KIND else slot


def _in_cookie_header(some: set[Slot], others: set[Slot]) -> bool:
    return _COOKIE_HEADER_SLOT in some and any(slot.kind == "cookie" for slot in others)
