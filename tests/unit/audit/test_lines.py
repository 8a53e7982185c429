"""The body of every kind of line: what it says, and what it can never say."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.audit import ConnectionFacts, ExchangeFacts, lines, schema
from egress.audit.fields import MAX_FACTS, MAX_NAME, MAX_PATH, MAX_SECRETS
from egress.audit.files import Pruning
from egress.audit.lines import EVENTS
from egress.exchange import ExchangeRecord
from egress.types import Identity, Place, RuleRef, Slot
from tests.unit.audit.sample import DENIED, FACTS, NAME, OPENING, RECORD, RULE, TUNNEL, WAY


def body(text: str) -> dict[str, object]:
    found = json.loads("{" + text + "}")
    assert isinstance(found, dict)
    return found


def test_an_exchange_says_who_where_what_why_and_how_long() -> None:
    assert body(lines.exchange(RECORD, FACTS)) == {
        "event": "exchange",
        "sandbox": "agent-1",
        "profile": "coding",
        "listener": "agent-1",
        "entry": "connect",
        "connection": "c-17",
        "request": "c-17-3",
        "scheme": "https",
        "host": "api.github.com",
        "port": 443,
        "address": "192.0.2.10",
        "sni": "api.github.com",
        "method": "GET",
        "path": "/repos/acme/app",
        "status": 200,
        "verdict": "allow",
        "code": "rule.allowed",
        "rule": "api.github.com#read",
        "place": "hosts.yaml:14",
        "observed": False,
        "injected": [{"secret": "github", "slot": "header:authorization"}],
        "replaced": True,
        "scrubbed": {"github": 2},
        "bytes_up": 312,
        "bytes_down": 2048,
        "resolve_us": 1200,
        "connect_us": 15000,
        "tls_us": 31000,
        "secret_us": 40,
        "first_byte_us": 52000,
        "total_us": 53100,
        "client_tls": "TLSv1.3",
        "upstream_tls": "TLSv1.3",
        "alpn": "http/1.1",
        "upstream_alpn": "http/1.1",
        "policy": "5f2b8c0d",
    }


@pytest.mark.parametrize("record", [DENIED, replace(RECORD, identity=Identity("a"), path="", method="")])
def test_every_exchange_has_the_same_fields_in_the_same_order(record: ExchangeRecord) -> None:
    assert list(body(lines.exchange(record, FACTS))) == list(body(lines.exchange(RECORD, FACTS)))


def test_a_rule_stands_for_its_place_where_no_other_is_given() -> None:
    assert body(lines.exchange(replace(RECORD, place=None), FACTS))["place"] == "hosts.yaml:14"
    other = replace(RECORD, rule=None, place=Place("hosts.yaml", 3, 1))
    assert body(lines.exchange(other, FACTS))["place"] == "hosts.yaml:3"
    assert body(lines.exchange(other, FACTS))["rule"] is None
    assert body(lines.exchange(DENIED, FACTS))["place"] is None


def test_two_secrets_and_two_slots_are_told_apart() -> None:
    both = (("a", Slot("query", "key")), ("b", Slot("basic")))
    told = body(lines.exchange(replace(RECORD, injected=both, scrubbed=(("a", 1), ("b", 2))), FACTS))
    assert told["injected"] == [{"secret": "a", "slot": "query:key"}, {"secret": "b", "slot": "basic"}]
    assert told["scrubbed"] == {"a": 1, "b": 2}


def test_a_client_is_named_by_its_address_where_several_share_a_listener() -> None:
    peer = "10.244.0.17"
    shared = ExchangeFacts(replace(WAY, peer=peer), "c-17-3")
    assert body(lines.exchange(DENIED, shared))["peer"] == peer
    assert body(lines.refusal(replace(NAME, peer=peer)))["peer"] == peer
    assert body(lines.tunnel(replace(TUNNEL, peer=peer)))["peer"] == peer


def test_a_client_that_has_its_listener_to_itself_is_named_by_its_sandbox_alone() -> None:
    for line in (lines.exchange(DENIED, FACTS), lines.refusal(NAME), lines.tunnel(TUNNEL)):
        assert "peer" not in body(line)


def test_a_long_path_is_cut_and_marked() -> None:
    told = body(lines.exchange(replace(RECORD, path="/" + "\x00" * 100_000), FACTS))
    assert len(str(told["path"])) == MAX_PATH + 1
    assert len(lines.exchange(replace(RECORD, path="\xff" * 10**6), FACTS)) < 32_000


def test_a_refusal_and_a_tunnel_name_their_verdict() -> None:
    assert body(lines.refusal(NAME))["verdict"] == "deny"
    told = body(lines.tunnel(replace(TUNNEL, rule=RULE, bytes_up=1, bytes_down=2)))
    assert (told["verdict"], told["bytes_up"], told["bytes_down"]) == ("allow", 1, 2)
    assert told["place"] == "hosts.yaml:14"


def test_a_lost_exchange_names_its_secrets_and_whether_it_was_sent() -> None:
    told = body(lines.lost(OPENING, "2026-03-01T09:30:00.000123Z", sent=True))
    assert (told["secrets"], told["sent"], told["request"]) == (["github"], True, "c-17-3")
    many = replace(OPENING, secrets=tuple(map(str, range(100))))
    assert len(body(lines.lost(many, "", sent=False))["secrets"]) == MAX_SECRETS  # type: ignore[arg-type]  # a list


@pytest.mark.parametrize("kind", EVENTS)
def test_an_event_always_has_all_its_facts(kind: str) -> None:
    # A field of a later version is left out where it has nothing to say.
    later = {"kept", "chains"}
    if kind in {"sandbox.added", "sandbox.removed"}:
        later |= {"namespace", "pod", "pod_uid", "claim", "claim_uid", "replica", "reason"}
    assert list(body(lines.event(kind, {}))) == [
        "event",
        *(fact for fact in EVENTS[kind] if fact not in later),
    ]
    numbers = {"line", "column", "connections", "port", "bytes", "quota", "chains"}
    facts: dict[str, str | int | None] = {
        fact: True if fact == "kept" else 7 if fact in numbers else 'a"b\n' for fact in EVENTS[kind]
    }
    assert body(lines.event(kind, facts)) == {"event": kind, **facts}


def test_an_event_takes_no_text_for_a_number_and_no_number_for_a_text() -> None:
    for facts in ({"line": "12"}, {"reason": 12}, {"line": -1}):
        with pytest.raises(TypeError, match=r"reload\.refused"):
            lines.event("reload.refused", facts)  # type: ignore[arg-type]  # one of each


@given(text=st.text(max_size=30), times=st.sampled_from((1, 10, 100, 1000)))
def test_every_text_of_an_exchange_is_cut_where_the_schema_says_so(text: str, times: int) -> None:
    """An exchange is cut piece by piece, for speed: no piece is forgotten."""
    long = text * times
    place = Place(long, 1, 1)
    way = ConnectionFacts(*[long] * 9)
    record = replace(
        RECORD,
        identity=Identity(long, long),
        destination=replace(RECORD.destination, host=long),
        method=long,
        path=long,
        code=long,
        rule=RuleRef(long, long, place),
        place=place,
        injected=((long, Slot("header", long)),),
        scrubbed=((long, 3),),
        policy=long,
    )
    written = "{" + lines.exchange(record, ExchangeFacts(way, long)) + "}"
    assert written.isascii()
    assert written.isprintable()
    if not any("\ud800" <= character <= "\udfff" for character in text):
        msgspec.json.decode(written, type=schema.ExchangeLine)


def test_facts_stand_last_and_are_left_out_where_there_are_none() -> None:
    facts: dict[str, str | int | bool] = {"graphql.operation": "query", "graphql.depth": 7, "cached": True}
    told = body(lines.exchange(replace(RECORD, facts=facts), FACTS))
    assert (list(told)[-1], told["facts"]) == ("facts", facts)
    assert "facts" not in body(lines.exchange(RECORD, FACTS))


def test_facts_are_few_and_short_and_have_plain_names() -> None:
    facts: dict[str, str | int | bool] = {"Not a name": 1, "a": "x" * 5000, **{f"f{n}": n for n in range(50)}}
    told = body(lines.exchange(replace(RECORD, facts=facts), FACTS))["facts"]
    assert isinstance(told, dict)
    assert (len(told), next(iter(told)), len(told["a"])) == (MAX_FACTS, "a", MAX_NAME + 1)


def test_a_fact_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="exchange"):
        lines.exchange(replace(RECORD, facts={"a": 1.5}), FACTS)  # type: ignore[dict-item]  # on purpose


@pytest.mark.parametrize(("kind", "fact"), [("started", "secret"), ("leaked", "policy"), ("gap", "kind")])
def test_an_event_that_is_not_listed_is_refused(kind: str, fact: str) -> None:
    with pytest.raises(ValueError, match="not listed"):
        lines.event(kind, {fact: "x"})


def test_facts_may_be_numbers_and_long_ones_are_cut() -> None:
    assert body(lines.event("reload.refused", {"line": 12}))["line"] == 12
    assert len(str(body(lines.event("stopped", {"reason": "x" * 5000}))["reason"])) < 1100


def test_a_pruning_says_who_deleted_what_and_how_far() -> None:
    text = lines.pruned(Pruning('ro"ot', 1, 3, 4096, 17, is_forced=True), "2026-03-01T09:30:00.000123Z")
    assert body(text) == {
        "event": "pruned",
        "by": 'ro"ot',
        "at": "2026-03-01T09:30:00.000123Z",
        "files": 3,
        "bytes": 4096,
        "first": 17,
        "forced": True,
    }


def test_gaps_and_rotation_carry_the_mac_before_them_as_the_last_field() -> None:
    for text in (
        lines.rotated("audit-000001.jsonl", "ab" * 32),
        lines.gap("cut", None, 0, (0, ""), "ab" * 32),
    ):
        assert text.endswith(f',"previous":"{"ab" * 32}"')


def test_a_fact_with_a_field_of_its_own_stands_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_OWN_FIELDS", frozenset({"alpn"}))
    told = body(lines.exchange(replace(RECORD, facts={"alpn": "h3", "other": 1}), FACTS))
    assert (told["alpn"], told["facts"]) == ("h3", {"other": 1})
    assert "facts" not in body(lines.exchange(replace(RECORD, facts={"alpn": "h3"}), FACTS))


BECAUSE = replace(RULE, id="no-keys", reason="Keys let somebody in.")


def test_the_reason_of_a_deny_is_a_fact_of_its_lines() -> None:
    """`stripped` and other facts stand beside it, and an allow has none."""
    record = replace(DENIED, rule=BECAUSE, facts={"stripped": "query:key"})
    assert body(lines.exchange(record, FACTS))["facts"] == {
        "stripped": "query:key",
        "reason": "Keys let somebody in.",
    }
    assert body(lines.refusal(replace(NAME, rule=BECAUSE)))["facts"] == {"reason": "Keys let somebody in."}
    assert "facts" not in body(lines.refusal(NAME))
    assert "facts" not in body(lines.exchange(RECORD, FACTS))
