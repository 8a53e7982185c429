"""Rules on refs: a push that says one thing to us and another to the server, or hides the refs that it moves.

Numbers are those of the vectors for git. Each of them meets the same rules; `ALLOWED` are the positive
controls, which differ from a denied push in one detail.
"""

from __future__ import annotations

import gzip
import hashlib
import time

import pytest

from egress.inspect.git.git_kind import GitKind
from egress.inspect.git.pkt_line import FLUSH_PKT, pkt_line
from egress.inspect.git.push_request import MAX_COMMANDS
from egress.inspect.inspector import Facts, Refusal, Unreadable
from egress.inspect.kinds import inspect_whole
from egress.rules.compile.asked_body import decide_whole
from egress.rules.compile.rule_tests import describe_decision
from egress.types import Decision, Headers, Identity
from tests.unit.inspect.git.git_bytes import (
    BLOB,
    CAPABILITIES,
    COMMIT,
    ZERO,
    A,
    B,
    C,
    command_lines,
    commit,
    oid,
    pack,
    pack_of,
    packed,
)
from tests.unit.rules.rule_samples import NOW, decision_text, head, policy

HOST = "https://git.example.com"
RULES = policy("""
    secrets: {forge: {from: "env:FORGE", hosts: [git.example.com]}}
    hosts:
      git.example.com:
        allow:
          - {id: clone, git: {fetch: ["acme/*"]}}
          - {id: push, git: {push: {repos: [acme/app], refs: ["refs/heads/agent/**"]}}}
          - {id: wide, paths: ["/**"]}
        inject: [{basic: {user: x-access-token, secret: forge}}]
""")
LOOSE = policy("""
    hosts:
      git.example.com:
        allow:
          - id: push
            git: {push: {repos: [acme/app], refs: ["refs/heads/agent/**"], delete: true, options: [ci.skip]}}
""")
TYPE = "application/x-git-receive-pack-request"
X, MAIN = "refs/heads/agent/x", "refs/heads/main"
NEW, MERGED, PATCHED = commit(A), commit(B, A), commit(C)
LONG = oid("a", "sha256")


def push(
    body: bytes,
    *,
    rules: object = None,
    target: str = "/acme/app.git/git-receive-pack",
    headers: Headers = (),
) -> Decision:
    asked = head(f"POST {HOST}{target}", headers=headers or (("content-type", TYPE),))
    decision, _ = decide_whole(RULES if rules is None else LOOSE, Identity("box"), asked, NOW, body)
    assert decision.allowed or not decision.effects.needs, "a denied push asks for no secret"
    return decision


def options(*lines: bytes) -> bytes:
    return b"".join(map(pkt_line, lines)) + FLUSH_PKT


SHA256 = CAPABILITIES.replace("sha1", "sha256")
WITH_OPTIONS = f"{CAPABILITIES} push-options"
NEW_256 = commit(LONG, object_format="sha256")

ALLOWED = {
    "1": command_lines((ZERO, A, X)) + pack(),
    "4": command_lines((A, NEW.oid, X)) + pack_of(NEW),
    "6": command_lines((A, MERGED.oid, X)) + pack_of(MERGED),
    "8": FLUSH_PKT,
    "10": command_lines((ZERO, A, "refs/heads/agent/PACK")) + pack(),
    "13": pkt_line(f"shallow {B}".encode()) + command_lines((ZERO, A, X)) + pack(),
    "20": command_lines((LONG, NEW_256.oid, X), capabilities=SHA256)
    + b"PACK" + (2).to_bytes(4) + (1).to_bytes(4) + packed(COMMIT, NEW_256.content),
}  # fmt: skip


@pytest.mark.parametrize("number", ALLOWED)
def test_an_honest_push_passes(number: str) -> None:
    """The positive control."""
    decision = push(ALLOWED[number])
    assert (decision.allowed, decision.rule and decision.rule.id) == (True, "push")
    assert [need.secret for need in decision.effects.needs] == ["forge"]


DENIED = {
    "2 another branch": (command_lines((ZERO, A, MAIN)) + pack(), "git.ref"),
    "3 beside one that is allowed": (command_lines((ZERO, A, X), (B, C, MAIN)) + pack(), "git.ref"),
    "5 a rewind": (command_lines((A, B, X)) + pack(), "git.forward"),
    "5 a rewrite": (command_lines((A, PATCHED.oid, X)) + pack_of(PATCHED), "git.forward"),
    "5 the old commit as a blob": (
        command_lines((A, B, X)) + pack([packed(BLOB, NEW.content)]), "git.forward"
    ),
    "5 the proof of another ref": (
        command_lines((A, NEW.oid, X), (A, B, "refs/heads/agent/y")) + pack_of(NEW), "git.forward"
    ),
    "5 through a shallow commit": (
        pkt_line(f"shallow {NEW.oid}".encode()) + command_lines((A, NEW.oid, X)) + pack_of(NEW), "git.forward"
    ),
    "7 a deletion": (command_lines((A, ZERO, X)), "git.delete"),
    "11 dots": (command_lines((ZERO, A, "refs/heads/agent/../main")) + pack(), "git.commands"),
    "11 a NUL in a later ref": (
        command_lines((ZERO, A, X), (ZERO, A, "refs/heads/agent/x\0y")) + pack(), "git.commands"
    ),
    "11 no full name": (command_lines((ZERO, A, "HEAD")) + pack(), "git.commands"),
    "11 another case": (command_lines((ZERO, A, "refs/heads/Agent/x")) + pack(), "git.ref"),
    "11 lock": (command_lines((ZERO, A, "refs/heads/agent/x.lock")) + pack(), "git.commands"),
    "11 control": (command_lines((ZERO, A, "refs/heads/agent/x\x1b[2K")) + pack(), "git.commands"),
    "11 two slashes": (command_lines((ZERO, A, "refs/heads/agent//x")) + pack(), "git.commands"),
    "12 a certificate": (
        pkt_line(b"push-cert\0" + CAPABILITIES.encode()) + pkt_line(b"certificate version 0.1\n"),
        "git.commands",
    ),
    "14 an option": (
        command_lines((ZERO, A, X), capabilities=WITH_OPTIONS) + options(b"ci.skip") + pack(), "git.option"
    ),
    "15 bytes behind a deletion": (command_lines((A, ZERO, X)) + b"PACK", "git.commands"),
    "15 a second list": (
        command_lines((ZERO, A, X)) + command_lines((ZERO, A, MAIN)) + pack(), "git.commands"
    ),
    "15 an odd length": (b"0003" + command_lines((ZERO, A, X)) + pack(), "git.commands"),
    "15 an end inside a line": (command_lines((ZERO, A, X))[:-9], "git.commands"),
    "16 too many commands": (
        command_lines(*((ZERO, A, f"{X}{at}") for at in range(MAX_COMMANDS + 1))) + pack(), "git.commands"
    ),
    "16 one ref twice": (command_lines((ZERO, A, X), (ZERO, B, X)) + pack(), "git.commands"),
    "20 long ids without their format": (command_lines((ZERO, LONG, X)) + pack(), "git.commands"),
    "20 short ids of the long format": (
        command_lines((ZERO, A, X), capabilities=SHA256) + pack(), "git.commands"
    ),
}  # fmt: skip


@pytest.mark.parametrize("number", DENIED)
def test_a_push_that_hides_or_exceeds_is_denied(number: str) -> None:
    body, code = DENIED[number]
    assert push(body).code == code


def test_a_deletion_and_an_option_pass_where_a_rule_has_them() -> None:
    """Vectors 7 and 14: the positive control of their denials."""
    assert push(DENIED["7 a deletion"][0], rules=LOOSE).allowed
    assert push(DENIED["14 an option"][0], rules=LOOSE).allowed


@pytest.mark.parametrize("number", [*ALLOWED, *DENIED])
def test_the_pieces_of_a_body_change_nothing(number: str) -> None:
    """Vector 9."""
    body = ALLOWED[number] if number in ALLOWED else DENIED[number][0]
    asked = head(f"POST {HOST}/acme/app.git/git-receive-pack", headers=(("content-type", TYPE),))
    inspector = GitKind().begin(asked)
    assert not isinstance(inspector, Facts | Unreadable)
    found = None
    for at in range(len(body)):
        step = inspector.feed(body[at : at + 1])
        if isinstance(step, Unreadable) or (isinstance(step, Facts) and not step.can_improve):
            found = step
            break
    found = found or inspector.end()
    whole = inspect_whole(GitKind(), asked, body)
    if isinstance(whole, Facts):
        assert isinstance(found, Facts)
        assert found.items == whole.items
    else:
        assert isinstance(found, Unreadable)
        assert found.code == whole.code


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        (
            (("content-type", TYPE), ("content-encoding", "gzip"), ("content-encoding", "gzip")),
            "body.encoding",
        ),
        ((("content-type", TYPE), ("content-encoding", "gzip, gzip")), "body.encoding"),
        ((("content-type", TYPE), ("content-encoding", "deflate")), "body.encoding"),
        ((("content-type", TYPE), ("content-encoding", "x-gzip")), "body.encoding"),
        ((("content-type", "text/plain"),), "body.type"),
        ((("content-type", "application/x-git-upload-pack-request"),), "body.type"),
        ((("content-type", TYPE), ("content-type", "text/plain")), "body.type"),
    ],
)
def test_a_body_in_disguise_is_not_read(headers: Headers, code: str) -> None:
    """Vector 16."""
    assert push(gzip.compress(ALLOWED["1"]), headers=headers).code == code


def test_a_compressed_push_is_read() -> None:
    """Vector 16: JGit compresses its pushes."""
    headers = (("content-type", TYPE), ("content-encoding", "gzip"))
    for number, (body, code) in DENIED.items():
        assert push(gzip.compress(body), headers=headers).code == code, number
    for number, body in ALLOWED.items():
        assert push(gzip.compress(body), headers=headers).allowed, number


def test_a_client_that_takes_silence_for_success_gets_the_status() -> None:
    """Vector 17."""
    asked = head(f"POST {HOST}/acme/app.git/git-receive-pack", headers=(("content-type", TYPE),))
    for capabilities, status in ((" side-band-64k", 403), (" report-status", 200)):
        found = inspect_whole(
            GitKind(), asked, command_lines((ZERO, A, MAIN), capabilities=capabilities) + pack()
        )
        assert GitKind().answer(Refusal("git.ref", "no"), found).status == status


@pytest.mark.parametrize(
    ("request_line", "outcome"),
    [
        ("GET /acme/docs.git/info/refs?service=git-upload-pack", "allow clone, inject forge"),
        ("GET /acme/app.git/info/refs?service=git-receive-pack", "allow push, inject forge"),
        ("GET /acme/other/info/refs?service=git-receive-pack", "deny git.repository"),
        ("GET /acme/docs/info/refs?service=git-upload-pack&service=git-receive-pack", "deny git.endpoint"),
        ("GET /acme/docs/info/refs?service=git-receive-pack&service=git-upload-pack", "deny git.endpoint"),
        ("GET /acme/docs/info/refs?Service=git-receive-pack", "deny git.endpoint"),
        ("GET /acme/docs/info/refs?service=git%2Dupload-pack", "deny git.endpoint"),
        ("GET /acme/docs/info/refs", "deny git.endpoint"),
        ("GET /Acme/docs/info/refs?service=git-upload-pack", "deny git.repository"),
        ("GET /acme/docs/INFO/refs?service=git-upload-pack", "deny rule.none"),
        ("POST /acme/app/git-receive-pack/", "deny rule.none"),
        ("POST /acme/app/Git-Receive-Pack", "deny rule.none"),
        ("PUT /acme/app/git-receive-pack", "deny rule.none"),
    ],
)
def test_a_discovery_names_one_service_of_one_repository(request_line: str, outcome: str) -> None:
    """Vector 18, beside a rule that allows everything: on a path of git it opens nothing."""
    method, target = request_line.split(" ")
    asked = head(f"{method} {HOST}{target}", headers=(("content-type", TYPE),) if method == "POST" else ())
    decision, _ = decide_whole(RULES, Identity("box"), asked, NOW, b"")
    assert describe_decision(decision) == outcome


PAST_REFS = (
    "GET /acme/app.git/HEAD",
    "GET /acme/app/objects/info/packs",
    "GET /acme/app.git/objects/pack/pack-1.pack",
    "GET /other/app/objects/ab/cdef",
    "PUT /acme/app.git/refs/heads/main",
    "LOCK /acme/app.git/refs/heads/main",
    "MKCOL /acme/app.git/objects/ab/",
    "POST /acme/app.git/info/lfs/objects/batch",
    "POST /acme/app/info/LFS/objects/batch/",
    "PUT /acme/app.git/gitlab-lfs/objects/1/2",
)


@pytest.mark.parametrize("request_line", PAST_REFS)
def test_no_way_past_the_refs_stays_open_beside_a_wide_rule(request_line: str) -> None:
    method, target = request_line.split(" ")
    assert decision_text(RULES, f"{method} {HOST}{target}") == "deny rule.none"


def test_the_wide_rule_opens_all_else() -> None:
    """The positive control."""
    for target in (
        "/acme/app",
        "/acme/app/tree/HEAD",
        "/api/v4/projects/1/repository/commits/HEAD",
        "/objects",
    ):
        assert decision_text(RULES, f"GET {HOST}{target}") == "allow wide, inject forge"


def test_a_pack_that_inflates_is_not_inflated_for_ever() -> None:
    """A few KiB that stand for gigabytes cost no more than their bounds."""
    bomb = packed(COMMIT, b"tree " + b"a" * (64 << 20), size=200_000, level=9)
    body = command_lines((A, hashlib.sha1(b"x").hexdigest(), X)) + pack([bomb])
    begun = time.perf_counter()
    assert push(body).code == "git.forward"
    # Far above what it takes, far below what the whole of it would.
    assert time.perf_counter() - begun < 5
