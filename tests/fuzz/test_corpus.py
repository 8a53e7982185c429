"""What the fuzzer has found once is not found again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import in_process
from tests.fuzz.sample import Sample, read, written

CORPUS = {
    path.stem: read(path.read_text(encoding="utf-8"))
    for path in sorted(Path(__file__).with_name("corpus").glob("*.json"))
}
INSIDE = {name: sample for name, (sample, _) in CORPUS.items() if not sample.target.startswith("proxy.")}


@pytest.mark.parametrize("sample", INSIDE.values(), ids=INSIDE)
def test_what_was_found_is_not_found_again(sample: Sample) -> None:
    in_process.check(sample)


@pytest.mark.parametrize("name", CORPUS)
def test_a_sample_is_the_same_when_it_is_written_and_read(name: str) -> None:
    sample, why = CORPUS[name]
    assert read(written(sample, why)) == (sample, why)
    assert why


def test_chance_finds_nothing_in_a_moment() -> None:
    """A little of what a run does for hours; numbers that everybody tries are as good as others."""
    for case in range(1, 1001):
        in_process.check(in_process.sample_of(1, case))
