"""`egress explain`: readable for a tired person, exact for a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.cli.main import main

Captured = pytest.CaptureFixture[str]

RULES = """\
version: 1
secrets:
  token: {from: "env:TOKEN", hosts: [api.example.com]}
  other: {from: "env:OTHER", hosts: [api.example.com]}
limits: {connections: 5}
hosts:
  api.example.com:
    allow:
      - {id: read, methods: [GET], paths: ["/bücher/*", "/a"], limits: {requests: 5/minute}}
      - {id: all-json, headers: {accept: "application/*"}}
      - {id: live, websocket: true, paths: [/live]}
      - {id: late, methods: [PUT], expires: 2030-01-01}
    inject:
      - {bearer: token}
      - placeholder: {secret: other, like: uuid, in: ["header:x-key"]}
  "*.example.com": {}
  free.example.org: {mode: observe, methods: [GET]}
  pinned.example.net: {intercept: never}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.yaml").write_text(RULES, "utf-8")


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(
    "words", [["mine.yaml"], ["--rules", "mine.yaml"], ["-r", "mine.yaml"], ["mine.yaml", "--json"]]
)
def test_rules_are_named_as_for_check_and_test(words: list[str]) -> None:
    Path("mine.yaml").write_text("version: 1\nhosts: {own.example.com: {allow: all}}\n", "utf-8")
    assert main(["explain", "GET", "https://own.example.com/", *words]) == 0
    assert main(["explain", "GET", "https://api.example.com/a", *words]) == 1


def test_rule_files_of_both_kinds_are_joined(capsys: Captured) -> None:
    for name in ("one", "two"):
        text = f"version: 1\nhosts: {{{name}.example.com: {{allow: all}}}}\n"
        Path(f"{name}.yaml").write_text(text, "utf-8")
    for name in ("one", "two"):
        url = f"https://{name}.example.com/"
        assert main(["explain", "GET", url, "two.yaml", "--rules", "one.yaml"]) == 0, capsys.readouterr()


def test_an_allowed_request_shows_what_decides_and_what_comes_with_it(capsys: Captured) -> None:
    assert main(["explain", "GET", "https://api.example.com/a"]) == 0
    assert squeezed(capsys.readouterr().out) == [
        "GET https://api.example.com/a",
        "ALLOW api.example.com#read",
        "entry api.example.com hosts.yaml:7:3",
        "passed over *.example.com less specific; only its denies apply",
        "rule read hosts.yaml:9:9",
        "injects token into header:authorization from env",
        "swaps other into header:x-key from env",
        "forwards /a",
        "limits connections 5 hosts.yaml:5:1",
        "limits requests 5/minute hosts.yaml:9:64",
        "also considered",
        "allow all-json only with header accept: application/* hosts.yaml:10:9",
        "allow live only paths /live hosts.yaml:11:9",
        "allow late only methods PUT hosts.yaml:12:9",
    ]


def test_a_denied_request_shows_why_and_what_would_allow_it(capsys: Captured) -> None:
    assert main(["explain", "POST", "https://api.example.com/b"]) == 1
    lines = squeezed(capsys.readouterr().out)
    assert lines[:5] == [
        "POST https://api.example.com/b",
        "DENY no rule allows this request",
        "code rule.none, status 403",
        "entry api.example.com hosts.yaml:7:3",
        "passed over *.example.com less specific; only its denies apply",
    ]
    assert lines[-2:] == [
        "hint: to allow only this, add to `allow` under api.example.com (hosts.yaml:7:3):",
        "- {id: new, methods: [POST], paths: [/b]}",
    ]


def test_what_is_observed_or_unread_says_so(capsys: Captured) -> None:
    assert main(["explain", "POST", "https://free.example.org/"]) == 0
    assert "`mode: observe` lets it pass" in capsys.readouterr().out
    assert main(["explain", "POST", "https://pinned.example.net/"]) == 0
    assert "only the host is decided on" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["GET", "api.example.com/a"], 0),
        (["GET", "https://API.example.com./a"], 0),
        (["GET", "https://api.example.com/bücher/x"], 0),
        (["GET", "https://api.example.com/b%C3%BCcher/x"], 0),
        (["GET", "https://api.example.com/live"], 0),
        (["GET", "https://api.example.com/live", "--websocket"], 0),
        (["GET", "https://api.example.com/a", "--websocket"], 1),
        (["POST", "https://api.example.com/b"], 1),
        (["POST", "https://api.example.com/b", "-H", "Accept: application/json"], 0),
        (["POST", "https://api.example.com/b", "-H", "accept: text/html"], 1),
        (["PUT", "https://api.example.com/b", "--at", "2029-12-31"], 0),
        (["PUT", "https://api.example.com/b", "--at", "2030-01-02T00:00:00Z"], 1),
        (["GET", "http://api.example.com/a"], 1),
        (["GET", "https://[2001:db8::1]/"], 1),
    ],
)
def test_a_request_can_be_told_in_full(words: list[str], status: int) -> None:
    assert main(["explain", *words]) == status


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["GET", "https://api.example.com:99999/"], "a port is a number"),
        (["GET", "https:///a"], "not a full URL"),
        (["GET", "ftp://api.example.com/"], "not a full URL"),
        (["GET", "https://u:p@api.example.com/"], "not a full URL"),
        (["GET", "https://exa_mple!.com/"], "host name"),
        (["GET", ""], "not a full URL"),
        (["GET", "https://api.example.com/a", "-H", "nonsense"], "--header needs NAME: VALUE"),
        (["GET", "https://api.example.com/a", "-H", "a: b\r\nc: d"], "control character"),
        (["GET", "https://api.example.com/a", "--at", "tomorrow"], "--at: this is not a day or moment"),
    ],
)
def test_a_request_that_cannot_be_is_status_two(words: list[str], says: str, capsys: Captured) -> None:
    assert main(["explain", *words]) == 2
    assert says in capsys.readouterr().err


def test_rules_come_from_the_files_that_are_named() -> None:
    Path("more.yaml").write_text("version: 1\nhosts: {new.example.org: {}}\n", "utf-8")
    ask = ["explain", "GET", "https://new.example.org/"]
    assert main(ask) == 1
    assert main([*ask, "--rules", "more.yaml"]) == 0
    assert main([*ask, "-r", "hosts.yaml", "-r", "more.yaml"]) == 0


def test_a_profile_is_asked_for_by_name(capsys: Captured) -> None:
    with Path("hosts.yaml").open("a", encoding="utf-8") as file:
        file.write("profiles:\n  agents: {hosts: [api.example.com]}\n")
    ask = ["explain", "GET", "https://api.example.com/a"]
    assert main(ask) == 1
    assert main([*ask, "--profile", "agents"]) == 0
    assert "profile agents" in squeezed(capsys.readouterr().out)


def test_as_json_a_program_gets_all_of_it(capsys: Captured) -> None:
    assert main(["explain", "GET", "https://api.example.com/a", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == "allow"
    assert data["outcome"] == "allow read, inject token, inject other"
    assert data["rule"] == "api.example.com#read"
    assert data["place"] == "hosts.yaml:9:9"
    assert data["entries"] == [
        {"key": "api.example.com", "place": "hosts.yaml:7:3"},
        {"key": "*.example.com", "place": "hosts.yaml:16:3"},
    ]
    assert data["inject"][0] == {"secret": "token", "slots": ["header:authorization"], "source": "env"}
    assert data["considered"][0] == {
        "rule": "api.example.com#read",
        "kind": "allow",
        "fits": True,
        "misses": "",
        "place": "hosts.yaml:9:9",
    }
    assert (data["hint"], data["hint_yaml"]) == ("", [])


def test_as_json_a_denial_brings_its_hint(capsys: Captured) -> None:
    assert main(["explain", "GET", "https://new.example.org/", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["verdict"], data["code"], data["rule"]) == ("deny", "host.unknown", None)
    assert data["hint_yaml"] == ["hosts:", "  new.example.org: {}"]


def test_a_hostile_url_stays_one_printable_line(capsys: Captured) -> None:
    """What a sandbox asked for is pasted here from a log; it must not act on the terminal."""
    for url in ("https://api.example.com/\x1b[2J\u202e\n", "https://api.example.com/\x9b31m"):
        main(["explain", "GET\x1b[1m", url])
        said = capsys.readouterr()
        assert all(line.isprintable() for line in (said.out + said.err).splitlines())


REASONED = """\
version: 1
hosts:
  api.example.com:
    allow: all
    deny: [{id: no-keys, paths: [/keys], reason: "Keys let somebody in."}]
"""


def test_a_deny_is_shown_with_its_reason(capsys: Captured) -> None:
    Path("hosts.yaml").write_text(REASONED, "utf-8")
    assert main(["explain", "GET", "https://api.example.com/keys"]) == 1
    assert "reason Keys let somebody in." in squeezed(capsys.readouterr().out)
    main(["explain", "GET", "https://api.example.com/keys", "--json"])
    assert json.loads(capsys.readouterr().out)["reason"] == "Keys let somebody in."


def test_what_is_stripped_is_shown(capsys: Captured) -> None:
    text = RULES.replace("{bearer: token}", '{bearer: token, strip: ["query:key", "cookie:sid"]}')
    Path("hosts.yaml").write_text(text, "utf-8")
    assert main(["explain", "GET", "https://api.example.com/a"]) == 0
    assert "strips query:key, cookie:sid if the sandbox sends it" in squeezed(capsys.readouterr().out)
    main(["explain", "GET", "https://api.example.com/a", "--json"])
    assert json.loads(capsys.readouterr().out)["strip"] == ["query:key", "cookie:sid"]


def test_headers_that_are_set_are_shown(capsys: Captured) -> None:
    text = RULES.replace("api.example.com:\n", 'api.example.com:\n    set_headers: { x-a: "b c" }\n', 1)
    assert text != RULES
    Path("hosts.yaml").write_text(text, "utf-8")
    assert main(["explain", "GET", "https://api.example.com/a"]) == 0
    assert "sets x-a: b c whatever the sandbox sends" in squeezed(capsys.readouterr().out)
    main(["explain", "GET", "https://api.example.com/a", "--json"])
    assert json.loads(capsys.readouterr().out)["set_headers"] == {"x-a": "b c"}


GRAPHQL = """\
version: 1
hosts:
  api.example.com:
    allow:
      - {id: gql, paths: [/graphql], graphql: {query: [viewer]}}
"""
ASKED = ["explain", "POST", "https://api.example.com/graphql", "gql.yaml"]


@pytest.mark.parametrize(
    ("document", "status", "shown"),
    [
        ("{viewer{a}}", 0, ["body graphql_query: viewer"]),
        (
            "mutation{x}",
            1,
            [
                "code graphql.field, status 403",
                "body graphql_mutation: x",
                "body mutation.x decides",
                "allow gql only root fields query.viewer gql.yaml:5:9",
            ],
        ),
        ("{", 1, ["code graphql.syntax, status 403", "body the document is not GraphQL, or too large"]),
    ],
)
def test_what_a_body_says_is_shown(document: str, status: int, shown: list[str], capsys: Captured) -> None:
    Path("gql.yaml").write_text(GRAPHQL, "utf-8")
    assert main([*ASKED, "--graphql", document]) == status
    printed = squeezed(capsys.readouterr().out)
    assert set(shown) <= set(printed), printed
    body = json.dumps({"query": document})
    assert main([*ASKED, "-H", "content-type: application/json", "--body", body]) == status
    assert set(shown) <= set(squeezed(capsys.readouterr().out))


def test_programs_get_the_facts(capsys: Captured) -> None:
    Path("gql.yaml").write_text(GRAPHQL, "utf-8")
    assert main([*ASKED, "--graphql", "mutation{x}", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["facts"], answer["item"]) == ({"graphql_mutation": "x"}, "mutation.x")


def test_a_body_that_is_not_given_is_what_decides(capsys: Captured) -> None:
    Path("gql.yaml").write_text(GRAPHQL, "utf-8")
    assert main([*ASKED, "-H", "content-type: application/json"]) == 1
    assert "allow gql its body decides gql.yaml:5:9" in squeezed(capsys.readouterr().out)


def test_a_request_has_one_body() -> None:
    assert main([*ASKED, "--graphql", "{a}", "--body", "{}"]) == 2


def test_a_message_of_mcp_is_shown_by_its_names(capsys: Captured) -> None:
    Path("mcp.yaml").write_text(
        "version: 1\nhosts:\n  mcp.example.com:\n    allow:\n"
        "      - {id: tools, paths: [/mcp], mcp: {tools: [{name: create, when: {repo: a}}]}}\n",
        "utf-8",
    )
    asked = ["explain", "POST", "https://mcp.example.com/mcp", "mcp.yaml", "--mcp"]
    assert main([*asked, 'call create {"repo": "a"}']) == 0
    assert "body mcp_arguments: repo" in squeezed(capsys.readouterr().out)
    assert main([*asked, 'call create {"repo": "b"}']) == 1
    printed = squeezed(capsys.readouterr().out)
    assert "code mcp.arguments, status 403" in printed
    assert "allow tools only with repo mcp.yaml:5:9" in printed
    assert main([*asked, "call"]) == 2
    assert "--mcp" in capsys.readouterr().err
    assert main([*asked, "tools/list", "--body", "{}"]) == 2


def test_the_question_of_git_before_a_push_has_no_body(capsys: Captured) -> None:
    Path("git.yaml").write_text(
        "version: 1\nhosts:\n  git.example.com:\n    allow:\n"
        "      - {id: work, git: {push: {repos: [acme/app], refs: ['refs/heads/x']}}}\n",
        "utf-8",
    )
    asked = "https://git.example.com/acme/{}/info/refs?service=git-receive-pack"
    assert main(["explain", "GET", asked.format("app"), "git.yaml"]) == 0
    assert main(["explain", "GET", asked.format("other"), "git.yaml"]) == 1
    assert "code git.repository, status 403" in squeezed(capsys.readouterr().out)


GIT = """\
version: 1
hosts:
  git.example.com:
    allow:
      - {id: clone, git: {fetch: ["acme/*"]}}
      - {id: work, git: {push: {repos: [acme/app], refs: ["refs/heads/agent/**"]}}}
"""
ASKED_GIT = ["explain", "POST", "https://git.example.com/", "git.yaml", "--git"]


@pytest.mark.parametrize(
    ("asked", "status", "shown"),
    [
        ("fetch acme/docs", 0, ["body git_service: fetch", "forwards /acme/docs/git-upload-pack"]),
        ("push acme/app.git create refs/heads/agent/x", 0, ["body git_service: push"]),
        (
            "push acme/app refs/heads/main",
            1,
            [
                "code git.ref, status 403",
                "body update refs/heads/main decides",
                "allow work only refs refs/heads/agent/** git.yaml:6:9",
            ],
        ),
        ("push acme/app force refs/heads/agent/x", 1, ["allow work update: fast-forward git.yaml:6:9"]),
        ("push acme/docs refs/heads/agent/x", 1, ["allow work only push of acme/app git.yaml:6:9"]),
    ],
)
def test_a_request_of_git_is_asked_about_in_words(
    asked: str, status: int, shown: list[str], capsys: Captured
) -> None:
    Path("git.yaml").write_text(GIT, "utf-8")
    assert main([*ASKED_GIT, asked]) == status
    printed = squeezed(capsys.readouterr().out)
    assert set(shown) <= set(printed), printed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--git", "clone acme/app"], "this is no request of git"),
        (["--git", "push acme/app main"], "not the full name of a ref"),
        (["--git", "fetch https://git.example.com/acme/app"], "the repository stands below the URL"),
        (["--git", "fetch acme/app", "--body", "x"], "leave --body out"),
    ],
)
def test_a_request_that_git_would_not_send_is_refused(words: list[str], said: str, capsys: Captured) -> None:
    Path("git.yaml").write_text(GIT, "utf-8")
    assert main(["explain", "POST", "https://git.example.com", "git.yaml", *words]) == 2
    assert said in capsys.readouterr().err
    assert main(["explain", "GET", "https://git.example.com", "git.yaml", "--git", "fetch acme/app"]) == 2


def test_a_call_of_a_model_is_explained_from_a_few_words(capsys: Captured) -> None:
    rules = "version: 1\nhosts:\n  api.example.org:\n    allow:\n"
    rules += "      - { id: calls, llm: { api: anthropic, models: ['m-*'], max_output: 50 } }\n"
    Path("models.yaml").write_text(rules, "utf-8")
    asked = ["explain", "POST", "https://api.example.org/v1/messages", "models.yaml", "--llm"]
    assert main([*asked, "m-1 max=50"]) == 0
    assert main([*asked, "m-1 max=51"]) == 1
    told = squeezed(capsys.readouterr().out)
    assert any("llm_max_output: 51" in line for line in told)
    assert any("an output of at most 50 tokens, stated" in line for line in told)
    assert main([*asked, "m-1 most=5"]) == 2
    assert "--llm: this is no part of a call" in capsys.readouterr().err
    assert main([*asked, "m-1", "--body", "{}"]) == 2
