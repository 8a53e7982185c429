"""Injections: bound at load time, and never two in one slot."""

from __future__ import annotations

from itertools import product

import pytest

from tests.unit.rules.rule_samples import errors, policy

SLOTS = {
    "header:authorization": (
        "header: {name: authorization, secret: %}",
        "bearer: %",
        "basic: {user: u, secret: %}",
    ),
    "header:x": ("header: {name: x, secret: %}", "header: {name: X, secret: %}"),
    "query:x": ("query: {name: x, secret: %}",),
    "cookie:x": ("cookie: {name: x, secret: %}",),
}


def meet(one: str, other: str, keys: str = "allow: all") -> bool:
    """Whether two items of one entry are refused for meeting."""
    text = f"""
secrets: {{s: {{from: "env:S", hosts: [a.example]}}, t: {{from: "env:T", hosts: [a.example]}}}}
hosts: {{a.example: {{{keys}, inject: [{{{one.replace("%", "s")}}}, {{{other.replace("%", "t")}}}]}}}}
"""
    found = errors(text)
    assert all("can meet in" in line for line in found), found
    return bool(found)


@pytest.mark.parametrize(("one", "other"), list(product(SLOTS, SLOTS)))
def test_two_items_meet_exactly_where_their_slots_are_one(one: str, other: str) -> None:
    for first, second in product(SLOTS[one], SLOTS[other]):
        assert meet(first, second) is (one == other)


PLACEHOLDER = "placeholder: {secret: %, like: uuid, in: ['PLACE']}"


@pytest.mark.parametrize(
    ("place", "item", "do"),
    [
        ("header:x", "header: {name: x, secret: %}", True),
        ("header:y", "header: {name: x, secret: %}", False),
        ("basic", "bearer: %", True),
        ("basic", "header: {name: x, secret: %}", False),
        ("query:x", "query: {name: x, secret: %}", True),
        ("path", "query: {name: x, secret: %}", False),
        ("cookie:x", "cookie: {name: x, secret: %}", True),
        ("basic", PLACEHOLDER.replace("PLACE", "basic"), True),
        ("path", PLACEHOLDER.replace("PLACE", "path"), True),
        ("path", PLACEHOLDER.replace("PLACE", "basic"), False),
        ("header:x", "cookie: {name: x, secret: %}", False),
        ("header:x", "cookie: {name: cookie, secret: %}", False),
        ("header:x-key", "header: {name: x_key, secret: %}", True),
        ("header:x_key", "header: {name: x-key, secret: %}", True),
        ("query:x-a-b", "query: {name: x_a-b, secret: %}", True),
        ("header:x-key", "header: {name: xkey, secret: %}", False),
        ("header:x", "query: {name: x, secret: %}", False),
    ],
)
def test_a_placeholder_meets_what_is_written_over_it(place: str, item: str, do: bool) -> None:
    assert meet(PLACEHOLDER.replace("PLACE", place), item) is do
    assert meet(item, PLACEHOLDER.replace("PLACE", place)) is do


def test_a_closed_entry_lets_nothing_meet() -> None:
    assert not meet("bearer: %", "bearer: %", "allow: []")


def test_an_item_that_is_wrong_is_reported_once() -> None:
    found = errors("""
        secrets: {s: {from: "env:S", hosts: [b.example]}}
        hosts: {a.example: {allow: all,
          inject: [{header: {name: "a b", secret: s}}, {header: {name: host, secret: s}}]}}
    """)
    assert len(found) == 2


def test_a_format_that_looks_like_the_credential_is_not_shown() -> None:
    credential = "ghp_" + "a1B2" * 9
    (found,) = errors(f"""
        secrets: {{s: {{from: "env:S", hosts: [a.example]}}}}
        hosts: {{a.example: {{allow: all,
          inject: [{{header: {{name: x, secret: s, format: "token {credential}"}}}}]}}}}
    """)
    assert "this looks like a credential (not shown) (name a secret, and write {} in its place)" in found
    assert credential not in found


def test_names_every_port_that_is_not_bound() -> None:
    found = errors("""
        secrets: {s: {from: "env:S", hosts: ["a.example:444"]}}
        hosts: {a.example: {allow: all, ports: [443, 444, 445], inject: [{bearer: s}]}}
    """)
    assert [line.split("bound to ")[1].split(" ")[0] for line in found] == ["a.example", "a.example:445"]


def test_a_for_that_names_a_deny_is_an_error() -> None:
    (found,) = errors("""
        secrets: {s: {from: "env:S", hosts: [a.example]}}
        hosts: {a.example: {allow: [{id: yes}], deny: [{id: no, paths: [/x]}],
          inject: [{bearer: s, for: [no]}]}}
    """)
    assert "`for` names `no`, but this entry has no such allow rule" in found


def test_a_sound_entry_injects() -> None:
    (entry,) = policy("""
        secrets: {s: {from: "env:S", hosts: [a.example]}}
        hosts: {a.example: {allow: [{id: yes}], inject: [{bearer: s, for: [yes]}]}}
    """).entries.values()
    (item,) = entry.inject
    assert (item.rules, str(item.place)) == (frozenset({"yes"}), "hosts.yaml:3:50")


def injecting(item: str) -> str:
    return f"""
secrets: {{s: {{from: "env:S", hosts: [a.example]}}}}
hosts: {{a.example: {{allow: all, inject: [{item}]}}}}
"""


@pytest.mark.parametrize(
    "name",
    [
        *("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect"),
        *("keep-alive", "proxy-authorization", "proxy-connection", "proxy-authenticate"),
    ],
)
def test_nothing_is_injected_into_what_frames_a_message_or_belongs_to_a_connection(name: str) -> None:
    for spelling in (name, name.title()):
        assert len(errors(injecting(f"{{header: {{name: {spelling}, secret: s}}}}"))) == 1


@pytest.mark.parametrize("character", "!#$%&'*+.^_`|~0aZ-")
def test_a_header_name_is_a_token(character: str) -> None:
    quoted = character.replace("'", "''")
    assert not errors(injecting(f"{{header: {{name: 'x{quoted}y', secret: s}}}}"))


@pytest.mark.parametrize("character", "aZ0._~[]-")
def test_a_parameter_name_is_what_needs_no_escape(character: str) -> None:
    assert not errors(injecting(f"{{query: {{name: 'x{character}y', secret: s}}}}"))


STRIPPING = """
secrets: {{s: {{from: "env:S", hosts: [a.example]}}, t: {{from: "env:T", hosts: [a.example]}}}}
hosts: {{a.example: {{allow: [{{id: one, paths: [/1]}}, {{id: two, paths: [/2]}}], inject: [{items}]}}}}
"""


def stripping(items: str) -> list[str]:
    return [line.split(": ", 1)[1] for line in errors(STRIPPING.format(items=items))]


def test_slots_that_are_stripped() -> None:
    slots = '["header:X-Api-Key", "query:key", "cookie:sid"]'
    rules = policy(STRIPPING.format(items=f"{{bearer: s, strip: {slots}}}"))
    (entry,) = rules.entries.values()
    assert [str(slot) for slot in entry.inject[0].strip] == [
        "header:x-api-key",
        "query:key",
        "cookie:sid",
    ]
    assert stripping('{bearer: s, strip: ["header:cookie"]}') == []


@pytest.mark.parametrize(
    ("slot", "finding"),
    [
        ("path", "`path` is not a slot that can be stripped (write header:NAME, query:NAME or cookie:NAME)"),
        (
            "basic",
            "`basic` is not a slot that can be stripped (write header:NAME, query:NAME or cookie:NAME)",
        ),
        ("x-api-key", "`x-api-key` is not a slot that can be stripped"),
        ("header:host", "`host` belongs to the connection and cannot carry a credential"),
        ("header:a b", "`a b` is not a header name"),
        (
            "header:Authorization",
            "`header:Authorization` is the slot of this credential, and is emptied anyway (remove it)",
        ),
    ],
)
def test_a_slot_that_cannot_be_stripped(slot: str, finding: str) -> None:
    (found,) = stripping(f'{{bearer: s, strip: ["{slot}"]}}')
    assert found.startswith(finding)


def test_a_slot_is_stripped_once() -> None:
    (found,) = stripping('{bearer: s, strip: ["header:x-key", "header:X_KEY"]}')
    assert found == "`header:X_KEY` is listed twice (remove one of them)"
    assert stripping("{bearer: s, strip: []}")


def test_a_strip_must_not_take_away_another_credential_of_the_request() -> None:
    items = '{{bearer: s, strip: ["query:key"]{}}}, {{query: {{name: KEY, secret: t}}{}}}'
    (found,) = stripping(items.format("", ""))
    assert found.startswith("this item strips query:key, where another credential of the same request is")
    assert stripping(items.format(", for: [one]", ", for: [two]")) == []
    swapped = '{bearer: s, strip: ["header:x"]}, {placeholder: {secret: t, like: uuid, in: ["header:X"]}}'
    assert len(stripping(swapped)) == 1
