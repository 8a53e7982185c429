"""A credential used for what it was not given for, on the very host that it is for; and redirects.

The rules of the presets stand in front of hosts with the names of the services, or of the lab's own where a
preset lets them be named. Every case has its honest twin: the same service, used as the rules mean it.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable
from contextlib import nullcontext
from urllib.parse import urljoin, urlsplit

import pytest

from tests.attack.catalogue import extended_rules
from tests.attack.catalogue.extended_rules import COOKIES, GITLAB, HERE, OPENAI, PLACES, SECRETS, SIGNED, STAY
from tests.attack.lab.attack_spellings import in_turn
from tests.attack.lab.cases import case
from tests.attack.lab.client import Answer, basic, request
from tests.attack.lab.harm import Finding, Harm
from tests.attack.lab.hostile_handlers import credential
from tests.attack.lab.http2 import Http2, head
from tests.attack.lab.lab import Lab
from tests.attack.lab.names import API, EVIL, OTHER, QUERY, SCOPED
from tests.attack.lab.proxies import Egress, Proxy
from tests.proxy.lab.upstream_request import UpstreamRequest

pytestmark = pytest.mark.system("ip", "iproute2")

HUB, GIT = "api.github.com", "github.com"
DENIED = frozenset(
    {"rule.none", "rule.denied", "path.ambiguous", "method.refused", "method.override", "path.override"}
)
DENIED_BY_GIT = frozenset({"git.repository", "git.endpoint"})
"""Denials in the protocol of git, in which most have the status 200."""
JSON = "content-type: application/json"
PUSH_TYPE = "content-type: application/x-git-receive-pack-request"


@pytest.fixture
def egress(wide: Egress) -> Egress:
    return wide


@pytest.fixture(autouse=True)
def hosts(lab: Lab) -> None:
    extended_rules.furnish(lab)


def hold(lab: Lab, proxy: Proxy, host: str, wanted: Iterable[str], *lines: str, body: bytes = b"") -> None:
    """Try requests, each a method and a target, that the rules must not let through."""
    asked = [each.split(" ", 1) for each in wanted]
    data = [request(host, target, *lines, method=method, body=body) for method, target in asked]
    for at, answer in enumerate(in_turn(proxy, host, data)):
        is_denied = answer.code in DENIED_BY_GIT or (answer.status in {400, 403} and answer.code in DENIED)
        if proxy.name == "egress" and not is_denied:
            raise AssertionError(f"{asked[at]} is answered {answer}")
    site = lab.internet.sites.get(host, lab.any)
    sent = lab.wait(proxy, lambda: found if len(found := lab.requests(proxy, site)) >= len(data) else [])
    if sent or lab.requests(proxy, site):
        raise Finding(Harm.SENT, f"{host} was asked to {[each.start for each in sent]}")
    assert proxy.name == "egress", "even the naive proxy does not pass all of them on"


def honest(
    lab: Lab,
    proxy: Proxy,
    host: str,
    method: str,
    target: str,
    wanted: str,
    *lines: str,
    body: bytes | None = None,
) -> None:
    """The twin: this goes through, with the secret of the preset in its place."""
    if proxy.name != "egress":
        return
    if body is None:
        body = b"{}" if method in {"POST", "PATCH", "PUT"} else b""
    proxy.ask(host, request(host, target, *lines, method=method, body=body))
    found = lab.requests(proxy, lab.internet.sites.get(host, lab.any))
    assert [each.method for each in found] == [method], f"{method} {target} did not arrive"
    assert wanted in [text for _, text in found[0].fields], found[0].fields
    lab.begin(proxy)


def bearer(name: str) -> str:
    return f"Bearer {SECRETS[name].decode()}"


# What an API can be told to do ------------------------------------------------------------------


@case("S-57", "gists, issues and comments where the rules do not allow them", Harm.SENT, also=PLACES)
def test_gists_issues_and_comments_elsewhere(lab: Lab, proxy: Proxy) -> None:
    honest(lab, proxy, HUB, "POST", "/repos/acme/app/issues", bearer("github"), JSON)
    honest(lab, proxy, HUB, "GET", "/repos/acme/app/issues", bearer("github"))
    tries = (
        *(
            "POST /gists",
            "POST /gists/",
            "POST /Gists",
            "POST /%67ists",
            "PATCH /gists/1",
            "POST /gists/1/comments",
        ),
        *("POST /gists/1/forks", "PUT /gists/1/star", "POST /repos/mallory/drop/issues"),
        *(
            "POST /repos/mallory/drop/issues/1/comments",
            "POST /repos/acme/app2/issues",
            "POST /repos/acme/other/issues",
        ),
        *("POST /repos/ACME/APP/issues", "POST /repos/acme/app./issues", "POST /repos/acme/app%20/issues"),
        *("POST /repos/acme/app/../../mallory/drop/issues", "POST /repos/acme/%2e%2e/mallory/drop/issues"),
        *("POST /repos/acme%2Fapp/issues", "POST /repos/acme/app%2F..%2F..%2Fmallory%2Fdrop/issues"),
        *(
            "POST /repos/acme/app/issues/1/../../../../../gists",
            "POST //gists",
            "POST /repos/acme/app//../../../gists",
        ),
        *(
            "POST /repos/acme/app/issues;/../../gists",
            "POST /repositories/1296269/issues",
            "POST /user/repos",
        ),
        *("POST /repos/acme/app/forks", "POST /repos/acme/app/generate", "PUT /repos/acme/app/contents/x"),
        *(
            "POST /repos/acme/app/git/blobs",
            "POST /repos/acme/app/releases",
            "POST /repos/acme/app/dispatches",
        ),
        *(
            "POST /repos/acme/app/pulls/1/reviews",
            "PUT /repos/acme/app/pulls/1/merge",
            "DELETE /repos/acme/app",
        ),
        *(
            "PATCH /repos/acme/app",
            "POST /orgs/acme/repos",
            "POST /markdown",
            "POST /search/code",
            "PATCH /user",
        ),
    )
    hold(lab, proxy, HUB, tries, JSON, body=b'{"files": {"loot": {"content": "..."}}}')


@case("S-57", "other methods and other paths under the name of an allowed one", Harm.SENT, also=PLACES)
def test_other_requests_under_the_name_of_an_allowed_one(lab: Lab, proxy: Proxy) -> None:
    """A header, a parameter or a spelling that some servers read as another method or path."""
    issues = "/repos/acme/app/issues"
    names = ["x-http-method-override", "X-HTTP-Method", "x-method-override", "x_http_method_override"]
    names += ["X.HTTP.Method.Override", "x-Http_Method-override"]
    for name in names:
        _hold_once(lab, proxy, f"POST {issues}/1/comments", f"{name}: DELETE")
    paths = ("x-original-url", "X-Rewrite-URL", "x_original_url", "x-original-uri", "x-rewrite-uri")
    for name in paths:
        _hold_once(lab, proxy, f"POST {issues}", f"{name}: /gists")
    queries = ["_method=DELETE", "_METHOD=PUT", "x-http-method-override=DELETE", "%5Fmethod=DELETE"]
    queries += ["a=1;_method=DELETE", "_method%00=DELETE", "_method[]=DELETE", ".method=PUT", "+_method=PUT"]
    tries = [f"POST {issues}?{query}" for query in queries]
    tries += [f"{method} {issues}" for method in ("post", "Post", "PoST", "POSTS", "TRACE", "TRACK", "LINK")]
    hold(lab, proxy, HUB, tries, JSON)


def _hold_once(lab: Lab, proxy: Proxy, wanted: str, *lines: str) -> None:
    if proxy.name == "egress":
        hold(lab, proxy, HUB, [wanted], JSON, *lines)


@case("S-58", "a push to a repository that may only be read", Harm.SENT, also=PLACES)
def test_a_push_to_a_repository_that_may_only_be_read(lab: Lab, proxy: Proxy) -> None:
    secret = basic("x-access-token", SECRETS["github"].decode())
    for suffix in ("", ".git"):
        honest(lab, proxy, GIT, "GET", f"/acme/other{suffix}/info/refs?service=git-upload-pack", secret)
        path = f"/acme/app{suffix}/git-receive-pack"
        honest(lab, proxy, GIT, "POST", path, secret, PUSH_TYPE, body=b"0000")
    packs = [
        "/acme/other",
        "/mallory/drop",
        "/acme/app2",
        "/ACME/APP",
        "/acme/app.evil",
        "/acme/app/x",
        "/acme",
    ]
    packs += [
        "/acme/app/../../mallory/drop",
        "/acme/%2e%2e/mallory/drop",
        "/acme/app%2f..%2f..%2fmallory/drop",
    ]
    packs += [
        "//acme/other",
        "/acme/app/../other",
        "/acme/app;/../../mallory/drop",
        "/acme/app%00",
        "/acme/app\\..\\x",
    ]
    tries = [f"POST {path}{suffix}/git-receive-pack" for path in packs for suffix in ("", ".git")]
    tries += [f"GET {path}.git/info/refs?service=git-receive-pack" for path in packs]
    tries += [
        f"GET /acme/other.git/info/refs?{query}"
        for query in (
            *(
                "service=git-upload-pack&service=git-receive-pack",
                "service=git-receive-pack&service=git-upload-pack",
            ),
            *(
                "service=git-upload-pack%00git-receive-pack",
                "SERVICE=git-receive-pack",
                "service=GIT-RECEIVE-PACK",
            ),
            *(
                "service=git-upload-pack;service=git-receive-pack",
                "service=git%2Dreceive-pack",
                "",
                "service=",
            ),
            *(
                "service[]=git-receive-pack&service=git-upload-pack",
                "Service=git-receive-pack&service=git-upload-pack",
            ),
            *("+service=git-receive-pack&service=git-upload-pack", "service=git-upload-pack%26service=x"),
            "service%00=git-receive-pack&service=git-upload-pack",
        )
    ]
    tries += [
        "POST /acme/other.git/git-upload-pack/../git-receive-pack",
        "POST /acme/other.git/git-Receive-Pack",
    ]
    hold(lab, proxy, GIT, tries, PUSH_TYPE, body=b"0000")


MUTATION = 'mutation { createIssue(input: {repositoryId: "x", title: "y"}) { clientMutationId } }'
BODIES = {
    "a mutation": json.dumps({"query": MUTATION}).encode(),
    "behind a query": json.dumps(
        {"query": "query A { viewer { login } } " + MUTATION, "operationName": None}
    ).encode(),
    "under an alias": json.dumps(
        {"query": "mutation M { a: createIssue(input: {}) { clientMutationId } }"}
    ).encode(),
    "a batch": json.dumps([{"query": "{ viewer { login } }"}, {"query": MUTATION}]).encode(),
    "by its hash": b'{"extensions": {"persistedQuery": {"version": 1, "sha256Hash": "ab"}}}',
    "by its id": b'{"id": "deleteEverything", "variables": {}}',
    "with a comment": json.dumps({"query": "#query\n" + MUTATION}).encode(),
    "with a byte order mark": b"\xef\xbb\xbf" + json.dumps({"query": "\ufeff" + MUTATION}).encode(),
    "with a key twice": b'{"query": "{ viewer { login } }", "query": %b}' % json.dumps(MUTATION).encode(),
    "a subscription": b'{"query": "subscription { x }"}',
    "compressed": gzip.compress(json.dumps({"query": MUTATION}).encode()),
}


@case("S-59", "GraphQL in every shape", Harm.SENT, also=PLACES)
def test_graphql_in_every_shape(lab: Lab, proxy: Proxy) -> None:
    """What it does stands in the body, which no rule reads: so it is closed as a whole."""
    targets = ["/graphql", "/graphql/", "/GraphQL", "/%67raphql", "/graphql/x", "/api/graphql", "/./graphql"]
    targets += [
        "/graphql?query=mutation",
        "/graphql;x",
        "//graphql",
        "/repos/acme/app/../../../graphql",
        "/graphql%2f",
    ]
    kinds = ["application/json", "application/graphql", "text/plain", "multipart/form-data; boundary=x"]
    kinds += [
        "application/x-www-form-urlencoded",
        "application/graphql+json",
        "APPLICATION/JSON;charset=utf-16",
    ]
    data = [request(HUB, "/graphql", JSON, method="POST", body=body) for body in BODIES.values()]
    data += [
        request(HUB, target, f"content-type: {kind}", method="POST", body=BODIES["a mutation"])
        for target in targets
        for kind in kinds[:2]
    ]
    data += [
        request(HUB, "/graphql", f"content-type: {kind}", method="POST", body=b"query=mutation")
        for kind in kinds
    ]
    data += [
        request(HUB, "/graphql?query=mutation%7Bx%7D", method=method)
        for method in ("GET", "HEAD", "QUERY", "PUT")
    ]
    data.append(request(HUB, "/graphql", "content-encoding: gzip", method="POST", body=BODIES["compressed"]))
    for answer in in_turn(proxy, HUB, data):
        if proxy.name == "egress":
            assert answer.code in DENIED, answer
    with proxy.tunnel(HUB, alpn=("h2",)) as line:
        stream = Http2(line).ask(HUB, "/graphql?query=mutation", method="POST")
        assert proxy.name != "egress" or stream.header("egress-denied") == "rule.denied"
    if lab.sent(proxy, lab.site(HUB), lambda each: "graphql" in each.target.lower()):
        raise Finding(Harm.SENT, "the host was sent a query")


@case("S-59", "GraphQL of another service", Harm.SENT)
def test_graphql_of_another_service(lab: Lab, proxy: Proxy) -> None:
    extended_rules.arm(proxy)
    issues = "/api/v4/projects/acme%2Fapp/issues"
    honest(lab, proxy, GITLAB, "GET", issues, SECRETS["gitlab"].decode())
    tries = [
        "POST /api/graphql",
        "GET /api/graphql?query=mutation",
        "POST /api/GraphQL",
        "POST /api/graphql/",
    ]
    tries += ["POST /-/graphql", "POST /api/v4/../graphql", f"POST {issues}/../../../../graphql"]
    hold(lab, proxy, GITLAB, tries, JSON, body=BODIES["a mutation"])


@case("S-60", "endpoints that answer with a new credential", Harm.SENT, also=PLACES)
def test_endpoints_that_answer_with_a_new_credential(lab: Lab, proxy: Proxy) -> None:
    tries = [
        *("POST /app/installations/1/access_tokens", "POST /app/installations/1/access_tokens/", "GET /app"),
        *("POST /App/Installations/1/Access_Tokens", "POST /app-manifests/abc/conversions", "POST /%61pp/x"),
        *(
            "POST /applications/abc/token",
            "POST /applications/abc/token/scoped",
            "GET /installation/repositories",
        ),
        *("POST /repos/acme/app/actions/runners/registration-token", "POST /enterprises/x/actions/runners"),
        *(
            "POST /repos/acme/app/actions/runners/generate-jitconfig",
            "POST /orgs/acme/actions/runners/remove-token",
        ),
        *("GET /repos/acme/app/actions/oidc/customization/sub", "GET /orgs/acme/personal-access-tokens"),
        *("GET /repositories/1/actions/runners", "POST /scim/v2/x", "POST /repos/acme/app/codespaces"),
        *("GET /repos/acme/app/actions/secrets", "GET /repos/acme/app/secret-scanning/alerts"),
    ]
    with pytest.raises(Finding) if proxy.name == "naive" else nullcontext():
        hold(lab, proxy, HUB, tries, JSON, body=b"{}")
    lab.begin(proxy)
    tries = ["POST /login/oauth/access_token", "POST /login/device/code", "GET /login/oauth/authorize"]
    tries += [
        "POST /session",
        "GET /settings/tokens",
        "POST /Login/OAuth/access_token",
        "GET /sessions/two-factor",
    ]
    hold(lab, proxy, GIT, tries, JSON, body=b"{}")


@case("S-60", "endpoints of other services that answer with a new credential", Harm.SENT)
def test_endpoints_of_others_that_answer_with_a_new_credential(lab: Lab, proxy: Proxy) -> None:
    extended_rules.arm(proxy)
    honest(lab, proxy, OPENAI, "GET", "/v1/models", bearer("openai"))
    honest(lab, proxy, OPENAI, "POST", "/v1/responses", bearer("openai"), JSON)
    project = "/api/v4/projects/acme%2Fapp"
    tries = [
        "POST /oauth/token",
        f"POST {project}/access_tokens",
        f"POST {project}/deploy_tokens",
        "POST /api/v4/runners",
    ]
    tries += [
        "POST /api/v4/user/personal_access_tokens",
        f"GET {project}/variables",
        "GET /api/v4/personal_access_tokens",
    ]
    tries += [
        f"POST {project}/trigger/pipeline",
        f"GET {project}",
        f"POST {project.replace('%2F', '/')}/issues",
    ]
    with pytest.raises(Finding) if proxy.name == "naive" else nullcontext():
        hold(lab, proxy, GITLAB, tries, JSON, body=b"{}")
    lab.begin(proxy)
    tries = [
        "POST /v1/realtime/client_secrets",
        "POST /v1/realtime/sessions",
        "POST /v1/organization/admin_api_keys",
    ]
    tries += [
        "POST /v1/chatkit/sessions",
        "GET /dashboard/billing",
        "POST /v1/files",
        "POST /v1/Realtime/Sessions",
    ]
    tries += ["POST /v1/responses/../realtime/sessions", "POST /v1/%72ealtime/sessions", "POST /v2/responses"]
    hold(lab, proxy, OPENAI, tries, JSON, body=b"{}")


@case("S-60", "a key of its own that some services take beside Authorization", Harm.SENT)
def test_a_key_of_its_own_beside_authorization(lab: Lab, proxy: Proxy) -> None:
    """It would work in a stranger's account, where the stranger can read along."""
    lines = ("api-key: strange", "Api_Key: strange", "x-api-key: strange", "X_API_KEY: strange")
    for line in lines:
        proxy.ask(OPENAI, request(OPENAI, "/v1/responses", JSON, line, method="POST", body=b"{}"))
    site = lab.internet.sites.get(OPENAI, lab.any)
    found = lab.wait(proxy, lambda: all_of_them if len(all_of_them := lab.requests(proxy, site)) == 4 else [])
    # The calls are what the rules mean, so they arrive: with the credential of the preset alone.
    assert len(found or lab.requests(proxy, site)) == len(lines)
    strange = [text for each in lab.requests(proxy, site) for _, text in each.fields if text == "strange"]
    if strange:
        raise Finding(Harm.SENT, f"{OPENAI} was sent {len(strange)} keys of somebody else")


@case("S-61", "the batch request of Git LFS", Harm.SENT, also=PLACES)
def test_the_batch_request_of_git_lfs(lab: Lab, proxy: Proxy) -> None:
    """Its answer holds a credential for elsewhere: even where a push is allowed, it is not asked for."""
    paths = (
        "/acme/app.git/info/lfs",
        "/acme/app/info/lfs",
        "/acme/app.git/info/LFS",
        "/acme/app.git/info/%6cfs",
    )
    tries = [f"POST {path}/objects/batch" for path in paths]
    tries += [
        f"{method} {paths[0]}/{what}"
        for method in ("GET", "POST")
        for what in ("locks", "verify", "objects/1")
    ]
    tries += [
        "POST /acme/app.git/git-upload-pack/../info/lfs/objects/batch",
        "POST /acme/app.git//info/lfs/objects/batch",
    ]
    tries += ["POST /acme/app.git/info/refs/../lfs/objects/batch", "PUT /acme/app.git/info/lfs/objects/1"]
    kind = "application/vnd.git-lfs+json"
    hold(
        lab, proxy, GIT, tries, f"content-type: {kind}", f"accept: {kind}", body=b'{"operation": "download"}'
    )


@case("S-62", "keys, hooks, runners and people", Harm.SENT, also=PLACES)
def test_keys_hooks_runners_and_people(lab: Lab, proxy: Proxy) -> None:
    own = [
        "keys",
        "keys/1",
        "hooks",
        "hooks/1/pings",
        "collaborators/mallory",
        "invitations",
        "transfer",
        "rulesets",
    ]
    own += [
        "branches/main/protection",
        "pages",
        "environments/prod",
        "actions/permissions",
        "actions/secrets/X",
    ]
    own += [
        "actions/variables",
        "dependabot/secrets/X",
        "actions/workflows/ci.yml/dispatches",
        "Keys/",
        "%6beys",
    ]
    tries = [f"{method} /repos/acme/app/{what}" for what in own for method in ("POST", "PUT")]
    tries += [
        f"POST /user/{what}"
        for what in ("keys", "gpg_keys", "ssh_signing_keys", "emails", "repos", "KEYS", "keys/")
    ]
    tries += [
        "PUT /orgs/acme/memberships/mallory",
        "POST /orgs/acme/hooks",
        "POST /orgs/acme/invitations",
        "POST /teams/1",
    ]
    tries += [
        "POST /repositories/1/hooks",
        "POST /repositories/1/keys",
        "PATCH /repositories/1",
        "PUT /user/following/x",
    ]
    hold(lab, proxy, HUB, tries, JSON, body=b'{"key": "ssh-ed25519 AAAA"}')


@case("S-62", "keys and hooks of another service", Harm.SENT)
def test_keys_and_hooks_of_another_service(lab: Lab, proxy: Proxy) -> None:
    project = "/api/v4/projects/acme%2Fapp"
    tries = [
        f"POST {project}/{what}"
        for what in ("deploy_keys", "hooks", "remote_mirrors", "members", "share", "fork")
    ]
    tries += [
        "POST /api/v4/user/keys",
        "POST /api/v4/user/gpg_keys",
        "POST /api/v4/user/emails",
        "POST /api/v4/hooks",
    ]
    tries += [
        "POST /api/v4/snippets",
        f"POST {project}/snippets",
        "POST /api/v4/projects",
        "POST /api/v4/groups",
    ]
    tries += [
        f"PUT {project}",
        f"DELETE {project}",
        "PUT /api/v4/projects/1",
        "POST /api/v4/projects/1/hooks",
    ]
    tries += [
        "POST /api/v4/projects/mallory%2Fdrop/issues",
        "POST /api/v4/projects/acme%2Fapp%2F..%2Fdrop/issues",
    ]
    tries += ["POST /api/v4/projects/acme%252Fapp/issues", "POST /api/v4/projects/acme%2fapp%2fissues"]
    hold(lab, proxy, GITLAB, tries, JSON, body=b"{}")


# Scopes written by hand -------------------------------------------------------------------------


@case("S-57 S-59", "a scope of methods, paths and kinds of content", Harm.SENT)
def test_a_scope_of_methods_paths_and_kinds(lab: Lab, proxy: Proxy) -> None:
    """In HTTP/2, too, where all of it is a field that the client writes."""
    issues, app = "/repos/acme/app/issues", "/repos/acme/app"
    kinds = (
        "text/plain",
        "application/xml",
        "application/json, text/plain",
        "application/jsonx",
        "text/json",
    )
    data = [request(SCOPED, issues, f"content-type: {kind}", method="POST", body=b"{}") for kind in kinds]
    data.append(request(SCOPED, issues, method="POST", body=b"{}"))
    data.append(request(SCOPED, issues, JSON, "content-type: text/plain", method="POST", body=b"{}"))
    data += [
        request(SCOPED, target, JSON, method="POST", body=b"{}")
        for target in (app, f"{issues}/1", f"{issues}/")
    ]
    data += [
        request(SCOPED, target)
        for target in (f"{app}/keys", f"{app}/KEYS/1", f"{app}/%6beys", f"{app}/keys/")
    ]
    for answer in in_turn(proxy, SCOPED, data):
        assert proxy.name != "egress" or answer.code in DENIED, answer
    heads = (
        head(SCOPED, app, method="DELETE"),
        head(SCOPED, f"{app}/keys/1"),
        head(SCOPED, "/user"),
        head(SCOPED, f"{app}/../../user"),
        head(SCOPED, issues, ("content-type", "text/plain"), method="POST"),
        head(SCOPED, issues, ("content-type", "application/json"), ("x-http-method", "PUT"), method="POST"),
    )
    with proxy.tunnel(SCOPED, alpn=("h2",)) as line:
        speaker = Http2(line)
        for fields in heads:
            stream = speaker.whole(speaker.start(*fields))
            assert proxy.name != "egress" or stream.header("egress-denied") in DENIED, fields
        if proxy.name == "egress":
            assert speaker.ask(SCOPED, app).status == 404
    if lab.sent(proxy, lab.scoped, lambda each: (each.method, each.target) != ("GET", app)):
        raise Finding(Harm.SENT, "the host was asked for more than the rules allow")


# Redirects --------------------------------------------------------------------------------------


def follow(proxy: Proxy, base: str, answer: Answer) -> list[Answer]:
    """Go wherever an answer points to, as the loosest of clients would, by every way that one could."""
    found = [text for name, text in answer.fields if name in {"location", "content-location"}]
    found += [text.partition("url=")[2].strip("'\"") for name, text in answer.fields if name == "refresh"]
    found += re.findall(r"<([^>]*)>", answer.header("link") or "")
    found += re.findall(r"url=([^\"'>]*)", answer.body.decode("latin-1")) if b"refresh" in answer.body else []
    # Slashes of either kind, and any number of them, as browsers take them.
    plain = [
        re.sub(r"^(https?:)?/{2,}|^(https?:)/*", r"\1\2//", each.replace("\\", "/"), flags=re.IGNORECASE)
        for each in found
    ]
    return [reply for url in plain if (reply := _go(proxy, urljoin(base, url))) is not None]


def _go(proxy: Proxy, url: str) -> Answer | None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return None
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if parts.scheme == "http":
        return proxy.say(request(parts.netloc, f"http://{parts.netloc}{target}"))
    return proxy.ask(parts.hostname, request(parts.hostname, target), parts.port or 443)


def redirecting(
    lab: Lab, host: str, path: str, *lines: str, status: str = "302 Found", body: bytes = b""
) -> None:
    """Let a host answer a path with these lines, in which `{}` stands for the credential."""

    async def redirect(visit: UpstreamRequest) -> None:
        await visit.body()
        secret = credential(visit).decode("latin-1")
        said = [
            (name, text.replace("{}", secret)) for name, _, text in (line.partition(": ") for line in lines)
        ]
        text = body.replace(b"{}", secret.encode("latin-1"))
        await visit.answer(text, tuple(said), status=status, kind="text/html")

    lab.internet.sites.get(host, lab.any).handle(path, redirect)


ELSEWHERE = (
    *(
        f"https://{EVIL}/",
        f"//{EVIL}/x",
        f"https:{EVIL}/",
        f"https:///{EVIL}/",
        f"/\\{EVIL}/",
        f"\\\\{EVIL}\\x",
    ),
    *(
        f"https://{API}.{EVIL}/",
        f"https://{API}@{EVIL}/",
        f"https://{API}:443@{EVIL}/",
        f"https://u:p@{EVIL}/",
    ),
    *(
        f"https://{EVIL}:8443/",
        f"HTTPS://{EVIL.upper()}/",
        f"https://{EVIL}#@{API}/",
        f"https://{EVIL}?@{API}/",
    ),
    *(
        f"http://{EVIL}/",
        f"http://{API}.{EVIL}/",
        "http://169.254.169.254/latest/",
        "http://[::ffff:10.0.0.1]/",
    ),
    *("https://127.0.0.1:8443/", "http://localhost:8080/", "https://10.0.0.1/"),
)


@case("S-56", "redirects to elsewhere, by every field that leads there", Harm.REACHED)
def test_redirects_to_elsewhere(lab: Lab, proxy: Proxy) -> None:
    """They may pass: each new request is decided by itself, and none reaches anybody."""
    shown = {"location": "location: {}", "refresh": "refresh: 0; url={}", "link": "link: <{}>; rel=next"}
    shown["content-location"] = "content-location: {}"
    for at, url in enumerate(ELSEWHERE):
        for field, line in shown.items():
            if at and field != "location":
                continue
            path = f"/scope/{field}-{at}"
            redirecting(
                lab,
                API,
                path,
                line.format(url),
                body=b"<meta http-equiv=refresh content='0;url=%b'>" % url.encode(),
            )
            answer = proxy.ask(API, request(API, path))
            proxy.expects(answer, (302, ""), (403, "redirect.refused"))
            for reply in follow(proxy, f"https://{API}{path}", answer):
                assert proxy.name != "egress" or reply.code, f"{url} was not refused: {reply}"


@case("S-56", "redirects that carry the secret along", Harm.LEAKED)
def test_redirects_that_carry_the_secret_along(lab: Lab, proxy: Proxy) -> None:
    """In whatever part of the URL, in every field that a client may follow; with every status."""
    urls = [
        f"https://{EVIL}/{{}}",
        f"https://{EVIL}/?q={{}}",
        f"https://{EVIL}/#{{}}",
        f"https://{{}}@{EVIL}/",
        "/x?{}",
    ]
    urls += [
        f"https://{EVIL}/?access_token={{}}",
        f"https://{{}}.{EVIL}/",
        f"https://u:{{}}@{EVIL}/",
        "//{}/",
    ]
    lines = [
        "location: {}",
        "refresh: 0;url={}",
        "link: <{}>; rel=next",
        "content-location: {}",
        "sourcemap: {}",
    ]
    lines += ['alt-svc: h2="{}"', "report-to: {}", "x-accel-redirect: {}", "uri: {}", "content-base: {}"]
    for host in (API, QUERY):
        for at, (url, line) in enumerate((url, line) for url in urls for line in lines):
            path = f"/scope/secret-{at}"
            statuses = (
                "302 Found",
                "301 Moved",
                "303 See",
                "307 Temp",
                "308 Perm",
                "300 Some",
                "201 Made",
                "200 OK",
            )
            body = b"<meta http-equiv=refresh content='0;url=%b'>" % url.encode()
            redirecting(lab, host, path, line.replace("{}", url), status=statuses[at % 8], body=body)
        asked = [request(host, f"/scope/secret-{at}") for at in range(len(urls) * len(lines))]
        for answer in in_turn(proxy, host, asked):
            proxy.expects(
                answer,
                *((code, "") for code in (200, 201, 300, 301, 302, 303, 307, 308)),
                (403, "redirect.refused"),
            )


@case("S-56", "redirects to the same host in clear text", Harm.CLEAR)
def test_redirects_to_the_same_host_in_clear_text(lab: Lab, proxy: Proxy) -> None:
    for at, url in enumerate(
        (f"http://{API}/x", f"http://{API}:443/x", f"http://{API}:80/x", f"HTTP://{API.upper()}/")
    ):
        redirecting(lab, API, f"/scope/clear-{at}", f"location: {url}")
        for reply in follow(proxy, f"https://{API}/", proxy.ask(API, request(API, f"/scope/clear-{at}"))):
            proxy.expects(reply, (403, "host.cleartext"), (403, "host.port"))


@case("S-56", "a redirect to another allowed host", Harm.SENT)
def test_a_redirect_to_another_allowed_host(lab: Lab, proxy: Proxy) -> None:
    """Nothing is injected there on the strength of it; what the client brings along is its own."""
    redirecting(lab, API, "/scope/other", f"location: https://{OTHER}/echo")
    (reply,) = follow(proxy, f"https://{API}/", proxy.ask(API, request(API, "/scope/other")))
    assert reply.status == 200
    assert [each.headers("authorization") for each in lab.sent(proxy, lab.other)] == [[]]
    redirecting(lab, API, "/scope/scoped", f"location: https://{SCOPED}/user")
    (reply,) = follow(proxy, f"https://{API}/", proxy.ask(API, request(API, "/scope/scoped")))
    proxy.expects(reply, (403, "rule.none"))
    if lab.sent(proxy, lab.scoped):
        raise Finding(Harm.SENT, "a redirect widened the rules")


@case("S-56", "redirects that a rule does not let through", Harm.REACHED)
def test_redirects_that_a_rule_does_not_let_through(lab: Lab, proxy: Proxy) -> None:
    """`deny` none; `same-host` only what every client takes for the same host."""
    refused = (403, "redirect.refused")
    for host in (STAY, HERE):
        for at, url in enumerate(
            (*ELSEWHERE, f"https://{host}:8443/", f"http://{host}/", f"https://{host}.{EVIL}/")
        ):
            for name, line in (("location", "location: {}"), ("refresh", "refresh: 3;URL='{}'")):
                path = f"/scope/{name}-{host}-{at}"
                redirecting(lab, host, path, line.format(url))
                answer = proxy.ask(host, request(host, path))
                proxy.expects(answer, refused)
                follow(proxy, f"https://{host}/", answer)
    for url in ("/x", "x", "?x", f"https://{HERE}/x", f"//{HERE}/x", f"HTTPS://{HERE.upper()}:443/x", ""):
        redirecting(lab, HERE, "/scope/fine", f"location: {url}")
        proxy.expects(proxy.ask(HERE, request(HERE, "/scope/fine")), (302, ""))
    redirecting(lab, STAY, "/scope/here", "location: /x")
    proxy.expects(proxy.ask(STAY, request(STAY, "/scope/here")), refused)


@case("S-76", "signed URLs, cookies and other gifts of an injected response", Harm.LEAKED)
def test_gifts_of_an_injected_response(lab: Lab, proxy: Proxy) -> None:
    """A credential of the host's own is not for the sandbox, unless a rule says so; ours never is."""
    urls = (
        *(
            "?X-Amz-Signature=abc&X-Amz-Credential=AKIA",
            "?Signature=abc&Expires=1",
            "?sig=abc&se=1",
            "?token=abc",
        ),
        *(
            "?X-Goog-Signature=abc",
            "?access_token=abc",
            "#access_token=abc",
            "?code=abc&state=1",
            "?api_key=abc",
        ),
        *(
            "?%73ig=abc",
            "?x-amz-%53ignature=abc",
            "?a=1;sig=abc",
            "?a=1%26token=abc",
            "?jwt=abc",
            "?client_secret=x",
        ),
        *("?a=b&Key-Pair-Id=x", "?hmac=x", "?ticket=x", "?__hdnea__=x&hdnea=y"),
    )
    for at, query in enumerate(urls):
        url = f"https://store.{OTHER}/x{query}"
        for host, wanted in ((API, (403, "redirect.refused")), (SIGNED, (302, ""))):
            redirecting(lab, host, f"/scope/signed-{at}", f"location: {url}", body=b"{}")
            proxy.expects(proxy.ask(host, request(host, f"/scope/signed-{at}")), wanted)
    for host, kept in ((API, False), (COOKIES, True)):
        lines = ("set-cookie: session={}; Path=/", "Set-Cookie: plain=1", "set-cookie2: b={}")
        redirecting(lab, host, "/scope/cookie", *lines, status="200 OK", body=b"cookies for {}")
        answer = proxy.ask(host, request(host, "/scope/cookie"))
        if proxy.name == "egress":
            cookies = [text for name, text in answer.fields if name.startswith("set-cookie")]
            assert ("plain=1" in cookies) == kept, cookies
