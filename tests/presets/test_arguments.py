"""What the arguments of a preset do, and what they cannot do."""

from __future__ import annotations

import pytest

from egress.types import Decision, InjectBasic, InjectHeader, Redirects, Severity
from tests.presets.preset_samples import ask, ask_git, ask_graphql, loaded, loaded_uses, policy

OWN_SECRET = {"bot": {"from": "file:/run/secrets/bot", "hosts": ["api.github.com", "github.com"]}}


def secrets_of(decision: Decision) -> set[str]:
    return {need.secret for need in decision.effects.needs}


def test_github_writes_nowhere_unless_told() -> None:
    rules = policy("github", {})
    assert ask(rules, "GET https://github.com/any/repo.git/info/refs?service=git-upload-pack").allowed
    assert not ask(rules, "GET https://github.com/any/repo.git/info/refs?service=git-receive-pack").allowed
    assert not ask(rules, "POST https://github.com/any/repo.git/git-receive-pack").allowed
    assert not ask(rules, "POST https://api.github.com/repos/any/repo/issues").allowed
    assert not ask(rules, "PATCH https://api.github.com/repos/any/repo/issues/1").allowed


def test_github_reads_nothing_when_told_so() -> None:
    rules = policy("github", {"read": []})
    assert ask(rules, "GET https://api.github.com/user").allowed
    for url in (
        "https://api.github.com/repos/acme/widgets",
        "https://github.com/acme/widgets/info/refs?service=git-upload-pack",
        "https://codeload.github.com/acme/widgets/tar.gz/main",
        "https://raw.githubusercontent.com/acme/widgets/main/README.md",
    ):
        assert not ask(rules, f"GET {url}").allowed, url


@pytest.mark.parametrize("spelling", ["widgets", "widgets.git"])
def test_github_takes_a_repository_with_and_without_its_suffix(spelling: str) -> None:
    rules = policy("github", {"read": ["acme/widgets"], "write": ["acme/widgets"]})
    for repository, allowed in ((f"acme/{spelling}", True), (f"acme/x{spelling}", False)):
        for service in ("git-upload-pack", "git-receive-pack"):
            url = f"https://github.com/{repository}/info/refs?service={service}"
            assert ask(rules, f"GET {url}").allowed is allowed


def test_a_wildcard_stays_in_its_part_of_the_name() -> None:
    rules = policy("github", {"read": ["acme/lib-*"]})
    assert ask(rules, "GET https://api.github.com/repos/acme/lib-core").allowed
    assert not ask(rules, "GET https://api.github.com/repos/acme/core").allowed
    assert not ask(rules, "GET https://api.github.com/repos/mallory/lib-core").allowed


def test_a_renamed_secret_is_the_one_of_the_file() -> None:
    rules = policy("github", {"secret": "bot"}, secrets=OWN_SECRET)
    assert list(rules.secrets) == ["bot"]
    assert rules.secrets["bot"].scheme == "file"
    assert secrets_of(ask(rules, "GET https://api.github.com/user")) == {"bot"}


def test_a_secret_of_the_file_must_be_bound_to_the_hosts_of_the_preset() -> None:
    narrow = {"bot": {"from": "env:BOT", "hosts": ["api.github.com"]}}
    result = loaded("github", {"secret": "bot"}, secrets=narrow)
    assert result.policy is None
    assert any("not bound to github.com" in finding.message for finding in result.findings)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("github", {"read": ["acme/../evil"]}),
        ("github", {"read": ["/acme/widgets"]}),
        ("github", {"read": ["acme/widgets?x"]}),
        ("github", {"write": "acme/widgets"}),
        ("github", {"secret": "GITHUB_TOKEN"}),
        ("github", {"repos": ["acme/widgets"]}),
        ("github", {"push": ["agent/**"]}),
        ("github", {"push": {"refs": "agent/**"}}),
        ("github", {"push": {"refs": ["agent/../main"]}}),
        ("github", {"push": {"refs": ["refs/**"]}, "write": ["acme/app"]}),
        ("github", {"push": {"refs": ["/main"]}}),
        ("github", {"push": {"branches": ["main"]}}),
        ("github", {"push.refs": ["main"]}),
        ("gitlab", {"host": "*.example.com"}),
        ("gitlab", {"host": "https://gitlab.example.com"}),
        ("gitlab", {"host": "10.0.0.1"}),
        ("openai", {"host": "**.com"}),
        ("openai", {"base": "*"}),
        ("openai", {"also": ["files"]}),
        ("python-index", {}),
        ("python-index", {"index": "*.example.com", "files": []}),
        ("npm-index", {"registry": "registry.example.com/npm"}),
    ],
)
def test_an_argument_that_would_widen_or_break_a_preset_is_refused(
    name: str, arguments: dict[str, object]
) -> None:
    result = loaded(name, arguments)
    assert result.policy is None
    assert result.findings[0].place.file == "hosts.yaml"


def test_gitlab_keeps_the_api_closed_until_projects_are_named_in_its_spelling() -> None:
    """Narrowing `read` and forgetting `api_read` must not leave the API open."""
    rules = policy("gitlab", {"read": ["acme/widgets"]})
    assert ask(rules, "GET https://gitlab.com/acme/widgets/info/refs?service=git-upload-pack").allowed
    assert not ask(rules, "GET https://gitlab.com/api/v4/projects/acme%2Fwidgets/issues").allowed


def test_gitlab_signs_in_once_to_git_and_once_to_the_api() -> None:
    """Two credentials in one request would leave it to the server which of them counts."""
    rules = policy("gitlab", {"api_read": ["42"]})
    git = ask(rules, "GET https://gitlab.com/acme/widgets/info/refs?service=git-upload-pack")
    api = ask(rules, "GET https://gitlab.com/api/v4/projects/42/issues")
    assert [type(need) for need in git.effects.needs] == [InjectBasic]
    assert [type(need) for need in api.effects.needs] == [InjectHeader]


def test_openai_follows_host_and_base_together_with_its_secret() -> None:
    rules = policy("openai", {"host": "llm.example.com", "base": "openai/v1"})
    decision = ask(rules, "POST https://llm.example.com/openai/v1/chat/completions")
    assert secrets_of(decision) == {"openai"}
    assert not ask(rules, "POST https://llm.example.com/v1/chat/completions").allowed
    assert not ask(rules, "POST https://api.openai.com/v1/chat/completions").allowed


def test_a_limit_of_the_file_takes_the_place_of_the_presets() -> None:
    more = {"hosts": {"api.anthropic.com": {"limits": {"request_body": "1 MiB"}}}}
    decision = ask(policy("anthropic", {}, **more), "POST https://api.anthropic.com/v1/messages")
    assert [limit.request_body for limit in decision.effects.limits] == [1024**2]


def test_one_host_may_be_both_index_and_files() -> None:
    host = "mirror.example.com"
    python = policy("python-index", {"index": host, "files": [host]})
    assert ask(python, f"GET https://{host}/simple/widgets/").allowed
    assert ask(python, f"GET https://{host}/files/widgets.whl").allowed


def test_one_host_cannot_be_registry_and_files_where_the_two_get_different_rules() -> None:
    """One of the two blocks would win in silence, and only one of them denies signing in."""
    host = "mirror.example.com"
    result = loaded("npm-index", {"registry": host, "files": [host]})
    assert [finding.message for finding in result.findings] == [
        f"the preset describes `{host}` twice, in different ways"
    ]


def test_all_presets_stand_together_in_one_file() -> None:
    use = [
        "anthropic",
        "openai",
        {"gitlab": {"read": ["acme/*"]}},
        {"python-index": {"index": "index.example.com", "files": ["files.example.com"]}},
        {"npm-index": {"registry": "registry.example.com", "files": ["files.example.com"]}},
    ]
    result = loaded("github", {}, use=[{"github": {}}, *use])
    assert [str(finding) for finding in result.findings] == []
    assert result.policy is not None


# GraphQL -----------------------------------------------------------------------------------------

GRAPHQL = [
    ("github", "api.github.com", "/graphql"),
    ("gitlab", "gitlab.com", "/api/graphql"),
]


@pytest.mark.parametrize(("name", "host", "path"), GRAPHQL)
def test_graphql_is_closed_unless_somebody_opens_it(name: str, host: str, path: str) -> None:
    denied = ask(policy(name, {}), f"POST https://{host}{path}")
    assert denied.rule is not None
    assert denied.rule.id == f"{name}-no-graphql"
    assert "graphql: read-write" in denied.rule.reason
    assert not loaded(name, {}).findings


@pytest.mark.parametrize(("name", "host", "path"), GRAPHQL)
def test_graphql_is_opened_by_a_choice_whose_risk_is_said(name: str, host: str, path: str) -> None:
    result = loaded(name, {"graphql": "read-write"})
    (finding,) = result.findings
    assert finding.severity is Severity.NOTICE
    assert f"{name}, graphql: read-write: GraphQL is not read." in finding.message
    assert result.policy is not None
    allowed = ask(result.policy, f"POST https://{host}{path}")
    assert secrets_of(allowed) == {name}
    for other in (f"GET https://{host}{path}", f"POST https://{host}{path}/x"):
        assert ask(result.policy, other).code == "rule.none"
    # Everything else of the preset is as before.
    assert not ask(result.policy, f"POST https://{host}/user/keys").allowed
    kept = {rule.ref.id for entry in result.policy.entries.values() for rule in (*entry.allow, *entry.deny)}
    was = {rule.ref.id for entry in policy(name, {}).entries.values() for rule in (*entry.allow, *entry.deny)}
    assert kept - was == {f"{name}-graphql"}
    assert was - kept == {f"{name}-no-graphql"}


def test_graphql_within_repositories_reads_and_writes_what_is_named() -> None:
    arguments = {"read": ["acme/*"], "write": ["acme/app"], "graphql": "scoped"}
    ids = {"ids": ["acme/app=R_kgDOABPHjQ", "acme/docs=R_kgDOBfXg_w"]}
    read = '{repository(owner:"acme",name:"docs"){issues(first:1){nodes{title}}}}'
    foreign, comment = (
        read.replace("acme", "evil"),
        "mutation{addComment(input:{subjectId:%s}){clientMutationId}}",
    )
    here, elsewhere = comment % '"I_kwDOABPHjQE"', comment % '"I_kwDOBfXg_wE"'
    for given, allowed in (
        (arguments, {read}),
        (arguments | ids, {read, here}),
        (arguments | ids | {"write": []}, {read}),
        (arguments | ids | {"read": []}, {here}),
        (arguments | ids | {"graphql": "deny"}, set()),
    ):
        rules = policy("github", given)
        for document in (read, foreign, here, elsewhere):
            assert ask_graphql(rules, document).allowed is (document in allowed), (given, document)


def test_requests_to_github_ask_for_ids_that_tell_their_repository() -> None:
    decision = ask(policy("github", {}), "GET https://api.github.com/repos/acme/app")
    assert decision.effects.set_headers == (("x-github-next-global-id", "1"),)


def test_a_deny_of_graphql_in_the_file_still_wins() -> None:
    own = {"api.github.com": {"deny": [{"id": "mine", "paths": ["/graphql"]}]}}
    rules = policy("github", {"graphql": "read-write"}, hosts=own)
    assert str(ask(rules, "POST https://api.github.com/graphql").rule) == "api.github.com#mine"


# Several presets and their choices ---------------------------------------------------------------


def test_copilot_serves_every_plan_and_stands_beside_github() -> None:
    both = loaded_uses([{"github": {"read": ["acme/*"]}}, "copilot"])
    assert both.findings == ()
    assert both.policy is not None
    assert secrets_of(ask(both.policy, "GET https://api.github.com/user")) == {"github"}
    assert secrets_of(ask(both.policy, "GET https://api.github.com/copilot_internal/user")) == {"copilot"}
    for plan in ("", "individual.", "business.", "enterprise."):
        asked = ask(both.policy, f"POST https://api.{plan}githubcopilot.com/chat/completions")
        assert secrets_of(asked) == {"copilot"}


def test_hugging_face_downloads_end_at_hosts_that_see_no_token() -> None:
    rules = policy("huggingface", {})
    for host in ("cdn-lfs.hf.co", "cas-bridge.xethub.hf.co", "us.aws.cdn.hf.co"):
        asked = ask(rules, f"GET https://{host}/a/b")
        assert asked.allowed
        assert not secrets_of(asked)
    download = ask(rules, "GET https://huggingface.co/acme/small/resolve/main/model.bin")
    assert download.effects.redirects is Redirects.SIGNED


def test_the_xet_store_is_opened_by_a_choice_whose_risk_is_said() -> None:
    url = "https://huggingface.co/api/models/acme/small/xet-{}-token/main"
    closed = ask(policy("huggingface", {}), "GET " + url.format("read"))
    assert closed.rule is not None
    assert "HF_HUB_DISABLE_XET=1" in closed.rule.reason
    result = loaded("huggingface", {"xet": "read"})
    assert [finding.severity for finding in result.findings] == [Severity.NOTICE]
    assert result.policy is not None
    assert ask(result.policy, "GET " + url.format("read")).allowed
    assert not ask(result.policy, "GET " + url.format("write")).allowed
    assert not ask(result.policy, "POST " + url.format("read")).allowed


def test_an_archive_is_read_in_clear_text_only_where_its_sources_say_so() -> None:
    rules = policy("apt-archive", {"archives": ["a.example.com"], "clear_text": ["b.example.com"]})
    assert ask(rules, "GET https://a.example.com/x").allowed
    assert not ask(rules, "GET http://a.example.com/x").allowed
    assert ask(rules, "GET http://b.example.com/x").allowed
    assert not ask(rules, "PUT http://b.example.com/x").allowed


def test_a_push_moves_branches_of_agents_and_nothing_else() -> None:
    rules = policy("github", {"read": ["acme/*"], "write": ["acme/widgets"]})
    assert ask_git(rules, "https://github.com", "push acme/widgets create refs/heads/agent/x").allowed
    assert ask_git(rules, "https://github.com", "push acme/widgets refs/heads/main").code == "git.ref"
    assert (
        ask_git(rules, "https://github.com", "push acme/docs create refs/heads/agent/x").code
        == "git.repository"
    )


@pytest.mark.parametrize("name", ["github", "gitlab"])
def test_other_refs_are_named_as_branches_or_in_full(name: str) -> None:
    arguments = {"write": ["acme/widgets"], "push": {"refs": ["wip/*", "refs/tags/v*"]}}
    rules, base = policy(name, arguments), f"https://{name}.com"
    for refs, allowed in (
        ("create refs/heads/wip/x", True),
        ("create refs/tags/v1", True),
        ("create refs/tags/x1", False),
        ("create refs/heads/agent/x", False),
        ("refs/heads/main", False),
    ):
        assert ask_git(rules, base, f"push acme/widgets {refs}").allowed is allowed, refs


def test_no_refs_are_no_pushes() -> None:
    rules = policy("github", {"write": ["acme/widgets"], "push": {"refs": []}})
    assert ask_git(rules, "https://github.com", "fetch acme/widgets").allowed
    assert not ask_git(rules, "https://github.com", "push acme/widgets create refs/heads/agent/x").allowed


def test_two_uses_for_two_repositories_have_a_credential_each() -> None:
    secrets = {
        name: {"from": f"env:{name.upper()}", "hosts": ["api.github.com", "github.com"]}
        for name in ("a", "b")
    }
    first = {"github": {"read": ["acme/*"], "write": ["acme/app"], "secret": "a"}}
    second = {"read": ["octo/*"], "write": ["octo/app"], "secret": "b"}
    rules = loaded_uses([first, {"github": second, "as": "octo"}], secrets=secrets).policy
    assert rules is not None
    for repository, secret in (("acme/app", "a"), ("octo/app", "b")):
        for asked in (f"fetch {repository}", f"push {repository} create refs/heads/agent/x"):
            assert secrets_of(ask_git(rules, "https://github.com", asked)) == {secret}
    both = [first, {"github": {**second, "read": ["acme/app"]}, "as": "octo"}]
    findings = loaded_uses(both, secrets=secrets).findings
    assert any("two credentials can meet" in finding.message for finding in findings)
