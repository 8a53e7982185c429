"""Blocks: full at their bounds, and what is no line is told."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

from egress.review.blocks import Block, Odd, Total
from egress.review.line_shape import LineShape, named
from tests.unit.audit.sample import files
from tests.unit.review.sample import write


def number(shape: LineShape) -> tuple[int, int]:
    return (1 if named(shape)["event"] == "exchange" else 2), 7


def lines(folder: Path) -> list[bytes]:
    write(folder)
    return files(folder)[0].read_bytes().splitlines()


def test_it_takes_lines_until_it_is_full(tmp_path: Path) -> None:
    texts = lines(tmp_path)
    with patch("egress.review.blocks.MOST_LINES", 3):
        block = Block(100, number)
        assert block.take(texts) == 3
        assert block.is_full
        assert (block.lines, block.size) == (3, sum(len(text) + 1 for text in texts[:3]))
        assert block.take(texts, 3) == 3
    with patch("egress.review.blocks.MOST_BYTES", 10):
        assert Block(0, number).take(texts) == 1


def test_what_is_no_line_is_told_with_its_place(tmp_path: Path) -> None:
    texts = lines(tmp_path)
    block = Block(100, number)
    assert block.take([b"junk", texts[1]]) == 2
    block.skip(5000)
    assert block.odd == [Odd(100, 5, "foreign"), Odd(100 + block.size - 5000, 5000, "huge")]
    assert list(block.places.at) == [5]


def test_it_adds_up_by_hour_and_group(tmp_path: Path) -> None:
    block = Block(0, number)
    block.take(lines(tmp_path))
    assert sum(total.requests for total in block.totals.values()) == 7
    assert {group for _, group in block.totals} == {7}
    assert block.shapes == b"\1\0\0\0\2\0\0\0"


def test_totals_add_up() -> None:
    total = Total(1, 2, 3, {4: 5})
    total.add(Total(1, 1, 1, {4: 1, 6: 1}))
    assert total == Total(2, 3, 4, {4: 6, 6: 1})
