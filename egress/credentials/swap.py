"""Swap the placeholders of a sandbox for secrets, in the slots that the rules name.

Theory of operation. First every placeholder that stands plainly in one of its slots is replaced by a
mark. What the search still finds in the head afterwards stands where it must not, whatever its
spelling, and the request is refused. Only then are the marks filled with the secrets. So a secret is
never searched and never swapped into another, and nothing depends on the order of the needs.

Only the plain spelling is swapped: stand-ins consist of characters that no client has to encode, so
an encoded one is a disguise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from egress.credentials.fill import Fill, fill_draft
from egress.credentials.mark import Draft, mark_slot
from egress.credentials.outcome import Edit, Refused, Unshown
from egress.credentials.search import Placeholders
from egress.types import Head, InjectPlaceholder, Slot

_FIRST_MARK = 0x100


@dataclass(slots=True, repr=False, eq=False)
class _Marked(Unshown):
    """A draft, what its marks stand for, and what was written where."""

    draft: Draft
    fills: dict[str, Fill]
    written: list[tuple[str, Slot]]


def swap(
    head: Head,
    needs: Sequence[InjectPlaceholder],
    values: Mapping[str, bytes],
    placeholders: Placeholders,
    *,
    misplaced_pass: bool = False,
) -> tuple[Edit, list[tuple[str, Slot]]] | Refused:
    """Swap what stands in its slots; refuse what stands anywhere else, or too often.

    With `misplaced_pass` the latter stay in the head as they are. Total: it raises for no head.
    """
    if not _is_wire_text(head):
        why = "The request head holds characters that cannot come off the wire."
        return Refused("request.malformed", why)
    marked = _mark(head, needs, values, placeholders, misplaced_pass=misplaced_pass)
    if isinstance(marked, Refused):
        return marked
    misplaced = None if misplaced_pass else _misplaced(head, marked.draft, placeholders)
    if misplaced is not None:
        return misplaced
    edit = fill_draft(marked.draft, marked.fills)
    return edit if isinstance(edit, Refused) else (edit, marked.written)


def _is_wire_text(head: Head) -> bool:
    texts = (head.target, *(text for header in head.headers for text in header))
    return all(text.isascii() or max(text) <= "\xff" for text in texts)


def _mark(
    head: Head,
    needs: Sequence[InjectPlaceholder],
    values: Mapping[str, bytes],
    placeholders: Placeholders,
    *,
    misplaced_pass: bool,
) -> _Marked | Refused:
    marked = _Marked(Draft.of(head), {}, [])
    for number, need in enumerate(needs):
        stand_in = placeholders.value(need.secret, need.like)
        if stand_in is None:
            continue
        mark = chr(_FIRST_MARK + number)
        trial = marked.draft.copy()
        counts = [(mark_slot(trial, slot, stand_in, mark), slot) for slot in dict.fromkeys(need.slots)]
        found = [slot for count, slot in counts if count]
        is_too_often = sum(count for count, _ in counts) > need.max
        if not found or (is_too_often and misplaced_pass):
            # Above the maximum none is swapped: which of them would be the right one is a guess.
            continue
        if is_too_often:
            why = "A placeholder stands in its slots more often than `max` allows."
            return Refused("placeholder.misplaced", why, need.secret, found[0])
        value = values.get(need.secret)
        if not value:
            return Refused("secret.unavailable", "No value was given for the secret.", need.secret, found[0])
        marked.draft = trial
        marked.fills[mark] = Fill(need.secret, value)
        marked.written += [(need.secret, slot) for slot in found]
    return marked


def _misplaced(head: Head, draft: Draft, placeholders: Placeholders) -> Refused | None:
    left = placeholders.find(replace(head, target=draft.target(), headers=draft.decoded_headers()))
    if not left:
        return None
    why = "A placeholder of this sandbox stands outside its slots."
    if left[0].secret is None:
        why = "The head is percent-encoded too many times to be searched for placeholders."
    return Refused("placeholder.misplaced", why, left[0].secret, Slot(left[0].where))
