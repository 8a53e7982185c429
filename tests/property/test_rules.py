"""What holds for every rule file and every request, whatever is in them."""

from __future__ import annotations

import json
import string
from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from egress.rules.compile import rule_tests
from egress.rules.compile.load import RuleText, load
from egress.rules.decide.decision import decide, decide_host
from egress.rules.decide.policy import Policy
from egress.types import Decision, Head, Identity, Scheme
from tests.tiers import examples
from tests.unit.rules.rule_samples import NOW

FEW = settings(max_examples=examples(150))

# Rule files -----------------------------------------------------------------------------------

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]

WORDS = st.sampled_from(
    [
        "version", "hosts", "secrets", "deny", "use", "networks", "profiles", "mode", "limits", "tests",
        "allow",
        "inject", "id", "methods", "paths", "query", "headers", "absent", "for", "bearer", "header", "basic",
        "placeholder", "like", "in", "max", "from", "cidr", "rules", "all", "observe", "GET", "/**", "/a/*",
        "api.example.com", "*.example.com", "10.0.0.0/8", "env:A", "expires", "2027-01-01", "ports", "http",
        "GET / -> allow", "GET https://a.example/ -> deny", "request", "expect", "command", "p", "${x}",
        "~", "*", "",
    ]
)  # fmt: skip
SCALARS = st.one_of(WORDS, st.text(max_size=8), st.integers(), st.booleans(), st.floats(allow_nan=False))
TREES: st.SearchStrategy[Json] = st.recursive(
    SCALARS | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=25,
)
PRESETS = {
    "p": "title: P\nparameters: {x: {type: list of path, help: h, wildcard: true}}\n"
    'hosts: {p.example: {allow: [{id: it, paths: ["/${x}"]}]}}\n',
    "broken": "title: [",
}


@given(st.text(st.characters(), max_size=200))
def test_loading_takes_any_text(text: str) -> None:
    load([RuleText("a", text), RuleText("b", "version: 1\n" + text)], PRESETS, NOW)


@given(st.text(st.sampled_from("{}[]:,-?!&*|>'\"#% \n\tab1~<.=@`\\"), max_size=60))
def test_loading_takes_any_punctuation(text: str) -> None:
    result = load([RuleText("a", text)], PRESETS, NOW)
    for finding in result.findings:
        assert finding.place.line >= 1
        assert "\n" not in finding.message


@given(st.dictionaries(WORDS, TREES, max_size=6))
def test_loading_takes_any_tree(tree: dict[str, Json]) -> None:
    text = json.dumps({"version": 1, **tree})
    result = load([RuleText("a", text)], PRESETS, NOW)
    assert (result.policy is None) == any(finding.severity == "error" for finding in result.findings)
    if result.policy is not None:
        list(rule_tests.run_rule_tests(result.policy, NOW))


@given(
    st.sampled_from(["hosts", "secrets", "deny", "networks", "profiles", "limits", "tests", "use"]),
    TREES,
    TREES,
)
def test_loading_takes_any_tree_in_any_section(section: str, one: Json, other: Json) -> None:
    keyed: Json = {"api.example.com": one, "p": other, "*.example.com": one}
    for value in (
        one,
        [one, other],
        keyed,
        {"api.example.com": {"allow": one, "deny": [other], "inject": one}},
    ):
        load([RuleText("a", json.dumps({"version": 1, section: value}))], PRESETS, NOW)


CREDENTIALS = st.sampled_from(
    [
        "ghp_" + "A1b2C3d4" * 5,
        "sk-proj-" + "A1b2C3d4" * 4,
        "AKIA" + "IOSFODNN7EXAMPLE",
        "0123456789abcdef" * 2 + "0123",
        "q7Zx3LmP9sT2vWkR5nYbC8dHfJ4gAeU1",
    ]
)
SKELETON = """
version: 1
secrets: {{{name}: {{from: "{source}", hosts: ["{binding}"], {secret_key}: 1}}}}
hosts:
  "{host}":
    allow: [{{id: "{id}", methods: ["{method}"], paths: ["{path}"], query: {{"{parameter}": "{value}"}},
             headers: {{"{header}": "{value}"}}, content_type: ["{type}"],
               expires: "{expires}", scrub: "{scrub}"}}]
    inject: [{{bearer: "{bearer}"}}, {{header: {{name: "{header}", secret: x, format: "{format}"}}}},
             {{placeholder: {{secret: x, like: "{like}", in: ["{slot}"]}}}}, {{"{kind}": x}}]
    addresses: ["{network}"]
    limits: {{requests: "{rate}", request_body: "{size}"}}
    tests: ["{test}", {{request: "{test}", expect: "{test}", profile: "{test}"}}]
  {host_key}: {{"{key}": 1, "{key}": 2}}
  other.example: "{tree}"
profiles: {{"{profile}": {{hosts: ["{listed}"], rules: ["{listed}", "{listed}#x"]}}}}
mode: "{mode}"
networks: [{{cidr: "{network}"}}]
use: ["{preset}", {{"{preset}": {{x: ["{argument}"]}}}}, {{p: {{"{argument}": "{argument}"}}}},
  {{p: {{x: ["{argument}"]}}}}]
"{top}": 1
"""
FIELDS = [name for _, name, _, _ in string.Formatter().parse(SKELETON) if name]
PLAIN = {
    "name": "x", "source": "env:A", "binding": "a.example", "secret_key": "ttl", "host": "a.example",
    "id": "it",
    "method": "GET", "path": "/a", "parameter": "q", "value": "v", "header": "h", "type": "text/plain",
    "expires": "2027-01-01", "scrub": "mask", "bearer": "x", "format": "{}", "like": "github", "slot": "path",
    "kind": "bearer", "network": "10.0.0.0/8", "rate": "1/hour", "size": "1KiB", "test": "GET /a -> allow",
    "host_key": "b.example", "key": "http2", "tree": "t", "profile": "p", "listed": "a.example",
    "mode": "enforce",
    "preset": "p", "argument": "a", "top": "limits",
}  # fmt: skip


@FEW
@given(st.sampled_from(FIELDS), CREDENTIALS, st.sampled_from(["", "env:", "x ", "/a/", "*."]), st.booleans())
def test_no_finding_shows_a_credential(field: str, credential: str, before: str, is_lower: bool) -> None:
    """Wherever somebody pastes a credential by mistake, no message repeats it."""
    text = credential.lower() if is_lower and credential.startswith(("sk-", "0")) else credential
    written = SKELETON.format(**{**PLAIN, field: before + text})
    result = load([RuleText("a", written)], PRESETS, NOW)
    for finding in result.findings:
        assert text not in finding.message + finding.hint, finding
        assert text[8:] not in finding.message + finding.hint, finding


def test_the_skeleton_reaches_every_place() -> None:
    """The positive control of the test above: a word that is no secret is shown in most of them."""
    shown = 0
    for field in FIELDS:
        result = load([RuleText("a", SKELETON.format(**{**PLAIN, field: "wrong word"}))], PRESETS, NOW)
        shown += any("wrong word" in finding.message for finding in result.findings)
    assert shown >= 20


# Requests -------------------------------------------------------------------------------------

HOSTS = ["a.example.com", "b.example.com", "x.b.example.com", "other.example"]
PATHS = [
    "/",
    "/a",
    "/a/b",
    "/A",
    "/a/",
    "/a%2Fb",
    "/b/c/d",
    "/a:b",
    "/a%3Ab",
    "/%61",
    "/a;b",
    "//a",
    "/../a",
    "*",
]
QUERIES = ["", "?", "?q=1", "?q=2&q=1", "?Q=1", "?q=%zz", "?_method=PUT"]
HEADERS = [(), (("x-a", "1"),), (("content-type", "text/plain"),), (("x-a", "1"), ("x-a", "2"))]
HEADS = st.builds(
    lambda method, host, path, query, headers, websocket: Head(
        method, "https", host, 443, path + query, headers, websocket
    ),
    st.sampled_from(["GET", "PUT", "HEAD", "OPTIONS", "PROPFIND", "get"]),
    st.sampled_from(HOSTS),
    st.sampled_from(PATHS),
    st.sampled_from(QUERIES),
    st.sampled_from(HEADERS),
    st.booleans(),
)
ANYTHING = st.text(st.one_of(st.characters(max_codepoint=255), st.characters()), max_size=20)
SCHEMES: st.SearchStrategy[Scheme] = st.sampled_from(["https", "http"])
ANY_HEAD = st.builds(
    Head,
    ANYTHING | st.sampled_from(["GET", "PUT"]),
    SCHEMES,
    ANYTHING | st.sampled_from([*HOSTS, "10.0.0.1", "::1", "node1"]),
    st.integers() | st.just(443),
    ANYTHING | st.sampled_from(PATHS) | ANYTHING.map(lambda text: "/" + text),
    st.lists(st.tuples(ANYTHING, ANYTHING), max_size=3).map(tuple),
    st.booleans(),
)

GLOBS = st.sampled_from(["/**", "/a", "/a/**", "/*", "/a/*", "/*/b", "/b/**/d", "/a:b", "/a%3Ab", "/a/"])
PREDICATES = st.fixed_dictionaries(
    {},
    optional={
        "methods": st.lists(
            st.sampled_from(["GET", "PUT", "OPTIONS", "PROPFIND"]), min_size=1, max_size=2, unique=True
        ),
        "paths": st.lists(GLOBS, min_size=1, max_size=2),
        "query": st.sampled_from([{"q": "1"}, {"q": "*"}, {"q": {"absent": True}}]),
        "headers": st.sampled_from([{"x-a": "1"}, {"x-a": {"absent": True}}]),
        "content_type": st.just(["text/*"]),
    },
)
TREATMENTS = st.fixed_dictionaries(
    {},
    optional={
        "websocket": st.booleans(),
        "encoded_slash": st.just("data"),
        "scrub": st.sampled_from(["mask", "block", "off"]),
        "redirects": st.sampled_from(["pass", "deny", "signed", "same-host"]),
        "cookies": st.sampled_from(["pass", "drop"]),
        "expires": st.sampled_from(["2020-01-01", "2030-01-01"]),
        "limits": st.integers(1, 9).map(lambda n: {"requests": f"{n}/second"}),
    },
)
ALLOWS = st.lists(st.tuples(PREDICATES, TREATMENTS).map(lambda pair: {**pair[0], **pair[1]}), max_size=4)
DENIES = st.lists(PREDICATES.filter(bool), max_size=2)


def numbered(rules: list[dict[str, Json]], letter: str) -> Json:
    return [{"id": f"{letter}{number}", **rule} for number, rule in enumerate(rules)]


ENTRIES = st.builds(
    lambda allow, deny, mode: {"allow": numbered(allow, "a"), "deny": numbered(deny, "d"), "mode": mode},
    ALLOWS,
    DENIES,
    st.sampled_from(["enforce", "enforce", "observe"]),
)
KEYS = ["a.example.com", "b.example.com", "*.example.com", "**.example.com", "*.b.example.com"]
FILES = st.builds(
    lambda hosts, deny: {"version": 1, "hosts": hosts, "deny": numbered(deny, "t")},
    st.dictionaries(st.sampled_from(KEYS), ENTRIES, min_size=1, max_size=4),
    DENIES,
)


def rules_of(*files: Json) -> Policy:
    result = load([RuleText(f"f{number}", json.dumps(file)) for number, file in enumerate(files)])
    assert result.policy is not None, result.findings
    return result.policy


def verdict(policy: Policy, head: Head) -> Decision:
    return decide(policy, Identity("box"), head, NOW)


def essence(decision: Decision) -> object:
    """All of a decision but where its rules stand, and which of several equals is named."""
    effects = decision.effects
    return (
        decision.verdict,
        decision.code,
        decision.target,
        decision.entry,
        decision.observed,
        sorted(str(limit.requests) for limit in effects.limits),
        replace(effects, limits=()),
    )


ODD = rules_of(
    {
        "version": 1,
        "mode": "observe",
        "hosts": {
            "a.example.com": {
                "allow": [{"id": "a", "paths": ["/a/**"], "query": {"q": "*"}, "encoded_slash": "data"}]
            },
            "**.example.com": {"methods": ["GET"], "http": True, "ports": [443, 8443]},
        },
        "deny": [
            {"id": "t", "paths": ["/x/**"], "headers": {"x-a": "*"}},
            {"id": "u", "hosts": ["evil.example"]},
        ],
        "networks": [{"cidr": "10.0.0.0/8"}, {"cidr": "::/8"}],
        "profiles": {"default": {"hosts": ["a.example.com", "10.0.0.0/8"]}},
    }
)


@FEW
@given(ANY_HEAD, st.text(max_size=5) | st.none(), st.integers())
def test_deciding_takes_anything(head: Head, profile: str | None, now: int) -> None:
    decision = decide(ODD, Identity("box", profile), head, now)
    assert decision.allowed == (decision.code in ("rule.allowed", "observed"))
    on_host = decide_host(ODD, Identity("box", profile), head.host, head.port, now, scheme=head.scheme)
    assert on_host.allowed or not decision.allowed
    decide_host(ODD, Identity("box", profile), head.host, None, now)


@FEW
@given(FILES, HEADS)
def test_what_was_matched_is_what_is_forwarded(file: dict[str, Json], head: Head) -> None:
    policy = rules_of(file)
    decision = verdict(policy, head)
    if decision.allowed:
        assert verdict(policy, replace(head, target=decision.target)) == decision


@FEW
@given(FILES, HEADS)
def test_a_request_is_allowed_only_where_its_host_is(file: dict[str, Json], head: Head) -> None:
    policy = rules_of(file)
    if verdict(policy, head).allowed:
        assert decide_host(policy, Identity("box"), head.host, head.port, NOW).allowed


@FEW
@given(FILES, PREDICATES.filter(bool), st.sampled_from([*KEYS, "top"]), HEADS)
def test_a_deny_more_never_allows_more(
    file: dict[str, Json], deny: dict[str, Json], where: str, head: Head
) -> None:
    stricter = json.loads(json.dumps(file))
    place = stricter if where == "top" else stricter["hosts"].get(where)
    assume(place is not None)
    place["deny"].append({"id": "more", **deny})
    if verdict(rules_of(stricter), head).allowed:
        before, after = verdict(rules_of(file), head), verdict(rules_of(stricter), head)
        assert essence(before) == essence(after)


@FEW
@given(FILES, ENTRIES, st.sampled_from(["other.example", "*.other.example", "c.example.org"]), HEADS)
def test_an_entry_of_another_host_changes_nothing(
    file: dict[str, Json], entry: dict[str, Json], key: str, head: Head
) -> None:
    assume(head.host != "other.example")
    wider = json.loads(json.dumps(file))
    wider["hosts"][key] = entry
    assert essence(verdict(rules_of(wider), head)) == essence(verdict(rules_of(file), head))


@FEW
@given(FILES, st.randoms(), HEADS)
def test_the_order_of_rules_and_entries_changes_no_outcome(
    file: dict[str, Json], shuffle: st.DataObject, head: Head
) -> None:
    other = json.loads(json.dumps(file))
    for entry in other["hosts"].values():
        shuffle.shuffle(entry["allow"])  # type: ignore[attr-defined]
        shuffle.shuffle(entry["deny"])  # type: ignore[attr-defined]
    keys = list(other["hosts"])
    shuffle.shuffle(keys)  # type: ignore[attr-defined]
    other["hosts"] = {key: other["hosts"][key] for key in keys}
    assert essence(verdict(rules_of(other), head)) == essence(verdict(rules_of(file), head))


@FEW
@given(FILES, FILES, HEADS)
def test_the_order_of_files_changes_no_outcome(
    one: dict[str, Json], other: dict[str, Json], head: Head
) -> None:
    hosts, more = one["hosts"], other["hosts"]
    assert isinstance(hosts, dict)
    assert isinstance(more, dict)
    apart: Json = {"version": 1, "hosts": {key: entry for key, entry in more.items() if key not in hosts}}
    assert essence(verdict(rules_of(one, apart), head)) == essence(verdict(rules_of(apart, one), head))


@FEW
@given(FILES, HEADS, st.integers(0, 8))
def test_the_caches_change_no_outcome(file: dict[str, Json], head: Head, times: int) -> None:
    policy, fresh = rules_of(file), rules_of(file)
    for host in HOSTS[: times % 4]:
        verdict(policy, replace(head, host=host, method="PUT"))
    first = verdict(policy, head)
    assert verdict(policy, head) == first == verdict(fresh, head)


# Presets --------------------------------------------------------------------------------------

ARGUMENTS = st.one_of(
    ANYTHING, st.sampled_from(["a", "a/b", "*", "**", "a*", "..", "%2e", "a%2Fb", "${x}", "a'b", "a: b"])
)


@FEW
@given(st.lists(ARGUMENTS, max_size=3))
def test_an_argument_never_changes_the_structure(arguments: list[str]) -> None:
    text = json.dumps({"version": 1, "use": [{"p": {"x": arguments}}]})
    result = load([RuleText("a", text)], PRESETS, NOW)
    if result.policy is None:
        assert all(finding.place.file == "a" for finding in result.findings)
        return
    (entry,) = result.policy.entries.values()
    assert [rule.ref.id for rule in entry.allow] == (["p-it"] if arguments else [])
    for rule in entry.allow:
        assert len(rule.predicates.paths or ()) == len(arguments)
        assert not rule.predicates.looks_inside
