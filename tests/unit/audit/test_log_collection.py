"""The logs of several replicas are one log, and whatever is missing from any of them is found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from egress.audit.log_collection import CHAINS_PER_REPLICA, MAX_REPLICAS, LogCollection
from egress.audit.log_copy import LogPart, copied_parts
from egress.errors import ContentError
from egress.review.pruning import Retention, prune
from tests.unit.audit.chained_log import faults, opened_log, sound_log, write_chains
from tests.unit.audit.sample import KEY


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, Path]:
    """Two replicas, of which the second one has written two chains."""
    found = {"gateway-0": tmp_path / "zero", "gateway-1": tmp_path / "one"}
    for name, log in found.items():
        write_replica(log, name, int(name[-1]) + 1)
    return found


def write_replica(log: Path, name: str, chains: int) -> None:
    """The log of a replica, whose lines name it: no two replicas write the same."""
    sinks = [opened_log(log, f"{name}-{number}") for number in range(chains)]
    for sink in sinks:
        sink.event("reloaded", policy="p")
        sink.close()


def collected(out: Path, logs: dict[str, Path]) -> LogCollection:
    collection = LogCollection(out)
    for name, log in logs.items():
        collection.take(name, copied_parts(log, collection.known(name)))
    collection.finish(KEY)
    return collection


def test_two_logs_verify_as_one(logs: dict[str, Path], tmp_path: Path) -> None:
    collection = collected(tmp_path / "out", logs)
    found = sound_log(tmp_path / "out")
    assert collection.replicas == ("gateway-0", "gateway-1")
    assert [chain.place for chain in found.chains] == [".", "chains/0101", "chains/0102"]
    assert found.lines == sum(sound_log(log).lines for log in logs.values())


def test_a_second_time_takes_new_lines_alone(logs: dict[str, Path], tmp_path: Path) -> None:
    collected(tmp_path / "out", logs)
    lines = sound_log(tmp_path / "out").lines
    sink = opened_log(logs["gateway-0"])
    sink.event("reloaded", policy="later")
    sink.close()
    collection = LogCollection(tmp_path / "out")
    known = collection.known("gateway-0")
    assert set(known) == {"audit-000001.jsonl"}
    taken = collection.take("gateway-0", copied_parts(logs["gateway-0"], known))
    collection.finish(KEY)
    assert 0 < taken < known["audit-000001.jsonl"]
    assert sound_log(tmp_path / "out").lines == lines + 2


@pytest.mark.parametrize("chain", ["chains/0101", "chains/0102"])
def test_a_chain_that_is_deleted_afterwards_is_missed(
    chain: str, logs: dict[str, Path], tmp_path: Path
) -> None:
    collected(tmp_path / "out", logs)
    shutil.rmtree(tmp_path / "out" / chain)
    assert ("chain", chain) in faults(tmp_path / "out")


def test_a_chain_that_a_replica_has_lost_is_missed(logs: dict[str, Path], tmp_path: Path) -> None:
    shutil.rmtree(logs["gateway-1"] / "chains/0002")
    collected(tmp_path / "out", logs)
    assert ("chain", "chains/0102") in faults(tmp_path / "out")


def test_a_line_that_was_changed_is_found_in_the_chain_of_its_replica(
    logs: dict[str, Path], tmp_path: Path
) -> None:
    collected(tmp_path / "out", logs)
    file = tmp_path / "out/chains/0101/audit-000001.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"reloaded"', b'"relOaded"', 1))
    assert ("altered", "chains/0101/audit-000001.jsonl") in faults(tmp_path / "out")


def test_what_a_replica_has_pruned_goes_here_too(tmp_path: Path) -> None:
    log = tmp_path / "log"
    sink = opened_log(log)
    sink.begin_file()
    sink.event("reloaded", policy="later")
    sink.flush()
    collected(tmp_path / "out", {"gateway-0": log})
    assert (tmp_path / "out/audit-000001.jsonl").exists()
    sink.close()
    prune(log, KEY, Retention(files=1), by="test", now=0)
    collected(tmp_path / "out", {"gateway-0": log})
    assert not (tmp_path / "out/audit-000001.jsonl").exists()
    assert sound_log(tmp_path / "out").lines


def test_another_log_under_the_name_of_a_replica_is_an_error(logs: dict[str, Path], tmp_path: Path) -> None:
    collection = collected(tmp_path / "out", logs)
    part = LogPart("audit-000001.jsonl", 0, b"{}\n")
    with pytest.raises(ContentError, match="is not the one that was copied before"):
        collection.take("gateway-0", [part])


def test_a_folder_with_anything_else_is_no_collection(tmp_path: Path) -> None:
    write_chains(tmp_path / "log", 1)
    with pytest.raises(ContentError, match="is no collection of logs"):
        LogCollection(tmp_path / "log")


@pytest.mark.parametrize("text", ["{}", "[1]", "x"])
def test_a_list_of_replicas_in_another_form_is_an_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "replicas.json").write_text(text)
    with pytest.raises(ContentError, match="is no collection of logs"):
        LogCollection(tmp_path)


def test_a_register_of_another_key_is_an_error(logs: dict[str, Path], tmp_path: Path) -> None:
    collection = LogCollection(tmp_path / "out")
    collection.take("gateway-1", copied_parts(logs["gateway-1"], {}))
    with pytest.raises(ContentError, match="the register of gateway-1 cannot be used"):
        collection.finish(bytes(32))


def test_chains_and_replicas_beyond_their_numbers_are_errors(tmp_path: Path) -> None:
    collection = LogCollection(tmp_path / "out")
    part = LogPart(f"chains/{CHAINS_PER_REPLICA:04d}/head", 0, b"")
    with pytest.raises(ContentError, match="has the chain 100"):
        collection.take("gateway-0", [part])
    for number in range(MAX_REPLICAS):
        collection.known(f"gateway-{number}")
    with pytest.raises(ContentError, match="more than 99 replicas"):
        collection.known("another")


def test_the_copies_are_for_their_owner_alone(logs: dict[str, Path], tmp_path: Path) -> None:
    collected(tmp_path / "out", logs)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "out/audit-000001.jsonl").stat().st_mode & 0o777 == 0o600
