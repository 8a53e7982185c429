"""A watch is told of every change once, in order, or that it comes too late."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.api_server.claim_schema import Claim, ClaimSpec, ObjectMetadata, PoolReference
from egress.api_server.claim_table import KEPT_CHANGES, ClaimTable, VersionGoneError, key_of


def claim(name: str) -> Claim:
    metadata = ObjectMetadata(
        name=name, namespace="default", uid=name, resource_version="", creation_timestamp=""
    )
    spec = ClaimSpec(warm_pool_ref=PoolReference(name="python"))
    return Claim(api_version="v1", kind="SandboxClaim", metadata=metadata, spec=spec)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40), st.integers(0, 40))
def test_a_list_and_the_changes_since_it_are_what_is_there(steps: list[tuple[str, bool]], at: int) -> None:
    table = ClaimTable(lambda: 1.0)
    version, seen = table.version, dict[str, Claim]()
    for number, (name, is_put) in enumerate(steps):
        if number == at:
            version, seen = table.version, {each.metadata.name: each for each in table.all()}
        if is_put:
            table.put(claim(name))
        else:
            table.drop(("default", name))
    last = version
    for event in table.since(version):
        assert int(event.object.metadata.resource_version) == last + 1
        last += 1
        assert (event.type == "ADDED") == (event.object.metadata.name not in seen)
        if event.type == "DELETED":
            del seen[event.object.metadata.name]
        else:
            seen[event.object.metadata.name] = event.object
    assert seen == {each.metadata.name: each for each in table.all()}
    assert len(table) == len(seen)


def test_a_version_that_is_too_old_or_never_was_is_gone() -> None:
    table = ClaimTable(lambda: 1.0)
    first = table.version
    for _ in range(KEPT_CHANGES):
        table.put(claim("a"))
    assert len(list(table.since(first))) == KEPT_CHANGES
    table.put(claim("a"))
    for version in (first, table.version + 1, 0):
        with pytest.raises(VersionGoneError):
            table.since(version)
    assert len(list(table.since(first + 1))) == KEPT_CHANGES


def test_a_version_of_the_last_run_is_gone() -> None:
    last = ClaimTable(lambda: 1.0)
    last.put(claim("a"))
    with pytest.raises(VersionGoneError):
        ClaimTable(lambda: 2.0).since(last.version)


def test_whoever_waits_is_told_of_the_next_change() -> None:
    async def told() -> list[str]:
        table = ClaimTable()
        waiting = asyncio.create_task(table.wait(30))
        await asyncio.sleep(0)
        made = table.put(claim("a"))
        await waiting
        await table.wait(0.01)
        return [key_of(made)[1]]

    assert asyncio.run(told()) == ["a"]
