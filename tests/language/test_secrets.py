"""Lines 17 to 23 of docs/reference/language.md: secrets, their hosts, and where they are injected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from egress.rules.decide.decision import decide
from egress.rules.decide.policy import SecretSpec
from egress.types import (
    Cookies,
    Identity,
    InjectBasic,
    InjectCookie,
    InjectHeader,
    Injection,
    InjectPlaceholder,
    InjectQuery,
    OnExisting,
    Slot,
)
from tests.unit.rules.rule_samples import NOW, ask, decision_text, errors, head, policy, warnings

HOST = "https://a.example.com"
CREDENTIAL = "ghp_" + "A1b2C3d4" * 5


def secret(keys: str) -> str:
    """A rule file with one secret."""
    return f"secrets:\n  it: {{{keys}}}\n"


def injecting(
    item: str, hosts: str = "a.example.com", key: str = "a.example.com", keys: str = "allow: all"
) -> str:
    """A rule file whose one entry injects."""
    return f"""hosts:
  "{key}":
    {keys}
    inject:
      - {item}
secrets:
  one: {{from: "env:ONE", hosts: [{hosts}]}}
  two: {{from: "env:TWO", hosts: [{hosts}]}}
"""


def need(item: str) -> Injection:
    (found,) = ask(policy(injecting(item)), f"GET {HOST}/").effects.needs
    return found


def spec(keys: str) -> SecretSpec:
    return policy(secret(keys)).secrets["it"]


@pytest.mark.parametrize(
    ("source", "scheme", "reference"),
    [
        ('"env:GITHUB_TOKEN"', "env", ("GITHUB_TOKEN",)),
        ('"file:/run/secrets/it"', "file", ("/run/secrets/it",)),
        ('"file:~/.config/it"', "file", ("~/.config/it",)),
        ('"command:pass show it"', "command", ("pass", "show", "it")),
        ("{command: [pass, show, it]}", "command", ("pass", "show", "it")),
        (
            '"file:/srv/Alice/Projects2027/secrets/github-token"',
            "file",
            ("/srv/Alice/Projects2027/secrets/github-token",),
        ),
    ],
)
def test_17_reads_where_a_secret_comes_from(source: str, scheme: str, reference: tuple[str, ...]) -> None:
    found = spec(f"from: {source}, hosts: [a.example.com]")
    assert (found.scheme, found.reference) == (scheme, reference)


@pytest.mark.parametrize(
    ("keys", "finding"),
    [
        ("from: GITHUB, hosts: [a.example.com]", "2:14: a source is written SCHEME:REFERENCE"),
        (
            'from: "enw:GITHUB", hosts: [a.example.com]',
            "2:14: unknown kind of source (did you mean `env`?)",
        ),
        ('from: "store:it", hosts: [a.example.com]', "2:14: `store:` is not resolved by this version"),
        ('from: "keyring:service/it", hosts: [a.example.com]', "2:14: `keyring:` is not resolved by this"),
        ('from: "vault:secret/data/it#token", hosts: [a.example.com]', "2:14: `vault:` is not resolved by"),
        ('from: "aws-sm:it", hosts: [a.example.com]', "2:14: `aws-sm:` is not resolved by this version"),
        ('from: "env:", hosts: [a.example.com]', "2:14: `env:` needs a reference"),
        ('from: "env:a-b", hosts: [a.example.com]', "2:14: this is not the name of an environment variable"),
        ('from: "file:token", hosts: [a.example.com]', "2:14: a secret file needs an absolute path"),
        ('from: "command:pass \'x", hosts: [a.example.com]', "2:14: unbalanced quotes in this command"),
        ("from: {command: []}, hosts: [a.example.com]", "2:15: this list must not be empty"),
        ("from: 3, hosts: [a.example.com]", "2:14: this must be text or a mapping, not a number"),
        ("hosts: [a.example.com]", "2:3: the key `from` is missing"),
        ('from: "env:A"', "2:3: the key `hosts` is missing"),
        ('from: "env:A", hosts: []', "2:23: this secret is bound to no host, so it is never sent"),
        ('from: "env:A", hosts: [a.example.com], ttl: soon', "2:52: this is not a duration"),
        ('from: "env:A", hosts: [a.example.com], ttl: 0', "2:52: a duration must be at least one second"),
        ('from: "env:A", hosts: [a.example.com], expires: soon', "2:56: this is not a day or moment"),
        ('from: "env:A", hosts: [a.example.com], value: x', "2:47: unknown key `value`"),
    ],
)
def test_17_says_what_is_wrong_with_a_secret(keys: str, finding: str) -> None:
    (found,) = errors(secret(keys))
    assert found.startswith(f"hosts.yaml:{finding}")


def test_17_a_secret_has_a_plain_name() -> None:
    (found,) = errors(secret('from: "env:A", hosts: [a.example.com]').replace("it:", "GitHub:"))
    assert found.startswith("hosts.yaml:2:3: `GitHub` is not a secret name")


@pytest.mark.parametrize("source", [CREDENTIAL, f'"env:{CREDENTIAL}"', f"{{command: [echo, {CREDENTIAL}]}}"])
def test_17_refuses_a_literal_credential_and_does_not_print_it(source: str) -> None:
    (found,) = errors(secret(f"from: {source}, hosts: [a.example.com]"))
    assert ": this looks like a credential (not shown) (put the value into an environment" in found
    assert CREDENTIAL not in found


@pytest.mark.parametrize(
    ("written", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("2 h", 7200), ("1d", 86400)]
)
def test_17_ttl_is_a_number_of_seconds_or_a_duration(written: str, seconds: int) -> None:
    assert spec(f'from: "env:A", hosts: [a.example.com], ttl: {written}').ttl == seconds


def test_17_scrub_off_is_possible_for_what_is_too_short_to_be_scrubbed() -> None:
    rules = policy(injecting("{bearer: one}", keys="allow: [{id: it, scrub: off}]".replace("off", '"off"')))
    assert ask(rules, f"GET {HOST}/").effects.scrub.value == "off"


@pytest.mark.parametrize(
    ("hosts", "key", "keys"),
    [
        ("a.example.com", "a.example.com", "allow: all"),
        ('"*.example.com"', "a.example.com", "allow: all"),
        ('"**.example.com"', "a.example.com", "allow: all"),
        ('"*.example.com"', "*.example.com", "allow: all"),
        ('"**.example.com"', "*.b.example.com", "allow: all"),
        ('"**.example.com"', "**.example.com", "allow: all"),
        ('"a.example.com:8443"', "a.example.com", "ports: [8443], allow: all"),
        ('a.example.com, "a.example.com:8443"', "a.example.com", "ports: [443, 8443], allow: all"),
        ('"A.Example.com."', "a.example.com", "allow: all"),
    ],
)
def test_18_a_binding_covers_the_entry_on_all_its_ports(hosts: str, key: str, keys: str) -> None:
    keys = keys.replace(", allow", "\n    allow")
    policy(injecting("{bearer: one}", hosts, key, keys))


@pytest.mark.parametrize(
    ("hosts", "key", "keys", "where"),
    [
        ("b.example.com", "a.example.com", "allow: all", "a.example.com"),
        ("a.example.com", "*.example.com", "allow: all", "*.example.com"),
        ('"*.example.com"', "**.example.com", "allow: all", "**.example.com"),
        ('"*.example.com"', "*.b.example.com", "allow: all", "*.b.example.com"),
        ('"*.example.com"', "example.com", "allow: all", "example.com"),
        ("a.example.com", "a.example.com", "ports: [443, 8443]\n    allow: all", "a.example.com:8443"),
        ('"a.example.com:8443"', "a.example.com", "allow: all", "a.example.com"),
    ],
)
def test_18_an_entry_that_is_not_covered_is_an_error(hosts: str, key: str, keys: str, where: str) -> None:
    (found,) = errors(injecting("{bearer: one}", hosts, key, keys))
    lines = keys.count("\n")
    assert found == (
        f"hosts.yaml:{5 + lines}:9: the secret `one` is not bound to {where}"
        f' (add "{where}" to `hosts` of the secret (at hosts.yaml:{7 + lines}:3))'
    )


@pytest.mark.parametrize("host", ["a.example.com:0", "a.example.com:65536", "a*.example.com", "10.0.0.1", ""])
def test_18_refuses_a_binding_that_is_no_host_and_port(host: str) -> None:
    (found,) = errors(secret(f'from: "env:A", hosts: ["{host}"]'))
    assert found.startswith(("hosts.yaml:2:31: ", "hosts.yaml:2:30: "))


def test_18_the_binding_is_checked_again_when_a_request_is_decided() -> None:
    rules = policy(injecting("{bearer: one}"))
    stripped = replace(
        rules, secrets={"one": replace(rules.secrets["one"], bindings=())}, routes={}, shared_routes={}
    )
    assert decide(stripped, Identity("box"), head(f"GET {HOST}/"), NOW).code == "secret.unbound"
    none = replace(rules, secrets={}, routes={}, shared_routes={})
    assert decide(none, Identity("box"), head(f"GET {HOST}/"), NOW).code == "secret.unbound"
    assert ask(rules, f"GET {HOST}/").effects.needs


@pytest.mark.parametrize(
    ("item", "injection"),
    [
        ("{bearer: one}", InjectHeader("one", "authorization", "Bearer ")),
        ("{header: {name: X-Api-Key, secret: one}}", InjectHeader("one", "x-api-key")),
        (
            '{header: {name: authorization, secret: one, format: "token {}!"}}',
            InjectHeader("one", "authorization", "token ", "!"),
        ),
        ("{basic: {user: x-access-token, secret: one}}", InjectBasic("one", "x-access-token")),
        ('{basic: {user: "", secret: one}}', InjectBasic("one", "")),
        ("{query: {name: api_key, secret: one}}", InjectQuery("one", "api_key")),
        ("{cookie: {name: session, secret: one}}", InjectCookie("one", "session")),
        (
            (
                '{placeholder: {secret: one, like: github, in: ["header:Authorization",'
                ' "query:key", "cookie:c", path, basic], max: 2}}'
            ),
            InjectPlaceholder(
                "one",
                "github",
                (
                    Slot("header", "authorization"),
                    Slot("query", "key"),
                    Slot("cookie", "c"),
                    Slot("path"),
                    Slot("basic"),
                ),
                2,
            ),
        ),
    ],
)
def test_19_each_kind_of_injection(item: str, injection: Injection) -> None:
    assert need(item) == injection


@pytest.mark.parametrize(
    ("item", "finding"),
    [
        ("{}", "5:9: an item of `inject` needs exactly one kind, this one has none"),
        (
            "{bearer: one, cookie: {name: a, secret: one}}",
            "5:9: an item of `inject` needs exactly one kind, this one has `bearer` and `cookie`",
        ),
        ("{bearr: one}", "5:10: unknown key `bearr` (did you mean `bearer`?)"),
        ("{header: {name: host, secret: one}}", "5:25: `host` belongs to the connection"),
        ("{header: {name: Content-Length, secret: one}}", "5:25: `Content-Length` belongs to the connection"),
        ("{header: {name: cookie, secret: one}}", "5:25: a cookie is injected by name, not as a header"),
        ('{header: {name: "a b", secret: one}}', "5:25: `a b` is not a header name"),
        ("{header: {name: a, secret: one, format: x}}", "5:49: a format needs `{}` exactly once"),
        ('{header: {name: a, secret: one, format: "{}{}"}}', "5:49: a format needs `{}` exactly once"),
        ('{header: {name: a, secret: one, format: "é{}"}}', "5:49: a header value must be printable ASCII"),
        ('{basic: {user: "a:b", secret: one}}', "5:24: a user name must be printable ASCII without a colon"),
        ('{query: {name: "a&b", secret: one}}', "5:24: `a&b` is not a plain parameter name"),
        ('{cookie: {name: "a;b", secret: one}}', "5:25: `a;b` is not a cookie name"),
        ("{placeholder: {secret: one, like: gitlab, in: [path]}}", "5:43: `gitlab` is not one of"),
        ("{placeholder: {secret: one, like: github, in: []}}", "5:51: this placeholder is never swapped"),
        (
            "{placeholder: {secret: one, like: github, in: [body]}}",
            "5:56: `body` is not a slot for a placeholder",
        ),
        ('{placeholder: {secret: one, like: github, in: ["path:x"]}}', "5:56: `path:x` is not a slot"),
        ('{placeholder: {secret: one, like: github, in: ["header:"]}}', "5:56: `header:` is not a slot"),
        ("{placeholder: {secret: one, like: github, in: [path], max: 0}}", "5:68: this must be at least 1"),
        ("{placeholder: {secret: one, like: github, in: [path], max: 17}}", "5:68: this must be at most 16"),
        ("{bearer: three}", "5:9: unknown secret `three`"),
        ("{bearer: ona}", "5:9: unknown secret `ona` (did you mean `one`?)"),
    ],
)
def test_19_says_what_is_wrong_with_an_injection(item: str, finding: str) -> None:
    (found,) = errors(injecting(item))
    assert found.startswith(f"hosts.yaml:{finding}")


def test_20_replaces_by_default_and_fails_where_asked() -> None:
    replaced, failed = need("{bearer: one}"), need("{bearer: one, on_existing: fail}")
    assert isinstance(replaced, InjectHeader)
    assert isinstance(failed, InjectHeader)
    assert (replaced.on_existing, failed.on_existing) == (OnExisting.REPLACE, OnExisting.FAIL)


def test_20_on_existing_is_one_of_two() -> None:
    (found,) = errors(injecting("{bearer: one, on_existing: keep}"))
    assert found.startswith("hosts.yaml:5:36: `keep` is not one of `replace` or `fail`")


RULES = "allow: [{id: read, methods: [GET]}, {id: write, methods: [PUT]}, {id: any}]"


def test_20_for_names_the_rules_that_an_injection_is_meant_for() -> None:
    rules = policy(injecting("{bearer: one, for: [write]}", keys=RULES))
    assert decision_text(rules, f"GET {HOST}/") == "allow read"
    assert decision_text(rules, f"PUT {HOST}/") == "allow write, inject one"
    everything = policy(injecting("{bearer: one}", keys=RULES))
    assert decision_text(everything, f"DELETE {HOST}/") == "allow any, inject one"


def test_20_for_an_unknown_rule_is_an_error() -> None:
    (found,) = errors(injecting("{bearer: one, for: [writ]}", keys=RULES))
    assert (
        found
        == "hosts.yaml:5:9: `for` names `writ`, but this entry has no such allow rule (did you mean `write`?)"
    )


@pytest.mark.parametrize(
    ("one", "two", "slot"),
    [
        ("bearer: one", "bearer: two", "header:authorization"),
        ("bearer: one", "basic: {user: u, secret: two}", "header:authorization"),
        ("bearer: one", "header: {name: AUTHORIZATION, secret: two}", "header:authorization"),
        ("header: {name: a, secret: one}", "header: {name: A, secret: two}", "header:a"),
        ("query: {name: a, secret: one}", "query: {name: a, secret: two}", "query:a"),
        ("cookie: {name: a, secret: one}", "cookie: {name: a, secret: two}", "cookie:a"),
        ("bearer: one", "placeholder: {secret: two, like: hex32, in: [basic]}", "header:authorization"),
        (
            "bearer: one",
            "placeholder: {secret: two, like: hex32, in: ['header:authorization']}",
            "header:authorization",
        ),
        (
            "query: {name: a, secret: one}",
            "placeholder: {secret: two, like: hex32, in: ['query:a']}",
            "query:a",
        ),
        (
            "placeholder: {secret: one, like: hex32, in: [path]}",
            "placeholder: {secret: two, like: hex32, in: [path]}",
            "path",
        ),
    ],
)
def test_21_two_items_that_meet_in_one_slot_are_an_error(one: str, two: str, slot: str) -> None:
    for first, second in ((one, two), (two, one)):
        (found,) = errors(injecting(f"{{{first}}}\n      - {{{second}}}"))
        assert found == (
            f"hosts.yaml:6:9: two credentials can meet in {slot} of one request"
            " (the other is at hosts.yaml:5:9)"
            " (give each its own `for:` with rules that cannot match the same request)"
        )


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("bearer: one", "header: {name: x-key, secret: two}"),
        ("query: {name: a, secret: one}", "query: {name: b, secret: two}"),
        ("query: {name: a, secret: one}", "cookie: {name: a, secret: two}"),
        ("bearer: one", "query: {name: authorization, secret: two}"),
    ],
)
def test_21_two_items_in_two_slots_may_stand_together(one: str, two: str) -> None:
    rules = policy(injecting(f"{{{one}}}\n      - {{{two}}}"))
    assert decision_text(rules, f"GET {HOST}/") == "allow host, inject one, inject two"


@pytest.mark.parametrize(
    ("first", "second", "meet"),
    [
        ("methods: [GET]", "methods: [PUT]", False),
        ("methods: [GET]", "methods: [GET, PUT]", True),
        ("paths: [/a/**]", "paths: [/b/**]", False),
        ("paths: [/a/**]", "paths: ['/*/b']", True),
        ("paths: [/a]", "methods: [GET]", True),
    ],
)
def test_21_for_keeps_two_items_apart_where_their_rules_cannot_match_one_request(
    first: str, second: str, meet: bool
) -> None:
    text = injecting(
        "{bearer: one, for: [x]}\n      - {bearer: two, for: [y]}",
        keys=f"allow: [{{id: x, {first}}}, {{id: y, {second}}}]",
    )
    assert bool(errors(text)) is meet


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("http: true", "a credential is never sent in clear text, but this entry has `http`"),
        ("http: true\n    ports: []", "a credential is never sent in clear text, but this entry has `http`"),
        ("mode: observe", "an entry that injects is always enforced"),
    ],
)
def test_21_what_can_never_hold_beside_inject_is_an_error(keys: str, message: str) -> None:
    lines = keys.count("\n") + 1
    (found,) = errors(injecting("{bearer: one}", keys=f"allow: all\n    {keys}"))
    assert found.startswith(f"hosts.yaml:{5 + lines}:9: {message} (remove ")


def test_21_intercept_never_beside_inject_is_an_error() -> None:
    found = errors(injecting("{bearer: one}", keys="intercept: never"))
    assert (
        "hosts.yaml:4:5: `inject` has no effect: `intercept: never` passes the bytes through unread"
        " (remove either of them)"
    ) in found


def test_22_a_misplaced_placeholder_may_pass_where_an_entry_says_so() -> None:
    assert not ask(policy("hosts: {a.example.com: {}}"), f"GET {HOST}/").effects.misplaced_pass
    assert ask(policy("hosts: {a.example.com: {misplaced: pass}}"), f"GET {HOST}/").effects.misplaced_pass
    assert not ask(policy("hosts: {a.example.com: {misplaced: deny}}"), f"GET {HOST}/").effects.misplaced_pass


def test_22_the_value_of_a_placeholder_is_never_in_the_file() -> None:
    (found,) = errors(injecting("{placeholder: {secret: one, like: github, in: [path], value: x}}"))
    assert found.startswith("hosts.yaml:5:63: unknown key `value`")


def test_23_an_expired_secret_denies_and_is_never_left_out() -> None:
    text = injecting("{bearer: one}").replace('"env:ONE"', '"env:ONE", expires: "2027-01-14"')
    rules = policy(text)
    day = 86400
    assert decision_text(rules, f"GET {HOST}/", at=NOW - day) == "allow host, inject one"
    assert decision_text(rules, f"GET {HOST}/", at=NOW) == "deny secret.expired"
    assert ask(rules, f"GET {HOST}/", at=NOW).effects.needs == ()


def test_23_only_the_request_that_needs_the_secret_is_denied() -> None:
    text = injecting("{bearer: one, for: [write]}", keys=RULES)
    rules = policy(text.replace('"env:ONE"', '"env:ONE", expires: "2020-01-01"'))
    assert decision_text(rules, f"PUT {HOST}/") == "deny secret.expired"
    assert decision_text(rules, f"GET {HOST}/") == "allow read"


def test_23_injected_responses_drop_cookies_by_default() -> None:
    assert ask(policy(injecting("{bearer: one}")), f"GET {HOST}/").effects.cookies is Cookies.DROP


def test_17_an_unused_secret_is_worth_a_word() -> None:
    assert warnings(injecting("{bearer: one}")) == [
        "hosts.yaml:8:3: the secret `two` is never injected (remove it, or inject it)"
    ]
