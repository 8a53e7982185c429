"""Opening a log: a free chain for each proxy, the register of all, and nothing lost by a kill."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from egress.audit import chain_register, open_log
from egress.audit.chain import Keys
from egress.audit.chain_register import REGISTER
from egress.audit.inflight import SLOT
from egress.errors import UnreadableError
from tests.unit.audit.chained_log import faults, opened_log, sound_log, write_chains
from tests.unit.audit.sample import FACTS, KEY, OPENING, RECORD, Clock, abandon, full_at, kinds, opened, read

KEYS = Keys.of(KEY)


def places(log: Path) -> list[str]:
    return sorted(chain_register.read(log, KEYS.register) or {})


def test_one_proxy_after_the_other_continues_the_first_chain(tmp_path: Path) -> None:
    for _ in range(3):
        opened_log(tmp_path).close()
    assert places(tmp_path) == ["."]
    assert kinds(tmp_path) == ["started"] * 3
    assert sound_log(tmp_path).lines == 3


def test_each_of_several_proxies_has_a_chain_of_its_own(tmp_path: Path) -> None:
    sinks = [opened_log(tmp_path, f"r-{number}") for number in range(4)]
    assert [sink.chains for sink in sinks] == [1, 2, 3, 4]
    assert places(tmp_path) == [".", "chains/0002", "chains/0003", "chains/0004"]
    sound_log(tmp_path)
    for sink in sinks:
        sink.close()
    assert [line["run"] for line in read(tmp_path / "chains/0003")] == ["r-2"]
    # Chains are continued: there are never more than proxies at once.
    again = [opened_log(tmp_path) for _ in range(4)]
    assert len(places(tmp_path)) == 4
    for sink in again:
        sink.close()
    assert sound_log(tmp_path).lines == 8


def test_every_line_names_the_run_and_none_names_none(tmp_path: Path) -> None:
    sink = opened_log(tmp_path, "nightly-7")
    sink.exchange(sink.begin(OPENING), RECORD, FACTS)
    sink.gap("register")
    sink.close()
    lines = (tmp_path / "audit-000001.jsonl").read_bytes().splitlines()
    assert {json.loads(line)["run"] for line in lines} == {"nightly-7"}
    opened(tmp_path / "other").close()
    opened_log(tmp_path / "other").close()
    assert all("run" not in line for line in read(tmp_path / "other"))


def test_a_kill_of_one_costs_no_other_and_the_next_start_records_it(tmp_path: Path) -> None:
    first, second, third = (opened_log(tmp_path, name) for name in ("one", "two", "three"))
    second.begin(OPENING)
    abandon(second)
    first.event("reloaded")
    third.event("reloaded")
    sound_log(tmp_path)
    # The chain of the killed one is taken before any other, and before a new one is begun.
    fourth = opened_log(tmp_path, "four")
    assert kinds(tmp_path / "chains/0002") == ["started", "lost", "started"]
    for sink in (first, third, fourth):
        sink.close()
    assert sound_log(tmp_path).lines == 7
    assert len(places(tmp_path)) == 3


def test_a_finished_run_leaves_little_behind(tmp_path: Path) -> None:
    sinks = [open_log(tmp_path, KEY, clock=Clock()) for _ in range(3)]
    assert (tmp_path / "in-flight").stat().st_size > 1024 * SLOT
    for sink in sinks:
        sink.close()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sum(path.stat().st_blocks * 512 for path in files) <= 32_768 + 4096 * len(files)
    assert {path.stat().st_size for path in tmp_path.rglob("in-flight")} == {SLOT}


def test_chains_of_older_versions_are_entered_and_never_continued(tmp_path: Path) -> None:
    log = tmp_path / "audit"
    sink = opened(tmp_path / "runs/4f2a9c1e/audit")
    sink.event("started")
    sink.close()
    held = [opened_log(log), opened_log(log)]
    assert places(log) == [".", "../runs/4f2a9c1e/audit", "chains/0002"]
    assert kinds(tmp_path / "runs/4f2a9c1e/audit") == ["started"]
    for each in held:
        each.close()
    shutil.rmtree(tmp_path / "runs")
    assert faults(log) == [("chain", "../runs/4f2a9c1e/audit")]


def test_what_an_older_version_left_is_closed_by_a_start(tmp_path: Path) -> None:
    """It ended within a request, and kept 4 MiB for its requests under way."""
    log, old = tmp_path / "audit", tmp_path / "runs/4f2a9c1e/audit"
    sink = opened(old, in_flight=4096)
    sink.begin(OPENING)
    abandon(sink)
    running = opened(tmp_path / "runs/00000000/audit", in_flight=4096)
    opened_log(log).close()
    assert kinds(old) == ["lost"]
    assert (old / "in-flight").stat().st_size == SLOT
    assert (tmp_path / "runs/00000000/audit/in-flight").stat().st_size == 4097 * SLOT, "it still runs"
    running.close()
    opened_log(log).close()
    assert sound_log(log).lines == 3


def test_an_older_version_that_holds_the_log_keeps_nobody_out(tmp_path: Path) -> None:
    """It holds the one lock that it knows for as long as it runs."""
    old = opened(tmp_path)
    old.event("started")
    new = opened_log(tmp_path)
    assert kinds(tmp_path / "chains/0002") == ["started"]
    new.close()
    old.close()
    assert sound_log(tmp_path).lines == 2


def test_an_older_version_finds_the_first_chain_taken(tmp_path: Path) -> None:
    """It then goes on in a folder of its own, which is seen too."""
    new = opened_log(tmp_path)
    with pytest.raises(UnreadableError, match="another process writes"):
        opened(tmp_path)
    new.close()
    opened(tmp_path).close()


def test_the_number_of_a_deleted_chain_is_never_given_again(tmp_path: Path) -> None:
    write_chains(tmp_path, 3)
    shutil.rmtree(tmp_path / "chains/0003")
    sinks = [opened_log(tmp_path) for _ in range(3)]
    assert sorted(path.name for path in (tmp_path / "chains").glob("0*")) == ["0002", "0004"]
    for sink in sinks:
        sink.close()
    assert faults(tmp_path) == [("chain", "chains/0003")]


@pytest.mark.parametrize("is_damaged", [True, False])
def test_a_register_that_is_lost_is_recorded_for_ever(is_damaged: bool, tmp_path: Path) -> None:
    write_chains(tmp_path, 2)
    if is_damaged:
        (tmp_path / REGISTER).write_bytes(b"something else")
    else:
        (tmp_path / REGISTER).unlink()
    sink = opened_log(tmp_path)
    assert sink.is_damaged
    sink.close()
    assert [kind for kind, _ in faults(tmp_path)] == ["gap"]
    opened_log(tmp_path).close()
    assert [kind for kind, _ in faults(tmp_path)] == ["gap"]
    assert places(tmp_path) == [".", "chains/0002"]


def test_the_folder_of_all_later_chains_is_not_deleted_unseen(tmp_path: Path) -> None:
    """Nothing but a line of the first chain says that there was one."""
    write_chains(tmp_path, 2)
    shutil.rmtree(tmp_path / "chains")
    assert faults(tmp_path) == [("register", REGISTER)]
    opened_log(tmp_path).close()
    assert "gap" in {kind for kind, _ in faults(tmp_path)}


def test_a_log_of_an_older_version_gets_a_register_without_a_fault(tmp_path: Path) -> None:
    old = opened(tmp_path)
    old.event("started", version="0.1.0")
    old.close()
    opened_log(tmp_path).close()
    assert sound_log(tmp_path).lines == 2
    assert places(tmp_path) == ["."]


def test_another_key_is_refused_whether_the_first_chain_is_free_or_not(tmp_path: Path) -> None:
    held = opened_log(tmp_path)
    with pytest.raises(UnreadableError, match="not written with this key"):
        opened_log(tmp_path, key=bytes(32))
    held.close()
    with pytest.raises(UnreadableError, match="not written with this key"):
        opened_log(tmp_path, key=bytes(32))
    assert places(tmp_path) == ["."]
    sound_log(tmp_path)


def test_a_later_chain_of_another_key_is_left_alone_and_told_by_verify(tmp_path: Path) -> None:
    write_chains(tmp_path, 2)
    other = tmp_path / "other"
    opened_log(other, key=bytes(32)).close()
    shutil.rmtree(tmp_path / "chains/0002")
    (other / "chains").rename(tmp_path / "moved")
    other.rename(tmp_path / "chains/0002")
    sinks = [opened_log(tmp_path), opened_log(tmp_path)]
    for sink in sinks:
        sink.close()
    assert (tmp_path / "chains/0003/head").exists()
    assert ("chain", "chains/0002") in faults(tmp_path)


def test_a_full_disk_is_one_clear_sentence_and_leaves_no_heap_of_folders(tmp_path: Path) -> None:
    held = opened_log(tmp_path)
    with full_at(0), pytest.raises(UnreadableError, match="cannot be opened"):
        opened_log(tmp_path)
    assert len(list((tmp_path / "chains").glob("0*"))) <= 1
    held.close()
    opened_log(tmp_path).close()
    sound_log(tmp_path)


def test_a_disk_that_is_full_at_the_end_costs_no_line(tmp_path: Path) -> None:
    """The register keeps an older entry, which asks for fewer lines."""
    sink = opened_log(tmp_path)
    sink.event("stopped", reason="asked")
    sink.flush()
    with full_at(0):
        sink.close()
    assert sound_log(tmp_path).lines == 2
    opened_log(tmp_path).close()
    assert sound_log(tmp_path).lines == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")
def test_a_chain_of_another_user_is_left_to_that_user(tmp_path: Path) -> None:
    write_chains(tmp_path, 2)
    os.chown(tmp_path / "chains/0002", 65534, 65534)
    sinks = [opened_log(tmp_path), opened_log(tmp_path)]
    for sink in sinks:
        sink.close()
    assert kinds(tmp_path / "chains/0003") == ["started"]
    sound_log(tmp_path)


def test_a_log_that_this_user_may_not_write_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "audit").write_text("a file")
    with pytest.raises(UnreadableError, match=r"audit cannot be opened: file exists"):
        opened_log(tmp_path / "audit")


def test_a_chain_whose_start_was_killed_is_entered_by_the_next_start(tmp_path: Path) -> None:
    held = opened_log(tmp_path)
    # Killed between the first line and the register.
    sink = opened(tmp_path / "chains/0002")
    sink.event("reloaded")
    sink.flush()
    abandon(sink)
    assert sound_log(tmp_path).lines == 2
    opened_log(tmp_path).close()
    held.close()
    assert places(tmp_path) == [".", "chains/0002"]
    sound_log(tmp_path)
