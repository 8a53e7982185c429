"""What a record keeps of a query: names, the values that a rule keeps, and never a credential."""

from __future__ import annotations

from urllib.parse import unquote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.audit.fields import MAX_QUERY_NAMES as MAX_NAMES_OF_LINE
from egress.audit.fields import MAX_QUERY_VALUES as MAX_VALUES_OF_LINE
from egress.credentials import Canaries, CanaryScan
from egress.exchange.recorded_query import (
    HIDDEN_TEXT,
    MAX_QUERY_NAMES,
    MAX_QUERY_VALUES,
    MORE_NAMES,
    QueryRecord,
    SecretCheck,
    recorded_query,
)
from egress.scrub import Needles
from egress.types import (
    Decision,
    Effects,
    InjectPlaceholder,
    InjectQuery,
    Place,
    RuleRef,
    Secret,
    Slot,
    Verdict,
)

SECRET = "open-sesame-open-sesame-1"
OTHER = "a secret of another host"
NEEDLES = Needles.of([Secret("api", SECRET.encode())])
CANARIES = Canaries.of(bytes(32), [(RuleRef("canaries", "decoy", Place("a", 1, 1)), "github", False)])
CANARY = CANARIES.all[0].value
CHECK = SecretCheck(NEEDLES, CanaryScan(CANARIES), lambda text: OTHER in text)
NOTHING_KNOWN = SecretCheck(None, None, None)
EVERY = frozenset({"page", "q"})


def recorded(
    query: str, kept: frozenset[str] = EVERY, check: SecretCheck = CHECK, effects: Effects | None = None
) -> dict[str, tuple[str, ...]]:
    effects = effects or Effects(kept_query=kept)
    decision = Decision(Verdict.ALLOW, "rule.allowed", f"/search?{query}", effects=effects)
    return dict(recorded_query(decision, effects, check))


def test_names_are_kept_and_values_where_a_rule_says_so() -> None:
    found = recorded("page=2&token=abc&q=a+b%26c&flag&=x")
    assert found == {"page": ("2",), "token": (), "q": ("a b&c",), "flag": (), "": ()}
    assert recorded("page=2", frozenset()) == {"page": ()}


def test_what_has_no_query_has_no_record_of_one() -> None:
    assert recorded_query(None, Effects(), CHECK) == ()
    decision = Decision(Verdict.DENY, "rule.none", "/search")
    assert recorded_query(decision, Effects(kept_query=EVERY), CHECK) == ()
    assert recorded("") == recorded("&&&") == {}


def test_a_denied_request_has_names_alone() -> None:
    decision = Decision(Verdict.DENY, "rule.none", "/search?page=2&x=1")
    assert dict(recorded_query(decision, Effects(), CHECK)) == {"page": (), "x": ()}


def test_a_name_is_exact_and_may_come_again() -> None:
    assert recorded("page=1&Page=2&page=3&page[]=4&page=") == {
        "page": ("1", "3", ""),
        "Page": (),
        "page[]": (),
    }
    assert recorded("%70age=1") == {"page": ("1",)}


def test_other_languages_are_readable_and_odd_bytes_are_no_fault() -> None:
    assert recorded("q=Gr%C3%B6%C3%9Fe&%E4=1&page=%ff%zz") == {
        "q": ("Gr\xf6\xdfe",),
        "\xe4": (),
        "page": ("\xff%zz",),
    }


def test_its_size_is_bounded() -> None:
    many = recorded("&".join(f"k{number}=v" for number in range(5000)))
    assert len(many) == MAX_QUERY_NAMES + 1
    assert list(many)[-1] == MORE_NAMES
    assert recorded("&".join("page=1" for _ in range(5000))) == {"page": ("1",) * MAX_QUERY_VALUES}
    assert (MAX_QUERY_NAMES, MAX_QUERY_VALUES) == (MAX_NAMES_OF_LINE, MAX_VALUES_OF_LINE)
    exact = recorded("&".join(f"k{number}=v" for number in range(MAX_QUERY_NAMES)))
    assert MORE_NAMES not in exact


@pytest.mark.parametrize(
    "value",
    [
        SECRET,
        f"xx{SECRET}xx",
        OTHER,
        CANARY,
        CANARY.upper(),
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "AKIAIOSFODNN7EXAMPLE",
        "%2525252541",
    ],
)
@pytest.mark.parametrize("where", ["q={}", "{}=1", "{}", "q=1&page={}", "a=1&q=0&q={}"])
def test_a_credential_is_kept_in_no_place(value: str, where: str) -> None:
    found = recorded(where.format(value.replace(" ", "%20")))
    assert HIDDEN_TEXT in str(found)
    assert value.lower() not in str(found).lower()


def test_the_good_twins_are_kept() -> None:
    for value in ("open-sesame", "a secret of another", CANARY[:12], "AKIA", "100%25"):
        (kept,) = recorded(f"q={value.replace(' ', '%20')}")["q"]
        assert kept == unquote_plus(value)


@pytest.mark.parametrize(
    "effects",
    [
        Effects(kept_query=EVERY, needs=(InjectQuery("api", "Q"),)),
        Effects(kept_query=EVERY, needs=(InjectPlaceholder("api", "uuid", (Slot("query", "q"),)),)),
        Effects(kept_query=EVERY, strips=(Slot("query", "q"),)),
    ],
)
def test_the_slot_of_a_credential_is_never_kept(effects: Effects) -> None:
    """The sandbox's own value there may be a credential of its own; the rules refuse to name it, too."""
    assert recorded("page=1&q=mine", effects=effects) == {"page": ("1",), "q": ()}


def readings(text: str) -> set[str]:
    """The text, and all that it can be decoded to."""
    found = {text}
    for _ in range(6):
        text = unquote_plus(text, encoding="latin-1")
        found.add(text)
    return found


def spelt(text: str, layers: list[int]) -> str:
    """The text, percent-encoded in several layers: each says by its bits which characters are."""
    for bits in layers:
        text = "".join(
            f"%{ord(c):02{'xX'[bits >> 41 & 1]}}" if bits >> (at % 41) & 1 else c for at, c in enumerate(text)
        )
    return text


@given(
    st.sampled_from([SECRET, CANARY]),
    st.lists(st.integers(0, 2**42 - 1), max_size=5),
    st.text("abc123&=%+. ", max_size=12),
    st.text("abc123&=%+. ", max_size=12),
    st.booleans(),
)
def test_no_reading_of_what_is_kept_is_a_secret(
    value: str, layers: list[int], before: str, after: str, is_name: bool
) -> None:
    text = f"{before}{spelt(value, layers)}{after}"
    query = f"{text}=1" if is_name else f"q={text}"
    for name, values in recorded(query).items():
        for kept in (name, *values):
            assert all(value.lower() not in reading.lower() for reading in readings(kept)), (query, kept)


@given(st.text(max_size=200), st.frozensets(st.sampled_from(["page", "q", "a", ""]), max_size=3))
def test_any_query_has_a_record_of_bounded_size(query: str, kept: frozenset[str]) -> None:
    found = recorded(query.encode("utf-8", "surrogatepass").decode("latin-1"), kept, NOTHING_KNOWN)
    assert len(found) <= MAX_QUERY_NAMES + 1
    assert all(len(values) <= MAX_QUERY_VALUES for values in found.values())
    assert all(not values or name in kept or name == HIDDEN_TEXT for name, values in found.items())


def test_the_type_says_what_comes_out() -> None:
    decision = Decision(Verdict.ALLOW, "rule.allowed", "/?page=2")
    found: QueryRecord = recorded_query(decision, Effects(kept_query=EVERY), NOTHING_KNOWN)
    assert found == (("page", ("2",)),)
