"""Lines 35 to 37 of docs/reference/language.md: presets and their parameters."""

from __future__ import annotations

import pytest

from egress.types import Severity
from tests.unit.rules.rule_samples import ask, decision_text, errors, loaded, policy

FORGE = """
title: A forge
parameters:
  host: {type: host, help: Name of the forge., default: forge.example}
  secret: {type: secret, help: Name of the secret., default: forge}
  read: {type: list of path, help: Repositories to read., wildcard: true}
  write: {type: list of path, help: Repositories to write., default: []}
  size: {type: choice, help: How much., choices: [small, big], default: small}
  mirrors: {type: list of host, help: Mirrors., wildcard: true, default: []}
secrets:
  "${secret}": {from: "env:FORGE_TOKEN", hosts: ["${host}"]}
hosts:
  "${host}":
    allow:
      - {id: read, methods: [GET], paths: ["/r/${read}", "/r/${read}/**"]}
      - {id: write, methods: [PUT], paths: ["/r/${write}/issues"]}
    deny:
      - {id: no-keys, paths: ["/keys/**"]}
    inject:
      - {bearer: "${secret}", for: [read, write]}
    tests:
      - GET /keys -> deny forge-no-keys
  "${mirrors}": {methods: [GET]}
"""
PRESETS = {"forge": FORGE, "plain": "title: Plain\nhosts: {plain.example: {}}\n"}
URL = "https://forge.example"


def use(item: str, rest: str = "") -> str:
    return f"use:\n  - {item}\n{rest}"


def test_35_a_name_alone_takes_the_defaults() -> None:
    rules = policy(use("plain"), presets=PRESETS)
    assert decision_text(rules, "GET https://plain.example/") == "allow plain-host"


def test_35_parameters_are_put_into_hosts_paths_and_secret_names() -> None:
    rules = policy(
        use("{forge: {read: [acme/one, acme/two], write: [acme/two], secret: token, host: git.example}}"),
        presets=PRESETS,
    )
    url = "https://git.example"
    assert decision_text(rules, f"GET {url}/r/acme/one/x") == "allow forge-read, inject token"
    assert decision_text(rules, f"GET {url}/r/acme/two") == "allow forge-read, inject token"
    assert decision_text(rules, f"GET {url}/r/acme/three") == "deny rule.none"
    assert decision_text(rules, f"PUT {url}/r/acme/two/issues") == "allow forge-write, inject token"
    assert decision_text(rules, f"PUT {url}/r/acme/one/issues") == "deny rule.none"
    assert decision_text(rules, f"GET {URL}/r/acme/one") == "deny host.unknown"


def test_35_an_empty_list_takes_its_rule_away() -> None:
    rules = policy(use("{forge: {read: [acme/one]}}"), presets=PRESETS)
    assert [rule.ref.id for entry in rules.entries.values() for rule in entry.allow] == ["forge-read"]


def test_35_a_list_of_hosts_makes_an_entry_for_each() -> None:
    rules = policy(use('{forge: {read: [a], mirrors: [m.example, "*.n.example"]}}'), presets=PRESETS)
    assert decision_text(rules, "GET https://m.example/") == "allow forge-host"
    assert decision_text(rules, "GET https://x.n.example/") == "allow forge-host"


@pytest.mark.parametrize(
    ("item", "finding"),
    [
        ("{forge: {}}", "2:5: the preset forge needs the parameter `read` (Repositories to read.)"),
        ("forge", "2:5: the preset forge needs the parameter `read` (Repositories to read.)"),
        (
            "{forge: {read: [a], colour: red}}",
            (
        "2:25: the preset forge has no parameter `colour` (known"
        " here: `host`, `mirrors`, `read`, `secret`, `size`, `write`)"
        ),
        ),
        ("{forge: {read: a}}", "2:20: this parameter must be a list (put it in brackets: [...])"),
        ("{forge: {read: [[a]]}}", "2:21: this parameter must be text (Repositories to read.)"),
        ("{forge: {read: [3]}}", "2:21: this parameter must be text (Repositories to read.)"),
        ("{forge: {read: [a], host: 'a b'}}", (
        "2:31: the host name contains a character that is not allowed (Name of the forge.)"
        )),
        ("{forge: {read: [a], host: '*.example'}}", (
        "2:31: this parameter cannot contain a wildcard (Name of the forge.)"
        )),
        ("{forge: {read: [a], write: ['*']}}", (
        "2:33: this parameter cannot contain a wildcard (Repositories to write.)"
        )),
        ("{forge: {read: [a], secret: 'A B'}}", "2:33: `A B` is not a secret name (Name of the secret.)"),
        ("{forge: {read: [a], size: huge}}", "2:31: `huge` is not one of small, big (How much.)"),
        ("{forge: {read: ['../x']}}", (
        "2:21: `../x` is not a path fragment such as acme/widgets (Repositories to read.)"
        )),
        ("{forge: {read: ['a//b']}}", (
        "2:21: `a//b` is not a path fragment such as acme/widgets (Repositories to read.)"
        )),
        ("{forge: {read: ['/a']}}", (
        "2:21: `/a` is not a path fragment such as acme/widgets (Repositories to read.)"
        )),
        ("{forge: {read: ['']}}", (
        "2:21: `` is not a path fragment such as acme/widgets (Repositories to read.)"
        )),
        ("{forge: {read: ['${host}']}}", (
        "2:21: `${host}` is not a path fragment such as acme/widgets (Repositories to read.)"
        )),
        ("{forge: [a]}", "2:5: the parameters of forge must be a mapping (write {parameter: value})"),
        ("froge", "2:5: unknown preset `froge` (did you mean `forge`?)"),
        ("{forge: {read: [a]}, plain: {}}", (
        "2:5: an item of `use` must be a name, or a name with its parameters (write - github or -"
        " github: {...})"
        )),
        ("3", (
        "2:5: an item of `use` must be a name, or a name with its parameters (write - github or -"
        " github: {...})"
        )),
    ],
)  # fmt: skip
def test_35_says_what_is_wrong_at_the_use_item(item: str, finding: str) -> None:
    assert errors(use(item), presets=PRESETS) == [f"hosts.yaml:{finding}"]


@pytest.mark.parametrize("value", ["a%2fb", "a**b", "%zz", "a%"])
def test_35_an_argument_that_makes_no_pattern_is_reported_at_the_use_item(value: str) -> None:
    found = errors(use(f"{{forge: {{read: ['{value}']}}}}"), presets=PRESETS)
    assert found
    for line in found:
        assert line.startswith(("hosts.yaml:2:5 (preset forge:", "hosts.yaml:2:21: "))


def test_36_expanded_rules_carry_the_name_and_both_places() -> None:
    rules = policy(use("{forge: {read: [a]}}"), presets=PRESETS)
    decision = ask(rules, f"GET {URL}/r/a")
    assert str(decision.rule) == "forge.example#forge-read"
    assert str(decision.place) == "hosts.yaml:2:5 (preset forge:15)"


OWN = """
hosts:
  forge.example:
    allow: [{id: mine, methods: [GET], paths: [/mine]}]
    deny: [{id: not-this, paths: [/r/a/secret]}]
    scrub: block
"""


def test_36_an_entry_of_the_file_adds_to_that_of_the_preset() -> None:
    rules = policy(use("{forge: {read: [a]}}", OWN), presets=PRESETS)
    assert decision_text(rules, f"GET {URL}/mine") == "allow mine"
    assert decision_text(rules, f"GET {URL}/r/a") == "allow forge-read, inject forge"
    assert decision_text(rules, f"GET {URL}/r/a/secret") == "deny not-this"
    assert decision_text(rules, f"GET {URL}/keys") == "deny forge-no-keys"
    assert ask(rules, f"GET {URL}/mine").effects.scrub.value == "block"


@pytest.mark.parametrize("order", [0, 1])
def test_36_the_other_keys_are_the_files_whatever_stands_first(order: int) -> None:
    preset = """
        title: P
        hosts:
          p.example: {allow: [{id: it}], redirects: deny, http: true,
            expires: 2020-01-01, mode: observe, http2: true}
    """
    own = (
        "hosts: {p.example: {redirects: pass, http: false,"
        " expires: 2030-01-01, mode: enforce, http2: false}}\n"
    )
    used = "use: [p]\n"
    rules = policy(*((own + used, used + own)[order],), presets={"p": preset})
    (entry,) = rules.entries.values()
    assert entry.handling.redirects is not None
    assert (entry.handling.redirects.value, entry.clear_ports, entry.mode) == ("pass", frozenset(), "enforce")
    assert ask(rules, "GET https://p.example/").allowed
    assert not entry.http2


def test_36_what_the_file_leaves_open_is_the_presets() -> None:
    preset = "title: P\nhosts: {p.example: {allow: [{id: it}], expires: 2020-01-01, redirects: deny}}\n"
    rules = policy("use: [p]\nhosts: {p.example: {scrub: block}}\n", presets={"p": preset})
    assert decision_text(rules, "GET https://p.example/") == "deny host.closed"


def test_36_written_again_without_allow_the_entry_gets_none_from_the_file() -> None:
    rules = policy(use("{forge: {read: [a]}}", "hosts: {forge.example: {}}\n"), presets=PRESETS)
    assert decision_text(rules, f"GET {URL}/other") == "deny rule.none"
    rules = policy(use("{forge: {read: [a]}}", "hosts: {forge.example: {allow: all}}\n"), presets=PRESETS)
    assert decision_text(rules, f"GET {URL}/other") == "allow host"


def test_36_a_switch_that_nothing_would_act_on_is_an_error() -> None:
    found = errors(
        use("{forge: {read: [a]}}", "hosts:\n  forge.example: {websocket: true}\n"), presets=PRESETS
    )
    assert found == [
        (
            "hosts.yaml:4:19: `websocket` has no effect here: the preset brings its own rules"
            " (write a rule with it under `allow`)"
        )
    ]


def test_36_the_whole_host_of_a_preset_and_of_the_file_keep_their_ids_apart() -> None:
    rules = policy("use: [plain]\nhosts: {plain.example: {methods: [GET]}}\n", presets=PRESETS)
    (entry,) = rules.entries.values()
    assert [rule.ref.id for rule in entry.allow] == ["host"]
    rules = policy(
        "use: [p]\nhosts: {p.example: {methods: [GET]}}\n",
        presets={"p": "title: P\nhosts: {p.example: {methods: [PUT]}}\n"},
    )
    (entry,) = rules.entries.values()
    assert [rule.ref.id for rule in entry.allow] == ["p-host", "host"]


def test_36_a_secret_of_the_file_stands_in_place_of_the_presets() -> None:
    own = "secrets: {forge: {from: 'file:/run/secrets/x', hosts: [forge.example]}}\n"
    rules = policy(use("{forge: {read: [a]}}", own), presets=PRESETS)
    assert rules.secrets["forge"].scheme == "file"
    unbound = "secrets: {forge: {from: 'file:/run/secrets/x', hosts: [other.example]}}\n"
    found = errors(use("{forge: {read: [a]}}", unbound), presets=PRESETS)
    assert [line.split(": ", 1)[0] for line in found] == ["hosts.yaml:2:5 (preset forge:20)"]


def test_36_two_injections_into_one_slot_are_an_error() -> None:
    own = """
hosts:
  forge.example:
    allow: [{id: mine, paths: ["/r/**"]}]
    inject: [{bearer: mine, for: [mine]}]
secrets: {mine: {from: "env:MINE", hosts: [forge.example]}}
"""
    (found,) = errors(use("{forge: {read: [a]}}", own), presets=PRESETS)
    assert "two credentials can meet in header:authorization of one request" in found


def test_36_a_preset_used_twice_on_one_host_is_an_error_at_the_second() -> None:
    (found,) = errors("use:\n  - {forge: {read: [a]}}\n  - {forge: {read: [b]}}\n", presets=PRESETS)
    assert found == (
        "hosts.yaml:3:5: two uses of presets for `forge.example` have the name `forge` (the other is at"
        " hosts.yaml:2:5) (name this one: `as: forge-2`; its rules are then called forge-2-…)"
    )
    twice = policy(
        "use:\n  - {forge: {read: [a]}}\n  - {forge: {read: [b], host: b.example, secret: other}}\n",
        presets=PRESETS,
    )
    assert decision_text(twice, "GET https://b.example/r/b") == "allow forge-read, inject other"


def test_36_uses_of_one_preset_never_add_up_on_one_host() -> None:
    """Closed by one use and whole by the other: whichever wins in silence is wrong."""
    shelf = {
        "pair": """
            title: Pair
            parameters: {shut: {type: host, help: h}, open: {type: host, help: h}}
            hosts:
              "${shut}": {allow: []}
              "${open}": {}
        """
    }
    for second in ("b.example", "B.example."):
        first = "{pair: {shut: a.example, open: c.example}}"
        (found,) = errors(f"use: [{first}, {{pair: {{shut: {second}, open: a.example}}}}]", presets=shelf)
        assert "two uses of presets for `a.example` have the name `pair` (the other is at" in found
    for same in ("a.example", "A.example", "a.example."):
        (found,) = errors(f"use: [{{pair: {{shut: a.example, open: {same}}}}}]", presets=shelf)
        assert "` twice" in found
    assert (
        decision_text(
            policy("use: [{pair: {shut: a.example, open: b.example}}]", presets=shelf),
            "GET https://b.example/",
        )
        == "allow pair-host"
    )


def test_37_a_preset_has_a_head_and_rules() -> None:
    found = errors("use: [p]\n", presets={"p": "title: P\nhosts: {}\nhots: {}\nmode: observe\n"})
    assert found == [
        "preset p:3:1: unknown key `hots` (did you mean `hosts`?)",
        (
            "preset p:4:1: unknown key `mode` (known here: `example`,"
            " `hosts`, `parameters`, `secrets`, `tests`, `title`)"
        ),
    ]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("hosts: {}\n", "preset p:1:1: the key `title` is missing ()"),
        ("title: P\nparameters: {a: {type: number, help: x}}\n", "preset p:2:24: `number` is not one of"),
        ("title: P\nhosts: {\n", "preset p:3:1: "),
        ("[]\n", "preset p:1:1: a preset must be a mapping"),
    ],
)
def test_37_a_preset_that_is_wrong_is_reported_in_its_own_lines(text: str, finding: str) -> None:
    (found,) = errors("use: [p]\n", presets={"p": text})
    assert found.startswith(finding)


@pytest.mark.parametrize(
    "rules",
    [
        "hosts: {p.example: {methods: ['${x}']}}",
        "hosts: {p.example: {allow: [{id: '${x}'}]}}",
        "hosts: {p.example: {headers: {a: '${x}'}}}",
        "hosts: {p.example: {query: {a: '${x}'}}}",
        "hosts: {p.example: {scrub: '${x}'}}",
        "secrets: {s: {from: 'env:${x}', hosts: [p.example]}}",
    ],
)
def test_37_a_parameter_anywhere_else_is_an_error(rules: str) -> None:
    preset = f"title: P\nparameters: {{x: {{type: choice, choices: [a], help: h, default: a}}}}\n{rules}\n"
    (found,) = errors("use: [p]\n", presets={"p": preset})
    assert found.startswith("preset p:3:")
    assert ": parameters are not substituted here (use them only in " in found


def test_37_an_unknown_parameter_in_a_preset_is_an_error() -> None:
    (found,) = errors("use: [p]\n", presets={"p": "title: P\nhosts: {p.example: {paths: ['/${x}']}}\n"})
    assert found.startswith("preset p:2:")
    assert "`x`" in found


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/${Read}", "`Read` (did you mean `read`?)"),
        ("/${read}/${READ}", "`READ`"),
        ("/${read", "`read`"),
        ("/${re-ad}", "`re-ad` (did you mean `read`?)"),
        ("/${ read }", "` read ` (did you mean `read`?)"),
        ("/${}", "`` "),
        ("/${${read}}", "`${read`"),
    ],
)
def test_37_what_only_resembles_a_parameter_is_an_error(path: str, name: str) -> None:
    """It would neither be put in nor be missed: the rule would be for a path that nobody asks for."""
    head = "title: P\nparameters: {read: {type: path, help: h, default: a}}\n"
    (found,) = errors("use: [p]\n", presets={"p": f"{head}hosts: {{p.example: {{paths: ['{path}']}}}}\n"})
    assert found.startswith("preset p:3:")
    assert f"the preset has no parameter {name}" in found


def test_37_a_parameter_whose_name_could_not_be_put_in_is_an_error() -> None:
    preset = "title: P\nparameters: {Read: {type: path, help: h, default: a}}\nhosts: {p.example: {}}\n"
    (found,) = errors("use: [p]\n", presets={"p": preset})
    assert found.startswith("preset p:2:14: `Read` is not a parameter name (lower-case")


def test_37_tests_beside_the_hosts_of_a_preset_come_along() -> None:
    result = loaded(use("{forge: {read: [a]}}"), presets=PRESETS)
    assert result.policy is not None
    assert [case.text for case in result.policy.cases] == ["GET /keys -> deny forge-no-keys"]


# Several uses on one host ------------------------------------------------------------------------

TWO = """
use:
  - forge: {read: [a], write: [a], secret: one}
  - forge: {read: [b], write: [b], secret: two}
    as: other
"""


def test_36_two_uses_with_names_of_their_own_bring_two_credentials_to_one_host() -> None:
    rules = policy(TWO, presets=PRESETS)
    (entry,) = rules.entries.values()
    assert [rule.ref.id for rule in entry.allow] == ["forge-read", "forge-write", "other-read", "other-write"]
    assert [rule.ref.id for rule in entry.deny] == ["forge-no-keys"]
    assert decision_text(rules, f"GET {URL}/r/a") == "allow forge-read, inject one"
    assert decision_text(rules, f"GET {URL}/r/b/x") == "allow other-read, inject two"
    assert decision_text(rules, f"PUT {URL}/r/b/issues") == "allow other-write, inject two"
    assert decision_text(rules, f"GET {URL}/keys/1") == "deny forge-no-keys"


def test_36_two_uses_that_one_request_can_fit_are_an_error_that_tells_how() -> None:
    (found,) = errors(TWO.replace("read: [b]", 'read: ["*"]'), presets=PRESETS)
    assert "two credentials can meet in header:authorization of one request" in found
    assert "a request can match both forge-read and other-read: narrow the arguments of the preset" in found


EVERYWHERE = {
    "wide": """
        title: W
        parameters:
          secret: {type: secret, help: S., default: s}
          read: {type: list of path, help: R., default: []}
        secrets: {"${secret}": {from: "env:S", hosts: [w.example]}}
        hosts:
          w.example:
            allow:
              - {id: self, methods: [GET], paths: [/me], limits: {connections: 2}}
              - {id: read, methods: [GET], paths: ["/r/${read}"]}
            inject: [{bearer: "${secret}"}]
    """,
    "guest": """
        title: G
        secrets: {g: {from: "env:G", hosts: [w.example]}}
        hosts:
          w.example:
            allow: [{id: g, methods: [GET], paths: [/g]}]
            inject: [{bearer: g, for: [g]}]
    """,
    "bare": """
        title: B
        hosts: {w.example: {allow: [{id: b, methods: [GET], paths: [/b]}]}}
    """,
}


def test_36_a_credential_without_for_serves_its_own_use_and_the_file() -> None:
    """What both uses say in the same words, and what the file adds, belongs to the first use."""
    text = """
use:
  - bare
  - wide: {read: [a], secret: one}
  - wide: {read: [b], secret: two}
    as: second
  - guest
hosts: {w.example: {allow: [{id: own, methods: [GET], paths: [/own]}, {id: mine, paths: [/mine]}],
  inject: [{bearer: mine, for: [mine]}]}}
secrets: {mine: {from: "env:M", hosts: [w.example]}}
"""
    rules = policy(text, presets=EVERYWHERE)
    for path, outcome in {
        "/me": "allow wide-self, inject one",
        "/r/a": "allow wide-read, inject one",
        "/r/b": "allow second-read, inject two",
        "/g": "allow guest-g, inject g",
        "/b": "allow bare-b, inject one",
        "/own": "allow own, inject one",
        "/mine": "allow mine, inject mine",
    }.items():
        assert decision_text(rules, f"GET https://w.example{path}") == outcome


def test_36_the_file_takes_a_rule_of_a_preset_by_for() -> None:
    text = """
use: [{wide: {read: [a]}}]
hosts: {w.example: {inject: [{bearer: mine, for: [wide-self]}]}}
secrets: {mine: {from: "env:M", hosts: [w.example]}}
"""
    rules = policy(text, presets=EVERYWHERE)
    assert decision_text(rules, "GET https://w.example/me") == "allow wide-self, inject mine"
    assert decision_text(rules, "GET https://w.example/r/a") == "allow wide-read, inject s"
    whole = errors(text.replace(", for: [wide-self]", ""), presets=EVERYWHERE)
    assert "give your own item a `for:`, which takes its rules away from the preset" in whole[0]


def test_36_rules_that_differ_in_anything_are_not_the_same() -> None:
    closed = EVERYWHERE | {
        "wide": EVERYWHERE["wide"].replace("connections: 2", "connections: 3"),
        "wider": EVERYWHERE["wide"],
    }
    found = errors("use: [{wide: {secret: a}}, {wider: {secret: b}}]", presets=closed)
    assert "a request can match both wide-self and wider-self" in found[0]


@pytest.mark.parametrize(
    ("item", "finding"),
    [
        ("{forge: {read: [a]}, as: A}", "`as` must be a name"),
        ("{forge: {read: [a]}, as: [a]}", "`as` must be a name"),
        ("{forge: {read: [a]}, without: no-keys}", "`without` must be a list of deny rules"),
        ("{forge: {read: [a]}, without: [1]}", "`without` must be a list of deny rules"),
        ("{forge: {read: [a]}, without: [no-key]}", "forge has no deny `no-key` (did you mean `no-keys`?)"),
        ("{forge: {read: [a]}, without: [read]}", "forge has no deny `read`"),
        ("{forge: {read: [a]}, with: [no-keys]}", "an item of `use` must be a name"),
        ("{without: [no-keys]}", "an item of `use` must be a name"),
        ("{as: forge}", "an item of `use` must be a name"),
    ],
)
def test_35_mistakes_beside_the_parameters(item: str, finding: str) -> None:
    found = errors(use(item), presets=PRESETS)
    assert any(finding in line for line in found), found


# Lifted denies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["no-keys", "forge-no-keys"])
def test_36_a_deny_of_a_preset_is_lifted_by_the_file_and_said_each_time(name: str) -> None:
    text = use(
        f"{{forge: {{read: [a]}}, without: [{name}]}}",
        'hosts: {forge.example: {allow: [{id: keys, methods: [GET], paths: ["/keys/**"]}]}}\n',
    )
    result = loaded(text, presets=PRESETS)
    (finding,) = result.findings
    assert (finding.severity, str(finding.place)) == (Severity.NOTICE, "hosts.yaml:2:36")
    assert "the deny forge-no-keys of the preset is lifted" in finding.message
    assert result.policy is not None
    lifted = ask(result.policy, f"GET {URL}/keys/1")
    assert lifted.allowed
    assert str(lifted.lifted) == "forge.example#forge-no-keys"
    # The deny still names what it would deny, and only that.
    assert ask(result.policy, f"GET {URL}/r/a").lifted is None
    assert not ask(result.policy, f"GET {URL}/other").allowed


def test_36_a_lifted_deny_allows_nothing_by_itself() -> None:
    rules = policy(use("{forge: {read: [a]}, without: [no-keys]}"), presets=PRESETS)
    assert decision_text(rules, f"GET {URL}/keys/1") == "deny rule.none"


def test_36_a_lifted_deny_does_not_loosen_the_reading_of_requests() -> None:
    """The one deny with methods and paths is lifted, and overrides and `;` are refused as before."""
    shelf = {
        "p": "title: P\nhosts: {p.example: {allow: all, deny: [{id: no, methods: [PUT], paths: [/x]}]}}\n"
    }
    rules = policy("use: [{p: {}, without: [no]}]", presets=shelf)
    assert decision_text(rules, "GET https://p.example/?_method=PUT") == "deny method.override"
    assert decision_text(rules, "GET https://p.example/a;b") == "deny path.ambiguous"
    put = ask(rules, "PUT https://p.example/X/")
    assert put.allowed
    assert str(put.lifted) == "p.example#p-no"


def test_36_denies_of_the_file_and_of_another_use_stay() -> None:
    own = 'hosts: {forge.example: {allow: all, deny: [{id: mine, paths: ["/keys/**"]}]}}\n'
    rules = policy(use("{forge: {read: [a]}, without: [no-keys]}", own), presets=PRESETS)
    assert decision_text(rules, f"GET {URL}/keys") == "deny mine"
    both = policy(TWO + "    without: [no-keys]\n", presets=PRESETS)
    assert decision_text(both, f"GET {URL}/keys") == "deny forge-no-keys"
