"""git as a kind of body: facts of fetches and pushes, and answers that git prints."""

from __future__ import annotations

import gzip

import pytest

from egress.inspect.git.git_kind import (
    MAX_DRAINED_BYTES,
    NOT_SENT_REASON,
    GitFetch,
    GitItem,
    GitKind,
    GitPushStart,
    RefChange,
)
from egress.inspect.git.pkt_line import FLUSH_PKT, pkt_line
from egress.inspect.inspector import MORE, Facts, Inspection, Inspector, Refusal, Unreadable
from egress.types import Head, Headers
from tests.unit.inspect.git.git_bytes import ZERO, A, B, C, command_lines, commit, oid, pack, pack_of

GIT = GitKind()
MAIN, X = "refs/heads/main", "refs/heads/agent/x"
PUSH_TYPE = ("content-type", "application/x-git-receive-pack-request")
NO = Refusal("git.ref", "No rule allows this ref.")


def begin(method: str, target: str, *headers: tuple[str, str]) -> Inspector | Facts | Unreadable:
    return GIT.begin(Head(method, "https", "git.example.com", 443, target, headers))


def push(data: bytes, step: int = 0, headers: Headers = (PUSH_TYPE,)) -> Inspection:
    """The facts when the inspector wants no more, or the body ends."""
    inspector = begin("POST", "/acme/app.git/git-receive-pack", *headers)
    assert not isinstance(inspector, Facts | Unreadable)
    for at in range(0, len(data), step or len(data)):
        found = inspector.feed(data[at : at + (step or len(data))])
        if isinstance(found, Unreadable) or (isinstance(found, Facts) and not found.can_improve):
            return found
    return inspector.end()


def items(data: bytes) -> tuple[object, ...]:
    found = push(data)
    assert isinstance(found, Facts)
    return found.items


@pytest.mark.parametrize(
    ("method", "target", "item"),
    [
        ("GET", "/acme/app/info/refs?service=git-upload-pack", GitFetch("acme/app")),
        ("GET", "/acme/app.git/info/refs?service=git-receive-pack", GitPushStart("acme/app")),
    ],
)
def test_the_head_of_a_discovery_says_all(method: str, target: str, item: GitItem) -> None:
    """Vector 18."""
    found = begin(method, target)
    assert isinstance(found, Facts)
    assert found.items == (item,)


@pytest.mark.parametrize("coding", ["gzip", "identity"])
def test_the_body_of_a_fetch_is_not_read(coding: str) -> None:
    fetch_type = ("content-type", "application/x-git-upload-pack-request")
    found = begin("POST", "/acme/app/git-upload-pack", fetch_type, ("content-encoding", coding))
    assert isinstance(found, Facts)
    assert found.items == (GitFetch("acme/app"),)
    assert found.log == {"git_repository": "acme/app", "git_service": "fetch"}


GZIP = ("content-encoding", "gzip")


@pytest.mark.parametrize("step", [0, 1, 100])
def test_a_push_may_be_compressed_once(step: int) -> None:
    """As JGit does it."""
    new = commit(A)
    plain = command_lines((A, new.oid, X)) + pack_of(new)
    found = push(gzip.compress(plain), step, (PUSH_TYPE, GZIP))
    assert isinstance(found, Facts)
    assert found.items == items(plain)
    deletion = push(gzip.compress(command_lines((A, ZERO, X))), step, (PUSH_TYPE, GZIP))
    assert isinstance(deletion, Facts)
    assert deletion.items == (RefChange("acme/app", X, "delete", A, ZERO),)


@pytest.mark.parametrize(
    "fields",
    [(GZIP, GZIP), (GZIP, ("content_encoding", "gzip")), (("content_encoding", "gzip"),)],
)
def test_a_push_that_is_coded_oddly_is_not_read(fields: Headers) -> None:
    """Vector 16."""
    found = begin("POST", "/acme/app/git-receive-pack", PUSH_TYPE, *fields)
    assert isinstance(found, Unreadable)
    assert found.code == "body.encoding"


CODED = gzip.compress(command_lines((A, ZERO, X)))


@pytest.mark.parametrize(
    "body",
    [
        command_lines((A, ZERO, X)),
        CODED[:-3],
        CODED + b"PACK",
        CODED + gzip.compress(b"PACK"),
        # Servers that read on behind a member would move another ref than those that do not.
        gzip.compress(command_lines((A, ZERO, X))[:-4]) + gzip.compress(FLUSH_PKT),
        gzip.compress(command_lines((ZERO, A, X))) + gzip.compress(pack()),
        gzip.compress(command_lines(*((ZERO, A, f"{X}{at}") for at in range(32))) * 2000),
    ],
)
def test_a_compressed_push_with_two_readings_is_refused(body: bytes) -> None:
    for step in (0, 1):
        found = push(body, step, (PUSH_TYPE, GZIP))
        assert isinstance(found, Unreadable)
        assert found.code == "git.commands"


def test_a_push_that_inflates_too_much_is_refused() -> None:
    found = push(gzip.compress(command_lines((A, B, X)) + b"PACK" + bytes(8 << 20)), 0, (PUSH_TYPE, GZIP))
    assert isinstance(found, Unreadable)
    assert found.detail == "The push inflates too much."


def test_each_service_has_its_own_type() -> None:
    found = begin("POST", "/acme/app/git-upload-pack", PUSH_TYPE)
    assert isinstance(found, Unreadable)
    assert found.code == "body.type"


def test_reads_which_refs_a_push_moves() -> None:
    """Vectors 1, 2, 3 and 7."""
    data = command_lines((ZERO, A, X), (A, B, MAIN), (C, ZERO, "refs/tags/v1")) + pack()
    assert items(data) == (
        RefChange("acme/app", X, "create", ZERO, A),
        RefChange("acme/app", MAIN, "update", A, B),
        RefChange("acme/app", "refs/tags/v1", "delete", C, ZERO),
    )


@pytest.mark.parametrize("step", [0, 1, 100])
def test_an_update_is_forward_where_the_pack_proves_it(step: int) -> None:
    """Vectors 4 and 9."""
    new = commit(A)
    found = push(command_lines((A, new.oid, X)) + pack_of(new), step)
    assert isinstance(found, Facts)
    assert found.items == (RefChange("acme/app", X, "update", A, new.oid, is_forward=True),)
    assert not found.can_improve


def test_a_rewind_is_not_forward() -> None:
    """Vector 5."""
    (item,) = items(command_lines((A, B, X)) + pack())
    assert isinstance(item, RefChange)
    assert not item.is_forward


def test_facts_are_at_hand_with_the_first_bytes_of_the_pack() -> None:
    """Nothing of a pack is waited for where a rule needs no proof."""
    inspector = begin("POST", "/acme/app/git-receive-pack", PUSH_TYPE)
    assert not isinstance(inspector, Facts | Unreadable)
    assert inspector.feed(command_lines((A, B, X))) is MORE
    found = inspector.feed(b"PACK")
    assert isinstance(found, Facts)
    assert found.can_improve
    assert found.items == (RefChange("acme/app", X, "update", A, B),)


def test_a_creation_needs_no_more_than_its_commands() -> None:
    """Vector 1."""
    found = push(command_lines((ZERO, A, X)) + b"PACK")
    assert isinstance(found, Facts)
    assert not found.can_improve


def test_a_probe_is_the_start_of_a_push() -> None:
    """Vector 8."""
    assert items(FLUSH_PKT) == (GitPushStart("acme/app"),)


def test_the_options_belong_to_each_ref() -> None:
    """Vector 14."""
    lines = command_lines((ZERO, A, X), capabilities="push-options")
    (item,) = items(lines + pkt_line(b"ci.skip") + FLUSH_PKT + pack())
    assert isinstance(item, RefChange)
    assert item.options == ("ci.skip",)


def test_sha256() -> None:
    """Vector 20."""
    old = oid("old", "sha256")
    new = commit(old, object_format="sha256")
    data = command_lines((old, new.oid, X), capabilities="report-status object-format=sha256") + pack_of(new)
    (item,) = items(data)
    assert isinstance(item, RefChange)
    assert item.is_forward


def test_the_log_has_refs_and_commits() -> None:
    new = commit(A)
    lines = command_lines((A, new.oid, X), (ZERO, C, MAIN), capabilities="push-options")
    found = push(lines + pkt_line(b"a b%") + pkt_line(b"ci.skip") + FLUSH_PKT + pack_of(new))
    assert isinstance(found, Facts)
    assert found.log == {
        "git_repository": "acme/app",
        "git_service": "push",
        "git_refs": 2,
        "git_options": "a%20b%25 ci.skip",
        "git_ref_1": f"update {X} {A} {new.oid} forward",
        "git_ref_2": f"create {MAIN} {ZERO} {C}",
    }


def test_facts_come_back_from_the_log() -> None:
    new = commit(A)
    lines = command_lines((A, new.oid, X), (ZERO, C, MAIN), capabilities="push-options")
    bodies = (
        lines + pkt_line(b"a b%") + FLUSH_PKT + pack_of(new),
        command_lines((A, ZERO, X)),
        FLUSH_PKT,
    )
    for body in bodies:
        found = push(body)
        assert isinstance(found, Facts)
        recalled = GIT.recall(found.log)
        assert recalled is not None
        assert recalled.items == found.items
    fetched = begin("GET", "/acme/app/info/refs?service=git-upload-pack")
    assert isinstance(fetched, Facts)
    recalled = GIT.recall(fetched.log)
    assert recalled is not None
    assert recalled.items == fetched.items


@pytest.mark.parametrize(
    "log",
    [
        {},
        {"git_repository": "acme/app"},
        {"git_repository": "acme…", "git_service": "fetch"},
        {
            "git_repository": "acme/app",
            "git_service": "push",
            "git_refs": 2,
            "git_ref_1": f"delete {X} {A} {ZERO}",
        },
        {
            "git_repository": "acme/app",
            "git_service": "push",
            "git_refs": 1,
            "git_ref_1": f"delete {X} {A} …",
        },
        {"git_repository": "acme/app", "git_service": "push", "git_refs": 99},
        {"git_repository": "acme/app", "git_service": "push", "git_refs": "1"},
    ],
)
def test_a_log_that_lacks_something_gives_no_facts(log: dict[str, str | int | bool]) -> None:
    assert GIT.recall(log) is None


# Answers ----------------------------------------------------------------------------------------


def test_each_ref_has_its_reason() -> None:
    """Vector 3: nothing of a push is sent when one ref is refused."""
    found = push(command_lines((ZERO, A, X), (A, B, MAIN)) + pack())
    assert isinstance(found, Facts)
    refusal = Refusal("git.ref", "No rule allows a push to this ref.", item_codes=("", "git.ref"))
    answer = GIT.answer(refusal, found)
    assert (answer.status, answer.media_type) == (200, "application/x-git-receive-pack-result")
    assert f"ng {X} {NOT_SENT_REASON}\n".encode() in answer.body
    assert f"ng {MAIN} no rule allows a push to this ref\n".encode() in answer.body
    assert answer.drain == MAX_DRAINED_BYTES


def test_a_push_that_cannot_be_read_is_refused_as_a_whole() -> None:
    """Vector 12."""
    signed = pkt_line(b"push-cert\0report-status") + pkt_line(b"certificate version 0.1\n")
    found = push(signed)
    assert isinstance(found, Unreadable)
    assert (found.code, "--signed" in found.detail) == ("git.commands", True)
    answer = GIT.answer(Refusal(found.code, "No.", "Hint."), found)
    assert answer.status == 200
    assert answer.body.startswith(
        pkt_line(b"unpack No: signed pushes are not read here: push without --signed.\n")
    )


@pytest.mark.parametrize(
    "data", [command_lines((ZERO, A, MAIN), capabilities="") + pack(), command_lines((ZERO, A, "HEAD")), b"x"]
)
def test_a_client_without_a_report_gets_a_status(data: bytes) -> None:
    """Vector 17."""
    data = data.replace(b"report-status-v2 ", b"")
    found = push(data)
    assert isinstance(found, Facts | Unreadable)
    assert GIT.answer(NO, found).media_type == "text/plain"


def test_a_discovery_is_refused_in_the_protocol() -> None:
    """Vector 18."""
    found = begin("GET", "/acme/other/info/refs?service=git-receive-pack")
    assert isinstance(found, Facts)
    answer = GIT.answer(NO, found)
    assert (answer.status, answer.media_type) == (200, "application/x-git-receive-pack-advertisement")
    assert b"ERR Egress: No rule allows this ref." in answer.body


def test_a_request_that_is_none_of_git_gets_a_status() -> None:
    """Vector 18: the service twice."""
    found = begin("GET", "/acme/app/info/refs?service=git-receive-pack&service=git-upload-pack")
    assert isinstance(found, Unreadable)
    answer = GIT.answer(Refusal(found.code, "No."), found)
    assert (answer.status, answer.body[:25]) == (400, b"Egress: No: a discovery i")


def test_a_body_that_was_not_looked_at_gets_a_status() -> None:
    assert GIT.answer(Refusal("body.type", "No."), None).media_type == "text/plain"


def test_a_pack_that_proves_nothing_new_is_not_judged_again() -> None:
    inspector = begin("POST", "/acme/app.git/git-receive-pack", PUSH_TYPE)
    assert not isinstance(inspector, Facts | Unreadable)
    made = commit(A, message="x" * 500)
    data = pack_of(commit(B), made)
    lines = command_lines((A, made.oid, X), (B, C, MAIN))
    steps = [inspector.feed(piece) for piece in (lines + data[:4], *(bytes([byte]) for byte in data[4:]))]
    facts = [step for step in steps if isinstance(step, Facts)]
    # At the start of the pack, behind the commit that proves one ref, and at the blob that ends them.
    assert [each.can_improve for each in facts[:3]] == [True, True, False]
    assert MORE in steps
    end = inspector.end()
    assert isinstance(end, Facts)
    assert end.items == facts[2].items


def test_refs_of_the_log_are_cut_and_printable_and_then_recall_nothing() -> None:
    long, odd = "refs/heads/agent/" + "x" * 500, "refs/heads/agent/\u202egnp.exe\u0085"
    for ref in (long, odd):
        found = push(command_lines((ZERO, A, ref)) + pack())
        assert isinstance(found, Facts)
        (item,) = found.items
        assert isinstance(item, RefChange)
        assert item.ref == ref
        shown = str(found.log["git_ref_1"])
        assert shown.isprintable()
        assert len(shown) < 128 + 2 * 42 + len("create  ")
        assert GIT.recall(found.log) is None
    found = push(command_lines((ZERO, A, X)) + pack())
    assert isinstance(found, Facts)
    assert GIT.recall(found.log) == Facts(found.items, found.log)
