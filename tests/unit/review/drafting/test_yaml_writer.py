"""The text of a draft: every line says what was seen, and comments are our own words."""

from __future__ import annotations

from egress.review.drafting.inherited import InheritedRules
from egress.review.drafting.rule_outline import outline_hosts
from egress.review.drafting.traffic import Traffic
from egress.review.drafting.yaml_writer import write_yaml
from tests.unit.review.drafting.sample import GITHUB, exchange, tunnel


def text(*lines: dict[str, object]) -> str:
    return write_yaml(*outline_hosts(Traffic.of(lines)), InheritedRules(None), frozenset())


def test_a_small_draft_reads_like_a_file_that_a_person_wrote() -> None:
    lines = [exchange(path=f"/issues/{number}", injected=GITHUB) for number in range(3)]
    written = text(*lines, exchange("POST", path="/issues", injected=GITHUB), tunnel())
    assert (
        written
        == """\
# A draft from 4 requests and 1 unread connection that passed.
# Review it before use. `wider than seen` marks rules that allow more than that.
# Query strings, bodies and headers are not logged: no rule here checks them.
version: 1

secrets:
  # a guess: no current rule names its source; bound to the hosts that received it
  github:
    from: "env:GITHUB"
    hosts: [api.example.com]

hosts:
  api.example.com:                            # 4 requests
    allow:
      - id: read                              # 3 requests
        methods: [GET]
        paths:
          - "/issues/*"                       # 3 requests to 3 paths; wider than seen: `*` is for 3 numbers
      - id: write                             # 1 request
        methods: [POST]
        paths:
          - /issues                           # 1 request
    inject:
      # injected into 4 requests; a guess from the slot: no current rule gives its format
      - bearer: github

  pinned.example.net:                         # 1 unread connection
    intercept: never                          # wider than seen: a tunnel allows every request, unread
"""
    )


def test_ports_clear_text_and_private_addresses_are_said() -> None:
    written = text(
        exchange(address="10.0.0.9"), exchange(port=8443, alpn="h2"), exchange(scheme="http", port=80)
    )
    assert "ports: [443, 8443]" in written
    assert "http: [80]" in written
    assert "every rule applies to every port" in written
    assert 'addresses: ["10.0.0.9/32"]' in written
    assert "http2: true" in written


def test_an_address_becomes_a_network_and_gets_no_secret() -> None:
    written = text(exchange(host="192.0.2.7", injected=GITHUB))
    assert '- cidr: "192.0.2.7/32"' in written
    assert "inject" not in written.replace("not injected", "")


def test_what_is_left_out_stands_at_the_head() -> None:
    assert "#   a rule cannot name the method: 1 request, 1 host" in text(exchange("TRACE"))


def test_denies_that_are_not_taken_over_are_named() -> None:
    written = write_yaml([], [], InheritedRules(None), frozenset({"a.example.com#no"}))
    assert "#   a.example.com#no" in written


def test_nothing_of_a_sandbox_breaks_out_of_its_line() -> None:
    written = text(exchange(path="/a'b:c"), exchange("no", path="/x"), exchange(path="/%0A"))
    assert all(line.isprintable() for line in written.split("\n"))
    assert '"no"' in written


def test_a_secret_is_bound_to_the_ports_where_it_was_seen_alone() -> None:
    both = [exchange(injected=GITHUB), exchange(port=8443, injected=GITHUB)]
    assert 'hosts: [api.example.com, "api.example.com:8443"]' in text(*both)
    one = text(both[0], exchange("DELETE", port=8443))
    assert "secrets:" not in one
    assert "inject:" not in one
    assert "the secret github is not injected: it was sent to port 443 only" in one
