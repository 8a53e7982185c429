"""Updates that are proven to add commits, and those that are not."""

from __future__ import annotations

from egress.inspect.git.fast_forward import ForwardProof
from egress.inspect.git.push_request import RefCommand
from tests.unit.inspect.git.git_bytes import (
    BLOB,
    COMMIT,
    OFS_DELTA,
    TAG,
    TREE,
    A,
    B,
    C,
    commit,
    oid,
    pack,
    pack_of,
    packed,
)

X, Y = "refs/heads/agent/x", "refs/heads/agent/y"


def unproven(data: bytes, *commands: RefCommand, shallow: frozenset[str] = frozenset()) -> frozenset[str]:
    proof = ForwardProof(commands, shallow=shallow)
    for at in range(0, len(data), 11):
        if proof.is_settled:
            break
        proof.feed(data[at : at + 11])
    return proof.unproven


def test_the_new_commit_follows_the_old_one() -> None:
    """Vector 4."""
    new = commit(A)
    assert not unproven(pack_of(new), RefCommand(X, A, new.oid))


def test_a_rewind_is_not_proven() -> None:
    """Vector 5: its pack is empty."""
    assert unproven(pack(), RefCommand(X, A, B)) == {X}


def test_the_old_commit_may_be_the_second_parent() -> None:
    """Vector 6."""
    merge = commit(B, A)
    assert not unproven(pack_of(merge), RefCommand(X, A, merge.oid))


def test_the_way_may_be_long_and_its_commits_in_any_order() -> None:
    chain = [commit(A)]
    for _ in range(300):
        chain.append(commit(chain[-1].oid))
    update = RefCommand(X, A, chain[-1].oid)
    assert not unproven(pack_of(*reversed(chain)), update)
    assert not unproven(pack_of(*chain), update)


def test_a_rewritten_history_is_not_proven() -> None:
    rewritten = commit(C, message="amended")
    assert unproven(pack_of(rewritten, commit(A)), RefCommand(X, A, rewritten.oid)) == {X}


def test_a_commit_that_is_not_in_the_pack_is_not_proven() -> None:
    assert unproven(pack_of(commit(A)), RefCommand(X, A, B)) == {X}


def test_the_content_of_a_commit_proves_nothing_under_another_id() -> None:
    """The parent stands in the message, in a tag, and behind the author."""
    fakes = [commit(C, message=f"parent {A}"), commit(C, message=f"x\nparent {A}\n")]
    for fake in fakes:
        assert unproven(pack_of(fake), RefCommand(X, A, fake.oid)) == {X}


def test_commits_count_wherever_they_stand_and_other_objects_do_not() -> None:
    new = commit(A)
    late = pack([packed(BLOB, b"x"), packed(COMMIT, new.content)])
    assert unproven(late, RefCommand(X, A, new.oid)) == set()
    for kind in (OFS_DELTA, BLOB, TREE, TAG):
        assert unproven(pack([packed(kind, new.content)]), RefCommand(X, A, new.oid)) == {X}


def test_each_ref_needs_its_own_proof() -> None:
    new = commit(A)
    both = (RefCommand(X, A, new.oid), RefCommand(Y, B, new.oid))
    assert unproven(pack_of(new), *both) == {Y}


def test_creations_and_deletions_need_none() -> None:
    proof = ForwardProof([RefCommand(X, "0" * 40, A), RefCommand(Y, A, "0" * 40)])
    assert proof.is_settled
    assert not proof.unproven


def test_no_way_leads_through_a_shallow_commit() -> None:
    """A server that takes over the client's cut no longer sees the commits before it."""
    old_side = commit(A)
    new = commit(old_side.oid)
    update = RefCommand(X, A, new.oid)
    assert not unproven(pack_of(new, old_side), update)
    assert unproven(pack_of(new, old_side), update, shallow=frozenset([old_side.oid])) == {X}


def test_a_shallow_commit_may_be_the_old_one() -> None:
    """A shallow clone with a commit more."""
    new = commit(A)
    assert not unproven(pack_of(new), RefCommand(X, A, new.oid), shallow=frozenset([A]))


def test_is_settled_as_soon_as_the_old_commit_is_reached() -> None:
    new, behind = commit(A), commit(B)
    proof = ForwardProof([RefCommand(X, A, new.oid)])
    data = pack_of(new, behind)
    proof.feed(data[: 12 + len(packed(COMMIT, new.content))])
    assert proof.is_settled


def test_ids_of_sha256() -> None:
    """Vector 20."""
    old = oid("old", "sha256")
    new = commit(old, object_format="sha256")
    proof = ForwardProof([RefCommand(X, old, new.oid)], "sha256")
    proof.feed(pack_of(new))
    assert not proof.unproven
