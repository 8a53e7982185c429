"""Lint: each doubt with a file that raises it and a twin that does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from egress.rules.compile import coverage_index, lint
from egress.types import Severity
from tests.unit.rules.rule_samples import errors, loaded, warnings


def says(text: str) -> list[str]:
    """The warnings without their places and hints."""
    return [line.split(": ", 1)[1].split(" (")[0] for line in warnings(text)]


def entry(*allow: str, deny: str = "", more: str = "") -> str:
    rules = ", ".join(f"{{{rule}}}" for rule in allow)
    return f"hosts: {{a.example.org: {{allow: [{rules}], deny: [{deny}]{more}}}}}\n"


@pytest.mark.parametrize("key", ["*.com", "**.co.uk", "*.github.io", "**.org"])
def test_a_wildcard_over_a_public_suffix(key: str) -> None:
    assert says(f'hosts: {{"{key}": {{}}}}') == [f"`{key}` covers names that anybody can register"]


@pytest.mark.parametrize(
    "key", ["*.example.com", "**.acme.github.io", "com.example", "*.internal", "*.made-up"]
)
def test_a_wildcard_over_a_name_of_ones_own(key: str) -> None:
    assert says(f'hosts: {{"{key}": {{}}}}') == []


def test_a_public_suffix_itself_is_a_host_like_any_other() -> None:
    text = """
        secrets: {s: {from: "env:S", hosts: [github.io]}}
        hosts: {github.io: {allow: all, inject: [{bearer: s}]}}
    """
    assert errors(text) == []
    assert warnings(text) == []


def test_a_credential_under_a_public_suffix_is_an_error() -> None:
    found = errors("""
        secrets: {s: {from: "env:S", hosts: ["*.github.io"]}}
        hosts: {"*.github.io": {allow: all, inject: [{bearer: s}]}}
    """)
    assert [line.split(": ", 1)[1].split(" (")[0] for line in found] == [
        "`s` is bound to `*.github.io`, where anybody can register names",
        (
            "`*.github.io` covers names that anybody can register, and a credential is injected into"
            " its requests"
        ),
    ]
    assert errors("secrets: {s: {from: 'env:S', hosts: ['*.acme.github.io', acme.github.io]}}") == []


@pytest.mark.parametrize(
    "text",
    [
        entry("id: a, paths: [/x]", deny="{id: no, paths: ['/**']}"),
        entry("id: a, methods: [GET], paths: [/x/y]", deny="{id: no, paths: ['/x/**']}"),
        entry("id: a, methods: [GET]", deny="{id: no, methods: [GET, PUT]}"),
        entry("id: a, paths: [/x]") + "deny: [{id: no, paths: [/x]}]\n",
        entry("id: a, paths: [/x]") + "deny: [{id: no, paths: [/x], hosts: ['*.example.org']}]\n",
        (
            'hosts: {a.example.org: {paths: [/x]}, "*.example.org":'
            " {allow: all, deny: [{id: no, paths: [/x]}]}}\n"
        ),
    ],
)
def test_an_allow_that_a_deny_takes_away(text: str) -> None:
    assert any("can never allow anything: " in line for line in says(text))


@pytest.mark.parametrize(
    "text",
    [
        entry("id: a", deny="{id: no, paths: [/x]}"),
        entry("id: a, paths: [/x, /y]", deny="{id: no, paths: [/x]}"),
        entry("id: a, paths: [/x]", deny="{id: no, paths: [/x], websocket: true}"),
        entry("id: a, paths: [/x]", deny="{id: no, paths: [/x], query: {q: '1'}}"),
        entry("id: a, paths: [/x]") + "deny: [{id: no, paths: [/x], hosts: [b.example.org]}]\n",
        (
            'hosts: {"*.example.org": {paths: [/x]}, a.example.org:'
            " {allow: all, deny: [{id: no, paths: [/x]}]}}\n"
        ),
    ],
)
def test_an_allow_that_a_deny_only_narrows(text: str) -> None:
    assert says(text) == []


@pytest.mark.parametrize(
    "text",
    [
        entry("id: wide", "id: narrow, methods: [GET]"),
        entry("id: narrow, paths: [/x]", "id: wide, paths: ['/**']"),
        entry("id: wide, websocket: true", "id: narrow, methods: [GET], websocket: true"),
        entry("id: wide", "id: narrow, query: {q: '1'}, methods: [GET]"),
    ],
)
def test_a_rule_that_adds_nothing(text: str) -> None:
    (found,) = says(text)
    assert found.startswith("the rule a.example.org#narrow adds nothing: a.example.org#wide allows all of it")


SECRET = "secrets: {s: {from: 'env:S', hosts: [a.example.org]}}\n"


@pytest.mark.parametrize(
    "text",
    [
        entry("id: wide", "id: narrow, methods: [GET], websocket: true"),
        entry("id: wide", "id: narrow, methods: [GET], encoded_slash: data"),
        entry("id: wide", "id: narrow, methods: [GET], limits: {connections: 1}"),
        entry("id: wide", "id: narrow, methods: [GET], scrub: block"),
        entry("id: wide, expires: 2030-01-01", "id: narrow, methods: [GET]"),
        entry("id: wide, query: {q: '1'}", "id: narrow, methods: [GET]"),
        entry("id: one, methods: [GET]", "id: two, methods: [PUT]"),
        entry("id: one, paths: [/a/**]", "id: two, paths: [/b/**]"),
        SECRET
        + entry("id: wide", "id: narrow, methods: [GET]", more=", inject: [{bearer: s, for: [narrow]}]"),
        entry("id: wide", "id: narrow, methods: [GET]")
        + "profiles: {p: {hosts: [a.example.org], rules: ['a.example.org#narrow']}}\n",
    ],
)
def test_a_rule_that_adds_something(text: str) -> None:
    assert says(text) == []


def test_a_deny_that_adds_nothing() -> None:
    text = entry("id: a", deny="{id: wide, paths: [/x/**]}, {id: narrow, paths: [/x/y]}")
    assert says(text) == ["the deny a.example.org#narrow adds nothing to a.example.org#wide"]
    assert says(entry("id: a", deny="{id: one, paths: [/x/**]}, {id: two, paths: [/y]}")) == []


def test_clear_text_beside_a_secret() -> None:
    text = SECRET + "hosts: {a.example.org: {http: true}}\n"
    assert "`a.example.org` allows clear text, and the secret `s` is bound to it" in says(text)
    assert all("clear text" not in line for line in says(SECRET + "hosts: {b.example.org: {http: true}}\n"))
    assert any("clear text" in line for line in says(SECRET + "hosts: {'*.example.org': {http: true}}\n"))


def test_a_deny_that_a_tunnel_cannot_see() -> None:
    text = "hosts: {a.example.org: {intercept: never}}\ndeny: [{id: no, paths: [/x]}]\n"
    assert says(text) == ["deny#no cannot be enforced for `a.example.org`: `intercept: never` reads nothing"]
    assert says(text.replace("paths: [/x]", "paths: [/x], hosts: [b.example.org]")) == []


def test_a_deny_of_the_whole_host_holds_for_a_tunnel() -> None:
    text = "hosts: {a.example.org: {intercept: never}}\ndeny: [{id: no, hosts: [a.example.org]}]\n"
    assert all("cannot hold" not in line for line in says(text))


def test_a_secret_that_is_injected_nowhere() -> None:
    assert says(SECRET) == ["the secret `s` is never injected"]
    assert says(SECRET + entry("id: a", more=", inject: [{bearer: s}]")) == []


def test_a_secret_of_a_wrong_entry_is_not_called_unused() -> None:
    result = loaded(SECRET + "hosts: {a.example.org: {allow: [], inject: [{bearer: s}], denny: []}}\n")
    assert [finding.severity for finding in result.findings] == [Severity.ERROR]


SHAPES = (
    "paths: [/v1/things/{n}/x]",
    "paths: ['/a/*/x{n}/**']",
    "paths: ['/x{n}*']",
    "paths: ['/**/x{n}']",
    "paths: ['/a/**/x{n}*']",
    "paths: ['/v1/**']",
    "paths: [/v1/things]",
    "methods: [GET]",
)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["allow", "deny"])
def test_many_rules_on_one_host_are_not_compared_pair_by_pair(
    shape: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reload of thousands of rules took minutes of the interpreter."""
    compared = 0

    def counted(function: Callable[..., bool]) -> Callable[..., bool]:
        def call(*arguments: object) -> bool:
            nonlocal compared
            compared += 1
            return function(*arguments)

        return call

    for module in (lint, coverage_index):
        for name in ("rule_covers", "path_covers", "segment_covers", "values_cover"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, counted(getattr(module, name)))
    count = 500
    rules = [f"id: r{n}, {shape.format(n=n)}" for n in range(count)]
    text = (
        entry(*rules) if kind == "allow" else entry("id: a", deny=", ".join(f"{{{rule}}}" for rule in rules))
    )
    assert loaded(text).policy is not None
    # Every pair would be a quarter of a million.
    assert 0 < compared < 150 * count


ANTHROPIC = """
secrets: {{s: {{from: "env:S", hosts: [api.anthropic.com]}}}}
hosts: {{api.anthropic.com: {{allow: [{{id: a, paths: [/a]}}, {{id: b, paths: [/b]}}], inject: [{items}]}}}}
"""
KEY_HEADER = "header: {name: x-api-key, secret: s}"


def test_a_credential_slot_of_a_known_service_that_is_left_open() -> None:
    (found,) = warnings(ANTHROPIC.format(items=f"{{{KEY_HEADER}}}"))
    assert "`api.anthropic.com` also takes a credential from header:authorization" in found
    assert found.endswith('(add `strip: ["header:authorization"]` to this item)')
    (other,) = warnings(ANTHROPIC.format(items="{bearer: s}"))
    assert "from header:x-api-key" in other


@pytest.mark.parametrize(
    "items",
    [
        f'{{{KEY_HEADER}, strip: ["header:authorization"]}}',
        '{bearer: s, strip: ["header:X-Api-Key"]}',
        # Both slots are written for one request.
        f"{{{KEY_HEADER}}}, {{bearer: s}}",
        # The sandbox may fill the slot of a placeholder in any case.
        '{placeholder: {secret: s, like: anthropic, in: ["header:x-api-key"]}}',
        "{header: {name: x-something, secret: s}}",
    ],
)
def test_a_credential_slot_that_is_closed_or_not_in_question(items: str) -> None:
    assert says(ANTHROPIC.format(items=items)) == []


def test_a_slot_that_another_rule_alone_closes_is_open() -> None:
    items = f"{{{KEY_HEADER}, for: [a]}}, {{bearer: s, for: [b]}}"
    assert len(says(ANTHROPIC.format(items=items))) == 2


def test_a_service_with_one_slot_leaves_nothing_open() -> None:
    assert says(SECRET + entry("id: a", more=", inject: [{bearer: s}]")) == []
