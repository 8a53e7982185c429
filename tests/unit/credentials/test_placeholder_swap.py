"""egress/credentials/placeholder_swap.py: swapped in its slots, refused anywhere else."""

from __future__ import annotations

import base64

import pytest

from egress.credentials.placeholder_search import Placeholders
from egress.credentials.placeholder_swap import swap_placeholders
from egress.credentials.result import CredentialRefusal, HeadEdit
from egress.types import Head, InjectPlaceholder, Slot
from tests.unit.credentials.credential_samples import KEY, OTHER, SANDBOX, STAND_IN, github_in, request, slot

VALUES = {"github": b"tok3n", "openai": b"other"}
P = STAND_IN


def swapped(head: Head, *needs: InjectPlaceholder, misplaced_pass: bool = False) -> tuple[Head, list[str]]:
    """The head after the swap, and the slots written as text."""
    outcome = swap_placeholders(head, needs, VALUES, SANDBOX, misplaced_pass=misplaced_pass)
    assert not isinstance(outcome, CredentialRefusal), outcome
    edit, written = outcome
    assert isinstance(edit, HeadEdit)
    assert not edit.occupied
    after = Head(head.method, head.scheme, head.host, head.port, edit.target, edit.headers)
    return after, [f"{secret} {slot}" for secret, slot in written]


def misplaced(head: Head, *needs: InjectPlaceholder) -> tuple[str | None, str]:
    """Secret and slot of the refusal."""
    outcome = swap_placeholders(head, needs, VALUES, SANDBOX)
    assert isinstance(outcome, CredentialRefusal), "swapped or passed"
    assert outcome.code == "placeholder.misplaced"
    assert P not in repr(outcome)
    return outcome.secret, str(outcome.slot)


def test_swaps_in_a_slot_and_says_so() -> None:
    after, written = swapped(
        request("/", ("authorization", f"Bearer {P}")), github_in("header:authorization")
    )
    assert after == request("/", ("authorization", "Bearer tok3n"))
    assert written == ["github header:authorization"]


def test_nothing_to_swap_changes_nothing() -> None:
    head = request("/a?b", ("x", "1"))
    assert swapped(head, github_in("header:x", "path", "basic", "query:b", "cookie:c")) == (head, [])


def test_two_secrets_are_swapped_side_by_side() -> None:
    openai = InjectPlaceholder("openai", "openai", (slot("query:k"), slot("header:x")), 2)
    head = request(f"/{P}?k={OTHER}", ("x", OTHER))
    for needs in ([github_in("path"), openai], [openai, github_in("path")]):
        after, written = swapped(head, *needs)
        assert after == request("/tok3n?k=other", ("x", "other"))
        assert sorted(written) == ["github path", "openai header:x", "openai query:k"]


def test_a_secret_that_looks_like_a_placeholder_is_not_swapped_again() -> None:
    values = {"github": OTHER.encode(), "openai": b"other"}
    needs = [github_in("header:x"), InjectPlaceholder("openai", "openai", (Slot("header", "y"),))]
    for order in (needs, needs[::-1]):
        outcome = swap_placeholders(request("/", ("x", P), ("y", OTHER)), order, values, SANDBOX)
        assert not isinstance(outcome, CredentialRefusal)
        assert outcome[0].headers[1:] == (("x", OTHER), ("y", "other"))


def test_max_counts_over_all_slots_together() -> None:
    head = request(f"/{P}", ("x", P))
    assert misplaced(head, github_in("path", "header:x")) == ("github", "path")
    after, written = swapped(head, github_in("path", "header:x", most=2))
    assert after == request("/tok3n", ("x", "tok3n"))
    assert written == ["github path", "github header:x"]


def test_a_slot_named_twice_counts_once() -> None:
    swapped(request("/", ("x", P)), github_in("header:x", "header:x"))


@pytest.mark.parametrize("most", [0, -1])
def test_a_max_of_nothing_lets_nothing_through(most: int) -> None:
    assert misplaced(request("/", ("x", P)), github_in("header:x", most=most)) == ("github", "header:x")
    swapped(request("/"), github_in("header:x", most=most))


@pytest.mark.parametrize(
    "head",
    [
        request(f"/{P}"),
        request("/", ("x", P), ("y", P)),
        request("/", ("x", f"{P} {P.upper()}")),
        request("/", ("x", P), (P.lower(), "")),
        request(f"/?x={P}", ("x", P)),
        request("/", ("x", P), ("cookie", f"x={P}")),
        request("/", ("x", f"%67{P[1:]}")),
        request("/", ("x", base64.b64encode(P.encode()).decode())),
        request("/", ("x", P), ("authorization", f"Basic {base64.b64encode(f'x:{P}'.encode()).decode()}")),
        request("/", ("x", f"{P} {OTHER}")),
    ],
)
def test_one_outside_its_slots_refuses_the_request(head: Head) -> None:
    assert misplaced(head, github_in("header:x"))[0] in {"github", "openai"}


def test_a_secret_that_no_need_names_is_looked_for_too() -> None:
    assert misplaced(request("/", ("x", OTHER)), github_in("header:x")) == ("openai", "header")
    assert misplaced(request("/", ("x", OTHER))) == ("openai", "header")


def test_the_refusal_does_not_repeat_a_name_that_the_sandbox_chose() -> None:
    assert misplaced(request("/", (f"evil-{P.lower()}", "1"))) == ("github", "header")


def test_marked_basic_credentials_are_searched_for_others() -> None:
    pair = base64.b64encode(f"{OTHER}:{P}".encode()).decode()
    assert misplaced(request("/", ("authorization", f"Basic {pair}")), github_in("basic"))[0] == "openai"


def test_text_that_nests_too_deep_is_refused_with_its_own_reason() -> None:
    deep = "a"
    for _ in range(6):
        deep = "".join(f"%{ord(character):02x}" for character in deep)
    outcome = swap_placeholders(request(f"/?q={deep}"), [], VALUES, SANDBOX)
    assert isinstance(outcome, CredentialRefusal)
    assert (outcome.code, outcome.secret) == ("placeholder.misplaced", None)
    assert "percent-encoded too many times" in outcome.why


def test_pass_leaves_misplaced_ones_as_they_are_and_swaps_the_others() -> None:
    head = request(f"/{P}?q={OTHER}", ("x", P))
    after, written = swapped(head, github_in("header:x"), misplaced_pass=True)
    assert after == request(f"/{P}?q={OTHER}", ("x", "tok3n"))
    assert written == ["github header:x"]


def test_pass_above_max_swaps_none_of_that_secret() -> None:
    openai = InjectPlaceholder("openai", "openai", (Slot("query", "q"),))
    head = request(f"/{P}?q={OTHER}", ("x", P))
    after, written = swapped(head, github_in("path", "header:x"), openai, misplaced_pass=True)
    assert after == request(f"/{P}?q=other", ("x", P))
    assert written == ["openai query:q"]


@pytest.mark.parametrize("values", [{}, {"github": b""}, {"openai": b"other"}])
def test_a_placeholder_that_is_found_needs_its_secret(values: dict[str, bytes]) -> None:
    outcome = swap_placeholders(request("/", ("x", P)), [github_in("header:x")], values, SANDBOX)
    assert isinstance(outcome, CredentialRefusal)
    assert (outcome.code, outcome.secret, str(outcome.slot)) == ("secret.unavailable", "github", "header:x")


def test_a_placeholder_that_is_not_found_needs_nothing() -> None:
    assert not isinstance(
        swap_placeholders(request("/"), [github_in("header:x")], {}, SANDBOX), CredentialRefusal
    )


def test_a_sandbox_without_that_placeholder_has_nothing_to_swap() -> None:
    none = Placeholders.of(KEY, [("openai", "openai")])
    outcome = swap_placeholders(request("/", ("x", P)), [github_in("header:x")], VALUES, none)
    assert not isinstance(outcome, CredentialRefusal)
    assert outcome[0].headers[1] == ("x", P)


@pytest.mark.parametrize("odd", ["\u0100", "\u0101", "\ud800", "\U0001f511"])
@pytest.mark.parametrize("place", ["target", "name", "line"])
def test_a_head_with_characters_that_are_no_bytes_is_refused(odd: str, place: str) -> None:
    """Such a character could be taken for a mark, and would then be filled with a secret."""
    head = {
        "target": request(f"/{odd}", ("x", P)),
        "name": request("/", (odd, "1"), ("x", P)),
        "line": request("/", ("x", P), ("y", odd)),
    }[place]
    outcome = swap_placeholders(head, [github_in("header:x")], VALUES, SANDBOX)
    assert isinstance(outcome, CredentialRefusal)
    assert outcome.code == "request.malformed"
