"""A policy written out is a rule file that means the same: same entries, same verdicts, no values."""

from __future__ import annotations

import json
import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.policy.bundled_presets import preset_texts
from egress.rules.compile.load import RuleText
from egress.rules.compile.policy_writer import as_data, as_text, flow, scalar
from egress.rules.decide.decision import decide
from egress.rules.decide.policy import Policy
from egress.rules.language.document import read
from egress.types import Head, Identity
from tests.unit.rules.rule_samples import NOW, policy, source

EVERYTHING = """\
version: 1
mode: observe
limits: {requests: 100/hour, burst: 7, connections: 3, request_body: 1000, response_body: 2 GiB}
secrets:
  plain: {from: "env:TOKEN", hosts: ["**.example.com", "api.example.com:8443"], ttl: 15m, expires: 2030-01-31}
  no: {from: "file:~/a b", hosts: [api.example.com]}
  run: {from: {command: [gh, auth, token, "a b", "#", "-"]}, hosts: [api.example.com]}
  shell: {from: "command:pass show 'x y'", hosts: [api.example.com]}
hosts:
  api.example.com:
    http2: true
    misplaced: pass
    redirects: signed
    cookies: pass
    scrub: block
    audit: {query: [page, "no"]}
    limits: {connections: 2}
    expires: "2031-05-06T07:08:09+02:00"
    addresses: [10.0.0.0/8, "fd00::/8"]
    allow:
      - {id: no, methods: [GET, "*X", PROPFIND], paths: ["/a/**", "/b*c", "/bücher", "/x/%25"]}
      - {id: "y", query: {"no": "1", "null": "*", ü: "é*", "#": "", "a: b": "{}"}, scrub: "off"}
      - {id: sent, headers: {x-a: {absent: true}, x-b: "~", x-c: 'a"b\\c'}, content_type: [text/*]}
      - {id: slash, paths: ["/p/x%2Fy/*"], encoded_slash: data, websocket: true, limits: {requests: 5/second}}
      - {id: late, methods: [POST], expires: 2029-12-31, cookies: drop, audit: {query: ["a[0]", q]}}
    deny:
      - {id: none, paths: ["/secret/**"], query: {q: {absent: true}}}
      - {id: sockets, websocket: true}
    inject:
      - {bearer: plain, for: [no]}
      - {header: {name: X-Key, secret: run, format: "a {} #b"}, on_existing: fail}
      - {basic: {user: "", secret: no}, for: [late]}
      - {query: {name: "k[0]", secret: shell}}
      - {cookie: {name: sid, secret: plain}}
      - {placeholder: {secret: no, like: aws, in: ["header:x-p", "query:p", "cookie:p"], max: 3}}
  Whole.Example.ORG.: {}
  "*.wild.example.org": {methods: [GET], websocket: true, encoded_slash: data}
  "**.wild.example.org": {allow: all, websocket: true, deny: [{id: keys, paths: ["/keys"]}]}
  bücher.example: {ports: [8443, 443], http: true}
  clear.example.org: {ports: [], http: [80, 8080], mode: enforce}
  closed.example.org: {allow: []}
  tunnel.example.org: {intercept: never, limits: {connections: 9}, expires: 2030-01-01}
  slashes.example.org: {allow: all, encoded_slash: data, inject: []}
  named.example.org: {allow: [{id: host, methods: [GET], expires: 2029-01-01}]}
  limited.example.org: {allow: [{id: host, limits: {requests: 1/minute}}]}
networks:
  - {cidr: 192.0.2.0/24, ports: [443, 8443], http: [80], allow: all}
  - {cidr: "2001:db8::/32", allow: [{id: get, methods: [GET]}], deny: [{id: keys, paths: ["/keys/**"]}]}
deny:
  - {id: everywhere, methods: [DELETE]}
  - {id: some, hosts: ["**.example.org", whole.example.org], content_type: [multipart/form-data]}
profiles:
  default: {hosts: [api.example.com, Whole.Example.ORG., "192.0.2.0/24"], rules: ["api.example.com#no"]}
  "on": {hosts: []}
"""
PRESETS = """\
version: 1
use:
  - github: {read: ["acme/*"], write: [acme/widgets]}
  - gitlab: {host: gitlab.example.com, api_read: ["acme%2Fwidgets"]}
  - openai: {also: [audio, images]}
  - anthropic
  - python-index: {index: repo.example.com, files: [repo.example.com, files.example.com]}
  - npm-index: {registry: repo.example.com}
hosts:
  api.anthropic.com: {limits: {requests: 5/minute}, allow: [{id: more, paths: [/v1/files]}]}
"""
NOTHING = "version: 1\n"
NO_PROFILE = "version: 1\nhosts: {a.example: {}}\nprofiles: {}\n"
FILES = {"everything": EVERYTHING, "presets": PRESETS, "nothing": NOTHING, "no profile": NO_PROFILE}

HOSTS = (
    "api.example.com",
    "whole.example.org",
    "a.wild.example.org",
    "a.b.wild.example.org",
    "xn--bcher-kva.example",
    "clear.example.org",
    "closed.example.org",
    "tunnel.example.org",
    "slashes.example.org",
    "named.example.org",
    "192.0.2.9",
    "2001:db8::9",
    "api.github.com",
    "github.com",
    "gitlab.example.com",
    "api.openai.com",
    "api.anthropic.com",
    "repo.example.com",
    "unknown.test",
)
TARGETS = (
    "/",
    "/a/x",
    "/bxc",
    "/b%C3%BCcher",
    "/x/%25",
    "/p/x%2Fy/y",
    "/secret/x",
    "/secret/x?q=1",
    "/keys",
    "/?no=1&null=x",
    "/?%C3%BC=%C3%A9x",
    "/repos/acme/widgets/issues",
    "/repos/other/x/issues",
    "/v1/messages",
    "/v1/files",
    "/v1/audio/x",
    "/acme/widgets.git/info/refs?service=git-receive-pack",
    "/-/npm/v1/tokens",
    "/a/../b",
    "*",
)
HEADERS = (
    (),
    (("content-type", "text/plain"), ("x-b", "~"), ("x-c", 'a"b\\c')),
    (("content-type", "multipart/form-data"),),
    (("x-a", "1"), ("authorization", "x")),
)
WHERE = (("https", 443), ("https", 8443), ("http", 80), ("http", 8080))


def rules_of(text: str) -> Policy:
    return policy(RuleText("hosts.yaml", text), presets=dict(preset_texts()))


def reloaded(rules: Policy) -> Policy:
    return policy(RuleText("shown.yaml", as_text(rules)))


def without_places(value: object) -> str:
    """The value written out, sets in order, but for where things stand."""
    text = re.sub(r"Place\([^)]*\)", "Place", repr(value))
    return re.sub(r"frozenset\(\{([^}]*)\}\)", lambda found: str(sorted(found[1].split(", "))), text)


@pytest.mark.parametrize("name", FILES)
def test_loading_what_is_shown_gives_the_same_rules(name: str) -> None:
    rules = rules_of(FILES[name])
    again = reloaded(rules)
    for part in ("entries", "networks", "deny", "secrets", "profiles", "mode", "limit"):
        assert without_places(getattr(again, part)) == without_places(getattr(rules, part)), part


@pytest.mark.parametrize("name", FILES)
def test_loading_what_is_shown_gives_the_same_verdicts(name: str) -> None:
    rules = rules_of(FILES[name])
    again = reloaded(rules)
    verdicts = set()
    for host, (scheme, port), target, headers in product(HOSTS, WHERE, TARGETS, HEADERS):
        for method, websocket, profile in (("GET", False, None), ("POST", False, "no"), ("GET", True, None)):
            asked = Head(
                method, "https" if scheme == "https" else "http", host, port, target, headers, websocket
            )
            one = decide(rules, Identity("box", profile), asked, NOW)
            assert without_places(decide(again, Identity("box", profile), asked, NOW)) == without_places(one)
            verdicts.add(one.code)
    assert len(verdicts) > 4 or name in ("nothing", "no profile"), "the requests must tell rules apart"


@pytest.mark.parametrize("name", FILES)
def test_showing_what_was_shown_changes_nothing(name: str) -> None:
    """Comments apart: they say where each line stood."""
    shown = as_text(rules_of(FILES[name]))
    again = as_text(reloaded(rules_of(FILES[name])))
    assert re.sub(r"  # .*", "", again) == re.sub(r"  # .*", "", shown)


def test_every_entry_and_rule_says_where_it_stands() -> None:
    text = as_text(rules_of(PRESETS))
    assert "  api.openai.com:  # hosts.yaml:5:5 (preset openai:" in text
    assert "{id: more, paths: [/v1/files]}  # hosts.yaml:10:" in text
    assert "use:" not in text


def test_a_secret_is_shown_by_where_it_comes_from() -> None:
    text = as_text(rules_of(EVERYTHING))
    assert 'plain: {from: "env:TOKEN", hosts: ["**.example.com", "api.example.com:8443"], ttl: 900' in text
    assert 'run: {from: {command: [gh, auth, token, "a b", "#", "-"]}' in text


def test_quantities_are_shown_as_people_write_them() -> None:
    text = as_text(rules_of(EVERYTHING))
    assert (
        'limits: {requests: "100/hour", burst: 7, request_body: 1000, response_body: "2 GiB", connections: 3}'
        in text
    )


def test_a_long_rule_is_written_over_several_lines() -> None:
    text = as_text(rules_of(PRESETS))
    assert re.search(
        r"\n      - id: github-read  # .*\n        methods: \[GET, HEAD\]\n        paths:\n          - ", text
    )
    assert max(len(line.partition("  # ")[0]) for line in text.splitlines()) <= 140


def test_every_line_can_be_shown_on_a_terminal() -> None:
    rules = policy(
        source(
            "hosts:\n  a.example:\n    query: {'\\u202e': \"\\e[2J\\N\"}\n".replace("'\\u202e'", '"\\u202e"'),
            "a\x1b.yaml",
        )
    )
    text = as_text(rules)
    assert all(line.isprintable() for line in text.splitlines())
    assert without_places(reloaded(rules).entries) == without_places(rules.entries)


# Scalars -------------------------------------------------------------------------------------------

ODD = [
    "no",
    "No",
    "yes",
    "on",
    "off",
    "true",
    "TRUE",
    "null",
    "~",
    "",
    "1",
    "1.5",
    "-1",
    "0x1f",
    "1e3",
    ".inf",
    "=",
    "<<",
    "*",
    "*.example.com",
    "&a",
    "!tag",
    "#",
    "a #b",
    "a: b",
    "a:",
    ":a",
    "- a",
    "-",
    "?",
    "[",
    "{}",
    "a,b",
    "'",
    '"',
    "\\",
    "|",
    ">",
    "%",
    "@",
    "`",
    " a",
    "a ",
    "a\nb",
    "a\tb",
    "\x1b",
    "\x85",
    "\u2028",
    "\ufeff",
    "\u202e",
    "bücher",
    "日本",
    "😀",
    "\U000e0041",
    "2027-01-01",
    "y",
    "n",
    "a\x00b",
]


def read_back(text: str) -> object:
    document, findings = read("x", f"key: {text}\n")
    assert not findings, (text, findings)
    assert isinstance(document.value, dict)
    return document.value["key"]


@pytest.mark.parametrize("text", ODD)
def test_an_odd_text_is_quoted_so_that_it_stays_what_it_is(text: str) -> None:
    assert scalar(text).isprintable()
    assert read_back(scalar(text)) == text
    assert read_back(flow([text])) == [text]


def test_a_common_name_is_not_quoted() -> None:
    assert [scalar(text) for text in ("api.example.com", "/a/b", "read-all", "GET")] == [
        "api.example.com",
        "/a/b",
        "read-all",
        "GET",
    ]
    assert [scalar(value) for value in (True, False, 7)] == ["true", "false", "7"]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.recursive(
    st.booleans() | st.integers(-(10**17), 10**17) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_any_value_survives_being_written_on_one_line(value: object) -> None:
    text = flow(value)  # type: ignore[arg-type]
    assert text.isprintable()
    assert read_back(text) == value


# For programs --------------------------------------------------------------------------------------


def test_as_data_everything_is_there_with_its_place() -> None:
    data = json.loads(json.dumps(as_data(rules_of(EVERYTHING))))
    assert data["mode"] == "observe"
    assert data["hosts"]["closed.example.org"]["allow"] == []
    assert data["hosts"]["api.example.com"]["inject"][0]["bearer"] == "plain"
    assert data["networks"][0]["cidr"] in ("192.0.2.0/24", "2001:db8::/32")
    assert data["deny"][0]["id"] == "everywhere"
    assert data["deny"][0]["place"].startswith("hosts.yaml:")
    assert data["profiles"]["default"]["rules"] == ["api.example.com#no"]
    assert as_data(rules_of(NOTHING))["profiles"] is None
