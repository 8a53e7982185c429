"""Lines 24 to 30 of docs/reference/language.md: tunnels, observing, limits, expiry, addresses."""

from __future__ import annotations

import pytest

from egress.types import Cookies, Rate, Redirects, Scrub
from tests.unit.rules.rule_samples import NOW, ask, ask_host, decision_text, errors, policy, warnings

HOST = "https://a.example.com"
DAY = 86400


def test_24_a_tunnel_is_decided_by_host_alone() -> None:
    rules = policy("hosts: {a.example.com: {intercept: never}}")
    decision = ask_host(rules, HOST)
    assert decision.allowed
    assert not decision.intercept
    assert ask_host(policy("hosts: {a.example.com: {}}"), HOST).intercept
    assert decision_text(rules, f"GET {HOST}/a/../b") == "allow host"


def test_24_allows_ports_addresses_expires_and_limits_on_connections() -> None:
    rules = policy("""
        hosts:
          a.example.com:
            intercept: never
            ports: [8443]
            addresses: [10.0.0.0/8]
            expires: "2027-01-15"
            limits: {connections: 3}
    """)
    decision = ask_host(rules, f"{HOST}:8443")
    assert decision.addresses == ("10.0.0.0/8",)
    assert [limit.connections for limit in decision.limits] == [3]
    assert ask_host(rules, f"{HOST}:8443", at=NOW + DAY).code == "host.closed"


@pytest.mark.parametrize(
    "key",
    [
        "methods: [GET]", "paths: [/a]", "allow: all", "allow: []", "deny: []", "inject: []", "http: true",
        "http2: true", "websocket: true", "encoded_slash: data", "mode: observe", "scrub: mask",
        "redirects: pass", "cookies: pass", "misplaced: pass",
    ],
)  # fmt: skip
def test_24_everything_else_beside_a_tunnel_is_an_error(key: str) -> None:
    name = key.split(":", maxsplit=1)[0]
    found = errors(f"hosts:\n  a.example.com:\n    intercept: never\n    {key}\n")
    assert (
        f"hosts.yaml:4:5: `{name}` has no effect: `intercept:"
        f" never` passes the bytes through unread (remove either of them)"
    ) in found


@pytest.mark.parametrize("key", ["requests: 1/second", "request_body: 1", "response_body: 1"])
def test_24_only_connections_of_a_tunnel_can_be_counted(key: str) -> None:
    (found,) = errors(f"hosts:\n  a.example.com:\n    intercept: never\n    limits: {{{key}}}\n")
    name = key.split(":", maxsplit=1)[0]
    assert found == (
        f"hosts.yaml:4:14: `{name}` has no effect: `intercept: never` passes the bytes through unread"
        " (only `connections` can be limited)"
    )


def test_25_observe_lifts_a_missing_entry() -> None:
    rules = policy("mode: observe\nhosts: {b.example.com: {}}")
    decision = ask(rules, f"GET {HOST}/")
    assert (decision.code, decision.observed, decision.effects.needs) == ("observed", True, ())
    assert ask_host(rules, HOST).observed
    assert not ask(rules, "GET https://b.example.com/").observed
    assert not ask_host(rules, "https://b.example.com").observed


def test_25_observe_lifts_a_missing_allow() -> None:
    rules = policy("hosts: {a.example.com: {mode: observe, methods: [GET]}}")
    assert ask(rules, f"GET {HOST}/").code == "rule.allowed"
    assert ask(rules, f"PUT {HOST}/").code == "observed"
    assert ask(rules, f"GET {HOST}/", websocket=True).code == "observed"
    assert ask_host(policy("hosts: {a.example.com: {mode: observe, allow: []}}"), HOST).observed


def test_25_the_mode_of_an_entry_wins_over_the_top() -> None:
    rules = policy("mode: observe\nhosts: {a.example.com: {mode: enforce, methods: [GET]}}")
    assert decision_text(rules, f"PUT {HOST}/") == "deny rule.none"
    rules = policy("mode: enforce\nhosts: {a.example.com: {mode: observe, methods: [GET]}}")
    assert ask(rules, f"PUT {HOST}/").observed
    assert decision_text(rules, "GET https://b.example.com/") == "deny host.unknown"


@pytest.mark.parametrize(
    ("request_line", "code"),
    [
        ("GET https://a.example.com/admin", "rule.denied"),
        ("GET https://other.example/admin", "rule.denied"),
        ("GET https://a.example.com/%2e%2e/x", "path.ambiguous"),
        ("GET https://other.example/%2e%2e/x", "path.ambiguous"),
        ("TRACE https://other.example/", "method.refused"),
        ("get https://a.example.com/", "method.refused"),
        ("GET https://a.example.com:8443/", "host.port"),
        ("GET http://a.example.com/", "host.cleartext"),
        ("GET https://10.0.0.1/", "host.literal"),
        ("GET https://[::1]/", "host.literal"),
        ("GET https://0x7f.1/", "host.malformed"),
        ("GET https://127.1/", "host.malformed"),
        ("GET https://A.example.com/", "host.malformed"),
        ("GET https://shut.example/", "rule.denied"),
    ],
)
def test_25_observe_lifts_nothing_else(request_line: str, code: str) -> None:
    rules = policy("""
        mode: observe
        hosts: {a.example.com: {methods: [GET]}}
        deny: [{id: no-admin, paths: [/admin]}, {id: shut, hosts: [shut.example]}]
    """)
    assert ask(rules, request_line).code == code


def test_25_observe_lifts_no_profile() -> None:
    rules = policy("""
        mode: observe
        hosts: {a.example.com: {}, b.example.com: {}}
        profiles: {p: {hosts: [a.example.com]}}
    """)
    assert ask(rules, "GET https://b.example.com/", profile="p").code == "profile.excluded"
    assert ask(rules, f"GET {HOST}/", profile="q").code == "profile.unknown"
    assert ask(rules, f"GET {HOST}/", profile="p").code == "rule.allowed"


def test_25_an_entry_that_injects_is_always_enforced() -> None:
    rules = policy("""
        mode: observe
        secrets: {one: {from: "env:ONE", hosts: [a.example.com]}}
        hosts: {a.example.com: {allow: [{id: read, methods: [GET]}], inject: [{bearer: one}]}}
    """)
    assert decision_text(rules, f"GET {HOST}/") == "allow read, inject one"
    assert decision_text(rules, f"PUT {HOST}/") == "deny rule.none"


def test_25_what_is_observed_keeps_the_handling_of_its_entry() -> None:
    rules = policy("""
        hosts: {a.example.com: {mode: observe, allow: [], scrub: block, redirects: deny, cookies: drop}}
        limits: {connections: 2}
    """)
    effects = ask(rules, f"GET {HOST}/").effects
    assert (effects.scrub, effects.redirects, effects.cookies) == (Scrub.BLOCK, Redirects.DENY, Cookies.DROP)
    assert len(effects.limits) == 1


def test_25_the_mode_is_one_of_two() -> None:
    assert errors("mode: observ\n") == [
        "hosts.yaml:1:7: `mode` must be `enforce` or `observe` (did you mean `observe`?)"
    ]


@pytest.mark.parametrize(
    ("written", "rate"),
    [
        ("requests: 10/second", Rate(10, 1, 10)),
        ("requests: 10/minute, burst: 3", Rate(10, 60, 3)),
        ("requests: 10 / hour", Rate(10, 3600, 10)),
    ],
)
def test_26_a_rate_is_requests_a_time_with_a_burst(written: str, rate: Rate) -> None:
    (limit,) = ask(
        policy(f"hosts: {{a.example.com: {{limits: {{{written}}}}}}}"), f"GET {HOST}/"
    ).effects.limits
    assert limit.requests == rate


@pytest.mark.parametrize(
    ("written", "size"),
    [("0", 0), ("1024", 1024), ("1KiB", 1024), ("2 MiB", 2 << 20), ("1GiB", 1 << 30), ('"7"', 7)],
)
def test_26_a_size_is_bytes_or_has_a_unit(written: str, size: int) -> None:
    text = f"hosts: {{a.example.com: {{limits: {{request_body: {written}, response_body: {written}}}}}}}"
    (limit,) = ask(policy(text), f"GET {HOST}/").effects.limits
    assert (limit.request_body, limit.response_body) == (size, size)


@pytest.mark.parametrize(
    ("written", "finding"),
    [
        ("requests: 10", "2:40: this must be text, not a number (put it in quotes)"),
        ("requests: fast", "2:40: this is not a rate (write N/second, N/minute or N/hour)"),
        (
            "requests: 0/second",
            "2:40: a rate of zero allows nothing (use a deny rule to close a host or path)",
        ),
        ("requests: 1/day", "2:40: this is not a rate (write N/second, N/minute or N/hour)"),
        ("burst: 3", "2:37: `burst` needs `requests` (add the rate, such as `requests: 10/second`)"),
        ("requests: 1/hour, burst: 0", "2:55: this must be at least 1 ()"),
        (
            "request_body: 1MB",
            "2:44: this is not a size (write bytes as an integer, or a number with KiB, MiB or GiB)",
        ),
        ("request_body: -1", "2:44: a size cannot be negative ()"),
        ("request_body: 1.5", "2:44: this must be a whole number or text, not a number ()"),
        ("request_body: true", "2:44: this must be a whole number or text, not true or false ()"),
        ("connections: 0", "2:43: this must be at least 1 ()"),
        ("request: 1", "2:30: unknown key `request` (did you mean `requests`?)"),
    ],
)
def test_26_says_what_is_wrong_with_a_limit(written: str, finding: str) -> None:
    (found,) = errors(f"hosts:\n  a.example.com: {{limits: {{{written}}}}}\n")
    assert found.split(": ", 1)[1] == finding.split(": ", 1)[1]
    assert found.startswith("hosts.yaml:2:")


def test_26_a_limit_is_known_by_the_place_where_it_is_written() -> None:
    rules = policy("""
        limits: {requests: 5/second}
        hosts:
          a.example.com:
            limits: {requests: 4/second}
            allow:
              - {id: it, limits: {requests: 3/second}}
          b.example.com: {}
    """)
    places = [str(limit.place) for limit in ask(rules, f"GET {HOST}/").effects.limits]
    assert places == ["hosts.yaml:2:1", "hosts.yaml:5:5", "hosts.yaml:7:18"]
    assert len(ask(rules, "GET https://b.example.com/").effects.limits) == 1
    assert [str(limit.place) for limit in ask_host(rules, HOST).limits] == places[:2]


def test_27_the_defaults_of_a_plain_and_of_an_injected_response() -> None:
    rules = policy("""
        secrets: {one: {from: "env:ONE", hosts: [a.example.com]}}
        hosts: {a.example.com: {allow: all, inject: [{bearer: one}]}, b.example.com: {}}
    """)
    injected, plain = ask(rules, f"GET {HOST}/").effects, ask(rules, "GET https://b.example.com/").effects
    assert (injected.scrub, injected.redirects, injected.cookies) == (
        Scrub.MASK,
        Redirects.PASS,
        Cookies.DROP,
    )
    assert (plain.scrub, plain.redirects, plain.cookies) == (Scrub.MASK, Redirects.PASS, Cookies.PASS)


@pytest.mark.parametrize(
    ("key", "value"),
    [("redirects", v) for v in ("pass", "same-host", "deny", "signed")]
    + [("cookies", v) for v in ("drop", "pass")]
    + [("scrub", v) for v in ("mask", "block", "off")],
)
def test_27_each_value_on_an_entry_and_on_a_rule(key: str, value: str) -> None:
    for entry in (f"{key}: {value}", f"allow: [{{id: it, {key}: {value}}}]"):
        effects = ask(policy(f"hosts: {{a.example.com: {{{entry}}}}}"), f"GET {HOST}/").effects
        assert getattr(effects, key).value == value


AUDITED = """
    hosts:
      a.example.com:
        audit: {query: [page]}
        allow:
          - {id: plain, paths: [/plain, /both]}
          - {id: own, paths: [/own, /both], audit: {query: [q, sort]}}
      b.example.com: {}
"""


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        (f"{HOST}/plain", {"page"}),
        (f"{HOST}/own", {"q", "sort"}),
        (f"{HOST}/both", {"page", "q", "sort"}),
        ("https://b.example.com/", set()),
    ],
)
def test_27_a_rule_keeps_values_of_the_query_instead_of_its_entry_and_beside_other_rules(
    url: str, kept: set[str]
) -> None:
    assert ask(policy(AUDITED), f"GET {url}").effects.kept_query == kept


def test_27_the_list_of_an_entry_holds_for_what_is_only_observed() -> None:
    rules = policy("""
        mode: observe
        hosts:
          a.example.com:
            audit: {query: [q]}
            allow: [{id: it, paths: [/x], audit: {query: [p]}}]
    """)
    assert ask(rules, f"GET {HOST}/x").effects.kept_query == {"p"}
    assert ask(rules, f"GET {HOST}/y").effects.kept_query == {"q"}


@pytest.mark.parametrize(
    ("names", "at", "fault"),
    [
        ("[]", "3:13", "this list must not be empty"),
        ("[page, page]", "3:27", "`page` is there twice (remove it)"),
        ("['a b']", "3:21", "`a b` is not the name of a query parameter"),
        ("['']", "3:21", "`` is not the name of a query parameter"),
        ("['ü']", "3:21", "is not the name of a query parameter"),
        (f"[{'a' * 65}]", "3:21", "is not the name of a query parameter"),
        ("[page, access_token]", "3:27", "`access_token` carries a credential, and its value is never kept"),
        *(
            (f"['{name}']", "3:21", "carries a credential")
            for name in (
                *("token", "TOKEN", "apiKey", "api_key", "api-key", "key", "client[key]", "X-Amz-Signature"),
                *("sig", "password", "Passwd", "client_secret", "sessionid", "id_token", "jwt", "auth"),
            )
        ),
        ("page", "3:20", "list"),
    ],
)
def test_27_says_what_is_wrong_with_what_is_to_be_kept(names: str, at: str, fault: str) -> None:
    (found,) = errors(f"hosts:\n  a.example.com:\n    audit: {{query: {names}}}\n")
    assert found.startswith(f"hosts.yaml:{at}: ")
    assert fault in found


@pytest.mark.parametrize("name", ["page", "keyword", "monkey", "author", "design", "cursor"])
def test_27_takes_names_that_carry_no_credential(name: str) -> None:
    rules = policy(f"hosts: {{a.example.com: {{audit: {{query: [{name}]}}}}}}")
    assert ask(rules, f"GET {HOST}/").effects.kept_query == {name}


@pytest.mark.parametrize(
    "inject",
    [
        "{query: {name: Q, secret: one}}",
        "{bearer: one, strip: ['query:q']}",
        "{placeholder: {secret: one, like: uuid, in: ['query:q']}}",
    ],
)
def test_27_keeps_no_value_of_the_slot_of_a_credential(inject: str) -> None:
    secrets = 'secrets: {one: {from: "env:ONE", hosts: [a.example.com]}}\n'
    for entry, at in (
        (f"allow: all, audit: {{query: [p, q]}}, inject: [{inject}]", "2:"),
        (f"allow: [{{id: it, audit: {{query: [p, q]}}}}], inject: [{inject}]", "2:"),
    ):
        (found,) = errors(f"{secrets}hosts: {{a.example.com: {{{entry}}}}}\n")
        assert found.startswith(f"hosts.yaml:{at}")
        assert "`q` is the slot of a credential" in found


def test_27_keeps_nothing_of_a_host_that_passes_unread() -> None:
    (found,) = errors("hosts:\n  a.example.com: {intercept: never, audit: {query: [q]}}\n")
    assert "`audit` has no effect" in found


@pytest.mark.parametrize("key", ["redirects", "cookies", "scrub"])
def test_27_refuses_other_values(key: str) -> None:
    (found,) = errors(f"hosts:\n  a.example.com:\n    {key}: sometimes\n")
    assert found.startswith(f"hosts.yaml:3:{len(key) + 7}: `sometimes` is not one of ")


@pytest.mark.parametrize(
    ("written", "last"),
    [
        ("2027-01-15", 1_800_057_599),
        ('"2027-01-15"', 1_800_057_599),
        ("2027-01-15T08:00:00Z", NOW - 1),
        ("2027-01-15T09:00:00+01:00", NOW - 1),
        ("2027-01-15t08:00:00.999z", NOW - 1),
    ],
)
def test_28_holds_through_the_day_or_until_the_moment(written: str, last: int) -> None:
    for text in (
        f"hosts:\n  a.example.com:\n    allow:\n      - id: it\n        expires: {written}\n",
        f"hosts:\n  a.example.com:\n    expires: {written}\n",
    ):
        rules = policy(text)
        assert ask(rules, f"GET {HOST}/", at=last).allowed
        assert decision_text(rules, f"GET {HOST}/", at=last + 1) == "deny host.closed"


@pytest.mark.parametrize(
    "written",
    [
        "2027-02-30",
        "2027-13-01",
        "tomorrow",
        "2027-01-15T08:00:00",
        "15.01.2027",
        '"2027-1-5"',
        "2027-01-15T25:00:00Z",
        "0000-01-01",
    ],
)
def test_28_refuses_what_is_no_day_or_moment(written: str) -> None:
    (found,) = errors(f"hosts:\n  a.example.com:\n    expires: {written}\n")
    assert found.startswith("hosts.yaml:3:14: ")
    assert "write a day like 2027-01-31" in found


def test_28_the_last_day_there_is_does_not_upset_the_calendar() -> None:
    assert ask(policy("hosts: {a.example.com: {expires: 9999-12-31}}"), f"GET {HOST}/").allowed
    assert errors("hosts: {a.example.com: {expires: '0001-01-01T00:00:00+14:00'}}") != []


def test_28_on_a_deny_it_is_an_error() -> None:
    (found,) = errors(
        "hosts:\n  a.example.com:\n    allow: all\n    deny: [{id: no, paths: [/x], expires: 2027-01-01}]\n"
    )
    assert found.startswith("hosts.yaml:4:34: unknown key `expires`")


def test_28_an_expired_rule_does_not_match_and_the_others_do() -> None:
    rules = policy(
        "hosts: {a.example.com: {allow: [{id: old, expires: 2027-01-14}, {id: new, methods: [GET]}]}}"
    )
    assert decision_text(rules, f"GET {HOST}/", at=NOW - DAY) == "allow old"
    assert decision_text(rules, f"GET {HOST}/") == "allow new"
    assert decision_text(rules, f"PUT {HOST}/") == "deny rule.none"


def test_28_an_expired_entry_is_still_chosen() -> None:
    rules = policy("""
        hosts:
          a.example.com: {expires: 2027-01-14, allow: all, deny: [{id: no, paths: [/x]}]}
          "*.example.com": {}
    """)
    assert decision_text(rules, f"GET {HOST}/") == "deny host.closed"


@pytest.mark.parametrize(("days", "word"), [(13, "expires soon"), (-1, "has expired")])
def test_28_check_warns_fourteen_days_ahead(days: int, word: str) -> None:
    text = """hosts:
  a.example.com: {expires: '2027-01-14T08:00:00Z', allow: [{id: it, expires: '2027-01-14T08:00:00Z'}],
    inject: [{bearer: one}]}
secrets:
  one: {from: "env:A", hosts: [a.example.com], expires: '2027-01-14T08:00:00Z'}
"""
    now = NOW - DAY - days * DAY
    found = warnings(text, now=now)
    assert [line.split(" (")[0] for line in found] == [
        f"hosts.yaml:2:3: the entry `a.example.com` {word}",
        f"hosts.yaml:2:60: the rule a.example.com#it {word}",
        f"hosts.yaml:5:3: the secret `one` {word}",
    ]
    assert warnings(text, now=NOW - DAY - 15 * DAY) == []
    assert warnings(text) == []


def test_29_addresses_are_handed_to_the_address_gate() -> None:
    rules = policy("hosts: {a.example.com: {addresses: [10.1.0.0/16, 'fd00::/8', 10.2.0.1/32, 10.2.0.2]}}")
    assert ask_host(rules, HOST).addresses == ("10.1.0.0/16", "fd00::/8", "10.2.0.1/32", "10.2.0.2")
    assert ask_host(policy("hosts: {a.example.com: {}}"), HOST).addresses == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "10.1.0.1/16",
            "`10.1.0.1/16` is not a network (write it as in 10.1.0.0/16, with zero bits after the prefix)",
        ),
        (
            "intranet",
            "`intranet` is not a network (write it as in 10.1.0.0/16, with zero bits after the prefix)",
        ),
        (
            "010.1.0.0/16",
            "`010.1.0.0/16` is not a network (write it as in 10.1.0.0/16, with zero bits after the prefix)",
        ),
        ("FD00::/8", "`FD00::/8` is not the canonical spelling of the network (write fd00::/8)"),
        (
            "10.0.0.0/255.0.0.0",
            "`10.0.0.0/255.0.0.0` is not the canonical spelling of the network (write 10.0.0.0/8)",
        ),
    ],
)
def test_29_refuses_what_is_no_network(text: str, message: str) -> None:
    assert errors(f"hosts:\n  a.example.com:\n    addresses: ['{text}']\n") == [f"hosts.yaml:3:17: {message}"]


def test_29_metadata_needs_a_network_of_its_own() -> None:
    (found,) = warnings("hosts:\n  a.example.com:\n    addresses: [169.254.0.0/16]\n")
    assert found == (
        "hosts.yaml:3:17: 169.254.0.0/16 contains the metadata address 169.254.169.254, which stays blocked"
        " (to allow it, list its own /32)"
    )
    assert warnings("hosts: {a.example.com: {addresses: [169.254.169.254/32, 169.254.169.254]}}") == []


NETWORKS = """
    networks:
      - {cidr: 10.0.0.0/8, allow: [{id: wide}]}
      - {cidr: 10.1.0.0/16, ports: [8443], allow: [{id: narrow}], deny: [{id: no, paths: [/x]}]}
      - {cidr: "fd00::/8", http: true}
    hosts: {"**.example.com": {}}
"""


@pytest.mark.parametrize(
    ("url", "outcome"),
    [
        ("https://10.2.0.1/", "allow wide"),
        ("https://10.1.0.1:8443/", "allow narrow"),
        ("https://10.1.0.1/", "deny host.port"),
        ("https://10.1.0.1:8443/x", "deny no"),
        ("http://[fd00::1]/", "allow host"),
        ("https://11.0.0.1/", "deny host.literal"),
        ("https://[::1]/", "deny host.literal"),
        ("https://[FD00::1]/", "deny host.malformed"),
        ("https://[fd00:0::1]/", "deny host.malformed"),
        ("https://[fd00::1%eth0]/", "deny host.malformed"),
        ("https://010.2.0.1/", "deny host.malformed"),
        ("https://10.2.1/", "deny host.malformed"),
    ],
)
def test_30_a_literal_is_asked_for_by_its_canonical_spelling_and_longest_prefix(
    url: str, outcome: str
) -> None:
    assert decision_text(policy(NETWORKS), f"GET {url}") == outcome


def test_30_a_network_may_be_dialled_itself() -> None:
    assert ask_host(policy(NETWORKS), "https://10.2.0.1").addresses == ("10.0.0.0/8",)


def test_30_a_denial_of_a_wider_network_holds_in_the_narrower_one() -> None:
    rules = policy("""
        networks:
          - {cidr: 10.1.0.0/16}
          - {cidr: 10.0.0.0/8, allow: all, deny: [{id: no, paths: [/x]}]}
    """)
    assert decision_text(rules, "GET https://10.1.0.1/x") == "deny no"
    assert decision_text(rules, "GET https://10.1.0.1/y") == "allow host"


@pytest.mark.parametrize("key", ["inject: []", "methods: [GET]", "expires: 2027-01-01"])
def test_30_a_network_has_no_secrets_and_few_keys(key: str) -> None:
    (found,) = errors(f"networks:\n  - {{cidr: 10.0.0.0/8, {key}}}\n")
    assert found.startswith(f"hosts.yaml:2:24: unknown key `{key.split(':', maxsplit=1)[0]}`")


def test_30_a_network_may_stand_once() -> None:
    (found,) = errors("networks: [{cidr: 10.0.0.0/8}, {cidr: 10.0.0.0/8}]\n")
    assert found.startswith("hosts.yaml:1:32: duplicate network `10.0.0.0/8` (first at hosts.yaml:1:12)")
