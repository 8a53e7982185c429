"""The smallest change for a denied request: tried, narrow, and refused where it must be."""

from __future__ import annotations

import pytest

from egress.review.drafting.observation import observe
from egress.review.drafting.suggest import Suggestion, suggest
from egress.rules.compile.load import RuleText, load
from tests.unit.review.drafting.sample import NOW, denied, exchange, pasted, refusal

RULES = """\
version: 1
secrets:
  github: { from: "env:T", hosts: [api.example.com] }
hosts:
  api.example.com:
    allow:
      - { id: read, methods: [GET], paths: [/user] }
      - id: issues
        methods: [POST]
        paths: [/issues]
    deny:
      - { id: no-keys, paths: ["/keys/**"] }
    inject:
      - bearer: github
  docs.example.com: { methods: [GET] }
  old.example.com: { expires: 2020-01-01 }
  shut.example.com: { allow: [] }
  "*.cdn.example.com": { methods: [GET] }
"""


def asked(line: dict[str, object], rules: str = RULES, address: str = "") -> Suggestion:
    one = observe(line)
    assert one is not None
    return suggest(one, address, [RuleText("hosts.yaml", rules)], {}, NOW)


def test_a_rule_goes_in_front_of_those_that_are_there() -> None:
    answer = asked(denied("rule.none", path="/gists"))
    (step,) = answer.steps
    assert step.where == "hosts.yaml, before line 7, under api.example.com, in `allow`"
    assert step.yaml == ("      - { id: new, methods: [GET], paths: [/gists] }",)
    assert answer.outcome == "allow api.example.com#new"
    assert answer.risks[0].startswith("the secret github is added")


def test_a_new_host_is_allowed_for_this_request_alone() -> None:
    answer = asked(denied("host.unknown", "POST", "new.example.org", "/a", port=8443))
    (step,) = answer.steps
    assert step.yaml == ("  new.example.org: { ports: [8443], methods: [POST], paths: [/a] }",)
    assert answer.outcome == "allow new.example.org#host"


def test_an_entry_that_is_its_own_rule_is_written_anew() -> None:
    (step,) = asked(denied("rule.none", "POST", "docs.example.com", "/a")).steps
    assert step.where.startswith("hosts.yaml, in place of line 15, under docs.example.com")
    assert any("{ id: host, methods: [GET] }" in line for line in step.yaml)
    assert any("{ id: new, methods: [POST], paths: [/a] }" in line for line in step.yaml)


def test_a_rule_under_a_wildcard_holds_for_more_and_that_is_said() -> None:
    answer = asked(denied("rule.none", "POST", "x.cdn.example.com", "/a"))
    assert "it applies to every host that *.cdn.example.com matches, not only to this one" in answer.risks


@pytest.mark.parametrize("fields", [{"port": 8443}, {"port": 80, "scheme": "http"}])
def test_a_port_is_opened(fields: dict[str, object]) -> None:
    answer = asked(denied("host.port", "GET", "docs.example.com", "/a", **fields))
    assert answer.outcome == "allow docs.example.com#host"


def test_a_web_socket_takes_a_rule_that_says_so() -> None:
    (step,) = asked(denied("rule.websocket", path="/user")).steps
    assert step.yaml == ("      - { id: new, methods: [GET], paths: [/user], websocket: true }",)


def test_an_escaped_slash_takes_a_rule_that_says_so() -> None:
    (step,) = asked(denied("path.ambiguous", path="/a%2Fb")).steps
    assert "encoded_slash: data" in step.yaml[0]


def test_a_closed_host_gets_its_first_rule() -> None:
    assert asked(denied("host.closed", host="shut.example.com")).outcome == "allow shut.example.com#new"


def test_several_changes_may_be_needed() -> None:
    rules = RULES + "profiles: { default: { hosts: [docs.example.com] } }\n"
    answer = asked(denied("host.unknown", host="new.example.org"), rules)
    assert answer.steps[1].where == "hosts.yaml, in place of line 20, in the profile default"
    assert answer.steps[1].yaml == ("profiles: { default: { hosts: [new.example.org, docs.example.com] } }",)
    assert answer.outcome


def test_a_name_that_was_refused_is_opened_for_reading_and_its_risk_said() -> None:
    answer = asked(refusal("host.unknown", "new.example.org", 0, "dns"))
    assert answer.steps[0].yaml == ("  new.example.org: { methods: [GET, HEAD] }",)
    assert "only a connection was refused" in answer.risks[0]


def test_what_looks_like_a_credential_is_not_written() -> None:
    (step,) = asked(denied("rule.none", path="/t/ghp_abcdefghijklmnopqrstuvwxyz0123456789")).steps
    assert 'paths: ["/t/*"]' in step.yaml[0]


def test_a_rule_with_another_query_may_be_the_better_way() -> None:
    rules = "version: 1\nhosts:\n  a.example.com:\n    allow:\n      - { id: q, query: {page: '1'} }\n"
    answer = asked(denied("rule.none", host="a.example.com"), rules)
    assert "another query" in answer.risks[0]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (denied("rule.denied", path="/keys/1"), "a deny wins over every allow"),
        (denied("host.unknown", host="metadata.google.internal"), "metadata"),
        (denied("host.literal", host="169.254.169.254"), "outside the public internet"),
        (denied("host.cleartext", scheme="http", port=80), "never opened for clear text"),
        (denied("host.closed", host="old.example.com"), "has expired"),
        (denied("path.ambiguous", path="/a//b"), "differently"),
        (denied("rule.none", path="/a*b\N{HORIZONTAL ELLIPSIS}"), "only a part of its path"),
        (denied("method.refused", "TRACE"), "no rule can allow it"),
        (denied("limit.requests"), "a rule cannot allow it"),
        (denied("rule.none"), "the current rules allow it"),
        (exchange(), "it was allowed"),
        (refusal("host.closed", "shut.example.com"), "are unknown"),
    ],
)
def test_refuses_with_a_reason(line: dict[str, object], why: str) -> None:
    answer = asked(line)
    assert why in answer.refusal
    assert not answer.steps
    assert not answer.outcome


OTHERS = (
    *("canary.seen", "canary.stopped", "request.mismatch", "request.malformed", "request.upgrade"),
    *("method.override", "path.override", "path.ambiguous", "address.refused", "secret.unavailable"),
    *("secret.existing", "placeholder.misplaced", "limit.requests", "upstream.tls", "redirect.refused"),
    *("proxy.identity", "access.withdrawn", "internal", "of.a.later.version", ""),
)
"""What no rule that is added would allow; of the path, as it is here, the query must have been the reason."""


@pytest.mark.parametrize("code", OTHERS)
@pytest.mark.parametrize("path", ["/user", "/gists"])
def test_there_is_no_yaml_for_what_the_rules_did_not_deny(code: str, path: str) -> None:
    """The rules allow the one path and deny the other, so only the other would have got any."""
    assert asked(denied("rule.none", path="/gists")).steps
    answer = asked(denied(code, path=path))
    assert not answer.steps
    assert not answer.outcome
    assert answer.code
    assert answer.refusal
    assert "the current rules allow it" not in answer.refusal


@pytest.mark.parametrize("code", ["canary.seen", "canary.stopped"])
@pytest.mark.parametrize("host", ["api.example.com", "new.example.org", "10.0.0.1"])
def test_a_canary_is_said_to_be_one(code: str, host: str) -> None:
    answer = asked(denied(code, host=host, path="/gists"))
    assert answer.refusal.startswith(f"it carried a canary, a planted value that must never be sent ({code})")
    assert "The current rules deny it too" in answer.refusal
    assert answer.code == code


def test_a_canary_in_a_body_that_was_under_way_is_said_too() -> None:
    answer = asked(exchange(code="canary.seen"))
    assert answer.refusal.startswith("it carried a canary")
    assert answer.code == "canary.seen"


def test_what_was_let_through_and_then_ended_is_said() -> None:
    assert asked(exchange(code="limit.response_body")).refusal.startswith("it was allowed and cut later")
    assert asked(exchange(code="upstream.closed")).refusal.startswith("it was allowed and failed")


def test_what_the_operator_can_do_is_said() -> None:
    assert "`limits` in the rules" in asked(denied("limit.requests")).refusal


@pytest.mark.parametrize(
    "what", ["deny: [{ id: d, query: {page: '1'} }]", "allow: [{ id: a, query: {page: {absent: true}} }]"]
)
def test_a_denial_for_what_is_in_no_line_is_not_called_allowed(what: str) -> None:
    rules = f"version: 1\nhosts:\n  a.example.com:\n    methods: [GET]\n    {what}\n"
    if what.startswith("allow"):
        rules = rules.replace("    methods: [GET]\n", "")
    code = "rule.denied" if what.startswith("deny") else "rule.none"
    answer = asked(denied(code, host="a.example.com"), rules)
    assert answer.refusal.startswith("the current rules allow it, unless its query")


def test_an_address_that_the_name_led_to_is_looked_at() -> None:
    assert "outside the public internet" in asked(denied("rule.none", path="/x"), address="10.0.0.1").refusal


def test_without_a_certain_place_there_is_no_suggestion() -> None:
    rules = "version: 1\nhosts: {a.example.com: {methods: [GET]}}\n"
    answer = asked(denied("rule.none", "POST", host="a.example.com"), rules)
    assert answer.refusal.startswith("no place in the files is certain: write it by hand under a.example.com")


def test_rules_that_do_not_load_are_said() -> None:
    assert "do not load" in asked(denied("rule.none"), "version: 2\n").refusal


WHOLE = """\
version: 1
secrets:
  tracker: { from: "env:T", hosts: ["api.example.com:443", "api.example.com:8443"] }
hosts:
  "*.example.net": { methods: [GET] }
  api.example.com:
    allow:
      - { id: read, methods: [GET], paths: ["/v1/**"] }
      - { id: kill, methods: [DELETE, POST], paths: ["/**"] }
    inject:
      - { bearer: tracker, for: [kill] }
  pinned.example.org: { intercept: never }
profiles:
  default: { hosts: ["*.example.net", pinned.example.org] }
  coding: { hosts: [api.example.com] }
"""


def test_a_profile_gets_a_whole_entry_and_all_of_it_is_named() -> None:
    risks = asked(denied("profile.excluded", path="/v1/a"), WHOLE).risks
    where = "to the profile default"
    assert f"the secret tracker is opened {where} too: every sandbox that may send it has its rights" in risks
    assert f"every rule of the entry is opened {where}: GET /v1/**; DELETE, POST /**" in risks


@pytest.mark.parametrize(
    "line", [refusal("host.port", "api.example.com", 8443), denied("host.port", port=8443)]
)
def test_a_port_is_opened_for_a_whole_entry_and_all_of_it_is_named(line: dict[str, object]) -> None:
    risks = asked(line | {"profile": "coding", "path": "/v1/a"}, WHOLE).risks
    assert risks[:2] == (
        "the secret tracker is opened on port 8443 too: every sandbox that may send it has its rights",
        "every rule of the entry is opened on port 8443: GET /v1/**; DELETE, POST /**",
    )


@pytest.mark.parametrize(
    "line", [refusal("host.port", "api.example.com", 8443), denied("host.port", port=8443)]
)
def test_a_secret_is_bound_to_the_port_that_is_opened_for_it(line: dict[str, object]) -> None:
    line |= {"path": "/user"} if "path" in line else {}
    answer = asked(line)
    entry, secret = answer.steps
    assert entry.where == "hosts.yaml, before line 6, under api.example.com"
    assert entry.yaml == ("    ports: [443, 8443]",)
    assert secret.where == "hosts.yaml, in place of line 3, in the secret github"
    assert secret.yaml == ('  github: { from: "env:T", hosts: ["api.example.com:8443", api.example.com] }',)
    assert (
        "the secret github is opened on port 8443 too: every sandbox that may send it has its rights"
        in answer.risks
    )
    # Written as it says, the file loads; without the second step it does not.
    assert load([RuleText("hosts.yaml", pasted(RULES, entry, secret))], {}, NOW).policy is not None
    assert load([RuleText("hosts.yaml", pasted(RULES, entry))], {}, NOW).policy is None


def test_a_secret_that_is_bound_to_the_port_already_is_left_as_it_is() -> None:
    rules = RULES.replace("hosts: [api.example.com]", 'hosts: [api.example.com, "*.example.com:8443"]')
    (step,) = asked(refusal("host.port", "api.example.com", 8443), rules).steps
    assert step.where == "hosts.yaml, before line 6, under api.example.com"


def test_a_port_of_a_wildcard_is_opened_for_every_host_of_it_and_that_is_said() -> None:
    risks = asked(refusal("host.port", "evil.example.net", 8443), WHOLE).risks
    assert risks[0] == "*.example.net is opened on port 8443: every host that it matches, not only this one"
    assert risks[1] == "every rule of the entry is opened on port 8443: GET on any path"


def test_both_are_said_where_both_are_opened() -> None:
    risks = asked(refusal("host.port", "api.example.com", 8443), WHOLE).risks
    (told,) = [risk for risk in risks if risk.startswith("every rule of the entry")]
    assert "to the profile default" in told
    assert "on port 8443" in told
    assert " and " in told
    unread = asked(refusal("host.port", "pinned.example.org", 8443), WHOLE).risks
    assert "tunnels of any content, unread" in unread[0]


def test_a_narrower_suggestion_says_nothing_of_a_whole_entry() -> None:
    assert not any("is opened" in risk for risk in asked(denied("rule.none", path="/gists")).risks)
