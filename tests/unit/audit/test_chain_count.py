"""The number of chains in `started` lines: found in lines of every version, and in no text of anybody."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.audit import Sink, chain_count
from tests.unit.audit.sample import KEY, NAME, Clock


def lines(log: Path, run: str = "") -> Sink:
    return Sink.open(log, KEY, clock=Clock(), in_flight=1, run=run, rotate_at=2000)


def data(log: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(log.glob("audit-*")))


def test_each_start_is_counted_in_order(tmp_path: Path) -> None:
    for run, chains in (("", 1), ("4f2a9c1e", 7)):
        sink = lines(tmp_path, run)
        sink.event("started", version="1", policy="x", files="hosts.yaml", chains=chains)
        sink.event("stopped", reason="asked")
        sink.close()
    old = lines(tmp_path)
    old.event("started", version="0.1.0", policy="x", files="hosts.yaml")
    old.close()
    assert chain_count.counts_in(data(tmp_path)) == [1, 7, 0]


@given(st.text(max_size=30))
def test_no_text_passes_for_it(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    log = tmp_path_factory.mktemp("log")
    sink = lines(log)
    lie = f'{text}","event":"started","chains":99,"x":"'
    sink.event("started", version=lie, policy=lie, files=lie, chains=2)
    sink.event("stopped", reason=lie)
    sink.close()
    assert chain_count.counts_in(data(log)) == [2]


def test_the_newest_start_counts_whichever_file_it_is_in(tmp_path: Path) -> None:
    assert chain_count.newest_count(tmp_path) == 0
    sink = lines(tmp_path)
    for chains in (3, 5):
        sink.event("started", version="1", policy="x", files="hosts.yaml", chains=chains)
    for _ in range(40):
        sink.refusal(NAME)
        sink.flush()
    sink.close()
    assert len(list(tmp_path.glob("audit-*"))) > 3
    assert chain_count.newest_count(tmp_path) == 5
